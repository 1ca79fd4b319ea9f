"""Runs: files predicted by a collective, and any plan carried out by any engine, from where an earlier run stopped."""

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from threadpoolctl import threadpool_limits

from degroot import saved
from degroot.agents.agent import find_able_rows
from degroot.answers.columns import CORRECTION, USUAL, Columns, add_bounds, check_label, choose_fields
from degroot.answers.display.words import output_names
from degroot.answers.flags import MISSING
from degroot.answers.frame import FLAGS, LABEL
from degroot.batch.inputs import find
from degroot.batch.local import Local, ShardEngine
from degroot.batch.plan import Plan, check, check_unchanged, make_plan
from degroot.batch.resume import Merging, unfinished
from degroot.batch.task import REFUSE, UnansweredInput, consult_in_form_of
from degroot.collective import Collective
from degroot.compute.compiled import count_threads
from degroot.compute.progress import progress
from degroot.compute.tables import take
from degroot.consultation.askers import check_asker
from degroot.consultation.groups import Unmatched
from degroot.consultation.settings import LOCAL, PLACEMENTS, RAY, WORKERS, check_choice, check_flag, choose_placement
from degroot.exceptions import DeGrootError, InvalidInput
from degroot.files.rows import open_asked_site
from degroot.intervals import rows_needed
from degroot.schema import AS_SHARED, Schema, Site
from degroot.schema.schema import describe_unlisted
from degroot.schema.sites import site_beside

if TYPE_CHECKING:
    from degroot.batch.ray import SavedCollective
    from degroot.node.client import RemoteCollective

FIELDS_OF_NODES = (*USUAL, MISSING, FLAGS)
NONE_UNMATCHED = Unmatched()
OWN_VIEW = "own"  # how nodes call the view of the asked node
PROBE_AGENTS = PROBE_ROWS = 16  # agents, and rows of each, by whose answers a collective in memory is recognised


@dataclass(frozen=True, slots=True)
class RunSummary:
    """What a run came to; as text, in one line."""

    rows: int
    before: int  # those of them that an interrupted run had finished
    bad: int
    seconds: float  # of the work, without start-up
    start_up: float  # seconds before it: opening the collective, looking at files, preparing and compiling what answers
    output: Path
    unmatched: Unmatched = NONE_UNMATCHED  # rows that got the neutral consensus, as their asker is no agent
    asker_column: str | None = None
    fields: tuple[str, ...] = ()  # that were written, without bounds
    omitted: tuple[str, ...] = ()  # that are usual, and were left out as they have many columns
    note: str = ""  # which features the input does not have, and which of its categories count as gaps

    def __str__(self) -> str:
        parts = [f"{self.rows:,} rows"]
        parts += [f"{self.before:,} of them before"] if self.before else []
        parts += [f"{self.bad:,} bad"]
        parts += [self.unmatched.describe(self.rows, f"a {self.asker_column!r}")] if self.unmatched.rows else []
        parts += [f"{self.start_up:.1f} seconds of start-up", f"{self.seconds:.1f} seconds"]
        parts += [f"{self.rate:,.0f} rows per second", str(self.output)]
        return "; ".join(parts)

    @property
    def rate(self) -> float:
        """Rows a second, without start-up."""
        return (self.rows - self.before) / max(self.seconds, 1e-9)


def predict_files(
    collective: "Collective | RemoteCollective | str | os.PathLike[str]",
    inputs: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    output: str | os.PathLike[str],
    *,
    fields: str | Sequence[str] | None = None,
    coverage: float | None = None,
    keep: str | Sequence[str] = (),
    asker: str | None = None,
    asker_column: str | None = None,
    correct: bool | None = None,
    on_bad_row: str = REFUSE,
    jobs: int | None = None,
    engine: str = LOCAL,
    placement: str | None = None,
    address: str | None = None,
    restart: bool = False,
    verify: bool = False,
    unsafe_pickle: bool = False,
    site: str | os.PathLike[str] | Site | None = None,
) -> RunSummary:
    """Predict all rows of files of any size, in bounded memory, and write one file of answers: whole or not at all.

    It is what ``degroot predict`` does. A call that was interrupted leaves its finished parts in a folder beside the
    output; the same call again resumes it, and ends with the same bytes.

    Parameters
    ----------
    collective : Collective, RemoteCollective or path
        A collective in this process, one of nodes from `degroot.connect`, or a ``collective.toml`` file or a folder
        from `Collective.save`. To resume a run, a collective in files is recognised by their digest; one in memory by
        its settings and its answers about some rows of its agents.
    inputs : path, or paths
        Files (.csv, .parquet, .arrow), folders of files, and patterns such as ``"rows/*.csv"``.
    output : path
        A .parquet or .csv file; one that exists is replaced when the new one is whole.
    fields : names, optional
        What to write, in this order: ``"label"``, ``"value"``, ``"standard_error"``, ``"weights"``, ``"beliefs"``,
        ``"influence"``, ``"trust"``, ``"correction"``, ``"flags"``, ``"missing"``. By default value, standard error
        and, of up to 20 agents, weights; of classes the label first, which is the most likely one; of nodes also
        missing and flags. There is no trust in an asker's view, and no correction without one.
    coverage : float, optional
        Also write prediction intervals (or sets of classes) with this coverage, such as 0.9. A collective in process
        is calibrated first, unless it has been.
    keep : names
        Columns of the input to write too, before the answers.
    asker : str, optional
        For whom: the agent from whose view all rows are answered. By default the neutral consensus answers; of nodes,
        the asked node from its own view, unless it was connected to with ``view="consensus"``.
    asker_column : str, optional
        Instead: a column of the input, of text or numbers, that says for each row. Rows whose entry is no agent's name,
        or missing, get the neutral consensus, and are counted in what is given back. Not with nodes.
    correct : bool, optional
        With an asker, as for `Collective`.
    on_bad_row : ``"refuse"`` or ``"null"``
        Whether a row with a bad value ends the run, or is written without an answer and counted.
    jobs : int, optional
        Number of threads; on Ray, of workers. All cores by default.
    engine : ``"local"`` or ``"ray"``
        Whether this process computes the answers, or a Ray cluster.
    placement : ``"workers"`` or ``"agents"``, optional
        On Ray: whether each worker has a copy of the collective, or each agent an actor of its own that all workers
        ask. By default copies, where the collective is the path of a saved one: all workers map its files into memory.
        Otherwise actors; with ``"workers"`` the collective is then sent to all workers.
    address : str, optional
        The Ray cluster, ``"host:port"``; by default one is started on this machine.
    restart : bool
        Whether to start over, whatever an interrupted run has finished.
    verify : bool
        Whether to read all files of a saved collective first, and refuse one that has changed since.
    unsafe_pickle : bool
        Whether to open models in pickle and joblib files, which can run any code.
    site : path or `Site`, optional
        Where the collective has a schema: a site file, which says how the input writes its columns. By default the file
        ``NAME.site.toml`` beside the input ``NAME.csv``, if it is there, otherwise as the schema does.
        Features that the input does not have are absent: models that need them abstain.

    Returns
    -------
    RunSummary
        The number of rows, of those finished by an earlier call, and of bad ones; the seconds; the output.

    Raises
    ------
    InvalidInput
        If what is asked for cannot be done, or a file cannot be read.
    DeGrootError
        If the output cannot be written, or agents on a cluster or nodes do not answer.

    Examples
    --------
    >>> import tempfile
    >>> import pandas as pd
    >>> from degroot import Agent, Collective
    >>> from degroot.batch import predict_files
    >>> rows = pd.DataFrame({"dose": np.arange(10.0)})
    >>> agents = [Agent(lambda X, k=k: k * X["dose"], rows, 1.4 * rows["dose"], f"times {k}") for k in (1, 2, 3)]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pd.DataFrame({"patient": ["a", "b"], "dose": [3.0, 5.0]}).to_csv(f"{folder}/new.csv", index=False)
    ...     done = predict_files(
    ...         Collective(agents), f"{folder}/new.csv", f"{folder}/answers.csv", fields="value", keep="patient"
    ...     )
    ...     print(pd.read_csv(done.output).round(3))
      patient  value
    0       a  4.134
    1       b  6.889
    >>> done.rows, done.bad
    (2, 0)
    """
    begun = time.monotonic()
    given, place = [os.fspath(each) for each in _as_list("inputs", inputs)], Path(_path("output", output))
    wanted = None if fields is None else [str(name) for name in _as_list("fields", fields)]
    _check_options(engine, placement, address, coverage, jobs)
    _check_asker_options(asker, asker_column, correct)
    kept = [str(name) for name in _as_list("keep", keep)]
    check(given, place, USUAL if wanted is None else wanted, on_bad_row)
    with progress("Opening the collective", lines=True):
        found, identity = _open(collective, engine, verify, unsafe_pickle)
    saved_at = None if engine == LOCAL else _find_saved(collective, found, identity, unsafe_pickle)
    placed = choose_placement(placement, is_saved=saved_at is not None)
    if engine == RAY:
        identity |= {"placement": placed}
    is_remote, peers = _is_remote(found), getattr(found, "peers", None)
    omitted: list[str] = []
    if wanted is None:
        wanted, omitted = choose_fields(found.names, found.classes, _list_granted(found) if is_remote else USUAL)
        if LABEL in wanted and LABEL in kept:
            raise InvalidInput(
                f"A column {LABEL!r} of the input must have another name to be kept, or `fields` must leave out the "
                "most likely class, which is written by that name."
            )
    check_label(wanted, found.classes)
    whose = _check_view(found, wanted, asker, asker_column, correct)
    if whose and isinstance(collective, Collective):
        whose["evidence"] = _digest_evidence(found, asker)
    columns = Columns(
        add_bounds(wanted, coverage, found.classes), found.names, output_names(found.outputs, found.classes),
        None if peers is None else tuple(map(tuple, peers.tolist())),
    )  # fmt: skip
    written = _open_site(site, found.schema, given)
    plan = make_plan(
        given, place, _feature_names(found), columns, keep=kept,
        asker_column=asker_column, on_bad_row=on_bad_row, gaps=found.schema is None and found.takes_gaps,
        identity=identity | whose | {"coverage": coverage}, schema=found.schema, site=written,
        site_file=_name_site_file(site, written, given),
    )  # fmt: skip
    about: dict[str, Any] = {"coverage": coverage, "asker": asker, "correct": correct}
    if plan.task.encoding is not None and plan.task.encoding.absent:
        about["absent"] = plan.task.encoding.absent
    here = bool(whose) or FLAGS in wanted or coverage is not None  # which take rows that are in this process
    with progress("Preparing", lines=True):
        ready = found if is_remote else _prepare(found, coverage, asker, jobs)
    if engine == RAY:
        starting = _start_ray(ready, plan, about, placed, saved_at, address, jobs, here=here)
    else:
        starting = _start_threads(ready, plan, about, jobs)
    with starting as started:
        before = time.monotonic() - begun
        try:
            done = run(plan, started, restart=restart)
        except UnansweredInput as error:
            if plan.note:
                raise InvalidInput(f"{error} {plan.note}") from error
            raise
    by_beside = f"Read as {written.path} says." if site is None and written.path is not None else ""
    note = " ".join(filter(None, (by_beside, done.note)))
    start_up = before + done.start_up
    return replace(done, start_up=start_up, fields=tuple(wanted), omitted=tuple(omitted), note=note)


def _open_site(site: str | os.PathLike[str] | Site | None, schema: Schema | None, inputs: Sequence[str]) -> Site:
    """How the input writes the columns of the schema: as a site file says, the one that is given or lies beside it."""
    if schema is None and site is not None:
        raise InvalidInput("`site` must come with a collective that has a schema; this one has none.")
    if schema is None:
        return AS_SHARED
    if isinstance(site, Site):
        schema.check_site(site)
        return site.with_every_column()
    if site is not None:
        return open_asked_site(Path(inputs[0]), schema, Path(_path("site", site)))
    files = find(inputs)
    beside = [place for place in map(site_beside, files) if place.exists()]
    if beside and len(files) > 1:
        raise InvalidInput(
            f"Several inputs must be read by one site file, `site`; {beside[0]} lies beside one of them."
        )
    return open_asked_site(files[0], schema)


def _name_site_file(site: str | os.PathLike[str] | Site | None, written: Site, inputs: Sequence[str]) -> Path | str:
    """Where to write what the input calls a column: in the site file that was read, or a new one."""
    if written.path is not None and not isinstance(site, Site):
        return written.path
    files = find(inputs)
    beside = site_beside(files[0])
    return beside if site is None and len(files) == 1 else f"{beside}, for --site {beside}"


@contextmanager
def _start_threads(ready: Any, plan: Plan, about: dict[str, Any], jobs: int | None) -> Iterator[ShardEngine]:
    """Threads of this process, which answer the shards; `about`: how `consult` is called."""
    consult = consult_in_form_of(getattr(ready, "agents", ()), partial(ready.consult, **about))
    yield Local(consult, min(count_threads(jobs), len(plan.shards)))


@contextmanager
def _start_ray(
    ready: Collective,
    plan: Plan,
    about: dict[str, Any],
    placement: str,
    place: "SavedCollective | None",
    address: str | None,
    jobs: int | None,
    *,
    here: bool,
) -> Iterator[ShardEngine]:
    """Workers of a Ray cluster, which answer the shards, or threads of this process that ask the agents on it."""
    from degroot.batch.ray import agents_on_ray, callers_on_ray, copies_on_ray

    encoding, most = plan.task.encoding, min(jobs or len(plan.shards), len(plan.shards))
    if placement == WORKERS:
        with copies_on_ray(ready, place, about, address, most) as workers:
            yield workers
    elif here:
        consensus = about["asker"] is None
        with agents_on_ray(ready, address, consensus=consensus) as far, _start_threads(far, plan, about, jobs) as local:
            yield local
    else:
        absent = None if encoding is None else encoding.mask
        with callers_on_ray(ready, address, most, plan.task.columns.computed_fields, absent) as workers:
            yield workers


def _find_saved(
    given: Any, found: Collective, identity: dict[str, Any], unsafe_pickle: bool
) -> "SavedCollective | None":
    """Where workers find the collective: what was saved at the path that is `given`; None: they find it nowhere."""
    if isinstance(given, Collective) or any(agent.source is None for agent in found.agents):
        return None
    from degroot.batch.ray import SavedCollective

    return SavedCollective(Path(given).absolute(), identity["collective"], unsafe_pickle)


def run(plan: Plan, engine: ShardEngine, *, restart: bool = False) -> RunSummary:
    """Answer all shards that are not finished yet, and write the output when all are: whole or not at all."""
    begun = work_begun = time.monotonic()

    def end_start_up() -> None:
        nonlocal work_begun
        work_begun = time.monotonic()
        advance.name_step("")
        advance.end_start_up()

    with (
        _explain_write_errors(plan.output),
        unfinished(plan.output, plan.identity, restart) as kept,
        Merging(kept, plan.output, plan.task.schema) as merging,
    ):
        open_shards = [shard for shard in plan.shards if shard.number not in kept.bad]
        before = plan.rows - sum(shard.rows for shard in open_shards)
        with progress("Predicting", plan.rows, lines=True, unit="rows", done=before) as advance:
            advance.name_step("starting up")
            for shard, answers in engine.answers(open_shards, plan.task, end_start_up):
                advance.name_step("")
                kept.save(shard, answers, _bad(plan, answers))
                merging.advance(2)  # after an interruption, those before are caught up with
                advance(shard.rows)
        check_unchanged(plan)
        with progress("Writing", lines=True):
            merging.finish(len(plan.shards))
        bad = sum(kept.bad.values())
        kept.remove()
    seconds = time.monotonic() - work_begun
    note = " ".join(filter(None, (plan.note, describe_unlisted(merging.unlisted))))
    return RunSummary(
        plan.rows, before, bad, seconds, work_begun - begun, plan.output,
        merging.unmatched, plan.task.asker_column, note=note,
    )  # fmt: skip


def _as_list(name: str, given: Any) -> list[Any]:
    """One name or path, or several, as a list."""
    if isinstance(given, (str, os.PathLike)):
        return [given]
    if not isinstance(given, Iterable):
        raise InvalidInput(f"`{name}` must be text or a path, or several; got {given!r}.")
    return [_path(name, each) for each in given]


def _path(name: str, given: Any) -> Any:
    """A name or a path, if it is one."""
    if not isinstance(given, (str, os.PathLike)):
        raise InvalidInput(f"`{name}` must be text or a path; got {given!r}.")
    return given


def _check_options(
    engine: str, placement: str | None, address: str | None, coverage: float | None, jobs: int | None
) -> None:
    check_choice("engine", engine, (LOCAL, RAY))
    if placement is not None:
        check_choice("placement", placement, PLACEMENTS)
    for name, value in (("placement", placement), ("address", address)):
        if value is not None and engine != RAY:
            raise InvalidInput(f"`{name}` must come with the engine {RAY!r}; got {engine!r}.")
    if jobs is not None and (isinstance(jobs, bool) or not isinstance(jobs, Integral) or jobs < 1):
        raise InvalidInput(f"`jobs` must be a whole number of at least 1, or None; got {jobs!r}.")
    if coverage is not None:
        rows_needed(coverage)


def _check_asker_options(asker: Any, asker_column: Any, correct: Any) -> None:
    """Refuse what cannot say for whom rows are answered."""
    for name, value in (("asker", asker), ("asker_column", asker_column)):
        if value is not None and not isinstance(value, str):
            raise InvalidInput(f"`{name}` must be one name; got {value!r}.")
    if asker is not None and asker_column is not None:
        raise InvalidInput("Either `asker` or `asker_column` must say for whom rows are answered; got both.")
    if correct is not None:
        check_flag("correct", correct)


def _list_granted(node: Any) -> list[str]:
    """What is asked of a node where nobody says: of its usual fields those that it grants."""
    return [name for name in FIELDS_OF_NODES if name in ("value", MISSING, FLAGS) or name in node.granted]


def _check_view(
    found: Any, fields: Sequence[str], asker: str | None, asker_column: str | None, correct: bool | None
) -> dict[str, Any]:
    """What of the view has to be the same when a run is resumed, if the view can be had; nothing for the consensus."""
    if asker is not None:
        check_asker(asker, found.names, 1)
    if _is_remote(found) and asker_column is not None:
        raise InvalidInput("`asker_column` must come with a collective in files or in memory; a node has its own view.")
    view = getattr(found, "view", None)  # of nodes
    if asker is None and asker_column is None and view != OWN_VIEW:
        if correct:
            raise InvalidInput("`correct` must come with an asker, whose rows tell of errors; got none.")
        if CORRECTION in fields:
            raise InvalidInput(f"The field {CORRECTION!r} must come with an asker, to whose view it belongs; got none.")
        return {}
    if "trust" in fields:
        raise InvalidInput(
            "The field 'trust' must come with the consensus: in an asker's view nobody else's trust counts."
        )
    if _is_remote(found):
        return {"asker": asker, "view": view, "correct": correct}
    return {"asker": asker, "correct": found.correct if correct is None else bool(correct)}


def _open(collective: Any, engine: str, verify: bool, unsafe_pickle: bool) -> tuple[Any, dict[str, Any]]:
    """The collective, for calls from several threads, and that by which it is recognised when a run is resumed."""
    if isinstance(collective, (str, os.PathLike)):
        path = Path(collective)
        if verify:
            saved.verify(path)
        found = Collective.load(path, n_jobs=1, unsafe_pickle=unsafe_pickle)
        return found, {"collective": saved.digest(path), "files": saved.stamp(path), "engine": engine}
    if verify or unsafe_pickle:
        raise InvalidInput("`verify` and `unsafe_pickle` must come with the path of a collective; got an open one.")
    if _is_remote(collective):
        if engine == RAY:
            raise InvalidInput(f"The engine {RAY!r} must come with a collective in files or in memory; got nodes.")
        return collective, collective.identity | {"engine": "nodes"}
    if not isinstance(collective, Collective):
        raise InvalidInput(f"`collective` must be a collective, or the path of one; got {collective!r}.")
    if collective.engine is not None:
        raise InvalidInput(
            f"`collective` must have its agents in this process; got engine={collective.engine!r}. "
            "`predict_files` has an `engine` of its own."
        )
    found = _with_threads(collective, 1)
    return found, {"collective": repr(found), "answers": _digest_answers(found), "engine": engine}


def _with_threads(collective: Collective, n_jobs: int | None) -> Collective:
    """The same with so many threads; the caller's own collective stays as it is."""
    found = copy(collective)
    found.n_jobs, found._started = n_jobs, None  # the engine that is there is the caller's
    return found


def _prepare(collective: Collective, coverage: float | None, asker: str | None, jobs: int | None) -> Collective:
    """The same, calibrated or with the asker's view if need be: on all threads, before each question has one."""
    calibrates = coverage is not None and asker is None and not collective.is_calibrated
    if not calibrates and asker is None:
        return collective
    found = _with_threads(collective, jobs)
    if calibrates:
        found.calibrate()
    if asker is not None:
        found.view_of(asker)
    return _with_threads(found, 1)


def _is_remote(collective: Any) -> bool:
    """Whether it consists of nodes, which tell who they are."""
    return hasattr(collective, "identity")


def _feature_names(collective: Any) -> list[str]:
    """The columns that are the features; without names they are numbered, as `Collective.save` does."""
    names: list[str] = collective.feature_names or [f"x{k}" for k in range(collective.agents[0].n_features)]
    return names


def _digest_answers(collective: Collective) -> str:
    """A digest of the answers about some rows of some agents, in single precision: all models are asked."""
    digest, agents = sha256(), collective.agents
    with threadpool_limits(1):
        for agent in agents[:: -(-len(agents) // PROBE_AGENTS)]:
            able = find_able_rows(agent)
            if not len(able):
                continue
            rows = take(agent.X, able[np.linspace(0, len(able) - 1, min(len(able), PROBE_ROWS)).astype(np.intp)])
            answer = collective.consult(rows, ["value", "weights", "beliefs"])
            for part in (answer.value, answer.weights, answer.beliefs):
                digest.update(np.asarray(part, np.float32).tobytes())
    return digest.hexdigest()


def _digest_evidence(collective: Collective, asker: str | None) -> str:
    """A digest of the errors that all models have on the rows of the asker, or of everybody, in single precision."""
    digest = sha256()
    for scorer in collective.scorers:
        if asker in (None, scorer.agent.name):
            digest.update(np.asarray(scorer.residuals, np.float32).tobytes())
    return digest.hexdigest()


def _bad(plan: Plan, answers: pa.RecordBatch) -> int:
    """How many rows have no answers."""
    return int(answers.column(len(plan.task.keep)).null_count)


@contextmanager
def _explain_write_errors(output: Path) -> Iterator[None]:
    """Say in one line why the output cannot be written."""
    try:
        yield
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else error
        raise DeGrootError(
            f"The output must go to where it can be written; {output}: {reason}. What is finished is kept: the same "
            "command goes on."
        ) from error
