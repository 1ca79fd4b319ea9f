"""``degroot node audit``: the record of exchanges, shown, exported and verified."""

import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.table import Table

from degroot.cli.errors import complain
from degroot.exceptions import InvalidInput
from degroot.files.atomic import write_whole

if TYPE_CHECKING:
    from degroot.node.records.verification import Verification

WRONG = 1  # exit code
WIDE = 120  # columns for a table that nobody watches: in a file it is told whole
COLUMNS = ("peer", "kind", "who asked", "exchanges", "rows", "bytes sent", "bytes received", "first", "last")


def check_options(**given: Any) -> None:
    """Refuse options that do not go together."""
    exports = [f"--{name}" for name in ("json", "csv") if given[name]]
    if len(exports) + bool(given["verify"]) > 1:
        raise InvalidInput("Only one of --verify, --json and --csv must be given; got several.")
    for name, needed in (("against", "verify"), ("ca", "verify")):
        if given[name] and not given[needed]:
            raise InvalidInput(f"--{name} must come with --{needed}; it is missing.")
    for name in ("peer", "out"):
        if given[name] is not None and not exports:
            raise InvalidInput(f"--{name} must come with --json or --csv; they are missing.")


def show(file: Path) -> None:
    """Print what has left this organisation, and what has come."""
    from degroot.node import config
    from degroot.node.records import ledger
    from degroot.node.records.departures import describe_departures

    table = Table(*COLUMNS)
    for column in table.columns[3:7]:
        column.justify = "right"
    told = config.read(file)
    entries = ledger.summary(told.ledger)
    for line in entries:
        numbers = (f"{number:,}" for number in (line.exchanges, line.rows, line.sent, line.received))
        table.add_row(
            line.peer, line.kind, ledger.ASKED_BY[line.direction], *numbers,
            *(f"{at:%Y-%m-%d %H:%M:%S}" for at in (line.first, line.last)),
        )  # fmt: skip
    console = Console()
    if not console.is_terminal:
        console.width = max(console.width, WIDE)
    console.print(table)
    for sentence in describe_departures(entries, told.name):
        console.print(f"{sentence[:1].upper()}{sentence[1:]}.", markup=False, highlight=False, soft_wrap=True)


def export(file: Path, *, as_json: bool, peer: str | None, out: Path | None) -> None:
    """Write the record of exchanges, to a file or to the standard output."""
    from degroot.node import config
    from degroot.node.records.export import read_ledger, write_csv, write_json

    told, write = config.read(file), write_json if as_json else write_csv
    with read_ledger(told.ledger, told.name) as content:
        if out is None:
            write(content, sys.stdout, peer)
            sys.stdout.flush()  # here: at the end of the process a reader that has gone would be a traceback
            return
        with write_whole(out) as text:
            count = write(content, text, peer)
    typer.echo(f"{out}: {count:,} records of {told.name}" + (f" with {peer}" if peer else ""))


def verify(file: Path, against: list[Path], ca: Path | None) -> None:
    """Check a node's record, or an export, by itself and against peers' exports; the exit code is 1 if it is wrong."""
    from degroot.node import config
    from degroot.node.records.export import SUFFIXES, clean_text, read_export, read_ledger
    from degroot.node.records.verification import verify_together
    from degroot.node.tls.signing import make_checker

    state = None
    with ExitStack() as stack:
        if file.suffix.lower() in SUFFIXES:
            contents = [stack.enter_context(read_export(file))]
        else:
            told = config.read(file)
            ca = ca or (told.identity.ca if told.identity is not None else None)
            state = told.state
            contents = [stack.enter_context(read_ledger(told.ledger, told.name))]
        checker = None if ca is None else make_checker(ca, state)
        contents += [stack.enter_context(read_export(each)) for each in against]
        names = [content.name for content in contents]
        for name in names:
            if names.count(name) > 1:
                raise InvalidInput(f"Ledgers of different nodes must be compared; two are of {name!r}.")
        found = verify_together(contents, checker)
    for each in found:
        typer.echo(clean_text(each))  # an export is by others, who may have put marks for terminals into it
        for finding in each.findings:
            typer.echo(f"  {clean_text(finding)}.")
        for dispute in each.disputes:
            typer.echo(f"  Disputed with a peer, who may be wrong: {clean_text(dispute)}.")
    if ca is None:
        typer.echo("Signatures were not checked: --ca names the file of the CA that they go back to.")
    wrong = [clean_text(each.name) for each in found if not each.is_whole]
    if wrong:
        message = f"A ledger must be as it was written, and as peers' receipts say; not so: {', '.join(wrong)}."
        raise typer.Exit(complain(message, WRONG))
    typer.echo(_conclude(found, is_checked=ca is not None))


def _conclude(found: Sequence["Verification"], *, is_checked: bool) -> str:
    """What it comes to where nothing wrong was found, and how far that goes."""
    from degroot.node.records.export import clean_text

    if not any(each.records for each in found):
        return "There are no records to be checked."
    limits = [f"but for {each.name}, whose chain cannot be checked" for each in found if each.peer is not None]
    skipped = sum(each.uncompared for each in found)
    limits += [f"but for {skipped:,} exchanges that an export is too early, or too short, for"] if skipped else []
    limits += [] if is_checked else ["as far as can be said without signatures"]
    return f"{', '.join(['Nothing was changed, and nothing is missing', *map(clean_text, limits)])}."
