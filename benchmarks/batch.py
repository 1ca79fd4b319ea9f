"""`degroot predict` over files of millions of rows, against loops that a user could write, on one core and two.

`make bench` prints and writes BATCH.md. `--only speed memory …`: some parts, the others stay as they are in the file;
`--quick`: a tenth of the rows, printed only.
"""

import argparse
import filecmp
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from bench import Scale, as_markdown, best_times, fastest, make_collective
from recipes import Vectorised
from sets import Pair, deal

from degroot import Collective, saved
from degroot.batch import Columns, Local, Shard, ShardEngine, Task, make_plan, run
from degroot.batch.ray import SavedCollective, Workers, callers_on_ray, copies_on_ray
from degroot.cluster import Ray
from degroot.cluster.ray import ENVIRONMENT

RESULTS = Path(__file__).with_name("BATCH.md")
CPUSMALL = Scale(5, 1300, 12, 13, 10000)
FIELDS = "value,standard_error,weights"
SHARD = 1 << 16
MILLION = 1_000_000
MANY = 4  # shards of a run in which a worker can be killed
CHILD = """
import os, sys
os.sched_setaffinity(0, [int(core) for core in sys.argv.pop(1).split(",")])
from degroot.cli import main
try:
    main()
finally:
    status = dict(line.split(":", 1) for line in open("/proc/self/status"))
    sys.stderr.write("peak " + status["VmHWM"].split()[0] + "\\n")
"""
HEAD = """\
Written by `make bench`. `degroot predict` from Parquet to Parquet on a machine of {cores} shared cores. Ratios are what
counts. Two collectives of five agents: *cpusmall scale*, {scale} rows of 12 features each, 13 neighbours, ridge models
(white noise, as in RESULTS.md); *Abalone*, the data set dealt to five agents, ridge models, the paper's rule with its
defaults. Both are saved with `collective.save`; models are scikit-learn's, from skops files."""
SPEED = """\
{rows:,} rows at the cpusmall scale. *Bare loop*: pyarrow reads the same file in batches of {shard:,} rows, the five
models are called, their mean is written to Parquet; no trust, no weights. *Recipe*: the same loop around the vectorised
scikit-learn recipe of RESULTS.md (`NearestNeighbors`, {algorithm}, all cores), over the first {fewer:,} rows. *Ours*
writes the value, as they do, in a process that is already running, with its manifest and parts on disk; *as a command*
also starts Python and loads the collective. Asked for: at least 2 times the recipe. Largest difference from the recipe,
over the largest answer: {difference:.1e}."""
MEMORY = """\
Peak memory (`VmHWM`) of the whole process at the cpusmall scale, {fields}. Asked for: equal within
10 %."""
GROWTH = """\
Seconds in a process that is already running, at the cpusmall scale, value only. The fit: {intercept:.2f} s +
{slope:.2f} s for each million rows, at most {residual:.0f} % off; time grows with rows to the power {power:.2f}."""
CORES = """\
{rows:,} rows at the cpusmall scale, {fields}, in processes that may use one core or two
(`os.sched_setaffinity`), with as many threads; without start-up. Asked for: at least 1.7 times."""
RAY = """\
{rows:,} rows at the cpusmall scale, {fields}, on {cores} cores.
*Local*: threads of one process. *Workers*: one for each core of a Ray on this machine, with a copy of the collective
(`--placement workers`); *one killed*: one of them in the middle of the run. *Agents*: each agent an actor, asked by as
many workers (`--placement agents`). Start-up is told apart: from nothing until the first {first:,} rows are answered.
Asked for: workers at most 1.3 times local. The outputs are {same}."""
NODES = """\
The same {rows:,} rows by workers of Ray clusters with nodes of one core each, all of them on this machine, without
start-up. The command writes the output on whatever core is free. Asked for: at least 1.7 times. The outputs are
{same}."""
ABALONE = """\
{rows:,} rows with the Abalone collective, {fields}, as a command, everything included. Asked
for: memory under 1 GB."""


class Done(NamedTuple):
    """A command that was run."""

    seconds: float  # from start to end
    inner: float  # what it says itself
    megabytes: float  # at the peak


class Bench:
    """Collectives and inputs in a scratch folder."""

    def __init__(self, folder: Path, share: float, repeats: int) -> None:
        self.folder, self.share, self.repeats = folder, share, repeats
        self.agents = {"cpusmall": make_collective(CPUSMALL), "abalone": abalone_collective()}

    def rows(self, millions: float) -> int:
        return int(millions * MILLION * self.share)

    def collective(self, name: str) -> Path:
        folder = self.folder / name
        return folder if folder.exists() else self.agents[name][0].save(folder)

    def input(self, name: str, rows: int) -> Path:
        """Rows like those that the agents hold, each a little off."""
        X, path = self.agents[name][1], self.folder / f"{name}-{rows}.parquet"
        if path.exists():
            return path
        random, names = np.random.default_rng(0), [f"x{k}" for k in range(X.shape[1])]
        with pa.parquet.ParquetWriter(path, pa.schema([(name, pa.float64()) for name in names])) as writer:
            for start in range(0, rows, MILLION):
                m = min(MILLION, rows - start)
                part = X[random.integers(len(X), size=m)] * random.normal(1.0, 0.05, size=(m, X.shape[1]))
                writer.write_table(pa.table(dict(zip(names, part.T, strict=True))))
        return path

    def command(self, name: str, rows: int, fields: str, *more: str, cores: int | None = None) -> Done:
        """`degroot predict` as a process of its own."""
        source, output = self.input(name, rows), self.folder / "out.parquet"
        output.unlink(missing_ok=True)
        arguments = ["--collective", self.collective(name), "--input", source, "--output", output, "--fields", fields]
        allowed = ",".join(map(str, sorted(os.sched_getaffinity(0))[:cores]))
        command = [sys.executable, "-c", CHILD, allowed, "predict", *map(str, arguments), *more]
        begun = time.perf_counter()
        done = subprocess.run(command, capture_output=True, text=True)
        seconds = time.perf_counter() - begun
        if done.returncode:
            raise RuntimeError(done.stderr)
        inner = float(next(part for part in done.stdout.split("; ") if part.endswith(" seconds")).split()[0])
        return Done(seconds, inner, int(done.stderr.split("peak ")[1]) / 1024)

    def inside(self, name: str, rows: int, fields: str, output: str = "inside.parquet") -> float:
        """The same in this process; seconds."""
        engine = Local(self.load(name).consult, len(os.sched_getaffinity(0)))
        return self.answer(name, rows, fields, engine, output)

    def load(self, name: str) -> Collective:
        return Collective.load(self.collective(name), n_jobs=1)

    def answer(self, name: str, rows: int, fields: str, engine: ShardEngine, output: str) -> float:
        """The answers by any engine; seconds."""
        collective = self.load(name)
        plan = make_plan(
            [str(self.input(name, rows))], self.folder / output, collective.feature_names,
            Columns(tuple(fields.split(",")), collective.names),
        )  # fmt: skip
        begun = time.perf_counter()
        run(plan, engine, restart=True)
        return time.perf_counter() - begun


def abalone_collective() -> tuple[Collective, np.ndarray]:
    dealt = deal(Pair("abalone", "Ridge"), 0, None)
    return Collective(dealt.agents), dealt.X


def loop(predict: Callable[[np.ndarray], np.ndarray], source: Path, output: Path, batches: int | None = None) -> None:
    """What a user would write: pyarrow, batch by batch."""
    with pa.parquet.ParquetWriter(output, pa.schema([("value", pa.float64())])) as writer:
        for batch in islice(pa.parquet.ParquetFile(source).iter_batches(SHARD), batches):
            X = np.column_stack([column.to_numpy() for column in batch.columns])
            writer.write_table(pa.table({"value": predict(X)}))


def speed(bench: Bench) -> Iterator[str]:
    rows = bench.rows(1)
    batches = max(1, rows // SHARD // 5)
    source, collective = bench.input("cpusmall", rows), Collective.load(bench.collective("cpusmall"))
    models = [agent.model for agent in collective.agents]
    recipe = Vectorised(collective, CPUSMALL.neighbours, bench.agents["cpusmall"][1][:200], fastest)
    outputs = {name: bench.folder / f"{name}.parquet" for name in ("bare", "recipe", "inside")}
    contestants = {
        "bare loop": lambda: loop(lambda X: sum(model.predict(X) for model in models) / 5, source, outputs["bare"]),
        "recipe": lambda: loop(recipe.predict, source, outputs["recipe"], batches),
        "ours": lambda: bench.inside("cpusmall", rows, "value"),
        f"ours, {FIELDS}": lambda: bench.inside("cpusmall", rows, FIELDS, "more.parquet"),
        "ours, as a command": lambda: bench.command("cpusmall", rows, "value"),
    }
    bench.inside("cpusmall", rows, "value")  # everything is compiled
    times = best_times(contestants, bench.repeats)
    theirs = pa.parquet.read_table(outputs["recipe"])["value"].to_numpy()
    ours = pa.parquet.read_table(outputs["inside"])["value"].to_numpy()[: len(theirs)]
    difference = np.abs(ours - theirs).max() / np.abs(theirs).max()
    yield SPEED.format(rows=rows, shard=SHARD, algorithm=recipe.algorithm, fewer=len(theirs), difference=difference)
    rates = {name: (len(theirs) if name == "recipe" else rows) / seconds for name, seconds in times.items()}
    yield as_markdown(
        [
            {
                "": name, "rows a second": f"{rate:,.0f}", "over the bare loop": f"{rate / rates['bare loop']:.3f}",
                "over the recipe": f"{rate / rates['recipe']:.2f}",
            }
            for name, rate in rates.items()
        ]
    )  # fmt: skip


def memory(bench: Bench) -> Iterator[str]:
    bench.command("cpusmall", bench.rows(0.1), FIELDS)  # everything is compiled, which takes memory
    peaks = {rows: bench.command("cpusmall", rows, FIELDS).megabytes for rows in (bench.rows(1), bench.rows(10))}
    first = next(iter(peaks.values()))
    yield MEMORY.format(fields=FIELDS)
    yield as_markdown(
        [
            {"rows": f"{rows:,}", "peak, MB": f"{peak:.0f}", "over the first": f"{peak / first:.3f}"}
            for rows, peak in peaks.items()
        ]
    )


def growth(bench: Bench) -> Iterator[str]:
    counts = [bench.rows(each) for each in (0.5, 1, 2, 4)]
    contestants = {rows: partial(bench.inside, "cpusmall", rows, "value") for rows in counts}
    contestants[counts[0]]()
    times = best_times(contestants, bench.repeats)
    seconds, millions = np.array(list(times.values())), np.array(counts) / MILLION
    slope, intercept = np.polyfit(millions, seconds, 1)
    residual = 100 * np.abs((intercept + slope * millions) / seconds - 1).max()
    power = np.polyfit(np.log(millions), np.log(seconds), 1)[0]
    yield GROWTH.format(intercept=intercept, slope=slope, residual=residual, power=power)
    yield as_markdown([{"rows": f"{rows:,}", "seconds": f"{times[rows]:.2f}"} for rows in counts])


def cores(bench: Bench) -> Iterator[str]:
    rows = bench.rows(1)
    best = dict.fromkeys((1, 2), np.inf)
    for _ in range(bench.repeats):
        for count in best:
            best[count] = min(best[count], bench.command("cpusmall", rows, FIELDS, cores=count).inner)
    yield CORES.format(rows=rows, fields=FIELDS)
    yield as_markdown(
        [
            {
                "cores": str(count), "seconds": f"{each:.2f}", "rows a second": f"{rows / each:,.0f}",
                "over one core": f"{best[1] / each:.2f}",
            }
            for count, each in best.items()
        ]
    )  # fmt: skip


def ray(bench: Bench) -> Iterator[str]:
    rows, count = bench.rows(2), len(os.sched_getaffinity(0))
    contestants = {
        "local": lambda: nullcontext(Local(bench.load("cpusmall").consult, count)),
        "ray, workers": partial(workers_here, bench, count, copies),
        "ray, workers, one killed": partial(workers_here, bench, count, copies, kills=True),
        "ray, agents": partial(workers_here, bench, count, callers),
    }
    best = measure_turns(bench, rows, contestants)
    yield RAY.format(rows=rows, fields=FIELDS, cores=count, first=bench.rows(0.1), same=compare(bench, contestants))
    yield as_markdown(
        [
            {
                "engine": name, "start-up, s": f"{start:.1f}", "work, s": f"{work:.1f}",
                "work over local": f"{work / best['local'][1]:.2f}",
            }
            for name, (start, work) in best.items()
        ]
    )  # fmt: skip
    nodes = {f"{count}": partial(workers_on_nodes, bench, count) for count in (1, 2)}
    best = measure_turns(bench, rows, nodes)
    yield NODES.format(rows=rows, fields=FIELDS, same=compare(bench, nodes))
    yield as_markdown(
        [
            {
                "nodes": count, "work, s": f"{work:.1f}", "rows a second": f"{rows / work:,.0f}",
                "over one node": f"{best['1'][1] / work:.2f}",
            }
            for count, (_, work) in best.items()
        ]
    )  # fmt: skip


def measure_turns(
    bench: Bench, rows: int, contestants: dict[str, Callable[[], AbstractContextManager[ShardEngine]]]
) -> dict[str, tuple[float, float]]:
    """The least seconds of engines that take turns: until they have answered a few rows, and then for all."""
    best = dict.fromkeys(contestants, (np.inf, np.inf))
    for _ in range(bench.repeats):
        for name, start in contestants.items():
            begun = time.perf_counter()
            with start() as engine:
                bench.answer("cpusmall", bench.rows(0.1), FIELDS, engine, "few.parquet")
                seconds = time.perf_counter() - begun, bench.answer("cpusmall", rows, FIELDS, engine, f"{name}.parquet")
            best[name] = tuple(map(min, best[name], seconds))
    return best


def compare(bench: Bench, names: Iterable[str]) -> str:
    """Whether these outputs have the same bytes as the local engine's."""
    local = bench.folder / "local.parquet"
    same = all(filecmp.cmp(local, bench.folder / f"{name}.parquet", shallow=False) for name in names)
    return "the same to the byte" if same else "NOT the same"


Start = Callable[[Bench], AbstractContextManager[Workers]]


def copies(bench: Bench) -> AbstractContextManager[Workers]:
    folder, collective = bench.collective("cpusmall"), bench.load("cpusmall")
    return copies_on_ray(collective, SavedCollective(folder, saved.digest(folder), unsafe_pickle=False), {})


def callers(bench: Bench) -> AbstractContextManager[Workers]:
    return callers_on_ray(bench.load("cpusmall"), fields=FIELDS.split(","))


@contextmanager
def workers_here(bench: Bench, count: int, start: Start, *, kills: bool = False) -> Iterator[ShardEngine]:
    """The workers of a Ray on this machine with so many cores."""
    with Ray(num_cpus=count), start(bench) as workers:
        workers.wait(count)
        yield Killing(workers) if kills else workers


@contextmanager
def workers_on_nodes(bench: Bench, count: int) -> Iterator[ShardEngine]:
    """The workers of a cluster with so many nodes of one core each, all on this machine."""
    from ray.cluster_utils import Cluster

    os.environ.update(ENVIRONMENT)
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    try:
        for _ in range(count - 1):
            cluster.add_node(num_cpus=1)
        cluster.wait_for_nodes()
        with Ray(cluster.address), copies(bench) as workers:
            workers.wait(count)
            yield workers
    finally:
        cluster.shutdown()


class Killing:
    """Workers of which one is killed in the middle of a run of many shards."""

    def __init__(self, workers: Workers) -> None:
        self.workers = workers

    def answers(
        self, shards: Iterable[Shard], task: Task, end_start_up: Callable[[], None]
    ) -> Iterator[tuple[Shard, pa.RecordBatch]]:
        shards = list(shards)
        pid = pid_of(self.workers.actors[0]) if len(shards) > MANY else None
        for k, found in enumerate(self.workers.answers(shards, task, end_start_up)):
            if pid is not None and k == len(shards) // 2:
                os.kill(pid, signal.SIGKILL)
            yield found


def pid_of(actor: Any) -> int:
    import ray

    return ray.get(actor.__ray_call__.remote(lambda _: os.getpid()))


def abalone(bench: Bench) -> Iterator[str]:
    rows = bench.rows(10)
    done = bench.command("abalone", rows, FIELDS)
    yield ABALONE.format(rows=rows, fields=FIELDS)
    yield as_markdown(
        [
            {
                "seconds": f"{done.seconds:.1f}", "rows a second": f"{rows / done.seconds:,.0f}",
                "peak, MB": f"{done.megabytes:.0f}", "input, MB": megabytes(bench.input("abalone", rows)),
                "output, MB": megabytes(bench.folder / "out.parquet"),
            }
        ]
    )  # fmt: skip


def megabytes(path: Path) -> str:
    return f"{path.stat().st_size / 1e6:,.0f}"


PARTS = {
    "speed": ("Speed", speed), "memory": ("Memory", memory), "growth": ("Growth", growth), "cores": ("Cores", cores),
    "ray": ("Ray", ray), "abalone": ("Ten million rows", abalone),
}  # fmt: skip


def main(names: list[str], quick: bool, repeats: int, scratch: Path | None) -> None:
    head = ["# Files of any size", HEAD.format(cores=len(os.sched_getaffinity(0)), scale=f"{CPUSMALL.rows:,}")]
    print(*head, sep="\n\n", flush=True)
    parts = read_parts() if names else {}
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        bench = Bench(Path(folder), 0.1 if quick else 1.0, repeats)
        for name in names or PARTS:
            title, measure = PARTS[name]
            print(f"\n## {title}", flush=True)
            texts = []
            for text in measure(bench):
                print("\n" + text, flush=True)
                texts.append(text)
            parts[title] = "\n\n".join(texts)
    if not quick:
        told = [f"## {title}\n\n{parts[title]}" for title, _ in PARTS.values() if title in parts]
        RESULTS.write_text("\n\n".join([*head, *told]) + "\n", encoding="utf-8")


def read_parts() -> dict[str, str]:
    """The parts of the file as it is, by their titles."""
    parts = RESULTS.read_text(encoding="utf-8").rstrip().split("\n\n## ")[1:]
    return dict(part.split("\n\n", 1) for part in parts)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=[])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--scratch", type=Path, help="folder for files of 2 GB")
    options = parser.parse_args()
    main(options.only, options.quick, options.repeats, options.scratch)
