"""An agent with millions of rows in a file, against the bare matrix product of the same size; writes LARGE.md.

`--rows` and `--quick` change the size; `--keep DIR` is where the file of rows is made (10 million x 90 take 3.6 GB).
"""

import argparse
import json
import platform
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from degroot import Agent, Collective
from degroot.compute.compiled import threads
from degroot.neighbourhoods import Neighbourhoods

RESULTS = Path(__file__).with_name("LARGE.md")
FEATURES, POINTS, K, SMALL = 90, 1000, 5, 2000
PIECE = 100_000  # rows made at once
BLOCK = 8192  # rows in one call of the bare product
KINDS = {
    "white noise": "nothing can be passed over",
    "50 heaps": "50 normal distributions of unit variance, centres with variance 9",
    "8 hidden features": "8 normal features through a random matrix, and noise with standard deviation 0.1",
}
HEAD = """Written by `python benchmarks/large.py`. {threads} threads for everybody, best of {turns}, taking turns;
Python {python}, numpy {numpy}. Ratios are what counts: the machine is shared and noisy.

{K} agents, one of which has {rows:,} rows x {features} features, float32, mapped read-only from a file of {size:.2f}
GB; the others have {small} rows each. `Collective.consult(X, ["value", "weights"])` on {points} points. *Product*: the
same points times all rows of the file in numpy, float32, {block} rows at a time, and no more. *Own memory*: the peak of
`RssAnon` in `/proc/self/status` over all that was done, the collective, its residuals and the interpreter included:
what is not the mapped file. *Made*: the collective, which scores {K} models on all rows and makes the index
(`collective.save` keeps both). *One point*: the time of a question with one point, by all fields."""


def rows_of(kind: str, count: int, seed: int) -> np.ndarray:
    """Some rows of that kind; points have a seed of their own, what they have in common does not depend on it."""
    fixed, random = np.random.default_rng(0), np.random.default_rng(seed)
    noise = random.standard_normal((count, FEATURES), dtype=np.float32)
    if kind == "50 heaps":
        centres = 3 * fixed.standard_normal((50, FEATURES), dtype=np.float32)
        return centres[random.integers(50, size=count)] + noise
    if kind == "8 hidden features":
        mix = fixed.standard_normal((8, FEATURES), dtype=np.float32)
        return random.standard_normal((count, 8), dtype=np.float32) @ mix + np.float32(0.1) * noise
    return noise


def write(kind: str, rows: int, path: Path) -> None:
    mapped = np.lib.format.open_memmap(path, "w+", np.float32, (rows, FEATURES))
    for start in range(0, rows, PIECE):
        stop = min(start + PIECE, rows)
        mapped[start:stop] = rows_of(kind, stop - start, 1 + start)


class Memory:
    """The most memory of its own that this process had since it was made, in MB."""

    def __init__(self) -> None:
        self.most, self._over = 0, False
        self._watcher = threading.Thread(target=self._watch, daemon=True)
        self._watcher.start()

    def _watch(self) -> None:
        while not self._over:
            text = Path("/proc/self/status").read_text()
            here = next((int(line.split()[1]) for line in text.splitlines() if line.startswith("RssAnon")), 0)
            self.most = max(self.most, here // 1024)
            time.sleep(0.005)

    def stop(self) -> int:
        self._over = True
        self._watcher.join()
        return self.most


def model(seed: int) -> Callable[[Any], np.ndarray]:
    slope = np.random.default_rng(seed).standard_normal(FEATURES).astype(np.float32)
    return lambda X: np.asarray(X @ slope, float)


def agents_of(kind: str, mapped: np.ndarray) -> list[Agent]:
    """One with the rows of the file, and some with few of the same kind; labels are what none of the models says."""
    found = []
    for k in range(K):
        X = mapped if k == 0 else rows_of(kind, SMALL, 1_000_000_007 + k).astype(np.float64)
        random = np.random.default_rng(100 + k)
        y = np.concatenate(
            [np.sin(X[start : start + PIECE, 0]).astype(float) for start in range(0, len(X), PIECE)]
        ) + random.standard_normal(len(X))
        found.append(Agent(model(k), X, y, f"agent {k}"))
    return found


def best(contestants: dict[str, Callable[[], object]], turns: int) -> dict[str, float]:
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(turns):
        for name, run in contestants.items():
            start = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - start)
    return {name: min(each) for name, each in times.items()}


def product(mapped: np.ndarray, points: np.ndarray) -> None:
    columns = np.ascontiguousarray(points.T)
    for start in range(0, len(mapped), BLOCK):
        mapped[start : start + BLOCK] @ columns


def measure(kind: str, path: str, neighbours: float, turns: int) -> dict[str, Any]:
    memory, mapped = Memory(), np.load(path, mmap_mode="r")
    agents, points = agents_of(kind, mapped), rows_of(kind, POINTS, 2_000_000_011)
    start = time.perf_counter()
    collective = Collective(agents, neighbours=neighbours)
    near = collective.neighbourhoods[0]
    made = time.perf_counter() - start
    collective.consult(points[:4], ["value", "weights"])  # kernels are compiled or read from the cache
    collective.consult(points, ["value", "weights"])
    found = {"made": made, "path": near.path, "size": near.size}
    own = memory.stop()
    contestants = {
        "ours": lambda: collective.consult(points, ["value", "weights"]),
        "product": lambda: product(mapped, points),
    }
    found |= best(contestants, turns) | {
        "memory": own,
        "one": best({"one": lambda: collective.consult(points[:1])}, 3)["one"],
    }
    return found


def in_process(*arguments: Any, way: str = "--measure") -> Any:
    """The same in a process of its own, whose memory nothing else has used."""
    command = [sys.executable, __file__, way, json.dumps(arguments)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def beside_faiss(kind: str, rows: int) -> list[dict[str, Any]]:
    """The same questions to faiss's inverted lists, which holds its own copy of the rows."""
    import faiss

    X, points = rows_of(kind, rows, 1), rows_of(kind, 200, 2_000_000_011)
    values, found = np.ones((rows, K)), []
    index = faiss.IndexIVFFlat(faiss.IndexFlatL2(FEATURES), FEATURES, 1024)
    index.train(X[:65536])
    index.add(X)
    for size in (rows // 100, 100):
        near = Neighbourhoods(X, size)
        nearest = [set(some) for some in numbers_by_product(X, points[:50], size)]
        seconds = best({"": lambda near=near: near.means(points, values)}, 3)[""]
        found.append({"who": "ours, exact", "size": size, "seconds": seconds, "recall": 1.0})
        for probes in (4, 16, 64, 256):
            index.nprobe = probes
            seconds = best({"": lambda size=size: index.search(points, size)}, 2)[""]
            rows_found = index.search(points[:50], size)[1]
            recall = np.mean([len(a & set(b)) / size for a, b in zip(nearest, rows_found.tolist(), strict=True)])
            found.append({"who": f"faiss, {probes} lists", "size": size, "seconds": seconds, "recall": float(recall)})
    return found


def numbers_by_product(X: np.ndarray, points: np.ndarray, size: int) -> list[list[int]]:
    scores = (X * X).sum(axis=1) - 2 * points @ X.T
    numbers: list[list[int]] = np.argpartition(scores, size, axis=1)[:, :size].tolist()
    return numbers


TABLE = """| rows | N | path | ours, s | product, s | ratio | one point, ms | made, s | own memory, MB |
|---|---|---|---|---|---|---|---|---|"""


def main(rows: int, turns: int, kinds: list[str], folder: Path) -> str:
    size = rows * FEATURES * 4 / 2**30
    head = HEAD.format(
        threads=threads(), turns=turns, python=platform.python_version(), numpy=np.__version__, rows=rows,
        features=FEATURES, size=size, points=POINTS, block=BLOCK, K=K, small=SMALL,
    )  # fmt: skip
    lines = [TABLE]
    for kind in kinds:
        path = folder / "rows.npy"
        write(kind, rows, path)
        for neighbours in (0.01, 100):
            found = in_process(kind, str(path), neighbours, turns)
            line = (
                f"| {kind} | {found['size']:,} | {found['path']} | {found['ours']:.2f} | {found['product']:.2f} | "
                f"{found['ours'] / found['product']:.2f} | {1000 * found['one']:.0f} | {found['made']:.1f} | "
                f"{found['memory']} |"
            )
            print(line, flush=True)
            lines.append(line)
        path.unlink()
    told = [f"- *{kind}*: {KINDS[kind]}" for kind in kinds]
    parts = [head, "\n".join(told), "\n".join(lines)]
    if find_spec("faiss"):
        parts.append(faiss_table(kinds, rows // 4))
    return "\n\n".join(["# Large private sets", *parts]) + "\n"


def faiss_table(kinds: list[str], rows: int) -> str:
    lines = [FAISS.format(rows=rows)]
    for kind in kinds:
        for found in in_process(kind, rows, way="--beside-faiss"):
            lines.append(
                f"| {kind} | {found['size']:,} | {found['who']} | {found['seconds']:.2f} | {found['recall']:.3f} |"
            )
            print(lines[-1], flush=True)
    return "\n".join(lines)


FAISS = """\
Why no library is asked: the same search by [faiss](https://faiss.ai)'s `IndexIVFFlat` with 1024 lists, {rows:,} rows,
200 points, seconds for all. It holds a copy of the rows in memory, which ours does not. Compare at the same recall: at
N = 100 it may be as fast as ours or faster, for neighbourhoods of 1 % it has to hold and sort thousands of rows.

| rows | N | who | seconds | recall |
|---|---|---|---|---|"""


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="200,000 rows, and nothing is written")
    parser.add_argument("--only", choices=list(KINDS), action="append", help="kinds of rows; nothing is written")
    parser.add_argument("--keep", type=Path, help="a folder for the file of rows")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    parser.add_argument("--beside-faiss", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.beside_faiss:
        print(json.dumps(beside_faiss(*json.loads(given.beside_faiss))))
    elif given.measure:
        print(json.dumps(measure(*json.loads(given.measure))))
    else:
        with tempfile.TemporaryDirectory(dir=given.keep) as scratch:
            text = main(200_000 if given.quick else given.rows, given.turns, given.only or list(KINDS), Path(scratch))
        if given.quick or given.only or given.rows != parser.get_default("rows"):
            print(text)
        else:
            RESULTS.write_text(text)
