"""Export: one organisation of a trained collective, as its own node wants it."""

from pathlib import Path
from typing import Any

from degroot.exceptions import InvalidInput
from degroot.files.source import STANDARDISE
from degroot.saved.document import Document


def export_organisation(folder: Path, name: str) -> tuple[Path, dict[str, dict[str, Any]]]:
    """The folder of the organisation called `name`, and what the tables of its node's configuration say."""
    document = Document.read(folder)
    entries = {entry.text("name"): entry for entry in document.agents}
    if name not in entries:
        raise InvalidInput(f"The organisation must be one of {', '.join(entries)}; got {name!r}.")
    entry, top = entries[name], document.top
    if not {"data", "own_predictions"} <= set(entry.entries) or not isinstance(entry.entries.get("model"), str):
        raise InvalidInput(f"{top.path} must be written by degroot train; it is not.")
    if "space" in entry.entries:
        raise InvalidInput(f"The rows of a node must have no gaps; those of {name!r} do. Fill them, and train again.")
    model, data = entry.file("model"), entry.file("data")
    about: dict[str, Any] = {"file": data.name, "target": top.text("target"), "space": STANDARDISE}
    about["own_predictions"] = entry.entries["own_predictions"]
    if "units" in entry.entries:
        about["units"] = entry.text("units")
    if document.classes is not None:
        about["classes"] = document.classes.tolist()
    home = top.path.parent / Path(entry.text("data")).parent
    return home, {"model": {"file": model.name}, "data": about, "collective": {"rule": top.text("rule")}}
