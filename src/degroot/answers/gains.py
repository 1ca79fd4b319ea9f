"""Gains: what each organisation gains by asking the collective, and who contributes to whom."""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from degroot.answers.display import Digits, View, Viewed, counted, one_line, some
from degroot.answers.display.words import label, quoted
from degroot.answers.frame import make_frame
from degroot.compute.compiled import Array
from degroot.exceptions import InvalidInput

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LEVEL = 0.05  # of Holm-corrected p-values, below which a difference is beyond chance
SMALLEST_SHARE = 0.1  # of the error on all rows: smaller errors are told with fewer digits
SHOWN = 20  # organisations in the table
NAMED = 20  # organisations in a sentence
GAINS, CONTRIBUTIONS = TABLES = ("gains", "contributions")
SCORED = ("own", "control", "collective", "neutral", "pooled")  # whose answers have scores of classes
SCORES = {"error_rate": "error rate", "log_loss": "log loss", "brier": "Brier score", "auc": "AUC"}


@dataclass(frozen=True, slots=True)
class ClassScores:
    """The usual scores of classifiers, (K + 1,): on each of K organisations' rows, and last on all rows together.

    NaN where a score is not defined: there is no AUC of rows that are all of one class.
    """

    error_rate: Array  # the share of rows whose most likely class is wrong
    log_loss: Array
    brier: Array  # mean squared error of the probabilities, summed over the classes
    auc: Array  # area under the ROC curve: of the second of two classes; of more, the mean of each against the rest


@dataclass(frozen=True, slots=True, repr=False)
class Gains(Viewed):
    """What each of K organisations gains, on rows of its own that nothing was learned from.

    Errors are mean squared errors a row, summed over outputs; for classes that is the Brier score. Differences are
    paired row by row, their standard errors clustered by unit, and p-values, of Student's t with one degree of freedom
    fewer than there are units, corrected by Holm for the number of organisations. An organisation that cannot be
    measured has NaN, and a reason.

    Examples
    --------
    >>> from degroot import Agent, Collective
    >>> rows = np.linspace(0.0, 1.0, 60)[:, None]
    >>> agents = [Agent(lambda X, k=k: k * X[:, 0], rows, 1.5 * rows[:, 0], f"times {k}") for k in (1, 2)]
    >>> gains = Collective(agents).gains()
    >>> gains.sentence
    '2 of 2 organisations gain, 0 lose beyond chance (Holm-corrected); 2 gain beyond chance'
    >>> gains.change.round(1)  # in percent of the own model's error
    array([-100., -100.])
    """

    names: tuple[str, ...]
    models: tuple[str, ...]  # of what kind each organisation's model is
    rows: NDArray[np.intp]  # (K,) on which it was measured
    units: NDArray[np.intp]  # (K,) that these rows are of
    own: Array  # (K,) error of its own model
    control: Array  # (K,) of its own model with a correction learned on its own rows, without any peer
    collective: Array  # (K,) of the collective's answer for it
    average: Array  # (K,) of the plain average of all models
    difference: Array  # (K,) collective minus own: negative is a gain
    standard_error: Array  # (K,)
    p_value: Array  # (K,) Holm-corrected
    against_control: Array  # (K,) collective minus control: what peers add to what a better own model would bring
    against_control_error: Array  # (K,) its standard error
    against_control_p_value: Array  # (K,) Holm-corrected
    reasons: tuple[str, ...]  # why an organisation could not be measured; empty where it was
    classes: tuple[str, ...] = ()
    correct: bool = False  # whether the collective's answers were corrected
    held_out: bool = False  # whether the rows were held out of all training, rather than left out in folds
    neutral: Array | None = None  # (K,) error of the neutral consensus, the same answer for everybody
    pooled: Array | None = None  # (K,) of one model on the pooled rows of all organisations
    against_pooled: Array | None = None  # (K,) collective minus pooled
    against_pooled_error: Array | None = None  # (K,) its standard error
    # (K, K) row: asker; column: whose Shapley value in its gain; diagonal: what its own rows bring without peers
    contributions: Array | None = None
    contributions_error: Array | None = None  # (K, K) their standard errors
    # for classes, on rows that were held out: of "own", "control", "collective", "neutral" and "pooled"
    scores: dict[str, ClassScores] | None = None

    @property
    def measure(self) -> str:
        """What errors are."""
        return "Brier score" if self.classes else "mean squared error"

    @property
    def measured(self) -> NDArray[np.bool_]:
        """Which organisations could be measured, (K,)."""
        return np.isfinite(self.difference)

    @property
    def change(self) -> Array:
        """The difference in percent of the own model's error, (K,)."""
        return _percent(self.difference, self.own)

    @property
    def change_error(self) -> Array:
        """Its standard error, (K,)."""
        return _percent(self.standard_error, self.own)

    @property
    def control_change(self) -> Array:
        """The control minus own, in percent of the own model's error, (K,)."""
        return _percent(self.control - self.own, self.own)

    @property
    def gains(self) -> int:
        """How many organisations have a lower error than alone."""
        return int((self.difference < 0.0).sum())

    @property
    def lose(self) -> int:
        """How many have a higher error than alone."""
        return int((self.difference > 0.0).sum())

    @property
    def gain_beyond_chance(self) -> int:
        """How many gain beyond chance: with a corrected p-value below 0.05."""
        return int(((self.difference < 0.0) & self._clear).sum())

    @property
    def lose_beyond_chance(self) -> int:
        """How many lose beyond chance."""
        return int(((self.difference > 0.0) & self._clear).sum())

    @property
    def without_gain(self) -> tuple[str, ...]:
        """Who does not gain, the worst first."""
        return self._name_by_change(np.flatnonzero(self.difference >= 0.0))

    @property
    def losing(self) -> tuple[str, ...]:
        """Who loses beyond chance, the worst first."""
        return self._name_by_change(np.flatnonzero((self.difference > 0.0) & self._clear))

    @property
    def held_back(self) -> tuple[str, ...]:
        """Whose own model is what holds them back.

        A correction without any peer beats the own model, and the collective beyond chance.
        """
        clear = (self.against_control_p_value < LEVEL) & (self.control < self.own)
        return self._name_by_change(np.flatnonzero((self.against_control > 0.0) & clear))

    @property
    def sentence(self) -> str:
        """How many gain and lose, in a sentence."""
        count = int(self.measured.sum())
        told = f"{self.gains} of {count} organisations gain, {self.lose_beyond_chance} lose beyond chance"
        left = len(self.names) - count
        told += f" (Holm-corrected); {self.gain_beyond_chance} gain beyond chance"
        return told + (f"; {left} could not be measured" if left else "")

    def total(self, field: str) -> float:
        """A field over the rows of all organisations: the mean, each organisation counted by its rows.

        Examples
        --------
        >>> from degroot import Agent, Collective
        >>> rows = np.linspace(0.0, 1.0, 60)[:, None]
        >>> agents = [Agent(lambda X, k=k: k * X[:, 0], rows, 1.5 * rows[:, 0], f"times {k}") for k in (1, 2)]
        >>> round(Collective(agents).gains().total("own"), 3)
        0.084
        """
        values, known = np.asarray(getattr(self, field)), self.measured
        return float(np.average(values[known], weights=self.rows[known])) if known.any() else np.nan

    def total_error(self, field: str) -> float:
        """The standard error of the total of a field of differences, from its field of standard errors.

        Examples
        --------
        >>> from degroot import Agent, Collective
        >>> rows = np.linspace(0.0, 1.0, 60)[:, None]
        >>> agents = [Agent(lambda X, k=k: k * X[:, 0], rows, 1.5 * rows[:, 0], f"times {k}") for k in (1, 2)]
        >>> round(Collective(agents).gains().total_error("standard_error"), 3)
        0.007
        """
        values, known = np.asarray(getattr(self, field)), self.measured
        total = self.rows[known].sum()
        return float(np.linalg.norm(values[known] * self.rows[known]) / total) if known.any() else np.nan

    def to_frame(self, library: str = "pandas", table: str = GAINS) -> Any:
        """All organisations as a data frame, a row for each; or all contributions, a row for each pair.

        Parameters
        ----------
        library : ``"pandas"`` or ``"polars"``
        table : ``"gains"`` or ``"contributions"``

        Examples
        --------
        >>> from degroot import Agent, Collective
        >>> rows = np.linspace(0.0, 1.0, 60)[:, None]
        >>> agents = [Agent(lambda X, k=k: k * X[:, 0], rows, 1.5 * rows[:, 0], f"times {k}") for k in (1, 2)]
        >>> Collective(agents).gains().to_frame()[["organisation", "own_mse", "outcome"]].round(3)
          organisation  own_mse              outcome
        0      times 1    0.084  gains beyond chance
        1      times 2    0.084  gains beyond chance
        """
        return make_frame(self._columns(table), library)

    def to_csv(self, path: str | Path, table: str = GAINS) -> None:
        """Write the same as a CSV file; what is not known stays empty.

        Examples
        --------
        >>> import tempfile
        >>> from degroot import Agent, Collective
        >>> rows = np.linspace(0.0, 1.0, 60)[:, None]
        >>> agents = [Agent(lambda X, k=k: k * X[:, 0], rows, 1.5 * rows[:, 0], f"times {k}") for k in (1, 2)]
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     Collective(agents).gains().to_csv(f"{folder}/gains.csv")
        ...     Path(f"{folder}/gains.csv").read_text()[:30]
        'organisation,model,rows,units,'
        """
        columns = self._columns(table)
        try:
            with Path(path).open("w", encoding="utf-8", newline="") as file:
                writer = csv.writer(file, lineterminator="\n")
                writer.writerow(columns)
                writer.writerows(map(_blank_unknown, zip(*columns.values(), strict=True)))
        except OSError as error:
            raise InvalidInput(f"`path` must be a file that can be written; {path}: {error.strerror}.") from error

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """The change of every organisation's error, and what the control brings: `degroot.plot.gains`.

        Examples
        --------
        >>> from degroot import Agent, Collective
        >>> rows = np.linspace(0.0, 1.0, 60)[:, None]
        >>> agents = [Agent(lambda X, k=k: k * X[:, 0], rows, 1.5 * rows[:, 0], f"times {k}") for k in (1, 2)]
        >>> Collective(agents).gains().plot().get_title()
        '2 of 2 organisations gain, 0 lose beyond chance'
        """
        from degroot.plot.gains import gains

        return gains(self, ax=ax)

    def __repr__(self) -> str:
        return self._view().text()

    def _view(self) -> View:
        rows, units = int(self.rows.sum()), int(self.units.sum())
        of_units = f" of {counted(units, 'unit')}" if units < rows else ""
        where = "held out of all training" if self.held_out else "of their own, left out in folds"
        error = "Brier score" if self.classes else "Root mean squared error"
        corrected = "; the collective's answers are corrected" if self.correct else ""
        above = (
            f"{error} on {counted(rows, 'row')}{of_units} {where}; "
            f"control: own model, corrected without peers{corrected}.",
            f"Changes of the {self.measure} in %, ± one standard error; *: beyond chance.",
        )
        more = () if self.scores is None else (self._table_of_scores(self.scores),)
        return View(f"{self.sentence}.", above, self._table(), tuple(self._tell()), more)

    @property
    def _clear(self) -> NDArray[np.bool_]:
        return self.p_value < LEVEL

    def _name_by_change(self, places: NDArray[np.intp]) -> tuple[str, ...]:
        """Names of organisations, those with the greatest change first."""
        order = places[np.argsort(-self.change[places], kind="stable")]
        return tuple(self.names[k] for k in order)

    # ---- the table --------------------------------------------------------------------------------------------------

    def _select_rows(self) -> list[int]:
        """The organisations in the table, in order; of many, those with the least gain."""
        if len(self.names) <= SHOWN:
            return list(range(len(self.names)))
        change = np.where(self.measured, self.difference / np.where(self.own > 0.0, self.own, 1.0), -np.inf)
        return sorted(np.argsort(-change, kind="stable")[:SHOWN].tolist())

    def _table(self) -> tuple[tuple[str, ...], ...]:
        errors = {name: getattr(self, name) for name in ("own", "control", "collective", "pooled")}
        errors = {name: values for name, values in errors.items() if values is not None}
        totals = {name: self.total(name) for name in errors}
        shown = [self._size(each) for name in errors for each in (*errors[name], totals[name])]
        least = min((each for each in shown if each > 0.0), default=0.0)
        digits = Digits.of(shown, [max(least, SMALLEST_SHARE * max(map(self._size, totals.values())))])
        head = ["organisation", "rows", *errors, "against own"]
        head += ["against control"] if self.pooled is None else []
        head += ["most from"] if self.contributions is not None else []
        table = [tuple(head)]
        for k in self._select_rows():
            cells = [digits.write(self._size(values[k])) for values in errors.values()]
            table.append((one_line(self.names[k]), f"{self.rows[k]:,}", *cells, *self._changes(k)))
        if len(self.names) > SHOWN:
            table.append((f"and {len(self.names) - SHOWN} more", *[""] * (len(head) - 1)))
        if self.measured.sum() > 1:
            cells = [digits.write(self._size(total)) for total in totals.values()]
            table.append(("all rows", f"{int(self.rows.sum()):,}", *cells, *self._total_changes()))
        return tuple(table)

    def _table_of_scores(self, scores: dict[str, ClassScores]) -> tuple[str, tuple[tuple[str, ...], ...]]:
        """The scores of classes on all rows together, and what stands above them."""
        found = {name: [getattr(each, score)[-1] for score in SCORES] for name, each in scores.items()}
        defined = [k for k, _ in enumerate(SCORES) if not all(np.isnan(values[k]) for values in found.values())]
        head = ("", *(list(SCORES.values())[k] for k in defined))
        rows = [(name, *(f"{values[k]:.4f}" for k in defined)) for name, values in found.items()]
        about = "no AUC, as all rows are of one class"
        if len(defined) == len(SCORES):
            last = quoted(label(self.classes[-1]))
            about = f"AUC of {last}" if len(self.classes) == 2 else "AUC: mean of each class against the rest"
        return f"On all {int(self.rows.sum()):,} rows together; {about}:", (head, *rows)

    def _changes(self, k: int) -> list[str]:
        """Against the own model and the control, and who contributes most, of one organisation."""
        told = [_change(self.difference[k], self.standard_error[k], self.own[k]) + _star(self.p_value[k])]
        if self.pooled is None:
            change = _change(self.against_control[k], self.against_control_error[k], self.control[k])
            told.append(change + _star(self.against_control_p_value[k]))
        return told + ([self._most_from(k)] if self.contributions is not None else [])

    def _total_changes(self) -> list[str]:
        told = [f"{self._total_change('difference', 'standard_error', 'own')} "]
        if self.pooled is None:
            told.append(f"{self._total_change('against_control', 'against_control_error', 'control')} ")
        return told + ([""] if self.contributions is not None else [])

    def _total_change(self, field: str, error: str, base: str) -> str:
        return _change(self.total(field), self.total_error(error), self.total(base))

    def _size(self, error: float) -> float:
        """An error as it is shown: of numbers the root of the mean square."""
        return float(error if self.classes else np.sqrt(error))

    def _most_from(self, k: int) -> str:
        """Who contributes most, and how many percent of the own error."""
        values = np.asarray(self.contributions)[k]
        if not np.isfinite(values).all() or not values.max() > 0.0:
            return "-"
        most = int(values.argmax())
        return f"{'itself' if most == k else one_line(self.names[most])} {_percent(-values[most], self.own[k]):+.1f}"

    def _tell(self) -> list[str]:
        """Who does not gain, who was not measured, and what would be the alternatives."""
        told = []
        if self.without_gain:
            told.append(f"Without a gain: {self._list_changes(self.without_gain)}.")
        if self.losing:
            told.append(f"Lose beyond chance: {self._list_changes(self.losing)}.")
        if self.held_back:
            told.append(
                f"Held back by their own model, where a correction without peers does better than the collective: "
                f"{some(self.held_back, NAMED)}."
            )
        if not self.measured.all():
            reasons = [f"{one_line(name)}: {why}" for name, why in zip(self.names, self.reasons, strict=True) if why]
            told.append(f"Not measured: {'; '.join(reasons[:NAMED])}.")
        return told + self._tell_alternatives()

    def _tell_alternatives(self) -> list[str]:
        told, own = [], self.total("own")
        if own == 0.0:
            return ["Own models have no error on any row: there is nothing to gain."]
        if self.pooled is not None:
            change = self._total_change("against_control", "against_control_error", "control")
            told.append(f"All rows, the collective against the control: {change} %.")
        if self.neutral is not None:
            change = f"{_percent(self.total('neutral') - own, own):+.1f} %"
            told.append(f"The neutral consensus, the same answer for everybody: {change} against own.")
        if self.pooled is not None:
            change = f"{_percent(self.total('pooled') - own, own):+.1f} %"
            against = self._total_change("against_pooled", "against_pooled_error", "pooled")
            told.append(
                f"If the rows could be pooled, one model on all of them, told whose each is: {change} against own; "
                f"the collective against that model: {against} %."
            )
        return told

    def _list_changes(self, names: Sequence[str]) -> str:
        told = []
        for name in names[:NAMED]:
            k = self.names.index(name)
            change = f"{_change(self.difference[k], self.standard_error[k], self.own[k])} %"
            told.append(f"{one_line(name)} ({change if self.own[k] > 0.0 else 'its own model has no error'})")
        return ", ".join([*told, *([f"and {len(names) - NAMED} more"] if len(names) > NAMED else [])])

    # ---- columns ----------------------------------------------------------------------------------------------------

    def _columns(self, table: str) -> dict[str, list[Any]]:
        if table not in TABLES:
            raise InvalidInput(f"`table` must be one of {', '.join(map(repr, TABLES))}; got {table!r}.")
        return self._organisations() if table == GAINS else self._pairs()

    def _organisations(self) -> dict[str, list[Any]]:
        unit = "brier" if self.classes else "mse"
        columns: dict[str, Any] = {"organisation": self.names, "model": self.models}
        columns |= {"rows": self.rows, "units": self.units}
        for name in ("own", "control", "collective", "average", "neutral", "pooled"):
            if getattr(self, name) is not None:
                columns[f"{name}_{unit}"] = getattr(self, name)
        for name, scores in (self.scores or {}).items():
            columns |= {f"{name}_{score}": getattr(scores, score)[:-1] for score in SCORES if score != unit}
        columns |= {"change_percent": self.change, "change_percent_error": self.change_error}
        compared = ["difference", "standard_error", "p_value"]
        compared += ["against_control", "against_control_error", "against_control_p_value"]
        compared += [] if self.pooled is None else ["against_pooled", "against_pooled_error"]
        columns |= {name: getattr(self, name) for name in compared}
        held_back = set(self.held_back)
        columns["outcome"] = [self._outcome(k) for k in range(len(self.names))]
        columns["held_back"] = [name in held_back for name in self.names]
        columns["reason"] = self.reasons
        return {name: np.asarray(column).tolist() for name, column in columns.items()}

    def _outcome(self, k: int) -> str:
        if not self.measured[k]:
            return "not measured"
        if self.difference[k] == 0.0:
            return "unchanged"
        return ("gains" if self.difference[k] < 0.0 else "loses") + (" beyond chance" if self._clear[k] else "")

    def _pairs(self) -> dict[str, list[Any]]:
        if self.contributions is None or self.contributions_error is None:
            raise InvalidInput("Contributions must be measured: ask for gains with shapley=True.")
        K = len(self.names)
        asker, member = np.indices((K, K)).reshape(2, -1)
        values, errors = self.contributions[asker, member], self.contributions_error[asker, member]
        columns: dict[str, Any] = {
            "asker": [self.names[k] for k in asker], "member": [self.names[k] for k in member], "contribution": values,
            "standard_error": errors, "percent_of_own_error": _percent(values, self.own[asker]),
        }  # fmt: skip
        return {name: np.asarray(column).tolist() for name, column in columns.items()}


def _percent(part: ArrayLike, whole: ArrayLike) -> Array:
    """A part in percent of the whole; NaN where there is none."""
    parts, wholes = np.broadcast_arrays(np.asarray(part, float), np.asarray(whole, float))
    shares: Array = np.divide(parts, wholes, out=np.full(parts.shape, np.nan), where=wholes > 0.0)
    return np.asarray(100.0 * shares)


def _change(difference: float, error: float, base: float) -> str:
    """A change in percent with its standard error."""
    change, spread = float(_percent(difference, base)), float(_percent(error, base))
    if np.isnan(change):
        return "-"
    after = 0 if abs(change) >= 1000.0 else 1 if not 0.0 < spread < 0.05 else 3
    return f"{change:+.{after}f} ± " + (f"{spread:.{after}f}" if np.isfinite(spread) else "?")


def _star(p_value: float) -> str:
    """A mark where a change is beyond chance; a space elsewhere, so that numbers stay below each other."""
    return "*" if p_value < LEVEL else " "


def _blank_unknown(row: Sequence[Any]) -> list[Any]:
    """A row of a CSV file, empty where a number is not known."""
    return ["" if isinstance(cell, float) and np.isnan(cell) else cell for cell in row]
