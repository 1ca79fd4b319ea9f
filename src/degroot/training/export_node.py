"""Export: one organisation of a trained collective, as its own node wants it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from degroot.exceptions import InvalidInput
from degroot.files.atomic import save
from degroot.node.config.names import suggest_name
from degroot.saved.document import Document
from degroot.schema.columns import describe_some
from degroot.schema.schema import FILE as SCHEMA_FILE


@dataclass(frozen=True, slots=True)
class ExportedOrganisation:
    """What a node takes from a trained collective."""

    home: Path  # the folder of the organisation, with its model and rows
    tables: dict[str, dict[str, Any]]  # what the tables of its node's configuration say
    schema: str  # the text of the schema, which stands beside them

    def write_schema(self) -> None:
        """Put the schema beside model and rows: the folder is all that the organisation takes along."""
        save(self.home / SCHEMA_FILE, self.schema.encode())


def export_organisation(folder: Path, node: str, organisation: str | None = None) -> ExportedOrganisation:
    """An organisation of a collective that ``degroot train`` has written, for the node called `node`.

    Without `organisation` it is the one that is called as the node is, or for which that name is suggested.
    """
    document = Document.read(folder)
    entries = {entry.text("name"): entry for entry in document.agents}
    entry, top, schema = entries[_find_organisation(list(entries), node, organisation)], document.top, document.schema
    has_files = {"data", "own_predictions"} <= set(entry.entries) and isinstance(entry.entries.get("model"), str)
    if not has_files or schema is None or schema.target is None:
        raise InvalidInput(f"{top.path} must be written by degroot train; it is not.")
    model, data = entry.file("model"), entry.file("data")
    about: dict[str, Any] = {"file": data.name, "schema": SCHEMA_FILE, "target": schema.target.name}
    about |= {key: entry.entries[key] for key in ("own_predictions", "units", "absent") if key in entry.entries}
    home = top.path.parent / Path(entry.text("data")).parent
    tables = {"model": {"file": model.name}, "data": about, "collective": {"rule": top.text("rule")}}
    return ExportedOrganisation(home, tables, schema.to_toml())


def _find_organisation(names: Sequence[str], node: str, organisation: str | None) -> str:
    asked = node if organisation is None else organisation
    if asked in names:
        return asked
    alike = [name for name in names if suggest_name(name) == node] if organisation is None else []
    if len(alike) > 1:
        raise InvalidInput(f"--organisation must say whose node it is; {describe_some(alike)} may both be {node!r}.")
    if not alike:
        raise InvalidInput(
            f"The organisation must be one of {', '.join(names)}; got {asked!r}. --organisation names it."
        )
    return alike[0]
