"""Write the folder of a trained collective: ``collective.toml``, each organisation's model and rows, and the gains."""

import re
from collections.abc import Sequence
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from string import Template
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from numpy.typing import NDArray

from degroot.answers.gains import Gains
from degroot.exceptions import InvalidInput
from degroot.files.atomic import is_free
from degroot.files.atomic_folder import Kept, replacing
from degroot.files.toml import toml_text
from degroot.models.saving import model_file
from degroot.saved.document import FILE, Document
from degroot.schema.schema import FILE as SCHEMA_FILE
from degroot.training.models import Fitted
from degroot.training.organisation import Organisation
from degroot.training.organisations import Gathered

OWN = "out_of_fold"  # the columns of own predictions begin so
SITE = "site.toml"  # how an organisation writes columns, in its folder
GAINS, PICTURE, CONTRIBUTIONS = "gains.csv", "gains.png", "contributions.csv"
TRIED = 100  # rows about which a model is asked when it has been written and opened again


def check_place(folder: Path) -> None:
    """Refuse a place where something is: nothing is overwritten."""
    if not is_free(folder):
        raise InvalidInput(
            f"A new collective must go to a new folder; there is something at {folder} (--out says where)."
        )


def write_collective_folder(
    folder: Path, gathered: Gathered, fitted: Sequence[Fitted], rule: str, gains: Gains, contributions: Gains | None
) -> dict[str, Path]:
    """Put the collective there: all of it or, if that fails, nothing. Returns the site files, by organisation."""
    check_place(folder)
    own = _own_columns(gathered)
    with replacing(folder.absolute()) as kept:
        places = _folders([each.name for each in gathered.organisations])
        members = zip(places, gathered.organisations, fitted, strict=True)
        entries = [_entry(kept, place, each, model, gathered, own) for place, each, model in members]
        by_name = dict(zip((each.name for each in gathered.organisations), places, strict=True))
        sites = {
            name: kept.file(f"{by_name[name]}/{SITE}", site.to_toml().encode()) for name, site in gathered.sites.items()
        }
        kept.file(SCHEMA_FILE, gathered.schema.to_toml().encode())
        kept.file(FILE, _text(entries, rule).encode())
        gains.to_csv(kept.folder / GAINS)
        if contributions is not None:
            contributions.to_csv(kept.folder / CONTRIBUTIONS, "contributions")
        if find_spec("matplotlib") is not None:
            figure: Any = gains.plot().figure
            figure.savefig(kept.folder / PICTURE, dpi=150)
    return {name: folder / site for name, site in sites.items()}


def _entry(
    kept: Kept, place: str, organisation: Organisation, fitted: Fitted, gathered: Gathered, own: Sequence[str]
) -> dict[str, Any]:
    """One organisation's files, and what is said of them."""
    tried = organisation.X[:TRIED]
    content, suffix = model_file(fitted.model, tried)
    absent = [name for name, lacks in zip(gathered.features, organisation.lacks, strict=True) if lacks]
    return {
        "name": organisation.name,
        "model": kept.file(f"{place}/model{suffix}", content),
        "data": kept.file(f"{place}/rows.parquet", _rows(organisation, fitted, gathered, own)),
        "own_predictions": own[0] if len(own) == 1 else list(own),
        "units": gathered.unit,
        "absent": absent or None,
    }


def _rows(organisation: Organisation, fitted: Fitted, gathered: Gathered, own: Sequence[str]) -> bytes:
    """The rows as a Parquet file, readable: features that it has, target, units, and what the model said of rows it
    had not seen."""
    columns: dict[str, NDArray[Any]] = {
        name: values
        for (name, values), lacks in zip(
            gathered.schema.decode(organisation.X).items(), organisation.lacks, strict=True
        )
        if not lacks
    }
    columns |= {gathered.target: organisation.y}
    columns |= {} if gathered.unit is None else {gathered.unit: np.asarray(organisation.units)}
    columns |= dict(zip(own, fitted.own.reshape(len(organisation.y), -1).T, strict=True))
    out = pa.BufferOutputStream()
    pyarrow.parquet.write_table(
        pa.table({name: pa.array(column, from_pandas=True) for name, column in columns.items()}), out
    )
    content: bytes = out.getvalue().to_pybytes()
    return content


def find_site_file(collective: Path, organisation: str) -> Path | None:
    """The file in the folder of a collective that says how an organisation writes columns; None: it has none."""
    document = Document.read(collective)
    entry = next((each for each in document.agents if each.entries.get("name") == organisation), None)
    if entry is None or not isinstance(entry.entries.get("data"), str):
        return None
    site = document.top.path.parent / Path(entry.entries["data"]).parent / SITE
    return site if site.is_file() else None


def _text(entries: list[dict[str, Any]], rule: str) -> str:
    """What ``collective.toml`` says, with comments."""
    text = files("degroot.training").joinpath("templates", FILE).read_text(encoding="utf-8")
    top = {"rule": rule, "schema": SCHEMA_FILE, "agents": entries}
    return Template(text).substitute({key: toml_text({key: value}) for key, value in top.items()})


def _own_columns(gathered: Gathered) -> list[str]:
    """Columns for own predictions, one for each class, that no other column is called."""
    stem = OWN
    while any(name.startswith(stem) for name in (*gathered.features, gathered.target, gathered.unit or "")):
        stem = f"{stem}_"
    return [stem] if gathered.classes is None else [f"{stem}_{label}" for label in gathered.classes]


def _folders(names: Sequence[str]) -> list[str]:
    """A folder for each name: as it is where that can be, and numbered where it cannot."""
    plain = [re.sub(r"[^\w.-]+", "-", name).strip(".-") for name in names]
    taken = (*plain, FILE, SCHEMA_FILE, GAINS, PICTURE, CONTRIBUTIONS)
    if all(plain) and len({name.casefold() for name in taken}) == len(taken):
        return plain
    return [f"agent-{number}" for number in range(1, len(names) + 1)]
