"""CSV rows: where the rows of a CSV file end. A line break inside quotes ends no row, and an empty line is none."""

import codecs
import csv
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from degroot.compute.kernel import compiled_for
from degroot.exceptions import InvalidInput

BLOCK = 1 << 23  # bytes that are looked at at once
MANY = 1 << 62
FRESH, PLAIN, QUOTED, CLOSED = range(4)  # before a field, inside one, inside quotes, after a quote inside quotes
MODE, HELD, ROWS = range(3)  # what is remembered from block to block: the mode, whether the line holds anything, rows
OTHERS = {";": "semicolons", "\t": "tabs", "|": "bars"}  # what else stands between fields, in other files
QUOTE, COMMA, LF, CR = (ord(mark) for mark in '",\n\r')


def check_header(path: Path) -> None:
    """Refuse a first line that is not UTF-8, or has other marks than commas between its fields."""
    with path.open("rb") as file:
        line, second = file.readline(BLOCK), file.readline(BLOCK)
    try:
        header = line.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{path} must be UTF-8 text; its first line is not. Save it anew as CSV, UTF-8.") from error
    for mark, name in OTHERS.items():
        if _parts(header, second.decode(errors="replace"), mark):
            raise InvalidInput(
                f"{path} must have commas between its fields; its first line has {name}. Save it anew with commas, and "
                "with points in numbers."
            )


def check_text(path: Path) -> None:
    """Refuse a file that is not UTF-8 throughout."""
    decoder, at = codecs.getincrementaldecoder("utf-8")(), 0
    with path.open("rb", buffering=0) as file:
        block = b"-"
        while block:
            block = file.read(BLOCK)
            held = len(decoder.getstate()[0])
            try:
                decoder.decode(block, final=not block)
            except UnicodeDecodeError as error:
                row = _count_rows(path, at - held + error.start)
                raise InvalidInput(describe_encoding(f"{path}: row {row}")) from error
            at += len(block)


def describe_encoding(where: str) -> str:
    """The line about text that is not UTF-8."""
    return f"{where} must be UTF-8 text; it is not. Save the file anew as CSV, UTF-8."


def _count_rows(path: Path, place: int) -> int:
    """The row, from 1 after the header, that holds the byte at `place`."""
    return sum(1 for _, end in takewhile(lambda run: run[1] <= place, row_ends(path, 1)))


def _parts(header: str, second: str, mark: str) -> bool:
    """Whether a mark other than the comma stands between fields: a comma may be in a name, or in a number."""
    fields, commas = _fields(header, mark), _fields(header, ",")
    return fields > commas and (commas == 1 or _fields(second, mark) == fields)


def _fields(line: str, mark: str) -> int:
    try:
        return len(next(csv.reader([line], delimiter=mark), []))
    except csv.Error:  # a field that is very long, or a line that ends as on old machines
        return 0


def row_ends(path: Path, size: int = MANY, start: int = 0, long: int = MANY) -> Iterator[tuple[int, int]]:
    """Runs of `size` rows from the byte `start` on, fewer where they are `long`: how many rows, and where they end."""
    state, at, begun = np.array([FRESH, 0, 0]), start, start
    with path.open("rb", buffering=0) as file:
        file.seek(start)
        while block := file.read(BLOCK):
            content, done = np.frombuffer(block, np.uint8), 0
            while (stop := _next_end(content, done, size, begun + long - at, state)) >= 0:
                yield int(state[ROWS]), at + stop
                state[ROWS], done, begun = 0, stop, at + stop
            at += len(block)
    if state[MODE] == QUOTED:
        raise ValueError("a quote is opened and never closed")
    rows = int(state[ROWS] + state[HELD])
    if rows:
        yield rows, at


@compiled_for("u1[1] i8 i8 i8 i8[1]")
def _next_end(content: NDArray[np.uint8], done: int, size: int, enough: int, state: NDArray[np.int64]) -> int:
    """Where the row ends that makes `size` of them, or the first from the place `enough` on; -1: not in this block."""
    mode, held, rows = state[MODE], state[HELD], state[ROWS]
    for k in range(done, len(content)):
        byte = content[k]
        if mode == QUOTED:
            if byte == QUOTE:
                mode = CLOSED
        elif byte in (LF, CR):
            mode, rows, held = FRESH, rows + held, 0
            if rows == size or (rows and k >= enough):
                state[MODE], state[HELD], state[ROWS] = mode, held, rows
                return k + 1
        else:
            held = 1
            if byte == COMMA:
                mode = FRESH
            elif byte == QUOTE and mode in (FRESH, CLOSED):
                mode = QUOTED
            else:
                mode = PLAIN
    state[MODE], state[HELD], state[ROWS] = mode, held, rows
    return -1
