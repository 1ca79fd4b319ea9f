"""What a collective had prepared when it was saved: its calibration, and what making views of askers took long to find.

Both hold for the rule with which they were made, and for the files that were saved with them: others make them void.
"""

import json
from collections.abc import Mapping, Sequence
from hashlib import sha256
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from degroot.compute.compiled import Array
from degroot.consultation.asker import LeftOut
from degroot.consultation.calibration import StoredCalibration
from degroot.files.atomic_folder import Kept
from degroot.files.npy import check_shape, mapped
from degroot.files.toml import Table
from degroot.intervals import Summary
from degroot.rules.rules import RuleSettings
from degroot.saved.document import Document
from degroot.saved.settings import OPTION, option_entries, option_of

CALIBRATION, VIEW = "calibration", "view"  # keys of the file, and how the names of the arrays begin
PART = ("rows", "squares", "ranks", "scores")
LATER = tuple(f"{what}-" for what in ("kept", CALIBRATION, VIEW))  # files that say nothing new of an agent
COUNTS = "iu"  # kinds of arrays


def keep_calibration(
    kept: Kept, folders: Sequence[str], calibration: StoredCalibration, metric: str
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """What the file says of a calibration at the top, and of each agent's part of it; the arrays go to files."""
    told = option_entries(calibration.option) | {
        "overall": calibration.overall.tolist(),
        "made_from": digest_files(kept.digests, folders, metric),
    }
    parts = []
    for name, rows, squares, each in zip(
        folders, calibration.rows, calibration.squares, calibration.summaries, strict=True
    ):
        arrays = dict(zip(PART, (rows.astype(np.int64), squares, each.ranks, each.scores), strict=True))
        parts.append({key: kept.array(f"{name}/{CALIBRATION}-{key}.npy", array) for key, array in arrays.items()})
    return told, parts


def keep_view(kept: Kept, name: str, option: RuleSettings, found: LeftOut, metric: str) -> dict[str, Any]:
    """What the file says of one asker's view; the arrays go to files."""
    told = option_entries(option) | {"made_from": digest_files(kept.digests, [name], metric, version("degroot"))}
    arrays = zip(LeftOut._fields, found, strict=True)
    return told | {key: kept.array(f"{name}/{VIEW}-{key}.npy", array) for key, array in arrays}


def read_calibration(document: Document, metric: str) -> StoredCalibration | None:
    """The calibration that was saved, if there is one and it is of these files."""
    if CALIBRATION not in document.top.entries:
        return None
    table = document.top.table(CALIBRATION, (*OPTION, "overall", "made_from"))
    if table.text("made_from") != digest_files(document.digests, document.folders, metric):
        return None
    overall = np.array(table.take("overall", _are_numbers, "be a list of numbers"), np.float64)
    parts = [_read_part(entry, len(overall)) for entry in document.agents]
    rows, squares, summaries = zip(*parts, strict=True)
    return StoredCalibration(option_of(table), rows, squares, overall, summaries)


def read_views(document: Document, metric: str) -> dict[int, tuple[RuleSettings, LeftOut]]:
    """What was found for views, by the place of the asker, where it is of these files and this version of degroot."""
    found = {}
    for place, (entry, name) in enumerate(zip(document.agents, document.folders, strict=True)):
        if VIEW not in entry.entries:
            continue
        table = entry.table(VIEW, (*OPTION, "made_from", *LeftOut._fields))
        if table.text("made_from") == digest_files(document.digests, [name], metric, version("degroot")):
            errors, spread = (mapped(table.file(key)) for key in LeftOut._fields)
            check_shape(table.file("errors"), errors, (None, None, None))
            check_shape(table.file("spread"), spread, (len(errors),))
            found[place] = option_of(table), LeftOut(errors, spread)
    return found


def digest_files(digests: Mapping[str, str], folders: Sequence[str], *about: str) -> str:
    """A digest of the files in agents' folders from which something was made, and of what else it depends on."""
    told = {
        file: digest
        for file, digest in digests.items()
        if file.partition("/")[0] in folders and not file.partition("/")[2].startswith(LATER)
    }
    return sha256(json.dumps([told, about], sort_keys=True).encode()).hexdigest()


def _read_part(entry: Table, outputs: int) -> tuple[NDArray[np.intp], Array, Summary]:
    """The rows that one agent put to the collective, the squared errors on them, and the summary of its scores."""
    table = entry.table(CALIBRATION, PART)
    files = {key: table.file(key) for key in PART}
    rows, squares, ranks, scores = (mapped(files[key]) for key in PART)
    check_shape(files["rows"], rows, (None,), COUNTS)
    check_shape(files["squares"], squares, (len(rows), outputs))
    check_shape(files["ranks"], ranks, (None,), COUNTS)
    check_shape(files["scores"], scores, (len(ranks), outputs) if scores.ndim == 2 else (len(ranks),))
    return rows.astype(np.intp), squares, Summary(ranks, scores)


def _are_numbers(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(each, float) for each in value)
