"""Export: one organisation of a trained collective, as its own node wants it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from degroot.exceptions import InvalidInput
from degroot.files.atomic import save
from degroot.saved.document import Document
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


def export_organisation(folder: Path, name: str) -> ExportedOrganisation:
    """The organisation called `name` of a collective that ``degroot train`` has written."""
    document = Document.read(folder)
    entries = {entry.text("name"): entry for entry in document.agents}
    if name not in entries:
        raise InvalidInput(f"The organisation must be one of {', '.join(entries)}; got {name!r}.")
    entry, top, schema = entries[name], document.top, document.schema
    has_files = {"data", "own_predictions"} <= set(entry.entries) and isinstance(entry.entries.get("model"), str)
    if not has_files or schema is None or schema.target is None:
        raise InvalidInput(f"{top.path} must be written by degroot train; it is not.")
    model, data = entry.file("model"), entry.file("data")
    about: dict[str, Any] = {"file": data.name, "schema": SCHEMA_FILE, "target": schema.target.name}
    about |= {key: entry.entries[key] for key in ("own_predictions", "units", "absent") if key in entry.entries}
    home = top.path.parent / Path(entry.text("data")).parent
    tables = {"model": {"file": model.name}, "data": about, "collective": {"rule": top.text("rule")}}
    return ExportedOrganisation(home, tables, schema.to_toml())
