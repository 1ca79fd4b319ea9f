"""Collectives: agents that answer together."""

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from degroot.agents.abstention import ColumnMask, has_gaps, join_columns
from degroot.agents.agent import Agent, Scorer
from degroot.agents.scoring import Scoring, check_neighbourhoods, prepare_neighbourhoods
from degroot.answers.answer import ASKER_FIELDS, FIELDS, Consensus, check_fields, drop_output_axis, interval_fields
from degroot.answers.calibration_report import CalibrationReport
from degroot.answers.choice import Choice
from degroot.answers.display import View, Viewed, counted, one_line
from degroot.answers.explanation import Explanation
from degroot.answers.gains import Gains
from degroot.compute.compiled import Array
from degroot.consultation.abstention import check_scored, list_unscored, list_unscored_by_columns
from degroot.consultation.asker import AskerView, ViewQuestion, flag_for_asker
from degroot.consultation.askers import NOBODY, AskerViews, KnownViews, answer_by_asker, check_asker, consensus_fields
from degroot.consultation.calibration import Calibration, StoredCalibration, calibrate
from degroot.consultation.consult import EngineStarter, LocalEngine, Panel, RemoteEngine, consult
from degroot.consultation.coverage import report_coverage
from degroot.consultation.extent import Extents, flag_far
from degroot.consultation.gains import measure_gains
from degroot.consultation.points import AskedPoints, read_points
from degroot.consultation.roster import SHOWN, Roster, list_names, scored_by_peers_indices, tabulate
from degroot.consultation.rule_selection import OPTIONS, choose
from degroot.consultation.settings import (
    AUTO,
    EVIDENCE,
    LOCAL,
    OWN,
    RAY,
    check_choice,
    check_degree,
    check_flag,
    check_guard,
    check_ridge,
    check_settings,
)
from degroot.exceptions import DeGrootError, InvalidInput
from degroot.intervals import rows_needed
from degroot.neighbourhoods import Neighbourhoods
from degroot.rules.evidence import NOTHING, PeerIndices
from degroot.rules.rules import RULES, RuleSettings
from degroot.schema import Schema

if TYPE_CHECKING:
    from degroot.audit import Audit


COVERAGE = 0.9  # that calibration is reported for


def find_engine(given: Any) -> EngineStarter | None:
    """Whatever starts engines elsewhere, by its name or itself; None: this process."""
    if isinstance(given, str):
        check_choice("engine", given, (LOCAL, RAY))
        if given == LOCAL:
            return None
        from degroot.cluster import Ray

        return Ray()
    if not hasattr(given, "start"):
        raise InvalidInput(f"`engine` must be {LOCAL!r}, {RAY!r} or an engine; got {given!r}.")
    starter: EngineStarter = given
    return starter


@dataclass(frozen=True, slots=True)
class _Started:
    """Where the agents answer. Threads that ask at the same time each see all of it, or none."""

    engine: LocalEngine | RemoteEngine
    settings: tuple[Any, ...]  # with which it was started
    scored: bool  # whether it has scores
    checked: bool  # whether they may be malformed


class Collective(Viewed):
    """Agents that pool their predictions, each trusting the models that do well on its own rows near the point.

    Parameters
    ----------
    agents : agents with distinct names
    neighbours : int or float, optional
        How many of an agent's rows are the neighbourhood of a point: a number, or a fraction of each agent's rows
        (rounded down, at least 2). By default what suits the rule: 0.01, as in the paper, but at least
        6 rows; for stacking 0.05, but 20 to 500 rows.
    rule : str
        ``"degroot"`` (the paper's), ``"stacking"``, ``"average"``, ``"trust-average"``, ``"error-average"``; or
        ``"auto"``, which tries average, degroot and stacking on the agents' own rows and takes the best. The `choice`
        of an earlier collective stands for that, made before.
    metric : str
        ``"euclidean"``, ``"cosine"`` or ``"manhattan"``.
    kernel : str, optional
        How neighbours count: ``"uniform"`` (the paper's), ``"tricube"`` or ``"gaussian"``, by their distance over the
        distance of the farthest of them. By default tricube for stacking, uniform for the others.
    space : transformer or callable, optional
        Applied before distances are taken, for agents that have no `space` of their own. By default the features as
        they are or, where there is a schema, all columns on one scale (`degroot.schema.SchemaSpace`).
    ridge : float, optional
        How far stacking holds on to equal weights; 1 by default. The penalty is this much of the best model's error,
        times the number of models over the effective number of neighbours.
    guard : bool, optional
        Whether what agents say is checked against what the others know; see `degroot.guard`. By default if any agent is
        remote. Who is left out, and who could not be checked, is in `flags`.
    n_jobs : int, optional
        How many threads to use; all cores by default.
    degree : int, optional
        How many models each agent scores, its own among them; all by default. With thousands of agents a sample of
        peers is enough: memory and time then grow with the number of agents times the degree. For the rules
        ``"degroot"`` and ``"average"``; `peers` says whom each agent scores; trust is then (M, K, q).
    engine : ``"local"``, ``"ray"`` or an engine
        Where the agents answer: in this process, or in processes of a Ray cluster
        (``degroot.cluster.Ray(address=..., placement=...)``; without an address, a Ray on this machine).
    evidence : ``"own"``
        Where the evidence of an asker comes from: its own rows.
    correct : bool
        Whether answers for an asker are corrected by what its own rows tell of their errors, from 50 rows on. That is
        learning, not combining: `gains` tells the two apart.

    Notes
    -----
    Every model is asked once about every agent's rows, when the collective is made (an average needs no such thing).
    After that a prediction costs one call of each model, a neighbour search and small dense algebra.

    Examples
    --------
    >>> from degroot import Agent
    >>> rows = np.arange(10.0)[:, None]
    >>> low = Agent(lambda X: 0 * X[:, 0], rows, np.where(rows[:, 0] < 5, 0, 1), "low")
    >>> high = Agent(lambda X: 0 * X[:, 0] + 1, rows, np.where(rows[:, 0] < 5, 0, 1), "high")
    >>> Collective([low, high], neighbours=3).predict([[1.0], [8.0]]).round(6)
    array([0., 1.])
    """

    def __init__(
        self,
        agents: Iterable[Agent],
        neighbours: float | None = None,
        rule: str | Choice = "degroot",
        *,
        metric: str = "euclidean",
        kernel: str | None = None,
        space: Any = None,
        ridge: float | None = None,
        guard: bool | None = None,
        n_jobs: int | None = None,
        degree: int | None = None,
        engine: Any = LOCAL,
        evidence: str = OWN,
        correct: bool = False,
    ) -> None:
        check_settings(neighbours, metric, kernel, n_jobs)
        made, rule = (rule, AUTO) if isinstance(rule, Choice) else (None, rule)
        check_choice("rule", rule, [*RULES, AUTO])
        check_ridge(ridge)
        check_degree(degree, rule, guard)
        check_guard(guard)
        check_choice("evidence", evidence, EVIDENCE)
        check_flag("correct", correct)
        self.evidence, self.correct = evidence, correct
        self.neighbours, self.rule, self.metric, self.kernel, self.space = neighbours, rule, metric, kernel, space
        self.ridge, self.guard, self.n_jobs, self.degree = ridge, guard, n_jobs, degree
        self.engine = find_engine(engine)
        self.choice: Choice | None = None  # what the rule "auto" came to
        self._calibration: Calibration | None = None
        self._coverage: tuple[Calibration, CalibrationReport] | None = None  # how often its intervals hold
        self._panel: tuple[tuple[Any, ...], Panel] | None = None  # who answers, with the settings of which it was made
        self._started: _Started | None = None  # once they have been asked
        self._take(Roster.of(agents, Scoring(metric, space), degree), made)

    @classmethod
    def load(
        cls, path: str | Path, *, engine: Any = LOCAL, n_jobs: int | None = None, unsafe_pickle: bool = False
    ) -> "Collective":
        """The collective that a file describes, ``collective.toml``, or that `save` has put into a folder.

        What was saved is mapped into memory, not read: that takes no time, and processes share it. `unsafe_pickle`
        opens models in pickles too, which can run any code.

        Examples
        --------
        >>> import tempfile
        >>> from sklearn.linear_model import Ridge
        >>> from degroot import Agent, Collective
        >>> rows = np.arange(10.0)[:, None]
        >>> agents = [Agent(Ridge(alpha).fit(rows, rows[:, 0]), rows, rows[:, 0], f"ridge {alpha}") for alpha in (1, 2)]
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     collective = Collective.load(Collective(agents).save(f"{folder}/collective"))
        ...     collective.predict([[3.0]])
        array([3.02153914])
        """
        from degroot import saved

        found = saved.load(Path(path), unsafe_pickle=unsafe_pickle)
        collective = cls(found.agents, **found.settings, engine=engine, n_jobs=n_jobs)
        collective._take_prepared(found.calibration, found.views)
        return collective

    def save(self, folder: str | Path) -> Path:
        """Put the collective into a folder, with models as ONNX or skops files and all that has been computed.

        Examples
        --------
        >>> import tempfile
        >>> from sklearn.linear_model import Ridge
        >>> from degroot import Agent, Collective
        >>> rows = np.arange(10.0)[:, None]
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     agent = Agent(Ridge().fit(rows, rows[:, 0]), rows, rows[:, 0], "north")
        ...     sorted(path.name for path in Collective([agent]).save(f"{folder}/collective").iterdir())
        ['agent-1', 'collective.toml']
        """
        from degroot import saved

        names = ("neighbours", "rule", "metric", "kernel", "space", "ridge", "guard", "degree", "evidence", "correct")
        settings = {name: getattr(self, name) for name in names} | ({"rule": self.choice} if self.choice else {})
        scorers = prepare_neighbourhoods(self.scorers, self.option.reach)
        return saved.save(Path(folder), self.agents, scorers, settings, self.peers, *self._list_prepared())

    def __repr__(self) -> str:
        degree = "" if self.degree is None else f", degree={self.degree}"
        settings = f"neighbours={self.option.reach.neighbours}, rule={self.rule!r}{degree}"
        return f"Collective({list_names(map(one_line, self.names))}; {settings})"

    def _view(self) -> View:
        agents = self.agents
        chosen = f" ({self.choice.rule} was chosen)" if self.choice else ""
        degree = "" if self.degree is None else f", degree: {self.degree}"
        lines = (
            f"rule: {self.rule}{chosen}, neighbours: {self.option.reach.neighbours:g}, metric: {self.metric}{degree}",
            f"guard: {'on' if self.guarded else 'off'}; intervals: {'' if self.is_calibrated else 'not '}calibrated",
        )
        left = (f"and {len(agents) - SHOWN} more",) if len(agents) > SHOWN else ()
        return View(f"Collective of {counted(len(agents), 'agent')}", lines, tabulate(agents), left)

    @property
    def agents(self) -> tuple[Agent, ...]:
        """The agents, in order."""
        return self._roster.agents

    @property
    def names(self) -> tuple[str, ...]:
        """The agents' names, in order."""
        return self._roster.names

    @property
    def feature_names(self) -> list[str] | None:
        """The names of the features, if the rows of any agent have them."""
        return self._roster.feature_names

    @property
    def schema(self) -> Schema | None:
        """What the columns are, where rows are not all plain numbers."""
        return self._roster.schema

    @property
    def outputs(self) -> int | None:
        """How many numbers a prediction is; None: one, as (M,)."""
        return self._roster.outputs

    @property
    def classes(self) -> tuple[str, ...]:
        """The classes whose probabilities are the outputs, as Python writes them; none where there are no classes."""
        return self._roster.classes

    @property
    def peers(self) -> PeerIndices | None:
        """With a degree, whose models each agent has scored, (K, q)."""
        return self._roster.peers

    @property
    def scorers(self) -> tuple[Scorer, ...]:
        """Each agent's view of all models: their errors on its rows, and its neighbourhoods."""
        return self._roster.scorers

    @property
    def option(self) -> RuleSettings:
        """The rule with its settings, chosen or given."""
        return self.choice.option if self.choice is not None else self._options[0]

    @property
    def neighbourhoods(self) -> tuple[Neighbourhoods, ...]:
        """Each agent's neighbourhoods, as far as the rule looks."""
        reach = self.option.reach
        return tuple(scorer.near[reach] for scorer in prepare_neighbourhoods(self.scorers, reach))

    @property
    def guarded(self) -> bool:
        """Whether what agents say is checked."""
        return any(agent.remote for agent in self.agents) if self.guard is None else bool(self.guard)

    @property
    def panel(self) -> Panel:
        """Who answers together, and by which rule, with the settings as they are now."""
        settings, made = self._settings, self._panel
        if made is None or made[0] != settings:
            made = self._panel = settings, self._make_panel()
        return made[1]

    @property
    def is_calibrated(self) -> bool:
        """Whether the consensus can be asked with a `coverage`: it was calibrated for the rule as it is now."""
        return self._calibration is not None and self._calibration.option == self.option

    @property
    def takes_gaps(self) -> bool:
        """Whether points may hold NaN: all spaces take it, and so does some model; others abstain. It is tried out."""
        if self._bare:
            return False
        with warnings.catch_warnings(action="ignore"):
            try:
                self.consult(np.full((1, self.agents[0].n_features), np.nan), "value")
            except DeGrootError:
                return False
        return True

    def predict(self, X: Any, asker: Any = None, *, correct: bool | None = None) -> Array:
        """The collective prediction for each row of `X`, (M,).

        Parameters
        ----------
        X : (M, d)
        asker : str, or a sequence of M names, optional
            For whom: the agent whose own rows decide how models are weighed. By default for nobody: the neutral
            consensus of the paper.
        correct : bool, optional
            As for the collective itself.

        Examples
        --------
        >>> from degroot import Agent, Collective
        >>> rows = np.arange(10.0)[:, None]
        >>> agents = [Agent(lambda X, k=k: k * X[:, 0], rows, 1.4 * rows[:, 0], f"times {k}") for k in (1, 2, 3)]
        >>> Collective(agents).predict([[3.0], [5.0]])
        array([4.13364055, 6.88940092])
        """
        points, corrects = self._check_points(X), self._check_correct(correct, asker)
        if asker is not None:
            return np.asarray(self._consult_for(points, ["value"], asker, None, corrects).value)
        return np.asarray(self._answer(points, ["value"])["value"])

    def calibrate(self) -> "Collective":
        """Get ready for intervals: put the agents' own rows to the collective, each left out of its own neighbourhood.

        Each agent sends a summary of how far off the answers are. Agents that join, leave or are replaced change the
        answers: calibrate again. `calibration` says how often intervals then hold, agent by agent.

        Examples
        --------
        >>> from degroot import Agent, Collective
        >>> rows = np.arange(10.0)[:, None]
        >>> agents = [Agent(lambda X, k=k: k * X[:, 0], rows, 1.4 * rows[:, 0], f"times {k}") for k in (1, 2, 3)]
        >>> collective = Collective(agents).calibrate()
        >>> answer = collective.consult([[3.0]], coverage=0.8)
        >>> answer.lower.round(2), answer.upper.round(2)
        (array([4.]), array([4.27]))
        """
        self._needs_all("calibrate")
        scorers = prepare_neighbourhoods(self.scorers, self.option.reach)
        self._calibration = calibrate(self.agents, scorers, self.option, self.n_jobs)
        return self

    @property
    def calibration(self) -> CalibrationReport:
        """How often intervals hold the outcome on each agent's own rows, left out, and how wide they are.

        Beside the consensus stands each agent's own view, which is made for it: that may take seconds for many agents.

        Examples
        --------
        >>> from degroot import Agent, Collective
        >>> random = np.random.default_rng(0)
        >>> agents = []
        >>> for name, noise in (("calm", 0.1), ("noisy", 0.4)):
        ...     rows = random.uniform(size=(200, 1))
        ...     agents.append(Agent(lambda X: X[:, 0], rows, rows[:, 0] + noise * random.normal(size=200), name))
        >>> print(Collective(agents).calibrate().calibration)
        90 % intervals on left-out rows of 2 organisations
        consensus: 0.90 of 400 rows are inside, from 0.80 (noisy) to 1.00 (calm)
        own views: 0.90 on average over organisations, from 0.90 (noisy) to 0.90 (calm)
        organisation  rows  consensus  half-width  own view  half-width
        calm           200       1.00        0.52      0.90        0.15
        noisy          200       0.80        0.52      0.90        0.67
        """
        if self._calibration is None or not self.is_calibrated:
            raise InvalidInput("Intervals must be calibrated: call calibrate() before asking how often they hold.")
        self._needs_all("calibrate")
        calibration, known = self._calibration, self._coverage
        if known is None or known[0] is not calibration:
            report = report_coverage(calibration, self.view_of, self.classes, COVERAGE, self.n_jobs)
            known = self._coverage = calibration, report
        return known[1]

    def consult(
        self,
        X: Any,
        fields: Sequence[str] | str = FIELDS,
        *,
        coverage: float | None = None,
        asker: Any = None,
        correct: bool | None = None,
        absent: Sequence[str] = (),
    ) -> Consensus:
        """The collective prediction with what lies behind it.

        Points far outside the rows of all agents, or of an asker, carry a flag, and no interval is narrow there.

        Parameters
        ----------
        X : (M, d)
        fields : names of fields of `Consensus`
            Only these are computed and kept; all by default. `trust` takes 8 K² bytes a point.
        coverage : float, optional
            How often the outcome shall lie between `lower` and `upper`, or in `sets` of classes; for the consensus,
            after `calibrate`.
        asker : str, or a sequence of M names, optional
            For whom. Then `weights` and `correction` are from the asker's view, there is no `trust`, and `choice` says
            what was mixed. None, also for single rows: the neutral consensus.
        correct : bool, optional
            As for the collective itself.
        absent : names of columns of the schema, optional
            That the rows do not have: models that take them abstain, and what stands in these columns is not looked at.
            Those that a frame does not have need not be named.

        Examples
        --------
        >>> from degroot import Agent, Collective
        >>> rows = np.arange(10.0)[:, None]
        >>> agents = [Agent(lambda X, k=k: k * X[:, 0], rows, 1.4 * rows[:, 0], f"times {k}") for k in (1, 2, 3)]
        >>> answer = Collective(agents).consult([[3.0], [5.0]], fields=["value", "weights"])
        >>> answer.weights.round(3)
        array([[0.664, 0.295, 0.041],
               [0.664, 0.295, 0.041]])
        >>> answer.trust is None  # not asked for
        True
        """
        points, corrects = self._check_points(X, absent), self._check_correct(correct, asker)
        if asker is None:
            answer = self._consult_consensus(points, check_fields(fields, FIELDS), coverage)
        else:
            names = list(ASKER_FIELDS) if fields is FIELDS else check_fields(fields, ASKER_FIELDS)
            answer = self._consult_for(points, names, asker, coverage, corrects)
        return flag_far(answer, self._extents.find_far(points.X, self.n_jobs), self.agents)

    def _consult_consensus(self, points: AskedPoints, names: Sequence[str], coverage: float | None) -> Consensus:
        """The answer for nobody in particular."""
        X = points.X
        about: dict[str, Any] = {"choice": self.choice, "classes": self.classes, "index": points.index}
        if coverage is None:
            return Consensus(self.names, **self._answer(points, names), **about, peers=self.peers)
        if self._calibration is None or not self.is_calibrated:
            raise InvalidInput("Intervals must be calibrated: call calibrate() before asking for a coverage.")
        known = self._answer(points, list(dict.fromkeys([*names, "value"])))
        value = known["value"]
        if self.agents[0].classes is not None:
            known["sets"] = self._calibration.sets(value, coverage)
        else:
            half = self._calibration.half_width_at(X, self._local_engine(), coverage)
            known |= {"lower": value - half, "upper": value + half}
        if "value" not in names:
            del known["value"]
        return Consensus(self.names, **known, **about, coverage=float(coverage))

    def view_of(self, name: str) -> AskerView:
        """The view of the agent called `name`: made when it first asks, and kept.

        Examples
        --------
        >>> from degroot import Agent, Collective
        >>> rows = np.linspace(0.0, 1.0, 60)[:, None]
        >>> agents = [Agent(lambda X, k=k: k * X[:, 0], rows, 1.5 * rows[:, 0], f"times {k}") for k in (1, 2)]
        >>> view = Collective(agents).view_of("times 1")
        >>> float((view.own_errors**2).mean().round(3)), float((view.left_out**2).mean().round(3))  # on left-out rows
        (0.084, 0.0)
        """
        scored, K = self.panel.n_scored, len(self.names)
        if scored < K:
            raise InvalidInput(
                f"An asker must have scored every model on its own rows; with degree={self.degree} the scores of "
                f"{K - scored} of {K} models are missing."
            )
        place, option = int(check_asker(name, self.names, 1)[0]), self._asker_option
        return self._views.get(
            place, self._settings, option,
            lambda known: AskerView(self.scorers[place], self.names, place, option, self.n_jobs, known),
        )  # fmt: skip

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_coverage": None, "_views": AskerViews(self._views.list_known(self._asker_option))}

    def _list_prepared(self) -> tuple[StoredCalibration | None, KnownViews]:
        """What has been prepared for intervals and for askers, without the agents."""
        known = self._calibration if self.is_calibrated else None
        return None if known is None else StoredCalibration.of(known), self._views.list_known(self._asker_option)

    def _take_prepared(self, calibration: StoredCalibration | None, views: KnownViews) -> None:
        """Take what a collective of the same agents and settings has prepared."""
        self._calibration = None if calibration is None else calibration.restore(self.scorers)
        self._views = AskerViews(views)

    def _check_correct(self, correct: bool | None, asker: Any) -> bool:
        """Whether answers are corrected, by default as the collective is set; refused where there is no asker."""
        if correct is not None:
            check_flag("correct", correct)
        if correct and asker is None:
            raise InvalidInput("`correct` must come with an `asker`, whose rows tell of errors; got none.")
        return self.correct if correct is None else bool(correct)

    def _consult_for(
        self, asked: AskedPoints, names: Sequence[str], asker: Any, coverage: float | None, correct: bool
    ) -> Consensus:
        """The answer for each row's asker."""
        X = asked.X
        K, Q, places = len(self.names), self.outputs or 1, check_asker(asker, self.names, X.shape[0])
        shown = [*names, *interval_fields(coverage, self.classes)]

        def ask(place: int, points: Any) -> dict[str, Any]:
            some = replace(asked, X=points)
            if place != NOBODY:
                return self._consult_view(self.view_of(self.names[place]), some, names, coverage, correct)
            plain = [name for name in names if name != "correction"]
            return consensus_fields(self._consult_consensus(some, plain, coverage), shown, points.shape[0], Q)

        known, flags = answer_by_asker(X, places, shown, K, Q, ask)
        askers, one = [self.names[place] for place in np.unique(places) if place != NOBODY], isinstance(asker, str)
        choices = {name: self.view_of(name).choice(correct) for name in ([asker] if one else askers)}
        return Consensus(
            self.names, **(known if self.outputs is not None else drop_output_axis(known)), flags=flags,
            choice=choices[asker] if one else choices,
            asker=asker if one else np.array([None if k == NOBODY else self.names[k] for k in places], object),
            coverage=None if coverage is None else float(coverage), classes=self.classes, index=asked.index,
        )  # fmt: skip

    def _consult_view(
        self, view: AskerView, points: AskedPoints, names: Sequence[str], coverage: float | None, correct: bool
    ) -> dict[str, Any]:
        """The fields of one asker's answer, with an axis of outputs, and flags."""
        X, panel = points.X, replace(self._panel_for(points), guarded=False)
        started, absent = self._started_for(panel, ["beliefs"]), join_columns(points.absent, view.agent.lacks)
        said = consult(started.engine, panel, X, ["beliefs"], check=started.checked, absent=absent)
        pooled = []
        if coverage is not None and len(view.sample) < rows_needed(coverage):
            others = [each for each in self.agents if each.name != view.agent.name and not each.scored_by_peers]
            pooled = [self.view_of(each.name).calibration.summary for each in others]
        question = ViewQuestion(frozenset(names), self.guarded, correct, coverage)
        known = view.answer(X, said["beliefs"].reshape(X.shape[0], len(self.names), -1), question, pooled)
        return known | {"flags": (*known["flags"], *flag_for_asker(view, panel, said.get("flags", ()), X.shape[0]))}

    def gains(self, shapley: bool = False, correct: bool | None = None) -> Gains:
        """What every agent gains by asking for its own view, measured on its own rows, left out in folds.

        Beside the error of its own model and of the collective's answer stands a control: the own model with a
        correction that is learned on its own rows, without any peer, which is what a better own model would bring. An
        agent without `own_predictions` has its model scored on its rows as they are: right for rows that the model has
        not been trained on, and too good for its training rows.

        Parameters
        ----------
        shapley : bool
            Whether to measure who contributes to whom: the Shapley value of each other agent in the gain of each, and
            on the diagonal what its own rows bring without anybody else. A row sums to that agent's gain. All sets of
            agents are tried up to 12 agents, and sampled beyond; see `degroot.consultation.shapley`.
        correct : bool, optional
            As for the collective itself. Contributions are those without a correction.

        Examples
        --------
        >>> from degroot import Agent, Collective
        >>> rows = np.linspace(0.0, 1.0, 60)[:, None]
        >>> agents = [Agent(lambda X, k=k: k * X[:, 0], rows, 1.5 * rows[:, 0], f"times {k}") for k in (1, 2)]
        >>> gains = Collective(agents).gains(shapley=True)
        >>> print(gains.sentence)
        2 of 2 organisations gain, 0 lose beyond chance (Holm-corrected); 2 gain beyond chance
        >>> gains.contributions.round(2)  # row: who gains; column: by whom; diagonal: by its own rows
        array([[0.08, 0.01],
               [0.01, 0.08]])
        """
        check_flag("shapley", shapley)
        corrects = self._check_correct(correct, self.names)
        return measure_gains(self.agents, self.view_of, shapley=shapley, correct=corrects, classes=self.classes)

    def explain(
        self,
        X: Any,
        point: int = 0,
        *,
        asker: Any = None,
        coverage: float | None = None,
        output: int | str | None = None,
        correct: bool | None = None,
    ) -> Explanation:
        """Where the answer for one of the points `X` comes from, in words and as plain facts.

        Parameters
        ----------
        X : (M, d)
        point, output
            As for `Consensus.explain`.
        asker, coverage, correct
            As for `consult`.

        Examples
        --------
        >>> from degroot import Agent, Collective
        >>> rows = np.linspace(0.0, 1.0, 60)[:, None]
        >>> agents = [Agent(lambda X, k=k: k * X[:, 0], rows, 1.5 * rows[:, 0] + 0.1, f"times {k}") for k in (1, 2)]
        >>> explained = Collective(agents).explain([[0.5]], asker="times 1")
        >>> for line in explained.text.splitlines()[:2]:
        ...     print(line)
        The collective says 0.85 for point 0, asked by times 1.
        The own model of times 1 says 0.50; the collective moves it by 0.35 up.
        >>> explained.facts["own"]
        0.5
        """
        target = None if self.schema is None else self.schema.target
        return self.consult(X, asker=asker, coverage=coverage, correct=correct).explain(point, output, target)

    def audit(self, X: Any, asker: str | None = None) -> "Audit":
        """Who carries the answers for the points `X`, who could be dropped, and where they depend on one agent.

        Parameters
        ----------
        X : (M, d)
        asker : str, optional
            For whom: then answers are from its view, and what is lost without each agent is measured on its own rows
            alone. By default for nobody: the consensus, and the rows of all agents.

        Examples
        --------
        >>> from degroot import Agent, Collective
        >>> rows = np.arange(10.0)[:, None]
        >>> agents = [Agent(lambda X, k=k: k * X[:, 0], rows, 1.4 * rows[:, 0], f"times {k}") for k in (1, 2, 3)]
        >>> print(Collective(agents).audit(rows))
        3 agents, 10 points. On average an answer rests on 1.89 agents; stability (jackknife over agents) 2.78.
        Mean squared error on 30 rows of the agents' own, each left out of its neighbourhood: 0.01394.
        <BLANKLINE>
        agent    weight  leads  influence  of spread  trusted  alone   loss without  droppable
        times 1   0.664   100%       3.35      84.8%    0.664      0     14.9 ± 2.6         no
        times 2   0.295     0%       1.17      29.6%    0.295      0    2.26 ± 0.40         no
        times 3   0.041     0%      0.316       8.0%    0.041      0  0.229 ± 0.040         no
        <BLANKLINE>
        None of the points depend on a single agent, with a weight of at least 0.9.
        """
        if asker is None:
            self._needs_all("audit")
        from degroot.audit import audit  # which stands on consultations, as this class does

        return audit(self, X, asker)

    def replace(self, agent: Agent) -> Self:
        """Put `agent` in the place of the one with its name, and score anew only what it changes.

        Examples
        --------
        >>> import numpy as np
        >>> from degroot import Agent, Collective
        >>> rows = np.arange(10.0)[:, None]
        >>> agents = [Agent(lambda X, k=k: k * X[:, 0], rows, 1.4 * rows[:, 0], f"times {k}") for k in (1, 2, 3)]
        >>> better = Agent(lambda X: 1.5 * X[:, 0], rows, 1.4 * rows[:, 0], "times 3")
        >>> Collective(agents).replace(better).predict([[5.0]]).round(3)
        array([7.42])
        """
        return self._take(self._roster.replace(agent))

    def join(self, agent: Agent) -> Self:
        """Add `agent`, and score only its model on others' rows and all models on its rows.

        With a degree, who scores whom is drawn anew, and so are all scores.

        Examples
        --------
        >>> import numpy as np
        >>> from degroot import Agent, Collective
        >>> rows = np.arange(10.0)[:, None]
        >>> agents = [Agent(lambda X, k=k: k * X[:, 0], rows, 1.4 * rows[:, 0], f"times {k}") for k in (1, 2, 3)]
        >>> Collective(agents[:2]).join(agents[2])
        Collective(times 1, times 2, times 3; neighbours=0.01, rule='degroot')
        """
        return self._take(self._roster.join(agent))

    def leave(self, name: str) -> Self:
        """Remove the agent called `name`; nothing has to be scored, but with a degree, as for `join`.

        Examples
        --------
        >>> import numpy as np
        >>> from degroot import Agent, Collective
        >>> rows = np.arange(10.0)[:, None]
        >>> agents = [Agent(lambda X, k=k: k * X[:, 0], rows, 1.4 * rows[:, 0], f"times {k}") for k in (1, 2, 3)]
        >>> Collective(agents).leave("times 2")
        Collective(times 1, times 3; neighbours=0.01, rule='degroot')
        """
        return self._take(self._roster.leave(name))

    def _take(self, roster: Roster, choice: Choice | None = None) -> Self:
        """Take these agents, once all is ready for questions: models scored if need be, a rule chosen if it is open."""
        options = self._options if choice is None else [choice.option]
        if self.rule == AUTO or options[0].definition.uses != NOTHING:
            scorers, reaches = roster.scorers, [option.reach for option in options]
            check_neighbourhoods(scorers, *reaches)
            is_open = self.rule == AUTO and choice is None
            if is_open or (self.engine is None and all(scorer.source is None for scorer in scorers)):
                prepare_neighbourhoods(scorers, *reaches)  # others get ready where and when they are asked
            if is_open:
                choice = choose(roster.agents, scorers, options, self.n_jobs)
        self._close_engine()
        self._roster, self.choice, self._calibration = roster, choice, None
        self._panel = self._started = self._coverage = None
        self._views = AskerViews()
        self._extents = Extents([partial(self._locate, place) for place in range(len(roster.agents))])
        return self

    def _locate(self, place: int) -> Scorer:
        """An agent's rows where distances are taken; no model is asked for it."""
        if self.option.definition.uses == NOTHING:
            return self.agents[place].score_models([], self.metric, self.space)
        return self.scorers[place]

    def _answer(self, points: AskedPoints, names: Sequence[str]) -> dict[str, Any]:
        panel = self._panel_for(points)
        started = self._started_for(panel, names)
        return consult(started.engine, panel, points.X, names, check=started.checked, absent=points.absent)

    def _started_for(self, panel: Panel, names: Iterable[str]) -> _Started:
        """Where the agents answer: with their scores of each other's models once a question needs them."""
        scored = panel.make_question(names).neighbourhood is not None
        started = self._started  # read once: other threads may ask at the same time
        if started is None or started.settings != self._settings or (scored and not started.scored):
            self._close_engine()
            started = self._started = self._start(panel, scored)
        return started

    @property
    def _settings(self) -> tuple[Any, ...]:
        """Settings that may be changed between questions: agents then start again."""
        return self.rule, self.neighbours, self.kernel, self.ridge, self.guard, self.n_jobs

    def _make_panel(self) -> Panel:
        roster, lacks = self._roster, tuple(agent.lacks for agent in self.agents)
        optional = lacks if all(each is None for each in lacks) else self._optional  # for which rows have to be read
        by_peers, features = scored_by_peers_indices(roster.agents), self.feature_names
        needs_scores = roster.peers is None and (self.guarded or self.option.definition.uses != NOTHING)
        unscored = list_unscored(roster.scorers) if needs_scores else list_unscored_by_columns(lacks, optional)
        if needs_scores:
            check_scored(roster.agents, [*((place, place) for place in by_peers), *unscored])
        return Panel(
            roster.names, roster.outputs, self.option, self.guarded, by_peers, roster.peers, unscored, lacks, optional,
            None if features is None else tuple(features),
        )  # fmt: skip

    def _panel_for(self, points: AskedPoints) -> Panel:
        """The panel; where points lack something, it knows what the models can do without."""
        has_all = points.absent is None and not has_gaps(points.X)
        return self.panel if has_all else replace(self.panel, optional=self._optional)

    @property
    def _optional(self) -> tuple[ColumnMask, ...]:
        return tuple(agent.optional for agent in self.agents)

    def _close_engine(self) -> None:
        if self._started is not None and not isinstance(self._started.engine, LocalEngine):
            self._started.engine.close()

    def _local_engine(self) -> LocalEngine:
        return LocalEngine(self.agents, self.scorers, self.panel.n_scored, self._bare, self.n_jobs)

    def _start(self, panel: Panel, scored: bool) -> _Started:
        scorers = self.scorers if scored else ()
        checked = self.engine is not None or any(type(scorer) is not Scorer for scorer in scorers)
        return _Started(self._start_engine(panel, scorers), self._settings, scored, checked)

    def _start_engine(self, panel: Panel, scorers: tuple[Scorer, ...]) -> LocalEngine | RemoteEngine:
        if self.engine is not None:
            return self.engine.start(self.agents, scorers, panel, self.n_jobs)
        prepare_neighbourhoods(scorers, panel.settings.reach)
        if panel.guarded:
            for scorer in scorers:
                _ = scorer.standards  # made here, not on several threads at once
        return LocalEngine(self.agents, scorers, panel.n_scored, self._bare, self.n_jobs)

    def _needs_all(self, what: str) -> None:
        """Refuse what takes every agent's view of every model."""
        if self.degree is not None:
            raise InvalidInput(f"{what}() must know every agent's score of every model; got degree={self.degree}.")

    def _check_points(self, X: Any, lacking: Sequence[str] = ()) -> AskedPoints:
        for agent in self.agents if self.schema is not None else ():
            agent.check_zones(X)
        return read_points(X, self.schema, self._roster.n_features, self.feature_names, lacking)

    @property
    def _options(self) -> list[RuleSettings]:
        """What can be chosen, after the settings that were given."""
        named = OPTIONS if self.rule == AUTO else [RuleSettings(self.rule, RULES[self.rule].reach)]
        return list(dict.fromkeys(option.as_set(self.neighbours, self.kernel, self.ridge) for option in named))

    @property
    def _asker_option(self) -> RuleSettings:
        """The rule of an asker's view. What "auto" chose rests on others' errors too: there it is the first option."""
        return self._options[0]

    @property
    def _bare(self) -> bool:
        """Whether some agent takes distances on the features as they are."""
        return self.space is None and any(agent.space is None and agent.schema is None for agent in self.agents)
