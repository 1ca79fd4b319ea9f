"""From a collective to a folder."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from degroot.agents.agent import Agent, Scorer, find_able_rows
from degroot.answers.choice import Choice
from degroot.compute.tables import as_floats, is_frame, is_sparse, take
from degroot.consensus.sparse.sample_peers import sample_peers
from degroot.consultation.asker import LeftOut
from degroot.consultation.calibration import StoredCalibration
from degroot.consultation.roster import feature_names
from degroot.consultation.settings import AUTO
from degroot.exceptions import InvalidInput
from degroot.files.atomic import is_free
from degroot.files.atomic_folder import Kept, replacing
from degroot.files.source import PEERS
from degroot.files.toml import toml_text
from degroot.models.forms import form_entries
from degroot.models.inference_client import RemoteModel
from degroot.models.saving import file_labels, model_file, transformer_file
from degroot.models.source import SCHEME
from degroot.rules.evidence import PeerIndices
from degroot.rules.rules import RuleSettings
from degroot.saved.agents import FiledAgent, SavedAgent
from degroot.saved.document import FILE, FORMAT, LABELS, NEEDED, Document
from degroot.saved.prepared import keep_calibration, keep_view
from degroot.saved.scored import METRIC
from degroot.saved.settings import SETTINGS, choice_entries
from degroot.schema import SchemaSpace
from degroot.schema.schema import FILE as SCHEMA_FILE

HEAD = "# Written by degroot: Collective.load opens it.\n"
TRIED = 100  # rows about which a model is asked before it is saved, and when it has been opened again


def save(
    folder: str | Path,
    agents: Sequence[Agent],
    scorers: Sequence[Scorer],
    settings: Mapping[str, Any],
    peers: PeerIndices | None = None,
    calibration: StoredCalibration | None = None,
    views: Mapping[int, tuple[RuleSettings, LeftOut]] | None = None,
) -> Path:
    """Put a collective into a folder; one that was saved there before is replaced.

    Rows, labels and residuals become .npy files, models and spaces skops or ONNX files; there is no pickle. `settings`
    are arguments of `Collective`; `peers` is who scores whom, (K, q), by default as its degree draws them; `views` is
    what was found for views, by the place of the asker.
    """
    folder = Path(folder).absolute()
    check_place(folder)
    names = [f"agent-{number}" for number in range(1, len(agents) + 1)]
    members = list(zip(names, agents, scorers, _scored(scorers, settings.get("degree"), peers), strict=True))
    with replacing(folder) as kept:
        opened = [_models(kept, name, agent, scorer) for name, agent, scorer, _ in members]  # may yet be refused
        entries = [
            told | _arrays(kept, name, agent, scorer) | {"scored": scored}
            for told, (name, agent, scorer, scored) in zip(opened, members, strict=True)
        ]
        top, metric = _top(kept, agents, settings), settings.get("metric") or METRIC
        if calibration is not None:
            top["calibration"], parts = keep_calibration(kept, names, calibration, metric)
            entries = [entry | {"calibration": part} for entry, part in zip(entries, parts, strict=True)]
        for place, (option, found) in sorted((views or {}).items()):
            entries[place]["view"] = keep_view(kept, names[place], option, found, metric)
        kept.file(FILE, (HEAD + toml_text(top | {"agents": entries, "digests": dict(kept.digests)})).encode())
    return folder


def check_place(folder: Path) -> None:
    """Refuse a folder with anything in it that is no part of a saved collective: it would be lost."""
    if is_free(folder):
        return
    try:
        known = {FILE, *Document.read(folder).digests}
    except InvalidInput:
        known = set()
    if not folder.is_dir() or not (folder / FILE).exists():
        raise InvalidInput(f"A collective must go to a new folder, or replace a saved one; {folder} is neither.")
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.relative_to(folder).as_posix() not in known:
            raise InvalidInput(f"A collective must go to a new folder, or replace a saved one; {path} was not saved.")


def _top(kept: Kept, agents: Sequence[Agent], settings: Mapping[str, Any]) -> dict[str, Any]:
    """All that is said of the collective as a whole."""
    names, classes, rule = feature_names(agents), agents[0].classes, settings["rule"]
    width = agents[0].n_features
    unnamed = names is None or names == [f"x{k}" for k in range(width)]
    top: dict[str, Any] = {"format": FORMAT} | {key: settings.get(key) for key in SETTINGS}
    if isinstance(rule, Choice):
        top |= {"rule": AUTO, "choice": choice_entries(rule)}
    if settings.get("space") is not None:
        tried = agents[0].restore_rows(take(agents[0].X, slice(TRIED)))
        top["space"] = kept.file("space.skops", transformer_file(settings["space"], tried))
    if agents[0].schema is not None:
        top["schema"] = kept.file(SCHEMA_FILE, agents[0].schema.to_toml().encode())
        top["schema_inferred"] = None if agents[0].has_agreed_schema else True
    return top | {"features": width if unnamed else names, "classes": None if classes is None else classes.tolist()}


def _scored(scorers: Sequence[Scorer], degree: int | None, peers: PeerIndices | None) -> list[list[int] | None]:
    """Whose models each scorer has scored; None: everybody's."""
    if degree is None:
        return [None] * len(scorers)
    return [each.tolist() for each in (sample_peers(len(scorers), degree) if peers is None else peers)]


def _models(kept: Kept, name: str, agent: Agent, scorer: Scorer) -> dict[str, Any]:
    """The agent's model and its space, as files."""
    if type(agent) not in (Agent, FiledAgent, SavedAgent) or type(scorer) is not Scorer:
        raise agent.error(f"it must be an Agent of this process, to be saved; it is a {type(agent).__name__}.")
    told = dict[str, Any](name=agent.name)
    try:
        told["model"] = _model(kept, name, agent)
        if scorer.space is not None:
            key = "space" if agent.space is not None else "shared_space"
            numbers = take(agent.X, slice(TRIED))
            tried = numbers if isinstance(scorer.space, SchemaSpace) else agent.restore_rows(numbers)
            told[key] = kept.file(f"{name}/space.skops", transformer_file(scorer.space, tried))
    except InvalidInput as error:
        raise agent.error(str(error)) from error
    except ImportError as error:
        raise InvalidInput(f"{NEEDED} ({error}).") from error
    return told


def _model(kept: Kept, name: str, agent: Agent) -> str | dict[str, Any]:
    model = agent.model
    if not isinstance(model, RemoteModel):
        tried = agent.restore_rows(take(agent.X, find_able_rows(agent)[:TRIED]))
        content, suffix = model_file(model, tried)
        file, labels = kept.file(f"{name}/model{suffix}", content), file_labels(model)
        takes = None if agent.form is None or getattr(model, "own_categories", None) else form_entries(agent.form)
        return file if labels is None and takes is None else {"file": file, "classes": labels, "input": takes}
    keys = ("ca", "certificate", "key")
    files = {key: str(path.absolute()) for key in keys if (path := getattr(model, key)) is not None}
    return {"address": SCHEME + model.address, "name": model.name, "version": model.version} | files


def _arrays(kept: Kept, name: str, agent: Agent, scorer: Scorer) -> dict[str, Any]:
    """The agent's rows and labels and what it has scored, as files."""
    X, own = _rows(agent), agent.own_predictions
    told: dict[str, Any] = {
        "rows": kept.table(f"{name}/rows", X),
        "labels": kept.array(f"{name}/labels.npy", agent.y),
        "own_predictions": PEERS if agent.scored_by_peers else None,
        "units": None if agent.units is None else kept.array(f"{name}/units.npy", _units(agent)),
    }
    if own is not None:
        told["own_predictions"] = kept.array(f"{name}/own_predictions.npy", own)
    if scorer.space is not None or X.dtype not in (np.float32, np.float64):
        told["located"] = kept.table(f"{name}/located", scorer.rows)
        told["located_features"] = scorer.rows.shape[1]
    if agent.lacks is not None and agent.schema is not None:
        told["absent"] = [each for each, lacks in zip(agent.schema.names, agent.lacks, strict=True) if lacks]
    if scorer.unscored is not None:
        told["unscored"] = np.flatnonzero(scorer.unscored).tolist()
    return told | {
        "residuals": kept.array(f"{name}/residuals.npy", scorer.residuals),
        "errors": kept.array(f"{name}/errors.npy", scorer.errors),
        "kept": {part: kept.array(f"{name}/kept-{part}.npy", array) for part, array in scorer.kept.items()} or None,
    }


def _units(agent: Agent) -> NDArray[Any]:
    """The labels of the agent's units as an array of numbers or text, which needs no pickle."""
    labels = np.asarray(agent.units)
    plain = labels
    if labels.dtype.kind == "O" and len({type(label) for label in labels}) == 1:
        plain = np.array(labels.tolist())
    if plain.dtype.kind not in LABELS or plain.ndim != 1:
        raise agent.error(f"its `units` must be numbers or strings, to be saved; the first is {labels[0]!r}.")
    return plain


def _rows(agent: Agent) -> Any:
    """The agent's rows as numbers, of the kind that they are."""
    X = np.asarray(agent.X) if is_frame(agent.X) else agent.X
    if not is_sparse(X) and X.dtype.kind not in "fiub":
        return as_floats(
            X, lambda why: agent.error(f"{why} Only numbers can be saved: give the agent a `schema`."), "X"
        )
    return X
