"""The path of a question: every agent's opinion, then guard, rule and answer.

In this process, on Ray and between nodes the path is the same: agents give opinions with `give_opinion`, and `conclude`
makes the answer of them. Engines differ in how the opinions travel.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from degroot.agents.abstention import ColumnMask, Mask, has_gaps
from degroot.agents.agent import Agent, Scorer, predict_where_able
from degroot.answers.answer import drop_output_axis
from degroot.answers.flags import Flag
from degroot.compute.compiled import Array, block_size, count_threads, in_blocks
from degroot.compute.tables import take, to_numbers
from degroot.consultation.abstention import (
    AgentColumns,
    NobodyAnswers,
    describe_nobody,
    find_present,
    flag_abstentions,
    flag_unscored,
    group_by_members,
)
from degroot.consultation.guarding import Codes, Verdict, examine, list_flags
from degroot.exceptions import AgentError, DeGrootError, InvalidInput
from degroot.guard.checks import malformed
from degroot.guard.forecast import AnswerForecast, GuardStandards
from degroot.rules.degroot import jackknife_agents, pool_predictions
from degroot.rules.evidence import (
    MOMENTS,
    NOTHING,
    Evidence,
    NeighbourhoodSpec,
    Pair,
    PeerIndices,
    Rule,
    fill_unscored,
    pool_moments,
    stack_evidence,
    unknown,
)
from degroot.rules.rules import RuleSettings

CHUNK_BYTES = 1 << 25  # of points and predictions, held at once
FEW_POINTS = 32  # answered sooner than threads are found for them
FORECAST_POINTS = 1024  # that a thread forecasts at once
POOLED_FIELDS = {"value", "weights", "beliefs"}  # fields for which no agent's own moments have to be kept
OF_AGENTS = ("weights", "influence")  # fields with a place for every agent
INVALID = "its reported errors must be finite, not negative and positive semi-definite; some are not."


@dataclass(frozen=True, slots=True)
class Question:
    """What agents are to say of points: no more than the asked fields take."""

    neighbourhood: NeighbourhoodSpec | None  # where to measure the models; None: predictions only
    moments: bool = False  # whether second moments are needed, not errors alone
    distances: bool = False  # whether to say how near the rows are
    forecasts: bool = False  # whether to forecast the others' answers, for the guard
    pooled: bool = False  # whether nobody's own moments have to be kept
    gaps: bool = False  # whether points lack inputs, so that models may abstain: their predictions are NaN
    absent: ColumnMask = field(default=None, compare=False)  # (d,) columns that the points do not have at all

    def floats(self, K: int, Q: int, models: int) -> int:
        """How many numbers each of K agents says of a point: Q predictions, and what it measured, of so many models."""
        if self.neighbourhood is None:
            return Q
        measured = K * (K + 1) // 2 if self.moments else models
        return Q + measured + (K * (Q + 4) if self.forecasts else 0)


@dataclass(frozen=True, slots=True)
class Opinion:
    """What one agent says of M points: its predictions, and what it measured on its own rows near them."""

    beliefs: Array  # (M, Q); NaN where its model abstains
    measured: Evidence | None = None  # in one slot, its own; None where only predictions were asked for
    forecast: AnswerForecast | None = None  # of every model's answers, for the guard
    standards: GuardStandards | None = None  # what is usual at its own rows, for the guard

    def part(self, points: slice) -> "Opinion":
        """What it says of some of the points."""
        measured = None if self.measured is None else self.measured.part(points)
        forecast = None if self.forecast is None else self.forecast.part(points)
        return Opinion(self.beliefs[points], measured, forecast, self.standards)


@dataclass(frozen=True, slots=True)
class Panel:
    """Who answers together, and by which rule."""

    names: tuple[str, ...]
    outputs: int | None  # how many numbers a prediction is; None: one, as (M,)
    settings: RuleSettings
    guarded: bool = False
    scored_by_peers: tuple[int, ...] = ()  # who does not score its own model
    peers: PeerIndices | None = None  # whose models each agent has scored; None: everybody's
    unscored: tuple[Pair, ...] = ()  # agents and models that they could not score, which lack columns of their rows
    lacks: tuple[ColumnMask, ...] = field(default=(), compare=False)  # (d,) columns that each agent lacks; for flags
    optional: tuple[ColumnMask, ...] = field(default=(), compare=False)  # (d,) that its model can do without; for flags
    features: tuple[str, ...] | None = None  # the names of the columns; for flags

    @property
    def about_columns(self) -> AgentColumns:
        """What flags tell of the columns that agents have and their models need."""
        return AgentColumns(self.names, self.lacks, self.optional or self.lacks, self.features)

    @property
    def gaps_in_evidence(self) -> tuple[Pair, ...]:
        """The places of agents and of all models that they have not scored, their own among them."""
        return (*((place, place) for place in self.scored_by_peers), *self.unscored)

    @property
    def rule(self) -> Rule:
        """The rule itself."""
        return self.settings.definition

    @property
    def n_scored(self) -> int:
        """How many models each agent has scored."""
        return len(self.names) if self.peers is None else self.peers.shape[1]

    def make_question(self, names: Iterable[str], *, gaps: bool = False, absent: ColumnMask = None) -> Question:
        """The question to put to the agents for these fields.

        `gaps`: whether models may abstain, since points have gaps; `absent`: columns (d,) that they do not have at all.
        """
        asked, uses, gaps = set(names), self.rule.uses, gaps or absent is not None
        if not self.guarded and "trust" not in asked and (uses == NOTHING or asked == {"beliefs"}):
            return Question(None, gaps=gaps, absent=absent)
        moments, distances = uses == MOMENTS, bool(self.gaps_in_evidence)
        pooled = moments and not distances and not self.guarded and not gaps and asked <= POOLED_FIELDS
        return Question(self.settings.reach, moments, distances, self.guarded, pooled, gaps, absent)


# takes all agents' opinions of some of the points; it may go through them twice
Conclude = Callable[[slice, Iterable[Opinion]], None]


class Engine(Protocol):
    """Where the agents are. It collects their opinions of points, part by part, and hands them on."""

    def collect(self, X: Any, question: Question, conclude: Conclude) -> None:
        """Call ``conclude(part, opinions)`` for parts of the points `X` that together are all of them."""


class RemoteEngine(Engine, Protocol):
    """Agents in other processes."""

    def close(self) -> None:
        """End their processes."""


class EngineStarter(Protocol):
    """What `Collective` takes as an `engine`: it puts agents into other processes."""

    def start(
        self, agents: Sequence[Agent], scorers: Sequence[Scorer], panel: Panel, n_jobs: int | None = None
    ) -> RemoteEngine:
        """The agents, each where it is to answer; without scorers they can be asked for predictions only."""


class MalformedOpinions(DeGrootError):
    """Opinions that no rows could give, where no guard leaves them out point by point."""

    def __init__(self, agents: Sequence[int]) -> None:
        super().__init__(agents)
        self.agents = agents

    def __str__(self) -> str:
        return f"Opinions must have valid errors; those of agents {', '.join(map(str, self.agents))} have not."


def consult(
    engine: Engine, panel: Panel, X: Any, names: Iterable[str], *, check: bool = True, absent: ColumnMask = None
) -> dict[str, Any]:
    """The fields in `names` for the points `X`, and flags.

    `check`: whether opinions may be malformed. `absent`: columns (d,) that the points do not have.
    """
    names, M = list(names), X.shape[0]
    question = panel.make_question(names, gaps=has_gaps(X), absent=absent)
    buffer = AnswerBuffer.allocate(panel, names, M, gaps=question.gaps)
    answered = np.zeros(M, np.bool_)

    def conclude_part(part: slice, opinions: Iterable[Opinion]) -> None:
        try:
            conclude(opinions, panel, question, buffer.part(part), check=check)
        except NobodyAnswers as error:
            raise describe_nobody(part.start + error.point, X, absent, panel.features, panel.optional) from error
        answered[part] = True

    try:
        engine.collect(X, question, conclude_part)
    except MalformedOpinions as error:
        raise AgentError(panel.names[error.agents[0]], INVALID) from error
    if not answered.all():
        raise DeGrootError(f"An engine must conclude all points; point {answered.argmin()} of {len(answered)} is not.")
    known = buffer.to_fields(panel)
    told = list_gap_flags(panel, question, X, buffer.abstains)
    return known | {"flags": (*known.get("flags", ()), *told)} if told else known


def list_gap_flags(panel: Panel, question: Question, X: Any, abstains: Mask | None) -> list[Flag]:
    """Who abstains at the points `X`, (M, K), and who could not be scored by whom, with the reasons."""
    about = panel.about_columns
    flags = [] if abstains is None else list(flag_abstentions(about, X, question.absent, abstains))
    if question.neighbourhood is not None and panel.unscored:
        flags += flag_unscored(about, panel.unscored, X.shape[0] if abstains is None else ~abstains)
    return flags


def give_opinion(
    scorer: Scorer,
    points: Any,
    beliefs: Array,
    question: Question,
    exclude_row: NDArray[np.intp] | None = None,
    *,
    slot: tuple[Evidence, int] | None = None,
) -> Opinion:
    """One agent's opinion of points that it has transformed, with its predictions `beliefs`, on one thread.

    `exclude_row`: one of its own rows for each point, which takes no part. `slot`: evidence of all agents, and its
    place there, for what it measures; by default it gets memory of its own.
    """
    if question.neighbourhood is None:
        return Opinion(beliefs)
    whole, place = (make_room(scorer, len(beliefs), 1, question), 0) if slot is None else slot
    scorer.measure(whole, place, points, question.neighbourhood, exclude_row)
    measured = whole if slot is None else whole.slot(place)
    if not question.forecasts:
        return Opinion(beliefs, measured)
    forecast = scorer.forecaster.forecast(points)
    if scorer.unscored is not None:
        forecast.tolerance[:, scorer.unscored] = np.inf  # nothing is expected of these models
    return Opinion(beliefs, measured, forecast, scorer.standards)


def make_room(scorer: Scorer, M: int, slots: int, question: Question) -> Evidence:
    """Room for what so many agents like `scorer` measure at M points."""
    return Evidence.blank(M, slots, scorer.errors.shape[1], moments=question.moments, spread=question.distances)


def give_whole_opinion(
    agent: Agent, scorer: Scorer | None, X: Any, question: Question, n_jobs: int | None = None
) -> Opinion:
    """One agent's opinion of the points `X`, on several threads. Its model and space are called from this one only."""
    if scorer is None or question.neighbourhood is None:
        return Opinion(predict(agent, X, question))
    scorer.ready(question.neighbourhood)
    points = scorer.transform(X)  # first: it knows which points are good
    M, beliefs = X.shape[0], predict(agent, X, question)
    if M <= FEW_POINTS:
        return give_opinion(scorer, points, beliefs, question)
    parts: dict[int, Opinion] = {}

    def block(start: int, stop: int) -> None:
        parts[start] = give_opinion(scorer, points[start:stop], beliefs[start:stop], question)

    models = scorer.errors.shape[1]
    size = max(scorer.near[question.neighbourhood].at_once, block_size(M, question.floats(models, 1, models), n_jobs))
    in_blocks(block, M, min(size, FORECAST_POINTS) if question.forecasts else size, n_jobs)
    return join_opinions([parts[start] for start in sorted(parts)])


def predict(agent: Agent, X: Any, question: Question) -> Array:
    """What an agent's model says of the points `X`, (M, Q); NaN where it abstains."""
    if question.gaps:
        return predict_where_able(agent, X, question.absent)
    return agent.predict(X).reshape(X.shape[0], -1)


def join_opinions(parts: Sequence[Opinion]) -> Opinion:
    """One agent's opinions of consecutive points, as one."""
    first = parts[0]
    beliefs = np.concatenate([each.beliefs for each in parts])
    if first.measured is None:
        return Opinion(beliefs)
    measured = Evidence(*(_join(parts, "measured", name) for name in ("errors", "moments", "spread", "effective")))
    if first.forecast is None:
        return Opinion(beliefs, measured)
    forecast = AnswerForecast(*(_join(parts, "forecast", each.name) for each in fields(AnswerForecast)))
    return Opinion(beliefs, measured, forecast, first.standards)


def _join(parts: Sequence[Opinion], what: str, name: str) -> Any:
    arrays = [getattr(getattr(part, what), name) for part in parts]
    return None if arrays[0] is None else np.concatenate(arrays)


def conclude(
    opinions: Iterable[Opinion], panel: Panel, question: Question, out: "AnswerBuffer", *, check: bool = True
) -> None:
    """From all agents' opinions of some points to the answer, on one thread: guard, rule, jackknife.

    Opinions come one by one where their moments are pooled. Without a guard, and with `check`, malformed opinions are
    refused; the guard leaves them out. Then what others measured stands in for scores that agents do not have. Who
    abstains at a point takes no part there; `NobodyAnswers` is raised where all do.
    """
    evidence, beliefs, each = _gather(opinions, panel, question, check=check and not panel.guarded)
    present = kept = find_present(beliefs) if question.gaps else None
    if present is not None:
        _check_dense(evidence, panel, present)
        out.note_abstentions(present)
    if panel.guarded:
        said, usual = [o.forecast for o in each], [o.standards for o in each]
        verdict = examine(said, usual, beliefs, malformed(evidence), present, panel.unscored)
        evidence, kept = verdict.apply(evidence, panel.gaps_in_evidence, present), verdict.kept
        out.note(verdict)
    elif evidence.spread is not None:
        evidence = fill_unscored(evidence, panel.gaps_in_evidence, present)
    out.fill(panel.rule, evidence, beliefs, kept)


def _check_dense(evidence: Evidence, panel: Panel, present: Mask) -> None:
    """Refuse abstentions where agents have scored a sample of the models only."""
    if evidence.peers is not None:
        name = panel.names[int((~present).any(axis=0).argmax())]
        raise InvalidInput(f"With a `degree` every model must answer at every point; that of {name!r} abstains.")


def conclude_in_blocks(
    opinions: Sequence[Opinion], panel: Panel, question: Question, out: "AnswerBuffer", n_jobs: int | None = None
) -> None:
    """As `conclude`, on several threads."""
    M, K = len(opinions[0].beliefs), len(opinions)
    if M <= FEW_POINTS:
        conclude(opinions, panel, question, out)
        return

    def block(start: int, stop: int) -> None:
        part = slice(start, stop)
        try:
            conclude([opinion.part(part) for opinion in opinions], panel, question, out.part(part))
        except NobodyAnswers as error:
            raise NobodyAnswers(start + error.point) from error

    in_blocks(block, M, block_size(M, K * question.floats(K, panel.outputs or 1, panel.n_scored), n_jobs), n_jobs)


def _gather(
    opinions: Iterable[Opinion], panel: Panel, question: Question, check: bool
) -> tuple[Evidence, Array, list[Opinion]]:
    """What all agents measured, (M, K, K), what they predict, (M, K, Q), and, unless it was pooled, each opinion."""
    K, beliefs, wrong = len(panel.names), list[Array](), list[int]()

    def checked() -> Iterator[Opinion]:
        beliefs.clear()
        measured = 0
        for place, opinion in enumerate(opinions):
            beliefs.append(opinion.beliefs)
            measured += opinion.measured is not None
            if check and opinion.measured is not None and malformed(opinion.measured.complete()).any():
                wrong.append(place)
            yield opinion
        if wrong:
            raise MalformedOpinions(wrong)
        _check_complete(len(beliefs), measured, K, question)

    evidence, each = None, list[Opinion]()
    if question.pooled:
        evidence = pool_moments((o.measured for o in checked() if o.measured is not None), K)
    if evidence is None:
        each = list(checked())
        measured = [o.measured for o in each if o.measured is not None]
        evidence = stack_evidence(measured, panel.peers) if measured else unknown(len(beliefs[0]), K)
    return evidence, np.stack(beliefs, axis=1), each


def _check_complete(opinions: int, measured: int, K: int, question: Question) -> None:
    """Refuse fewer opinions, or of fewer with errors, than the question takes."""
    if opinions != K:
        raise DeGrootError(f"There must be an opinion of each of {K} agents; there are {opinions}.")
    if question.neighbourhood is not None and measured != K:
        raise DeGrootError(f"All of {K} agents must say what they measured; {measured} did.")


@dataclass(frozen=True, slots=True)
class AnswerBuffer:
    """The asked fields of an answer, to be filled in part by part."""

    fields: dict[str, Array]  # with an axis of outputs
    codes: Codes | None  # what the guard has to say of whom; None without a guard
    abstains: Mask | None = None  # (M, K) whose models abstain; None where none can

    @classmethod
    def allocate(cls, panel: Panel, names: Iterable[str], M: int, *, gaps: bool = False) -> "AnswerBuffer":
        """For M points, at which models may abstain if they have `gaps`."""
        K, Q = len(panel.names), panel.outputs or 1
        codes = np.zeros((M, K), np.uint8) if panel.guarded else None
        abstains = np.zeros((M, K), np.bool_) if gaps else None
        return cls({name: np.empty(field_shape(name, M, K, Q, panel.n_scored)) for name in names}, codes, abstains)

    def part(self, points: slice) -> "AnswerBuffer":
        """The same arrays, for some of the points."""
        arrays = {name: array[points] for name, array in self.fields.items()}
        codes = None if self.codes is None else self.codes[points]
        return AnswerBuffer(arrays, codes, None if self.abstains is None else self.abstains[points])

    def note_abstentions(self, present: Mask) -> None:
        """Take in whose models answer, (M, K)."""
        if self.abstains is not None:
            self.abstains[:] = ~present

    def note(self, verdict: Verdict) -> None:
        """Take in what the guard has to say."""
        if self.codes is not None:
            self.codes[:] = verdict.codes

    def fill(self, rule: Rule, evidence: Evidence, beliefs: Array, kept: NDArray[np.bool_] | None = None) -> None:
        """Fill in what follows from evidence and beliefs (M, K, Q).

        Where an agent is not `kept`, (M, K), the others answer without it: it has no weight and no influence.
        """
        out = dict(self.fields)
        if "beliefs" in out:
            out.pop("beliefs")[:] = beliefs
        if "trust" in out:
            out.pop("trust")[:] = evidence.trust
        if not out:
            return
        if kept is None or kept.all():
            for name, array in compute_fields(out, rule, evidence, beliefs).items():
                out[name][:] = array
            return
        for points, members in group_by_members(kept):
            some = compute_fields(out, rule, evidence.among(points, members), beliefs[np.ix_(points, members)])
            for name, array in some.items():
                if name in OF_AGENTS:
                    out[name][points] = 0.0
                    out[name][np.ix_(points, members)] = array
                else:
                    out[name][points] = array

    def to_fields(self, panel: Panel) -> dict[str, Any]:
        """The fields of a `Consensus`, and flags under a guard; for one output without an axis of outputs."""
        known: dict[str, Any] = dict(self.fields)
        if panel.outputs is None:
            known = drop_output_axis(known)
        return known if self.codes is None else known | {"flags": self.flags(panel.names)}

    def flags(self, names: Sequence[str]) -> tuple[Flag, ...]:
        """What the guard has to say of the agents of these names."""
        return () if self.codes is None else tuple(list_flags(self.codes, names))


def compute_fields(names: Iterable[str], rule: Rule, evidence: Evidence, beliefs: Array) -> dict[str, Array]:
    """Algorithms 1 and 2 of the paper, as far as the fields in `names` ask for them, from beliefs (M, K, Q)."""
    names = list(names)
    weights, value = pool_predictions(rule, evidence, beliefs)
    known = {"weights": weights, "beliefs": beliefs, "value": value}
    if "standard_error" in names or "influence" in names:
        known["standard_error"], known["influence"] = jackknife_agents(rule, evidence, weights, beliefs)
    return {name: known[name] for name in names}


def field_shape(name: str, M: int, K: int, Q: int, scored: int | None = None) -> tuple[int, ...]:
    """The shape of a field for M points, with an axis of outputs; `scored`: models that each agent has scored, or all.

    Examples
    --------
    >>> field_shape("value", 5, 3, 1), field_shape("weights", 5, 3, 1), field_shape("beliefs", 5, 3, 1)
    ((5, 1), (5, 3), (5, 3, 1))
    """
    of_agents = {
        "weights": (M, K), "beliefs": (M, K, Q), "influence": (M, K, Q), "trust": (M, K, scored or K),
    }  # fmt: skip
    return of_agents.get(name, (M, Q))


@dataclass(frozen=True, slots=True)
class LocalEngine:
    """Agents in this process. Models and spaces are called from the asking thread; all else is done on several."""

    agents: tuple[Agent, ...]
    scorers: tuple[Scorer, ...]  # none where predictions are all that is asked for
    n_scored: int  # how many models each agent has scored
    bare: bool  # whether points have to be numbers, since some agent takes distances on them as they are
    n_jobs: int | None

    def collect(self, X: Any, question: Question, conclude: Conclude) -> None:
        """Let all agents give their opinions, block by block."""
        for chunk in self.chunks(X):
            self._collect(take(X, chunk), question, conclude, chunk.start)

    def chunks(self, X: Any) -> list[slice]:
        """Parts of X small enough to hold all that is transformed and predicted."""
        spaces = 1 + sum(scorer.space is not None for scorer in self.scorers)
        Q = 1 if self.agents[0].y.ndim == 1 else self.agents[0].y.shape[1]
        step = max(1, CHUNK_BYTES // (8 * (len(self.agents) * Q + X.shape[1] * spaces)))
        return [slice(start, min(start + step, X.shape[0])) for start in range(0, X.shape[0], step)]

    def transform(self, X: Any) -> list[Any]:
        """The points where each scorer takes distances."""
        plain = to_numbers(X) if self.bare else None
        return [plain if scorer.space is None else scorer.transform(X) for scorer in self.scorers]

    def _collect(self, X: Any, question: Question, conclude: Conclude, first: int) -> None:
        M, transformed = X.shape[0], self.transform(X)
        beliefs = [predict(agent, X, question) for agent in self.agents]

        def block(start: int, stop: int) -> None:
            opinions = _LocalOpinions(self.scorers, transformed, beliefs, question, slice(start, stop))
            conclude(slice(first + start, first + stop), opinions)

        if M <= FEW_POINTS:
            block(0, M)
        else:
            in_blocks(block, M, self._block(M, beliefs[0].shape[1], question), self.n_jobs)

    def _block(self, M: int, Q: int, question: Question) -> int:
        """How many of M points a thread takes at once: more where a pass over many rows should serve all of them."""
        K, spec = len(self.agents), question.neighbourhood
        held = K * K + K * (K + 1) if question.pooled else K * question.floats(K, Q, self.n_scored)
        together = max((scorer.near[spec].at_once for scorer in self.scorers), default=1) if spec is not None else 1
        return max(block_size(M, held, self.n_jobs), min(together, -(-M // count_threads(self.n_jobs))))


@dataclass(frozen=True, slots=True)
class _LocalOpinions:
    """The opinions of agents in this process, formed as they are asked for."""

    scorers: Sequence[Scorer]
    transformed: Sequence[Any]
    beliefs: Sequence[Array]
    question: Question
    part: slice

    def __iter__(self) -> Iterator[Opinion]:
        if self.question.neighbourhood is None or not self.scorers:
            yield from (Opinion(each[self.part]) for each in self.beliefs)
            return
        whole = None  # where opinions are pooled one by one, none of them has to be kept
        if not self.question.pooled:
            M, K = len(self.beliefs[0][self.part]), len(self.scorers)
            whole = make_room(self.scorers[0], M, K, self.question)
        for place, (scorer, points, beliefs) in enumerate(
            zip(self.scorers, self.transformed, self.beliefs, strict=True)
        ):
            slot = None if whole is None else (whole, place)
            yield give_opinion(scorer, points[self.part], beliefs[self.part], self.question, slot=slot)
