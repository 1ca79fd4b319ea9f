"""Ours: thousands of agents, each of whom scores a sample of the models only. How large does the sample have to be?"""

from collections.abc import Iterator
from dataclasses import dataclass
from time import process_time
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from degroot import Agent, Collective
from degroot.paper import drawing, experiment
from degroot.paper.data.datasets import OURS, Data
from degroot.paper.experiment import ExperimentTask, Finding, Row, Run, repeat_cases, run_here, select_rows
from degroot.paper.problems import logistic
from degroot.paper.protocol import Array, Rows
from degroot.paper.schemes import gain, mean_squared
from degroot.paper.statistics import plus_minus

TITLE = "Ours: many agents, each of whom scores a sample of the models"
ABOUT = (
    "Not in the paper. 16 to 4,096 agents (to 256 with fewer than five repetitions), each of whom scores its own model "
    "and, drawn at random, some of the "
    "others': the degree. By how many percent DeGroot's error is below that of the average of all models, against the "
    "degree, and beside it where everybody scores everybody, as in the paper, which is computed for up to 256 agents. "
    "Left, the air of Beijing: agents are equal slices of the hours of 12 stations, in the order of station and time, "
    "from years to days long, and predict PM2.5 with a ridge regression on at most 400 of their rows. Middle, the "
    "paper's synthetic problem, with agents evenly spaced between its first and last centre. Right, what a question "
    "costs on one core of the machine on which this was computed: all models, the search for neighbours, the weights, "
    "and the weights without each agent in turn."
)
RULE = "Not judged: the paper has no such experiment."
SYNTHETIC, BEIJING = "synthetic", "beijing_air"
THOROUGH = 5  # repetitions: with fewer, which are for a look, the largest collectives are left out
EVERYBODY = 0  # the degree at which all score all, in the table
USUAL = 32  # the degree at which costs are told
TITLES = {BEIJING: OURS[BEIJING].title, SYNTHETIC: "Synthetic problem"}
COSTS: dict[str, Any] = {
    "models": {"color": "0.6", "marker": "o"},
    "search": {"color": drawing.COLOURS["M-avg"], "marker": "s"},
    "weights": {"color": drawing.COLOURS["DeGroot"], "marker": "D"},
    "jackknife": {"color": drawing.COLOURS["CV-adaptive"], "marker": "^"},
}


@dataclass(frozen=True, kw_only=True)
class Settings(experiment.Settings):
    """Numbers of agents and degrees, and the two problems."""

    reps: int = THOROUGH
    numbers: tuple[int, ...] = (16, 64, 256, 1024, 4096)
    degrees: tuple[int, ...] = (4, 8, 16, 32, 64)
    most_dense: int = 256  # agents who all score each other
    most_at_a_glance: int = 256  # agents, with few repetitions
    points: int = 300
    timed: int = 2  # points whose costs are measured
    rows: int = 400  # of each agent in Beijing, at most
    penalty: float = 1.0
    neighbours: int = 10


def in_beijing(settings: Settings, random: np.random.Generator, data: Data, agents: int) -> Iterator[Row]:
    """Rows are in the order of station and hour: agents are slices, and test rows come from everywhere."""
    shuffled = random.permutation(len(data.y))
    test, training = shuffled[: settings.points], np.sort(shuffled[settings.points :])
    X = _filled(data.X, training)
    parts = [_some(part, settings.rows, random) for part in np.array_split(training, agents)]
    members = _slices(X, data.y, parts, settings.penalty)
    yield from measured(BEIJING, _shuffled(members, random), X[test], data.y[test], settings)


def on_a_line(settings: Settings, random: np.random.Generator, agents: int) -> Iterator[Row]:
    """The paper's synthetic problem, with more agents between the first and the last."""
    sample, along = logistic.Sample(), logistic.CENTRES @ logistic.DIRECTION
    centres = logistic.on_the_line(np.linspace(along[0], along[-1], agents))
    members = [_on_the_curve(centre, sample, f"agent {k}", random) for k, centre in enumerate(centres)]
    X = centres[random.integers(agents, size=settings.points)] + random.normal(size=(settings.points, 2))
    yield from measured(SYNTHETIC, _shuffled(members, random), X, logistic.curve(X), settings)


def measured(problem: str, agents: list[Agent], X: Array, y: Array, settings: Settings) -> Iterator[Row]:
    """For each degree the errors of DeGroot and of the average, the gain in percent, and the seconds of a question."""
    K = len(agents)
    average = mean_squared(np.mean([agent.predict(X) for agent in agents], axis=0), y)
    everybody = (EVERYBODY,) if settings.most_dense >= K else ()
    for degree in (*(each for each in settings.degrees if each < K), *everybody):
        collective = Collective(agents, settings.neighbours, degree=degree or None, n_jobs=1)
        error = mean_squared(collective.predict(X), y)
        yield {
            "problem": problem, "degree": degree, "mse": error, "average": average, "gain": gain(error, average),
            **_seconds(collective, X, settings.timed),
        }  # fmt: skip


def _seconds(collective: Collective, X: Array, timed: int) -> Row:
    """Seconds of one core for a question: what asking for more takes longer than asking for less, of the same points.

    Where that is less than the clock can tell, it may be negative.
    """
    models, trust, weights, everything = (
        _asked(collective, X[:timed], field) for field in ("beliefs", "trust", "weights", "standard_error")
    )
    return {
        "models": models, "search": trust - models, "weights": weights - trust, "jackknife": everything - weights,
    }  # fmt: skip


def _asked(collective: Collective, X: Array, field: str) -> float:
    """Seconds of one core for a question about one of the points, the least of three times."""
    collective.consult(X[:1], fields=[field])  # whatever is made once is made now
    taken = []
    for _ in range(3):
        start = process_time()
        collective.consult(X, fields=[field])
        taken.append(process_time() - start)
    return min(taken) / len(X)


def _filled(X: Array, training: Rows) -> Array:
    """Gaps take the median of the training rows; then every feature has mean 0 and standard deviation 1 there."""
    known = X[training]
    filled = np.where(np.isnan(X), np.nanmedian(known, axis=0), X)
    scaled: Array = (filled - filled[training].mean(axis=0)) / filled[training].std(axis=0)
    return scaled


def _some(part: Rows, most: int, random: np.random.Generator) -> Rows:
    return part if len(part) <= most else np.sort(random.choice(part, most, replace=False))


def _slices(X: Array, y: Array, parts: list[Rows], penalty: float) -> list[Agent]:
    from sklearn.linear_model import Ridge

    models = (Ridge(penalty).fit(X[part], y[part]) for part in parts)
    return [
        _agent(model, X[part], y[part], f"agent {k}") for k, (model, part) in enumerate(zip(models, parts, strict=True))
    ]


def _on_the_curve(centre: Array, sample: logistic.Sample, name: str, random: np.random.Generator) -> Agent:
    from sklearn.linear_model import LinearRegression

    X = random.normal(size=(sample.rows, 2)) + centre
    y = logistic.curve(X) + sample.noise * random.normal(size=sample.rows)
    return _agent(LinearRegression().fit(X, y), X, y, name)


def _shuffled(agents: list[Agent], random: np.random.Generator) -> list[Agent]:
    """In another order in each repetition, so that others score each other."""
    return [agents[k] for k in random.permutation(len(agents))]


def _agent(model: Any, X: Array, y: Array, name: str) -> Agent:
    """An agent whose linear model is a plain function: thousands of models are called thousands of times."""
    coefficients, intercept = model.coef_, model.intercept_
    return Agent(lambda X: X @ coefficients + intercept, X, y, name)


def tasks(settings: Settings = Settings()) -> list[ExperimentTask]:
    """Both problems with every number of agents; with few repetitions, not with the largest."""
    thorough = settings.reps >= THOROUGH
    numbers = [each for each in settings.numbers if thorough or each <= settings.most_at_a_glance]
    cases = [{"agents": number} for number in numbers]
    in_the_air = repeat_cases(in_beijing, settings, [{"data": BEIJING, **case} for case in cases])
    return [*in_the_air, *repeat_cases(on_a_line, settings, cases)]


def compute(settings: Settings = Settings(), run: Run = run_here) -> pd.DataFrame:
    """Problem, number of agents, repetition, and what is `measured`; degree 0 is where everybody scores everybody."""
    return run(tasks(settings))


def draw(table: pd.DataFrame, settings: Settings = Settings()) -> Figure:
    """Gain against the degree in both problems, and what a question costs."""
    figure, (beijing, synthetic, cost) = drawing.panels(3, height=3.4)
    for panel, problem in ((beijing, BEIJING), (synthetic, SYNTHETIC)):
        _draw_gains(panel, select_rows(table, problem=problem), settings)
        panel.set(title=TITLES[problem], xlabel="degree", ylabel="gain over the average (%)")
    _draw_cost(cost, select_rows(table, degree=_usual(table)), _usual(table))
    drawing.legend([synthetic if len(select_rows(table, problem=SYNTHETIC)) else beijing, cost], fontsize=7)
    return figure


def _draw_gains(axes: Axes, table: pd.DataFrame, settings: Settings) -> None:
    end = 2 * max(settings.degrees)
    for number, colour in zip(settings.numbers, drawing.AGENTS, strict=False):
        some = select_rows(table, agents=number)
        if not len(some):
            continue
        look: Any = {"color": colour, "marker": "o", "label": f"K = {number:,}"}
        drawing.band(axes, some[some["degree"] != EVERYBODY], "degree", "gain", **look)
        everybody = some[some["degree"] == EVERYBODY]["gain"]
        if len(everybody):
            axes.plot([end], [everybody.median()], color=colour, marker="s", mfc="none", ls="none")
    axes.set_xscale("log", base=2)
    axes.set_xticks([*settings.degrees, end], [*map(str, settings.degrees), "all"])


def _draw_cost(axes: Axes, table: pd.DataFrame, degree: int) -> None:
    for part, look in COSTS.items():
        seconds = table.groupby("agents")[part].median()
        axes.plot(seconds.index, 1e3 * seconds.clip(lower=1e-6), label=part, **look)
    axes.set(title=f"Cost at degree {degree}", xlabel="number of agents $K$", ylabel="ms a question, one core")
    axes.set_yscale("log")
    axes.set_xscale("log", base=2)
    numbers = sorted(set(table["agents"]))
    axes.set_xticks(numbers, [f"{number:,}" for number in numbers])


def findings(table: pd.DataFrame, settings: Settings = Settings()) -> list[Finding]:
    """For each problem and number of agents the gain by degree; then what a question costs with the most agents."""
    gains = [
        _by_degree(select_rows(table, problem=problem, agents=number), f"{TITLES[problem]}, {number:,} agents")
        for problem in TITLES
        for number in settings.numbers
    ]
    return [finding for finding in gains if finding is not None] + _costs(table)


def _by_degree(table: pd.DataFrame, what: str) -> Finding | None:
    if not len(table):
        return None
    found = {degree: plus_minus(part["gain"]) for degree, part in table.groupby("degree")}
    everybody = found.pop(EVERYBODY, None)
    ours = ", ".join(f"{degree}: {text}" for degree, text in found.items())
    against = f"; all: {everybody}" if everybody is not None else ""
    note = f"The average's error is {plus_minus(table.groupby('repetition')['average'].first())}."
    return Finding(f"{what}: gain in percent by degree", "", ours + against, RULE, None, note)


def _costs(table: pd.DataFrame) -> list[Finding]:
    """With the most agents, in each problem."""
    found = []
    for problem, title in TITLES.items():
        some = select_rows(table, problem=problem, degree=_usual(table))
        if len(some):
            largest = some[some["agents"] == some["agents"].max()]
            parts = ", ".join(f"{part} {1e3 * largest[part].median():.3g} ms" for part in COSTS)
            what = f"{title}, {largest['agents'].iloc[0]:,} agents: a question's cost at degree {_usual(table)}"
            found.append(Finding(what, "", parts, RULE, None))
    return found


def _usual(table: pd.DataFrame) -> int:
    """The degree at which costs are told: 32, or the largest below."""
    degrees = table["degree"][table["degree"] != EVERYBODY]
    return int(degrees[degrees <= max(USUAL, degrees.min())].max())
