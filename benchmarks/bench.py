"""Speed and memory, as ratios measured side by side in one run; `make bench` prints and writes RESULTS.md."""

import argparse
import platform
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from recipes import Floor, Literal, Vectorised
from sklearn.linear_model import Ridge

from degroot import Agent, Collective
from degroot.compute.compiled import threads
from degroot.consensus.dense import pool

RESULTS = Path(__file__).with_name("RESULTS.md")


@dataclass(frozen=True)
class Scale:
    K: int
    rows: int
    features: int
    neighbours: int
    M: int

    def __str__(self) -> str:
        return f"({self.K}, {self.rows}, {self.features}, {self.neighbours}, {self.M})"


SCALES = [
    Scale(5, 700, 8, 7, 10000),
    Scale(5, 1300, 12, 13, 10000),
    Scale(128, 30, 8, 2, 10000),
    Scale(12, 34000, 15, 340, 5000),
    Scale(5, 80000, 90, 800, 2000),
]


def make_collective(scale: Scale, seed: int = 0) -> tuple[Collective, np.ndarray]:
    """Agents with ridge models on white noise, the hardest rows for any search tree, and points to predict."""
    random = np.random.default_rng(seed)
    slope = random.normal(size=scale.features)
    agents = []
    for k in range(scale.K):
        X = random.normal(size=(scale.rows, scale.features))
        y = (
            X @ (slope + 0.3 * random.normal(size=scale.features))
            + np.sin(3 * X[:, 0])
            + random.normal(size=scale.rows)
        )
        agents.append(Agent(Ridge(1e-3).fit(X, y), X, y, f"agent {k}"))
    return Collective(agents, scale.neighbours), random.normal(size=(scale.M, scale.features))


def best_times(contestants: dict, repeats: int) -> dict[str, float]:
    """The best time of each, taking turns, so that a noisy moment hits all alike."""
    best = dict.fromkeys(contestants, float("inf"))
    for _ in range(repeats):
        for name, work in contestants.items():
            begun = time.perf_counter()
            work()
            best[name] = min(best[name], time.perf_counter() - begun)
    return best


def fastest(contestants: dict) -> str:
    times = best_times(contestants, 2)
    return min(times, key=times.get)


def compare(scale: Scale, repeats: int, one_by_one: bool = False) -> dict[str, str]:
    collective, X = make_collective(scale)
    vectorised = Vectorised(collective, scale.neighbours, X[:200], fastest)
    literal, few = Literal(collective, scale.neighbours), X[: max(2, min(20, 4000 // scale.K**2))]
    floors = {block: Floor(collective, block) for block in (64, 256, 1024)}

    answer, expected = collective.predict(X), vectorised.predict(X)
    difference = np.abs(answer - expected).max() / np.abs(expected).max()
    assert difference < 1e-9, f"the recipe answers differently, by {difference:.1e}"
    trust = collective.consult(few, fields=["trust", "beliefs"])
    pooled = pool(trust.trust, trust.beliefs, rounds=literal.rounds).value
    assert np.allclose(literal.predict(few), pooled, rtol=1e-9), "the literal recipe answers differently"

    asked = [X[i : i + 1] for i in range(200)] if one_by_one else [X]
    contestants = {"ours": collective, "vectorised": vectorised} | {f"floor {block}": floors[block] for block in floors}
    work = {name: lambda c=c: [c.predict(x) for x in asked] for name, c in contestants.items()}
    count = dict.fromkeys(work, sum(map(len, asked)))
    times = best_times(work, repeats) | best_times({"literal": lambda: literal.predict(few)}, 2)
    times["floor"] = min(times[f"floor {block}"] for block in floors)  # the best block, by the same best of several
    count["floor"] = count["ours"]
    each = {name: 1e6 * seconds / (count | {"literal": len(few)})[name] for name, seconds in times.items()}
    return {
        "scale (K, rows, features, N, M)": str(scale) + (", one at a time" if one_by_one else ""),
        "search": collective.neighbourhoods[0].path,
        "ours, us a point": f"{each['ours']:.2f}",
        "vectorised recipe": f"{each['vectorised']:.1f} ({vectorised.algorithm})",
        "literal recipe": f"{each['literal']:.0f}",
        "floor": f"{each['floor']:.2f}",
        "ours is faster than vectorised by": f"{each['vectorised'] / each['ours']:.1f}x",
        "than literal by": f"{each['literal'] / each['ours']:.0f}x",
        "ours over floor": f"{each['ours'] / each['floor']:.2f}",
        "largest difference": f"{difference:.0e}",
    }


def standard_errors(scale: Scale, repeats: int) -> dict[str, str]:
    collective, X = make_collective(scale)
    times = best_times(
        {
            "predict": lambda: collective.predict(X),
            "with": lambda: collective.consult(X, fields=["value", "standard_error"]),
        },
        repeats,
    )
    return {
        "scale (K, rows, features, N, M)": str(scale),
        "predict, us a point": f"{1e6 * times['predict'] / scale.M:.2f}",
        "with standard errors": f"{1e6 * times['with'] / scale.M:.2f}",
        "ratio": f"{times['with'] / times['predict']:.2f}",
    }


def stacking_cost(scale: Scale, repeats: int) -> dict[str, str]:
    made, X = make_collective(scale)
    rules = {rule: Collective(made.agents, rule=rule) for rule in ("degroot", "stacking")}
    times = best_times({rule: lambda c=collective: c.predict(X) for rule, collective in rules.items()}, repeats)
    cells = {"scale (K, rows, features, M)": f"({scale.K}, {scale.rows}, {scale.features}, {scale.M})"}
    for rule, collective in rules.items():
        size = collective.neighbourhoods[0].size
        cells[f"{rule}, us a point"] = f"{1e6 * times[rule] / scale.M:.2f} ({size} neighbours)"
    return cells | {"ratio": f"{times['stacking'] / times['degroot']:.2f}"}


def asker_cost(scale: Scale, repeats: int) -> dict[str, str]:
    """The view of one asker with the default rule, beside neutral stacking; and preparing the view, once."""
    made, X = make_collective(scale)
    asked, stacked = Collective(made.agents), Collective(made.agents, rule="stacking")
    begun = time.perf_counter()
    view = asked.view_of(asked.names[0])
    prepared = time.perf_counter() - begun
    times = best_times(
        {"asker": lambda: asked.predict(X, asker=asked.names[0]), "stacking": lambda: stacked.predict(X)}, repeats
    )
    return {
        "scale (K, rows, features, M)": f"({scale.K}, {scale.rows}, {scale.features}, {scale.M})",
        "asker, us a point": f"{1e6 * times['asker'] / scale.M:.2f}",
        "stacking, us a point": f"{1e6 * times['stacking'] / scale.M:.2f}",
        "ratio": f"{times['asker'] / times['stacking']:.2f}",
        "preparing the view, s": f"{prepared:.2f} ({len(view.sample)} rows left out)",
    }


def growth(scales: list[Scale], repeats: int) -> list[dict[str, str]]:
    seconds = []
    for scale in scales:
        collective, X = make_collective(scale)
        seconds.append(best_times({"ours": lambda c=collective, X=X: c.predict(X)}, repeats)["ours"])
    return [
        {
            "scale (K, rows, features, N, M)": str(scale),
            "seconds": f"{second:.3f}",
            "over the first": f"{second / seconds[0]:.1f}x",
        }
        for scale, second in zip(scales, seconds, strict=True)
    ]


def peak_memory(M: int) -> str:
    """MB above inputs and outputs while predicting, measured in a process of its own."""
    answer = subprocess.run([sys.executable, __file__, "--memory", str(M)], capture_output=True, text=True, check=True)
    return answer.stdout.strip()


def measure_memory(M: int) -> None:
    collective, X = make_collective(Scale(5, 700, 8, 7, M))
    collective.predict(X[:2000])
    before = resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
    output = collective.predict(X).nbytes
    print(f"{(resident('VmHWM') - before - output) / 1e6:.0f}")


def resident(which: str) -> int:
    """Bytes of this process in memory: now (VmRSS) or at the peak (VmHWM)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(which))


def as_markdown(rows: list[dict[str, str]]) -> str:
    lines = ["| " + " | ".join(rows[0]) + " |", "|" + "---|" * len(rows[0])]
    return "\n".join(lines + ["| " + " | ".join(row.values()) + " |" for row in rows])


def main(repeats: int) -> None:
    report: list[str] = []

    def say(text: str) -> None:
        print(text + "\n", flush=True)
        report.append(text)

    say("# Benchmarks")
    say(
        f"Written by `make bench`. {threads()} threads for everybody, best of {repeats}, taking turns; Python "
        f"{platform.python_version()}, numpy {np.__version__}. Ratios are what counts: the machine is shared and noisy."
    )
    say("## Against what one could write instead")
    rows = [compare(scale, repeats) for scale in SCALES] + [compare(SCALES[0], repeats, one_by_one=True)]
    say(as_markdown(rows))
    say(
        "*Vectorised recipe*: cached residuals, `NearestNeighbors.kneighbors` with its fastest algorithm, fancy-index "
        "mean, batched `np.linalg.solve`. *Literal recipe*: per point neighbours, model calls on them, 30 power "
        "iterations (timed on fewer points). *Floor*: one bare float32 matrix product giving the distances, and no "
        "more. The largest difference is between our answers and the vectorised recipe's, relative to the largest "
        "answer; the literal recipe's equal ours after 30 rounds of pooling to 1e-9."
    )
    say("## Standard errors")
    scales = [Scale(5, 700, 8, 7, 10000), Scale(32, 700, 8, 7, 4000), Scale(128, 30, 8, 2, 4000)]
    say(as_markdown([standard_errors(scale, repeats) for scale in scales]))
    say("## Stacking against DeGroot, each with its defaults")
    scales = [scale for scale in SCALES if scale.K <= 32] + [Scale(32, 700, 8, 7, 4000)]
    say(as_markdown([stacking_cost(scale, repeats) for scale in scales]))
    say("## An asker's view, over stacking")
    scales = [scale if scale.K <= 32 else replace(scale, M=1000) for scale in SCALES]
    say(as_markdown([asker_cost(scale, repeats) for scale in scales]))
    say("## Growth")
    say(as_markdown(growth([Scale(5, 700, 8, 7, M) for M in (1000, 10000, 100000, 1000000)], 3)))
    say(as_markdown(growth([Scale(5, n, 8, max(2, n // 100), 2000) for n in (1000, 10000, 100000)], 3)))
    say(as_markdown(growth([Scale(K, 700, 8, 7, 2000) for K in (2, 8, 32, 128)], 3)))
    say("## Memory")
    peak = peak_memory(1000000)
    say(f"Predicting 1,000,000 points at (5, 700, 8, 7): {peak} MB above inputs and outputs at the peak.")
    RESULTS.write_text("\n\n".join(report) + "\n", encoding="utf-8")
    print(f"Written to {RESULTS.relative_to(Path.cwd()) if RESULTS.is_relative_to(Path.cwd()) else RESULTS}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--memory", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    measure_memory(options.memory) if options.memory else main(options.repeats)
