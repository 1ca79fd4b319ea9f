"""`degroot predict` over files of millions of rows, against loops that a user could write, on one core and two.

`make bench` prints and writes BATCH.md. `--only speed memory …`: some parts, `--quick`: a tenth of the rows; these are
printed only.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from bench import Scale, as_markdown, best_times, fastest, make_collective
from recipes import Vectorised
from sets import Pair, deal

from degroot import Collective
from degroot.batch import Columns, Local, make_plan, run

RESULTS = Path(__file__).with_name("BATCH.md")
CPUSMALL = Scale(5, 1300, 12, 13, 10000)
FIELDS = "value,standard_error,weights"
SHARD = 1 << 16
MILLION = 1_000_000
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
{rows:,} rows at the cpusmall scale, {fields}. Ray on this machine, each agent an actor; start-up
and shutdown given apart. The outputs are {same}."""
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
        collective = Collective.load(self.collective(name), n_jobs=1)
        plan = make_plan(
            [str(self.input(name, rows))], self.folder / output, collective.feature_names,
            Columns(tuple(fields.split(",")), collective.names),
        )  # fmt: skip
        return run(plan, Local(collective.consult, len(os.sched_getaffinity(0))), restart=True).seconds


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
    rows, output = bench.rows(1), bench.folder / "out.parquet"
    local = bench.command("cpusmall", rows, FIELDS)
    shutil.copy(output, bench.folder / "local.parquet")
    far = bench.command("cpusmall", rows, FIELDS, "--engine", "ray")
    same = (
        "the same to the byte"
        if output.read_bytes() == (bench.folder / "local.parquet").read_bytes()
        else "NOT the same"
    )
    yield RAY.format(rows=rows, fields=FIELDS, same=same)
    yield as_markdown(
        [
            {
                "engine": name, "start-up and shutdown, s": f"{done.seconds - done.inner:.1f}",
                "work, s": f"{done.inner:.1f}", "work over local": f"{done.inner / local.inner:.2f}",
            }
            for name, done in {"local": local, "ray": far}.items()
        ]
    )  # fmt: skip


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
    report = ["# Files of any size", HEAD.format(cores=len(os.sched_getaffinity(0)), scale=f"{CPUSMALL.rows:,}")]
    print(*report, sep="\n\n", flush=True)
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        bench = Bench(Path(folder), 0.1 if quick else 1.0, repeats)
        for name in names or PARTS:
            title, measure = PARTS[name]
            for text in (f"## {title}", *measure(bench)):
                print("\n" + text, flush=True)
                report.append(text)
    if not (names or quick):
        RESULTS.write_text("\n\n".join(report) + "\n", encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=[])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--scratch", type=Path, help="folder for files of 2 GB")
    options = parser.parse_args()
    main(options.only, options.quick, options.repeats, options.scratch)
