"""Outputs: Parquet and CSV files, written batch by batch, that appear when they are whole."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from degroot.exceptions import InvalidInput
from degroot.files.atomic import make_folder

SUFFIXES = (".parquet", ".csv")
BYTES = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary)  # which no text can hold


def check_suffix(output: Path) -> None:
    """Refuse what is no name of an output."""
    if output.suffix.lower() not in SUFFIXES:
        raise InvalidInput(f"The output must be a .parquet or .csv file; got {output}.")
    try:
        if output.is_dir():
            raise InvalidInput(f"The output must be a file; {output} is a folder.")
    except OSError as error:
        raise InvalidInput(f"The output must go to where it can be written; {output}: {error.strerror}.") from error
    if "\0" in str(output):
        raise InvalidInput(f"The output must have a name that files can have; got {str(output)!r}.")


def check_output(output: Path, schema: pa.Schema) -> None:
    """Refuse an output that cannot be written, before anything is."""
    make_folder(output.parent)
    for field in schema if output.suffix.lower() == ".csv" else ():
        if any(test(field.type) for test in BYTES):
            raise InvalidInput(f".csv files must be able to hold all columns; {field.name!r} holds {field.type}.")
    try:
        with writer(output.suffix, schema, pa.BufferOutputStream()):
            pass
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidInput(f"{output.suffix} files must be able to hold all columns; {error}.") from error


def writer(suffix: str, schema: pa.Schema, sink: Any) -> Any:
    """What has ``write_batch``, and is closed by ``with``."""
    makers: dict[str, Callable[[Any, pa.Schema], Any]] = {".parquet": _parquet, ".csv": pyarrow.csv.CSVWriter}
    return makers[suffix.lower()](sink, schema)


def _parquet(sink: Any, schema: pa.Schema) -> Any:
    repeating = [field.name for field in schema if not pa.types.is_floating(field.type)]
    return pyarrow.parquet.ParquetWriter(sink, schema, use_dictionary=repeating)  # numbers hardly ever repeat
