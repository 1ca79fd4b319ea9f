"""What a member gains by asking: on data with natural owners, `make bench` prints and writes ASKER.md.

`--splits` for more or fewer splits; `--sets aside` for the sets that no choice was made on; `--quick`: two splits, only
printed.
"""

import argparse
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from bench import as_markdown
from joblib import Parallel, delayed, parallel_config
from liars import Remembered
from natural import (
    ALL,
    CLASSES,
    CLASSES_KEPT_ASIDE,
    CLASSIFIERS,
    KEPT_ASIDE,
    MODELS,
    STRONG,
    Natural,
    named,
)
from sklearn.base import clone
from sklearn.preprocessing import StandardScaler

from degroot import Agent, Collective, DeGrootClassifier, DeGrootRegressor
from degroot.asker.guard import CLIP
from degroot.estimators.self_scoring import CROSS, train_with_own_predictions
from degroot.intervals import rows_needed

RESULTS = Path(__file__).with_name("ASKER.md")
FEW = (10, 20, 50)  # rows that the asker has, its own model refitted on them
COVERAGE = 0.9
MANY_TEST_ROWS = 60  # of an organisation whose coverage is looked at by itself
CLEARLY = 2.0  # standard errors
FAR_LIE = 10.0  # standard deviations of the labels

Losses = dict[str, np.ndarray]  # by method, of the test rows of one organisation
Outcome = dict[str, object]


def fitted(data: Natural, model: object, train: np.ndarray, seed: int) -> DeGrootRegressor | DeGrootClassifier:
    """A model for each owner, with out-of-fold predictions in folds of whole units; all else is default."""
    X, y = data.X.to_numpy(), data.y
    make = DeGrootRegressor if data.y.dtype.kind == "f" else DeGrootClassifier
    estimator = make(model, random_state=seed, n_jobs=1)
    units = np.char.add(np.char.add(data.owners[train], "/"), data.units[train].astype(str))  # months have no owner
    return estimator.fit(X[train], y[train], groups=data.owners[train], units=units)


def remembering(agents: Sequence[Agent]) -> list[Agent]:
    """The same agents, with models that are asked once about each table."""
    return [_again(agent, model=Remembered(agent.model)) for agent in agents]


def as_trained(agents: Sequence[Agent]) -> Collective:
    """With the settings that `degroot train` writes."""
    scaled = [_again(agent, space=StandardScaler()) for agent in agents]
    return Collective(scaled, rule="stacking", n_jobs=1)


def _again(agent: Agent, **changed: object) -> Agent:
    kept = {"model": agent.model, "X": agent.X, "y": agent.y, "name": agent.name, "units": agent.units}
    return Agent(**(kept | {"own_predictions": agent.own_predictions} | changed))


def control(collective: Collective, name: str, X: np.ndarray, own: np.ndarray) -> np.ndarray:
    """The own model with a correction learned on its own rows, without any peer."""
    view = collective.view_of(name)
    if view.control is None:
        return own
    return own + view.control.at(view.scorer.transform(X), own.reshape(len(own), -1)).reshape(own.shape)


def measure(name: str, kind: str, number: int) -> list[Outcome]:
    """One split: for every owner the squared errors of its test rows, by method; intervals and guards."""
    data, model = named(name), (MODELS | STRONG)[kind]()
    train, test = data.split(np.random.default_rng([7, number]))
    X, y, owners = data.X.to_numpy(), data.y, data.owners
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # models of scikit-learn on few rows
        agents = remembering(fitted(data, model, train, number).agents_)
        default, neutral = Collective(agents, n_jobs=1), Collective(agents, rule="stacking", n_jobs=1)
        trained, pooled = as_trained(agents), clone(model).fit(X[train], y[train])
        found = []
        for place, owner in enumerate(default.names):
            rows = test[owners[test] == owner]
            if not len(rows):
                continue
            points, labels = X[rows], y[rows]
            answer = default.consult(points, ["value", "beliefs", "weights"], asker=owner, coverage=COVERAGE)
            own = answer.beliefs[:, place]
            values = {
                "own": own, "average": answer.beliefs.mean(axis=1), "degroot": default.predict(points),
                "stacking": neutral.predict(points), "pooled": pooled.predict(points), "view": answer.value,
                "trained": trained.predict(points, asker=owner),
                "corrected": default.predict(points, asker=owner, correct=True),
                "control": control(default, owner, points, own),
                "control, trained": control(trained, owner, points, own),
                "corrected, trained": trained.predict(points, asker=owner, correct=True),
            }  # fmt: skip
            losses = {label: (value - labels) ** 2 for label, value in values.items()}
            losses |= attacked(default, owner, points, labels, answer)
            found.append({
                "owner": owner, "losses": {label: float(each.mean()) for label, each in losses.items()},
                "rows": len(rows), "interval": interval(default, owner, answer, labels),
            })  # fmt: skip
        return found


def interval(collective: Collective, owner: str, answer: object, labels: np.ndarray) -> tuple[float, float, float]:
    """The share of outcomes held, the mean width, and the width of the own model's own conformal interval."""
    inside = (answer.lower <= labels) & (labels <= answer.upper)
    scores = np.sort(np.abs(collective.view_of(owner).own_errors[:, 0]))
    rank = int(np.ceil((len(scores) + 1) * COVERAGE))
    own = 2 * scores[rank - 1] if len(scores) >= rows_needed(COVERAGE) else np.nan
    return float(inside.mean()), float((answer.upper - answer.lower).mean()), float(own)


def attacked(collective: Collective, owner: str, X: np.ndarray, y: np.ndarray, answer: object) -> Losses:
    """Squared errors under the guard, where nobody lies and where others do, also as far as the guard lets pass."""
    view, place = collective.view_of(owner), collective.names.index(owner)
    beliefs, spread = answer.beliefs[..., None], float(np.concatenate([a.y for a in collective.agents]).std())
    others = np.arange(len(collective.names)) != place

    def loss(said: np.ndarray, guard: bool = True) -> np.ndarray:
        return (view.answer(X, said, ["value"], guard=guard)["value"][:, 0] - y) ** 2

    trusted = np.where(others, answer.weights.mean(axis=0), -1.0).argmax()
    one, everybody, knowing = beliefs.copy(), beliefs.copy(), beliefs.copy()
    one[:, trusted] += FAR_LIE * spread
    everybody[:, others] += FAR_LIE * spread
    knowing[:, others] = as_far_as_let(view, X, beliefs)[:, others]
    half = beliefs.copy()
    half[:, others] += 0.5 * spread
    return {
        "guard": loss(beliefs), "guard, one lies": loss(one), "guard, all lie": loss(everybody),
        "guard, all know it": loss(knowing), "guard, all off by 0.5": loss(half),
        "no guard, one lies": loss(one, False), "no guard, all lie": loss(everybody, False),
    }  # fmt: skip


def as_far_as_let(view: object, X: np.ndarray, beliefs: np.ndarray) -> np.ndarray:
    """What liars say who know the asker's rows and its guard: as much too high as passes."""
    own = beliefs[:, view.place]
    return own[:, None] + view.peers.at(view.scorer.transform(X), own) + CLIP * view.peers.spread


def measure_few(name: str, kind: str, number: int) -> list[Outcome]:
    """One split: each owner in turn has few rows and a model refitted on them; the others are as they are."""
    data, model = named(name), MODELS[kind]()
    train, test = data.split(np.random.default_rng([7, number]))
    X, y, owners = data.X.to_numpy(), data.y, data.owners
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        agents = fitted(data, model, train, number).collective_.agents
        for place, agent in enumerate(agents):
            rows = test[owners[test] == agent.name]
            for few in FEW:
                if agent.n_rows < few or not len(rows):
                    continue
                kept = np.random.default_rng([number, few]).permutation(agent.n_rows)[:few]
                made = train_with_own_predictions(
                    model, agent.X[kept], agent.y[kept], agent.name, None, CROSS, number, units=agent.units[kept]
                )
                poor = Agent(
                    made.model, agent.X[kept], agent.y[kept], agent.name, own_predictions=made.own,
                    units=agent.units[kept],
                )  # fmt: skip
                members = [poor if each is agent else each for each in agents]
                collective = Collective(members, rule="degroot", n_jobs=1)
                if poor.scored_by_peers:
                    continue
                own = np.asarray(made.model.predict(X[rows]))
                values = {
                    f"own, {few}": own, f"view, {few}": collective.predict(X[rows], asker=agent.name),
                    f"control, {few}": control(collective, agent.name, X[rows], own),
                }  # fmt: skip
                losses = {label: float(((value - y[rows]) ** 2).mean()) for label, value in values.items()}
                found.append({"owner": f"{agent.name} {place}", "losses": losses, "rows": len(rows)})
    return found


def measure_classes(name: str, kind: str, number: int) -> list[Outcome]:
    """One split: for every owner the Brier score of its test rows, by method."""
    data, model = named(name), CLASSIFIERS[kind]()
    train, test = data.split(np.random.default_rng([7, number]))
    X, y, owners = data.X.to_numpy(), data.y, data.owners
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        estimator = fitted(data, model, train, number)
        default, neutral = estimator.collective_, Collective(estimator.agents_, rule="stacking", n_jobs=1)
        for place, owner in enumerate(default.names):
            rows = test[owners[test] == owner]
            if not len(rows):
                continue
            hot = (y[rows][:, None] == estimator.classes_).astype(float)
            answer = default.consult(X[rows], ["value", "beliefs"], asker=owner)
            values = {
                "own": answer.beliefs[:, place], "average": answer.beliefs.mean(axis=1), "view": answer.value,
                "degroot": default.predict(X[rows]), "stacking": neutral.predict(X[rows]),
            }  # fmt: skip
            losses = {label: float(((value - hot) ** 2).sum(axis=1).mean()) for label, value in values.items()}
            found.append({"owner": owner, "losses": losses, "rows": len(rows)})
    return found


class Study:
    """Outcomes of all splits, by data set and kind of model."""

    def __init__(self, found: dict[tuple[str, str], list[list[Outcome]]]) -> None:
        self.found = found

    def means(self, pair: tuple[str, str], label: str) -> np.ndarray:
        """The mean loss over all test rows, of each split."""
        return np.array([
            sum(each["losses"][label] * each["rows"] for each in split if label in each["losses"])
            / sum(each["rows"] for each in split if label in each["losses"])
            for split in self.found[pair] if any(label in each["losses"] for each in split)
        ])  # fmt: skip

    def ratio(self, pair: tuple[str, str], label: str, to: str) -> float:
        return float(self.means(pair, label).mean() / self.means(pair, to).mean())

    def all(self, label: str, to: str) -> float:
        """The geometric mean of the ratios over pairs."""
        return float(np.exp(np.mean([np.log(self.ratio(pair, label, to)) for pair in self.found])))

    def worst(self, label: str, to: str) -> float:
        return max(self.ratio(pair, label, to) for pair in self.found)

    def better(self, label: str, to: str) -> int:
        return sum(self.ratio(pair, label, to) < 1.0 for pair in self.found)

    def clearly_worse(self, label: str, to: str, by: float = 0.01) -> int:
        """Pairs more than `by` worse, beyond two standard errors over splits."""
        count = 0
        for pair in self.found:
            gaps = self.means(pair, label) - (1.0 + by) * self.means(pair, to)
            error = gaps.std(ddof=1) / np.sqrt(len(gaps)) if len(gaps) > 1 else np.inf
            count += gaps.mean() > CLEARLY * error
        return count

    def organisations(self, label: str, to: str, by: float = 0.01) -> tuple[int, int]:
        """How many organisations are more than `by` worse on average over splits, of how many."""
        worse = total = 0
        for pair in self.found:
            sums: dict[str, list[float]] = {}
            for split in self.found[pair]:
                for each in split:
                    sums.setdefault(each["owner"], []).append((each["losses"][label], each["losses"][to]))
            for both in sums.values():
                mean = np.mean(both, axis=0)
                worse, total = worse + (mean[0] > (1.0 + by) * mean[1]), total + 1
        return worse, total

    def table(self, labels: Sequence[str], to: str) -> str:
        rows = []
        for pair in self.found:
            cells = {label: percent(self.ratio(pair, label, to)) for label in labels}
            rows.append({"owners, model": f"{pair[0]}, {pair[1]}"} | cells)
        rows.append({"owners, model": "**all**"} | {each: f"**{percent(self.all(each, to))}**" for each in labels})
        rows.append({"owners, model": "better in"} | {e: f"{self.better(e, to)} of {len(self.found)}" for e in labels})
        rows.append({"owners, model": "worst"} | {each: percent(self.worst(each, to)) for each in labels})
        return as_markdown(rows)


def percent(ratio: float) -> str:
    return f"{100 * (ratio - 1):+.1f}"


def intervals_of(study: Study) -> str:
    """Coverage and width, in one line."""
    held, widths, by_owner = [], [], {}
    for pair, splits in study.found.items():
        for split in splits:
            for each in split:
                covered, width, own = each["interval"]
                held.append((covered, each["rows"]))
                if np.isfinite(own) and own > 0.0:
                    widths.append((width, own, pair))
                by_owner.setdefault((pair, each["owner"]), []).append((covered, each["rows"]))
    coverage = np.average([c for c, _ in held], weights=[n for _, n in held])
    many = []
    for values in by_owner.values():
        rows = sum(n for _, n in values)
        if rows >= MANY_TEST_ROWS:
            many.append(sum(c * n for c, n in values) / rows)
    ratios = [
        np.log(np.mean([w for w, _, p in widths if p == pair]) / np.mean([o for _, o, p in widths if p == pair]))
        for pair in study.found
    ]
    return (
        f"90 % intervals: mean coverage {coverage:.3f}; 5th percentile over {len(many)} organisations with at least "
        f"{MANY_TEST_ROWS} test rows {np.quantile(many, 0.05):.3f}; mean width over that of the own model's conformal "
        f"interval {np.exp(np.mean(ratios)):.3f}."
    )


def gather(measure_one: Callable[..., list[Outcome]], pairs: list[tuple[str, str]], splits: int, jobs: int) -> Study:
    work = [(name, kind, number) for name, kind in pairs for number in range(splits)]
    found: dict[tuple[str, str], list[list[Outcome]]] = {pair: [] for pair in pairs}
    with parallel_config("loky", n_jobs=jobs, inner_max_num_threads=1):
        outcomes = Parallel(return_as="generator")(delayed(measure_one)(*each) for each in work)
        for (name, kind, number), outcome in zip(work, outcomes, strict=True):
            found[name, kind].append(outcome)
            if number == splits - 1:
                print(f"{time.strftime('%X')} {name} {kind}", file=sys.stderr, flush=True)
    return Study(found)


def pairs_of(sets: Sequence[Callable[[], Natural]], kinds: Sequence[str]) -> list[tuple[str, str]]:
    return [(make.__name__, kind) for make in sets for kind in kinds]


COMPARED = ["average", "degroot", "stacking", "pooled", "control", "view", "trained", "corrected", "corrected, trained"]


def report(which: str, splits: int, jobs: int, parts: Sequence[str]) -> str:
    sets, classes, text = ALL, CLASSES, []
    if which == "aside":  # to confirm: fewer splits, and what choices were made on
        sets, classes, splits = KEPT_ASIDE, CLASSES_KEPT_ASIDE, max(1, splits // 2)
        parts = [part for part in parts if part in ("weak", "classes")]
    if "weak" in parts:
        weak = gather(measure, pairs_of(sets, list(MODELS)), splits, jobs)
        worse, total = weak.organisations("view", "own")
        text += [
            "### Ridge and trees, against the own model", weak.table(COMPARED, "own"),
            f"Of the asker's view: {percent(weak.all('view', 'average'))} % against the average; "
            f"{weak.clearly_worse('view', 'own')} pairs more than 1 % worse than the own model beyond two standard "
            f"errors; {worse} of {total} organisations ({worse / total:.1%}) more than 1 % worse than alone. Against "
            f"the control: {percent(weak.all('view', 'control'))} % without the correction, "
            f"{percent(weak.all('corrected', 'control'))} % with it.",
            intervals_of(weak),
            "### The guard, against the own model",
            weak.table([
                "view", "guard", "no guard, one lies", "guard, one lies", "no guard, all lie", "guard, all lie",
                "guard, all off by 0.5", "guard, all know it",
            ], "own"),
            f"Where nobody lies the guard costs {percent(weak.all('guard', 'view'))} %.",
        ]  # fmt: skip
    if "strong" in parts:
        strong = gather(measure, pairs_of(sets, list(STRONG)), max(1, splits // 2), jobs)
        worse, total = strong.organisations("view", "own")
        text += [
            "### Strong own models, against the own model", strong.table(COMPARED, "own"),
            f"{worse} of {total} organisations ({worse / total:.1%}) more than 1 % worse than alone.",
            intervals_of(strong),
        ]  # fmt: skip
    if "few" in parts:
        few = gather(measure_few, pairs_of(sets, list(MODELS)), max(1, splits // 2), jobs)
        rows = []
        for count in FEW:
            rows.append({
                "own rows": str(count), "view, against own": percent(few.all(f"view, {count}", f"own, {count}")),
                "control, against own": percent(few.all(f"control, {count}", f"own, {count}")),
                "view, against control": percent(few.all(f"view, {count}", f"control, {count}")),
                "better than own in": f"{few.better(f'view, {count}', f'own, {count}')} of {len(few.found)}",
            })  # fmt: skip
        text += ["### Few own rows, the own model refitted on them", as_markdown(rows)]
    if "classes" in parts:
        study = gather(measure_classes, pairs_of(classes, list(CLASSIFIERS)), splits, jobs)
        text += [
            "### Classes: Brier score against the own model",
            study.table(["average", "degroot", "stacking", "view"], "own"),
            f"The asker's view against the average: {percent(study.all('view', 'average'))} %.",
        ]
    return "\n\n".join(text)


def main(splits: int, jobs: int, which: Sequence[str], parts: Sequence[str], quick: bool) -> None:
    begun, splits = time.monotonic(), 2 if quick else splits
    titles = {"all": "## The ten sets on which choices were made", "aside": "## Sets kept aside"}
    text = ["# What a member gains by asking", HEAD.format(splits=splits, half=max(1, splits // 2))]
    for each in which:
        text += [titles[each], report(each, splits, jobs, parts)]
    text.append(f"All of this took {(time.monotonic() - begun) / 60:.1f} minutes with {jobs} processes.")
    print("\n\n".join(text))
    if not quick:
        RESULTS.write_text("\n\n".join(text) + "\n", encoding="utf-8")


HEAD = """\
{splits} splits of each set of `benchmarks/natural.py` ({half} where models are strong or rows few, and of sets kept
aside), a quarter of the units held out; the owner of a test row asks. Changes of the mean squared error in percent, of
means over splits; "all" is the geometric mean over pairs of set and model. `own`: the owner's model; `control`: with a
correction learned on its own rows, without peers; `pooled`: one model on everybody's rows, not told whose they are;
`view`: the asker's view with the defaults of `Collective` and the estimators, `trained` with those of `degroot train`;
`corrected`: with the learned correction. Candidates, mixture and correction were chosen on the ten sets alone; the
bounds of the guard with a look at both."""


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--sets", nargs="+", default=["all", "aside"], choices=["all", "aside"])
    parser.add_argument("--parts", nargs="+", default=["weak", "strong", "few", "classes"])
    parser.add_argument("--quick", action="store_true", help="two splits, only printed")
    options = parser.parse_args()
    main(options.splits, options.jobs, options.sets, options.parts, options.quick)
