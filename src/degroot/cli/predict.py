"""``degroot predict``."""

import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from degroot.cli.connection import Ca, Certificate, Config, InsecureLoopback, Key, Node, check_one, connected
from degroot.cli.errors import STOPPED, complain, stopping_at_once
from degroot.cli.node import UnsafePickle
from degroot.exceptions import InvalidInput
from degroot.intervals import rows_needed

if TYPE_CHECKING:
    from degroot.batch import Columns, RunSummary, ShardEngine

LOCAL, RAY = "local", "ray"
FIELDS = ("value", "standard_error", "weights")
TOLD = ("missing", "flags")  # what nodes tell beside
INTERRUPTED = "stopped; what is finished is kept: the same command goes on"


def predict(
    input_: Annotated[
        list[str],
        typer.Option("--input", metavar="FILES", help="Rows: .csv, .parquet, .arrow; a file, folder or pattern."),
    ],
    output: Annotated[Path, typer.Option(metavar="FILE", help="The answers: a .parquet or .csv file.")],
    more: Annotated[list[str] | None, typer.Argument(metavar="FILES", help="More input.", show_default=False)] = None,
    collective: Annotated[
        Path | None, typer.Option(metavar="PATH", help="The collective: a TOML file or a folder.")
    ] = None,
    node: Node = None,
    keep: Annotated[
        list[str] | None, typer.Option(metavar="NAME,NAME", help="Columns of the input to write too.")
    ] = None,
    fields: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,NAME",
            help="What to write: value, standard_error, weights, beliefs, influence, trust, flags, missing.",
        ),
    ] = None,
    coverage: Annotated[
        float | None,
        typer.Option(metavar="SHARE", help="With bounds that hold the outcome so often, such as 0.9."),
    ] = None,
    on_bad_row: Annotated[
        str, typer.Option(metavar="WHAT", help="A bad value: refuse, or null for no answer.")
    ] = "refuse",
    jobs: Annotated[int | None, typer.Option(metavar="N", help="How many threads; default: all cores.", min=1)] = None,
    engine: Annotated[str, typer.Option(metavar="NAME", help="local, or ray: a Ray cluster.")] = LOCAL,
    address: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Of the Ray cluster; without, one is started here.")
    ] = None,
    restart: Annotated[bool, typer.Option("--restart", help="Begin anew, whatever is finished.")] = False,
    verify: Annotated[
        bool,
        typer.Option("--verify", help="First see whether all saved files are whole."),
    ] = False,
    unsafe_pickle: UnsafePickle = False,
    ca: Ca = None,
    certificate: Certificate = None,
    key: Key = None,
    config: Config = None,
    insecure_loopback: InsecureLoopback = None,
) -> None:
    """Predict all rows of files of any size. An interrupted run goes on where it stopped, by the same command."""
    try:
        from degroot import batch
    except ImportError as error:
        raise InvalidInput(f"Large files need extra packages: pip install 'degroot[batch]' ({error}).") from error

    check_one(collective, node or config)
    _check_options(collective, engine, address, coverage)
    given, named = [*input_, *(more or ())], None if fields is None else _listed([fields])
    batch.check(given, output, FIELDS if named is None else named, on_bad_row)
    asked: AbstractContextManager[PredictOptions]
    if collective is not None:
        asked = nullcontext(
            _in_process(collective, engine, address, jobs, named or FIELDS, coverage, unsafe_pickle, verify)
        )
    else:
        asked = _at_a_node(connected(node, ca, certificate, key, config, insecure_loopback), jobs, coverage)
    try:
        with _stoppable(), asked as found:
            plan = batch.make_plan(
                given, output, found.features, found.columns(found.usual if named is None else named),
                keep=_listed(keep or ()), gaps=found.gaps, on_bad_row=on_bad_row, identity=found.identity,
            )  # fmt: skip
            with found.engine as engine_:
                done = batch.run(plan, engine_, restart=restart)
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        raise typer.Exit(complain(INTERRUPTED, STOPPED)) from None
    typer.echo(_summary(done))


@dataclass(frozen=True, slots=True)
class PredictOptions:
    """Who is asked, and what has to be known of it."""

    names: tuple[str, ...]
    features: list[str]
    outputs: tuple[str, ...] | None
    gaps: bool
    engine: "AbstractContextManager[ShardEngine]"  # started when all is known to be in order
    identity: dict[str, Any]  # by which it is known again
    usual: tuple[str, ...] = FIELDS
    peers: tuple[tuple[int, ...], ...] | None = None
    bounds: tuple[str, ...] = ()  # fields that a coverage brings

    def columns(self, fields: Sequence[str]) -> "Columns":
        """The columns of its answers; bounds come after the value and its standard error."""
        from degroot.batch import Columns

        after = max((k for k, field in enumerate(fields, 1) if field in FIELDS[:2]), default=0)
        wanted = (*fields[:after], *self.bounds, *fields[after:])
        return Columns(wanted, self.names, self.outputs, self.peers)


def _in_process(
    path: Path,
    engine: str,
    address: str | None,
    jobs: int | None,
    fields: Sequence[str],
    coverage: float | None,
    unsafe_pickle: bool,
    verify: bool,
) -> PredictOptions:
    """A collective from a file or folder."""
    from degroot import Collective, batch, saved

    if verify:
        saved.verify(path)
    found = Collective.load(path, n_jobs=1, unsafe_pickle=unsafe_pickle)
    identity = {"collective": saved.digest(path), "files": saved.stamp(path), "engine": engine, "coverage": coverage}
    outputs = batch.output_names(found.outputs, found.classes)
    peers = None if found.peers is None else tuple(map(tuple, found.peers.tolist()))
    working: AbstractContextManager[ShardEngine] = _on_threads(found, jobs, coverage)
    if engine == RAY:
        from degroot.batch.ray import on_ray

        working = on_ray(found, address, jobs, batch.Columns(tuple(fields), found.names).asked)
    about: dict[str, Any] = {"peers": peers, "bounds": _bounds(coverage, found.classes)}
    return PredictOptions(found.names, found.feature_names or [], outputs, found.takes_gaps, working, identity, **about)


@contextmanager
def _at_a_node(
    connection: AbstractContextManager[Any], jobs: int | None, coverage: float | None
) -> Iterator[PredictOptions]:
    """A collective of nodes."""
    from degroot import batch

    with stopping_at_once(), connection as found:
        outputs = batch.output_names(found.outputs, found.classes)
        identity = found.identity | {"engine": "nodes", "coverage": coverage}
        features, engine = found.feature_names or [], _on_threads(found, jobs, coverage)
        about: dict[str, Any] = {"usual": (*FIELDS, *TOLD), "bounds": _bounds(coverage, found.classes)}
        yield PredictOptions(found.names, features, outputs, False, engine, identity, **about)


@contextmanager
def _on_threads(found: Any, jobs: int | None, coverage: float | None) -> Iterator["ShardEngine"]:
    """The engine of this machine; a collective calibrates first, if there are to be bounds."""
    from degroot import batch
    from degroot.compute.compiled import count_threads

    if coverage is not None:
        found.calibrate()
    yield batch.Local(partial(found.consult, coverage=coverage), count_threads(jobs))


def _bounds(coverage: float | None, classes: Sequence[Any]) -> tuple[str, ...]:
    if coverage is None:
        return ()
    return ("sets",) if classes else ("lower", "upper")


@contextmanager
def _stoppable() -> Iterator[None]:
    """Ctrl-C ends the run once the shards under way are done; a second one ends it at once, which does no harm."""

    def at_once(_number: int, _frame: object) -> None:
        complain(INTERRUPTED, STOPPED)
        sys.stderr.flush()
        os._exit(STOPPED)

    def in_order(_number: int, _frame: object) -> None:
        signal.signal(signal.SIGINT, at_once)
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, in_order)
    try:
        yield
    except KeyboardInterrupt:
        before = None  # the process ends: no other Ctrl-C shall be in its way
        raise
    finally:
        if before is not None:
            signal.signal(signal.SIGINT, before)


def _check_options(collective: Path | None, engine: str, address: str | None, coverage: float | None) -> None:
    if engine not in (LOCAL, RAY):
        raise InvalidInput(f"--engine must be {LOCAL} or {RAY}; got {engine!r}.")
    if engine == RAY and collective is None:
        raise InvalidInput("--engine ray must come with --collective: nodes answer where they are.")
    if address is not None and engine != RAY:
        raise InvalidInput("--address must come with --engine ray; it is missing.")
    if coverage is not None:
        rows_needed(coverage)
        if engine == RAY:
            raise InvalidInput("--coverage must come with --engine local: a cluster gives no bounds.")


def _listed(given: Sequence[str]) -> list[str]:
    """Names that are given one by one, or with commas between them."""
    return [name.strip() for each in given for name in each.split(",") if name.strip()]


def _summary(done: "RunSummary") -> str:
    parts = [f"{done.rows:,} rows"]
    parts += [f"{done.before:,} of them before"] if done.before else []
    parts += [f"{done.bad:,} bad", f"{done.seconds:.1f} seconds"]
    parts += [f"{(done.rows - done.before) / max(done.seconds, 1e-9):,.0f} rows per second", str(done.output)]
    return "; ".join(parts)
