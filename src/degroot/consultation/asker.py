r"""The asker's view: the answer for one agent, from everybody's predictions and the evidence of its own rows alone.

The asker weighs candidates (`degroot.asker.candidates`) by their losses on its own rows, left out in folds of whole
units (`degroot.asker.mixture`), and answers with their mixture,

.. math:: \sum_c \pi_c \sum_j w_{cj}(x) \bigl(f_j(x) - b_{cj}(x)\bigr).

In DeGroot's terms the asker's trust row gives its belief after one round of pooling, and the neutral consensus is the
limit of all rounds; in the model of Friedkin and Johnsen (*Social influence and opinions*, 1990) a stubborn asker lies
between the two. Here nobody else's trust enters: whatever others say of errors or distances, the answer is the same.

A model that takes a column which the asker's rows lack cannot be scored, and has no part. Where a model abstains at a
point, the asker's own prediction stands in for it (`degroot.consultation.abstention`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from degroot.agents.abstention import Mask
from degroot.agents.agent import Scorer, predict_where_able
from degroot.answers.choice import Mixture
from degroot.answers.flags import ABSTAINS, Flag
from degroot.asker.candidates import EVERYBODY, Candidate, Moments, OwnRows, list_candidates, without_model
from degroot.asker.guard import Bounded, bound_beliefs
from degroot.asker.mixture import assign_folds, clustered_standard_error, mix_candidates
from degroot.compute.compiled import Array, block_size, in_blocks
from degroot.compute.progress import progress
from degroot.compute.tables import take
from degroot.consultation.abstention import MEAN_STANDS_IN, StandIns, flag_unscored, group_by_members, stand_in
from degroot.consultation.consult import Panel
from degroot.consultation.correction import CONTROL_ROWS, LEAST_ROWS, Correction, learn_correction
from degroot.consultation.leave_one_out import ROWS, sample_rows
from degroot.consultation.own_calibration import OwnCalibration
from degroot.consultation.peer_forecast import PeerForecast, learn_peers
from degroot.consultation.shares import Combination, Mixtures, Shares
from degroot.intervals import Summary, rows_needed
from degroot.jackknife.delete_one import jackknife_error
from degroot.rules.evidence import NeighbourhoodSpec
from degroot.rules.rules import STACKING_NEIGHBOURHOOD, RuleSettings

SAME = 1e-6  # of the spread of the predictions: a peer that is no farther from the own model is the own model
FAR = 3.0  # times the distance that is usual at its own rows, from which on a point is far outside them
USUAL = 0.99  # of its own rows are no farther from the others than what is usual
NEAR = 0.01  # of the rows' variance: distances that are usual in any case

FAR_FROM_OWN = "far: the point is far outside its own rows"
REPLACED = "inconsistent: its answer is far from what the asker's rows lead to expect of its model, and was replaced"
ALONE = "alone: at least half of the others' answers were not believed, and its own model answers"
NOT_CORRECTED = f"uncorrected: it has fewer than the {LEAST_ROWS} rows that a correction takes"
FEW_SCORES = "pooled: it has too few rows of its own for this coverage, and the interval is calibrated on all members'"


class LeftOut(NamedTuple):
    """What was found on the scored rows when a view was made; a view that is made with it takes no time."""

    errors: Array  # (m, C, Q) of every candidate
    spread: Array  # (m,) how far the scored rows are from those left in


@dataclass(frozen=True, slots=True)
class Fold:
    """Scored rows of one fold, and what the rows of the other folds tell of them."""

    at: NDArray[np.intp]  # places among the scored rows
    rows: NDArray[np.intp]  # their numbers
    points: Any
    residuals: Array  # (f, Q, K)
    evidence: OwnRows
    found: dict[NeighbourhoodSpec, Moments]  # near the points


class ViewQuestion(NamedTuple):
    """What is asked of a view."""

    fields: frozenset[str]
    guard: bool = False
    correct: bool = False
    coverage: float | None = None  # of intervals; None: without them

    @property
    def has_jackknife(self) -> bool:
        """Whether the answer without each model is needed."""
        return not self.fields.isdisjoint(("standard_error", "influence"))

    @property
    def needs(self) -> tuple[bool, ...]:
        """What decides what a view has to make once before it can answer."""
        return self.guard, self.correct, self.has_jackknife, self.coverage is not None


class PreparedAnswer(NamedTuple):
    """All of an answer to m points that can be had before others have said what they predict there."""

    points: Any  # where distances are taken
    mixtures: Mixtures  # of all models and, where that is asked for, without each in turn
    combined: Combination  # how they combine predictions at the points
    error: Array  # (m,) the own model's root mean squared error near the points
    far: NDArray[np.bool_]  # (m,) far outside the own rows
    expected: Array | None  # (m, K, Q) differences to the own prediction, for the guard
    tolerance: Array | None  # of intervals


class AnsweredPoints(NamedTuple):
    """The asked fields at m points, and what the flags tell of them."""

    fields: dict[str, Any]
    far: NDArray[np.bool_]  # (m,)
    replaced: NDArray[np.bool_] | None = None  # (m, K) not believed; None: everybody was
    alone: NDArray[np.bool_] | None = None  # (m,) where the own model answers; None: nowhere

    @classmethod
    def join(cls, parts: "Sequence[AnsweredPoints]", K: int) -> "AnsweredPoints":
        """The same of consecutive points together."""
        if len(parts) == 1:
            return parts[0]
        fields = {name: np.concatenate([each.fields[name] for each in parts]) for name in parts[0].fields}
        answered = cls(fields, np.concatenate([each.far for each in parts]))
        if all(each.replaced is None for each in parts):
            return answered
        nobody = [np.zeros((len(each.far), K), np.bool_) for each in parts]
        replaced = [none if each.replaced is None else each.replaced for each, none in zip(parts, nobody, strict=True)]
        alone = [none[:, 0] if each.alone is None else each.alone for each, none in zip(parts, nobody, strict=True)]
        is_alone = np.concatenate(alone)
        return answered._replace(replaced=np.concatenate(replaced), alone=is_alone if is_alone.any() else None)


class AskerView:
    """What one agent answers from its own point of view. Made once, it answers any number of questions.

    Parameters
    ----------
    scorer : the asker's scores of all models on its own rows
    names : of all agents, in the order of the scored models
    place : the asker's place among them
    settings : the rule, which selects the local candidate
    n_jobs : how many threads to use
    known : what was found when the same view was made before
    """

    def __init__(
        self,
        scorer: Scorer,
        names: Sequence[str],
        place: int,
        settings: RuleSettings,
        n_jobs: int | None = None,
        known: LeftOut | None = None,
    ) -> None:
        agent = scorer.agent
        if agent.scored_by_peers:
            raise agent.error(
                "to ask for its own view it must know its model's errors on its own rows, by `own_predictions`; got "
                "'peers'."
            )
        self.agent, self.names, self.place, self.settings, self.n_jobs = agent, tuple(names), place, settings, n_jobs
        self.scorer = scorer
        self.residuals = scorer.residuals  # (n, Q, K)
        self.Q, self.K = self.residuals.shape[1:]
        self.unscored = find_unscored(scorer, place)
        self.distinct = find_distinct(scorer, place, self.unscored)  # copies of its model count as that
        self.sample = np.sort(sample_rows(agent))  # the rows that are scored
        self.units = agent.unit_codes
        self.folds = assign_folds(self.units)
        self.n_folds = int(self.folds.max()) + 1
        models, classes = len(self.distinct) if self.n_folds > 1 else 1, agent.classes is not None
        self.candidates = list_candidates(settings, len(self.units), models, classes=classes)
        self.own_rows = self._evidence(slice(None), scorer.kept)
        self._answered: set[tuple[bool, ...]] = set()  # what questions have needed
        self._mixtures: dict[tuple[bool, bool], Mixtures] = {}
        shape = len(self.sample), len(self.candidates), self.Q
        if known is not None and known.errors.shape == shape and known.spread.shape == shape[:1]:
            self.errors, self.spread = known
        else:
            self.spread = np.full(len(self.sample), np.inf)  # how far the scored rows are from those left in
            self.errors = self._leave_out([EVERYBODY])[0]  # (m, C, Q)

    @cached_property
    def shares(self) -> Shares:
        """The mixture, without any correction."""
        return self._mix(self.candidates, self.errors)

    @cached_property
    def corrected_shares(self) -> Shares:
        """The mixture with the correction among its candidates; the same as without where there are too few rows."""
        return self._correct(self.shares, self.errors, self.control)

    @property
    def left_out_errors(self) -> LeftOut:
        """What making the same view again takes."""
        return LeftOut(self.errors, self.spread)

    @cached_property
    def left_out(self) -> Array:
        """Errors of the mixture on the scored rows, (m, Q), with shares from the other folds: what it is worth."""
        return self.cross_mix(self.errors)

    @cached_property
    def corrected_left_out(self) -> Array:
        """The same with the correction."""
        return self.cross_mix(self.corrected_shares.with_corrections(self.errors, self.own_errors))

    @cached_property
    def control(self) -> Correction | None:
        """The correction of the own model alone, without any peer; None where there are too few rows."""
        if len(self.sample) < CONTROL_ROWS or self.n_folds < 2:
            return None
        return self._learn_correction(self.own_errors)

    @property
    def own_errors(self) -> Array:
        """Errors of the own model on the scored rows, (m, Q)."""
        return self.residuals[self.sample][:, :, self.place]

    @property
    def average_errors(self) -> Array:
        """Errors of the plain average of all models that it could score, on the scored rows, (m, Q)."""
        residuals = self.residuals[self.sample]
        mean: Array = (residuals if self.unscored is None else residuals[:, :, ~self.unscored]).mean(axis=-1)
        return mean

    @property
    def control_left_out(self) -> Array:
        """Errors of the own model with its correction on the scored rows, (m, Q)."""
        return self.own_errors if self.control is None else self.own_errors + self.control.left_out

    def control_at(self, X: Any, own: Array) -> Array:
        """What the own model with its correction says at the points `X`, where without it says `own`, (M, Q)."""
        if self.control is None:
            return own
        corrected = own + self.control.at(self.scorer.transform(X), own)
        return corrected if self.agent.classes is None else as_distribution(corrected)

    def choice(self, correct: bool = False) -> Mixture:
        """What was mixed, and why."""
        return self._corrected_choice if correct else self._choice

    @cached_property
    def _choice(self) -> Mixture:
        return self._describe(self.shares)

    @cached_property
    def _corrected_choice(self) -> Mixture:
        return self._describe(self.corrected_shares)

    def _describe(self, shares: Shares) -> Mixture:
        losses = (shares.with_corrections(self.errors, self.own_errors) ** 2).sum(axis=-1)
        mean = losses.mean(axis=0)
        behind = losses - losses[:, [int(np.argmin(mean))]]
        known = self.n_folds > 1
        return Mixture(
            self.agent.name, shares.names, shares.every, mean, behind.mean(axis=0),
            clustered_standard_error(behind, self.units[self.sample]), len(self.sample) if known else 0, self.n_folds,
        )  # fmt: skip

    def _evidence(self, rows: NDArray[np.intp] | slice, kept: dict[str, Any] | None = None) -> OwnRows:
        """What some of its rows tell of the distinct models."""
        own = int(np.searchsorted(self.distinct, self.place))
        residuals = self.residuals[rows][:, :, self.distinct]
        return OwnRows(self.scorer.rows[rows], residuals, own, self.scorer.metric, kept)

    def _weigh(
        self, evidence: OwnRows, candidates: Sequence[Candidate], points: Any, found: dict[Any, Moments],
        without: Sequence[int],
    ) -> tuple[Array, Array]:  # fmt: skip
        """Weights (C, D, m, K) and shifts (C, D, m, Q) of candidates: copies of the own model have no weight."""
        if len(self.distinct) == self.K > 1:
            return evidence.weigh_without_each(candidates, points, found, without)
        known = {int(model): place for place, model in enumerate(self.distinct) if len(self.distinct) > 1}
        places = [known.get(model, EVERYBODY) for model in without]  # a copy is as good as the model
        weights, shifts = evidence.weigh_without_each(candidates, points, found, places)
        wide = np.zeros((*weights.shape[:3], self.K))
        wide[..., self.distinct] = weights
        return wide, shifts

    # ---- the answer -------------------------------------------------------------------------------------------------

    def answer(
        self,
        X: Any,
        beliefs: Array,
        asked: ViewQuestion,
        pooled: Sequence[Summary] = (),
        prepared: PreparedAnswer | None = None,
    ) -> dict[str, Any]:
        """The asked fields for the points `X`, from everybody's `beliefs` (M, K, Q), and flags.

        Beliefs are NaN where a model abstains; `NobodyAnswers` is raised where all do. `pooled`: other members' scores,
        for a coverage that takes more rows than the asker has. `prepared`: what `prepare` gave for the same points and
        question.
        """
        standing = stand_in(beliefs, self.place, self.unscored)
        if prepared is None:
            points = self.scorer.transform(X)
            answered = AnsweredPoints.join(self._answer_in_blocks(points, beliefs, asked, pooled, standing), self.K)
        else:
            points, answered = prepared.points, self._conclude(prepared, beliefs, asked, standing)
        M, alone, known = len(beliefs), answered.alone, answered.fields
        flags = self._list_flags(answered)
        if asked.correct and self.corrected_shares.whole_correction is None and M:
            flags.append(Flag(self.agent.name, NOT_CORRECTED, np.arange(M)))
        if asked.coverage is not None:
            if alone is not None:  # there its own model answers, with its own errors
                tolerance = self.own_calibration.tolerance(points, asked.coverage, pooled)
                said = (beliefs if standing is None else standing.beliefs)[:, self.place]
                own = self.own_calibration.intervals(said, tolerance, answered.far)
                for name, array in own.items():
                    known[name][alone] = array[alone]
            if self.calibration.rows < rows_needed(asked.coverage):
                flags.append(Flag(self.agent.name, FEW_SCORES, np.arange(M)))
        self._answered.add(asked.needs)
        return known | {"flags": tuple(flags)}

    def is_prepared_for(self, asked: ViewQuestion) -> bool:
        """Whether a question with the same needs was answered: all that is made once has been made."""
        return asked.needs in self._answered

    def prepare(self, X: Any, own: Array, asked: ViewQuestion) -> PreparedAnswer:
        """What can be found for a few points `X` while others are asked; the own model says `own` (M, Q) there.

        It must not abstain: what stands in for it is known once the others have answered.
        """
        self._make_parts(asked)
        return self._prepare(self.scorer.transform(X), own, asked)

    def _answer_in_blocks(
        self, points: Any, beliefs: Array, asked: ViewQuestion, pooled: Sequence[Summary], standing: StandIns | None
    ) -> list[AnsweredPoints]:
        """Answers at consecutive points, at least one of them, on all threads."""
        found: dict[int, AnsweredPoints] = {}

        def block(start: int, stop: int) -> None:
            here = None if standing is None else standing.part(slice(start, stop))
            said = beliefs[start:stop] if here is None else here.beliefs
            prepared = self._prepare(points[start:stop], said[:, self.place], asked, pooled)
            found[start] = self._conclude(prepared, beliefs[start:stop], asked, here)

        self._make_parts(asked)
        floats = 4 * (self.K + self.Q) ** 2
        in_blocks(block, len(beliefs), block_size(max(len(beliefs), 1), floats, self.n_jobs), self.n_jobs)
        if not found:
            block(0, 0)
        return [found[start] for start in sorted(found)]

    def _prepare(self, points: Any, own: Array, asked: ViewQuestion, pooled: Sequence[Summary] = ()) -> PreparedAnswer:
        around = self.own_rows.measure(STACKING_NEIGHBOURHOOD, points)
        mixtures, found = self._list_mixtures(asked), {STACKING_NEIGHBOURHOOD: around}
        weighed = self._weigh(self.own_rows, mixtures.candidates, points, found, mixtures.without)
        return PreparedAnswer(
            points,
            mixtures,
            mixtures.combine(*weighed),
            around.error_of(self.own_rows.own),
            around.spread > FAR**2 * self._usual_spread,
            self.peers.at(points, own) if asked.guard and self.K > 1 else None,
            None if asked.coverage is None else self.calibration.tolerance(points, asked.coverage, pooled),
        )

    def _conclude(
        self, prepared: PreparedAnswer, beliefs: Array, asked: ViewQuestion, standing: StandIns | None
    ) -> AnsweredPoints:
        """The answer at points where everybody says `beliefs`, (m, K, Q), and something stands in for some."""
        complete, absent = (beliefs, None) if standing is None else (standing.beliefs, standing.absent)
        bounded, said, far = None, complete, prepared.far
        if prepared.expected is not None:
            bounded = bound_beliefs(complete, prepared.expected, self.peers.spread, prepared.error, self.place, absent)
            said = bounded.beliefs
        value, weights = self._mix_predictions(prepared, said, bounded)
        if standing is not None:
            weights = standing.move_weights(weights)
        out = {"value": value, "weights": weights, "beliefs": beliefs}
        if asked.has_jackknife:
            out["influence"], out["standard_error"] = self._jackknife(prepared, value, said, bounded, absent)
        if "correction" in asked.fields:
            out["correction"] = value - np.matmul(weights[:, None], complete)[:, 0]
        fields: dict[str, Any] = {name: out[name] for name in asked.fields}
        if prepared.tolerance is not None:
            fields |= self.calibration.intervals(value, prepared.tolerance, far)
        if bounded is None or not bounded.n_replaced:
            return AnsweredPoints(fields, far)
        return AnsweredPoints(fields, far, bounded.replaced, bounded.alone if bounded.alone.any() else None)

    def _list_mixtures(self, asked: ViewQuestion) -> Mixtures:
        """The mixture of all models and, where that is asked for, those without each in turn; none of one alone."""
        key = asked.correct, asked.has_jackknife
        if key not in self._mixtures:
            shares, deleted = self.corrected_shares if asked.correct else self.shares, list[Shares]()
            if asked.has_jackknife:
                deleted = self._corrected_deleted if asked.correct else self._deleted
            self._mixtures[key] = Mixtures((shares, *deleted), (EVERYBODY, *range(len(deleted))))
        return self._mixtures[key]

    def _mix_predictions(self, prepared: PreparedAnswer, said: Array, bounded: Bounded | None) -> tuple[Array, Array]:
        """Values (m, Q) and weights (m, K) of the mixture at points where models say `said` (m, K, Q)."""
        shares = prepared.mixtures.shares[0]
        value, weights = shares.answer(prepared.combined.take(0), prepared.points, said, self.place)
        if self.agent.classes is not None:
            value = as_distribution(value)
        if bounded is not None:
            value = bounded.hold(value, said[:, self.place])
            if bounded.n_replaced:
                weights = weights.copy()
                weights[bounded.alone] = 0.0
                weights[bounded.alone, self.place] = 1.0
        return value, weights

    def _make_parts(self, asked: ViewQuestion) -> None:
        """Make what is made once here, not on several threads at once."""
        if self.is_prepared_for(asked):
            return
        for spec in self._specs:
            self.own_rows.look(spec)
        self._list_mixtures(asked)
        if asked.guard and self.K > 1:
            _ = self.peers
        if asked.coverage is not None:
            _ = self.calibration.squares, self.calibration.scores
            if asked.guard and self.K > 1:  # where the own model answers alone
                _ = self.own_calibration.squares, self.own_calibration.scores

    @property
    def _specs(self) -> list[NeighbourhoodSpec]:
        """Where the candidates look, and where distances are taken."""
        used = [each.spec for each in self.candidates if each.spec is not None]
        return list(dict.fromkeys([STACKING_NEIGHBOURHOOD, *used]))

    @cached_property
    def peers(self) -> PeerForecast:
        """What the asker expects the others to say, for the guard."""
        residuals = self.residuals[self.sample].transpose(0, 2, 1)  # (m, K, Q)
        own = self.agent.y.reshape(len(self.units), -1)[self.sample] + self.own_errors
        return learn_peers(
            self.scorer.rows[self.sample], own, residuals - residuals[:, [self.place]], self.folds[self.sample]
        )

    def _jackknife(
        self, prepared: PreparedAnswer, value: Array, said: Array, bounded: Bounded | None, absent: Mask | None
    ) -> tuple[Array, Array]:
        """Influence (m, K, Q) and standard error (m, Q), from the value without each model, the mixture refitted.

        Models that are `absent`, (m, K), have no influence, and are none of those that are left out in turn.
        """
        mixtures, combined = prepared.mixtures, prepared.combined
        if len(mixtures.shares) == 1:  # there is nobody else
            return np.full(said.shape, np.nan), np.full(value.shape, np.nan)
        if mixtures.is_corrected:
            each = [
                shares.answer(combined.take(d), prepared.points, said, self.place)[0]
                for d, shares in enumerate(mixtures.shares[1:], 1)
            ]
            without = np.stack(each)
        else:
            without = combined.take(slice(1, None)).apply(said)
        if self.agent.classes is not None:
            without = as_distribution(without)
        if bounded is not None:
            without = bounded.hold(without, said[:, self.place], bounded.alone_without_each(self.place))
        by_output = np.ascontiguousarray(without.transpose(1, 2, 0))  # (m, Q, K)
        influence = value[:, None] - without.transpose(1, 0, 2)
        if absent is None:
            return influence, jackknife_error(by_output.reshape(-1, self.K)).reshape(value.shape)
        influence[absent], error = 0.0, np.empty(value.shape)
        for points, members in group_by_members(~absent):
            left = np.ascontiguousarray(by_output[points][:, :, members]).reshape(-1, len(members))
            error[points] = jackknife_error(left).reshape(-1, self.Q)
            if len(members) == 1:  # without whom nobody would be left
                influence[np.ix_(points, members)] = np.nan
        return influence, error

    def _list_flags(self, answered: AnsweredPoints) -> list[Flag]:
        name, flags = self.agent.name, []
        if answered.far.any():
            flags.append(Flag(name, FAR_FROM_OWN, np.flatnonzero(answered.far)))
        if answered.alone is not None:
            flags.append(Flag(name, ALONE, np.flatnonzero(answered.alone)))
        if answered.replaced is not None:
            for k in np.flatnonzero(answered.replaced.any(axis=0)):
                flags.append(Flag(self.names[k], REPLACED, np.flatnonzero(answered.replaced[:, k])))
        return flags

    # ---- the mixture ------------------------------------------------------------------------------------------------

    def _leave_out(self, withouts: Sequence[int]) -> list[Array]:
        """Errors (m, C, Q) of the candidates on the scored rows, folds of whole units left out; without each model."""
        remaining = [without_model(self.candidates, without, self.place) for without in withouts]
        errors = [np.empty((len(self.sample), len(each), self.Q)) for each in remaining]
        if self.n_folds < 2:
            for each in errors:
                each[:] = self.own_errors[:, None]
            return errors
        scored = self.folds[self.sample]
        with progress(f"Preparing the view of {self.agent.name}", self.n_folds) as advance:

            def block(start: int, stop: int) -> None:
                for fold in range(start, stop):
                    if (scored == fold).any():
                        left = self.measure_fold(fold)
                        self.spread[left.at] = left.found[STACKING_NEIGHBOURHOOD].spread
                        for without, candidates, into in zip(withouts, remaining, errors, strict=True):
                            weights, shifts = self._weigh(left.evidence, candidates, left.points, left.found, [without])
                            into[left.at] = self.errors_at(left, weights[:, 0], shifts[:, 0])
                    advance()

            in_blocks(block, self.n_folds, 1, self.n_jobs)
        return errors

    def measure_fold(self, fold: int) -> Fold:
        """The scored rows of a fold, and what the other folds tell of them."""
        at, kept = np.flatnonzero(self.folds[self.sample] == fold), np.flatnonzero(self.folds != fold)
        rows = self.sample[at]
        evidence = self._evidence(kept)
        points = self.scorer.rows[rows]
        found = {spec: evidence.measure(spec, points) for spec in self._specs}
        return Fold(at, rows, points, self.residuals[rows], evidence, found)

    def errors_at(
        self, fold: Fold, weights: Array, shifts: Array, members: NDArray[np.intp] | slice = slice(None)
    ) -> Array:
        """Errors (f, C, Q) at the rows of a fold of candidates with weights (C, f, K) for `members`, all by default."""
        off = np.einsum("cmk,mqk->mcq", weights, fold.residuals[:, :, members]) - shifts.transpose(1, 0, 2)
        return self.as_answered(off, fold.rows)

    def as_answered(self, errors: Array, rows: NDArray[np.intp]) -> Array:
        """Errors (m, ..., Q) on these rows of predictions once they are answers: of classes, probabilities."""
        if self.agent.classes is None:
            return errors
        labels = self.agent.y[rows].reshape(len(rows), *[1] * (errors.ndim - 2), self.Q)
        return as_distribution(labels + errors) - labels

    @cached_property
    def _usual_spread(self) -> float:
        """Mean squared distance to the rows nearby that is usual at its own rows."""
        rows, known = self.scorer.rows, self.spread[np.isfinite(self.spread)]
        usual = float(np.quantile(known, USUAL)) if len(known) else 0.0
        if self.scorer.metric == "cosine":  # whose distances are not in the units of the rows
            return usual
        if hasattr(rows, "tocsr"):
            variance = float(rows.multiply(rows).sum(axis=1).mean() - (np.asarray(rows.mean(axis=0)) ** 2).sum())
        else:
            variance = float(np.asarray(rows, np.float64).var(axis=0).sum())
        return max(usual, NEAR * variance)

    def _mix(self, candidates: Sequence[Candidate], errors: Array) -> Shares:
        """The mixture of candidates with these errors, (m, C, Q)."""
        shares = self._share(errors)
        return Shares(tuple(candidates), shares, shares)

    def _share(self, errors: Array) -> Array:
        """The shares (C,) of predictions with these errors, (m, C, Q)."""
        if errors.shape[1] == 1:
            return np.ones(1)
        return mix_candidates((errors**2).sum(axis=-1), self.units[self.sample])

    def cross_mix(self, errors: Array) -> Array:
        """Errors (m, Q) of a mixture of errors (m, C, Q), in each fold with the shares that the others give."""
        if errors.shape[1] == 1:
            return errors[:, 0]
        losses, folds, units = (errors**2).sum(axis=-1), self.folds[self.sample], self.units[self.sample]
        mixed = np.empty((len(errors), self.Q))
        for fold in np.unique(folds):
            rows, others = folds == fold, folds != fold
            shares = mix_candidates(losses[others], units[others]) if others.any() else np.eye(errors.shape[1])[0]
            mixed[rows] = np.einsum("c,mcq->mq", shares, errors[rows])
        return mixed

    def _correct(self, shares: Shares, errors: Array, own: Correction | None) -> Shares:
        """The mixture with corrections among the candidates, from 50 rows on; `own`: that of the own model."""
        if len(self.units) < LEAST_ROWS or self.n_folds < 2:
            return shares
        whole = self._learn_correction(shares.mix_errors(errors))
        learned = replace(shares, own_correction=own, whole_correction=whole)
        return learned.with_final(self._share(learned.with_corrections(errors, self.own_errors)))

    def _learn_correction(self, errors: Array) -> Correction:
        """What corrects predictions with these errors (m, Q) on the scored rows."""
        rows = self.sample
        labels = self.agent.y.reshape(len(self.units), -1)[rows]
        return learn_correction(self.scorer.rows[rows], labels + errors, -errors, self.units[rows], self.folds[rows])

    @cached_property
    def _deleted_errors(self) -> list[Array]:
        return self._leave_out(range(self.K)) if self.K > 1 else []

    @cached_property
    def _deleted(self) -> list[Shares]:
        """The mixture without each model in turn."""
        return [
            self._mix(without_model(self.candidates, j, self.place), errors)
            for j, errors in enumerate(self._deleted_errors)
        ]

    @cached_property
    def _corrected_deleted(self) -> list[Shares]:
        """The same with corrections; of the own model only where it is not the one that is deleted."""
        return [
            self._correct(shares, errors, self.control if j != self.place else None)
            for j, (shares, errors) in enumerate(zip(self._deleted, self._deleted_errors, strict=True))
        ]

    def errors_without(self, correct: bool = False) -> Array:
        """As `left_out`, for the mixtures without each model in turn, (m, K, Q); NaN where nobody would be left."""
        if self.K == 1:
            return np.full((len(self.sample), 1, self.Q), np.nan)
        deleted = zip(self._corrected_deleted if correct else self._deleted, self._deleted_errors, strict=True)
        every = [shares.with_corrections(errors, self.own_errors) for shares, errors in deleted]
        return np.stack([self.cross_mix(errors) for errors in every], axis=1)

    # ---- intervals --------------------------------------------------------------------------------------------------

    @cached_property
    def calibration(self) -> OwnCalibration:
        """How far off its answers are on its own rows: what its intervals are made of, also with a correction.

        What is left of errors after a correction that was chosen on the same rows is less than on new ones.
        """
        return OwnCalibration(self.scorer, self.sample, self.folds[self.sample], self.left_out)

    @cached_property
    def own_calibration(self) -> OwnCalibration:
        """The same of its own model alone."""
        return OwnCalibration(self.scorer, self.sample, self.folds[self.sample], self.own_errors)


def as_distribution(values: Array) -> Array:
    """Numbers (..., Q) as probabilities: none negative, with sum 1."""
    clipped = np.clip(values, 0.0, 1.0)
    total = clipped.sum(axis=-1, keepdims=True)
    even = 1.0 / values.shape[-1]
    probabilities: Array = np.divide(clipped, total, out=np.full_like(clipped, even), where=total > 0.0)
    return probabilities


def flag_for_asker(view: AskerView, panel: Panel, told: Sequence[Flag], M: int) -> list[Flag]:
    """Flags about missing inputs of the answer for an asker: `told`, of who abstains, and models that it cannot score.

    Of a model that it cannot score at all, that alone is told.
    """
    unscored = () if view.unscored is None else np.flatnonzero(view.unscored).tolist()
    names = {view.names[model] for model in unscored}
    flags = list(flag_unscored(panel.about_columns, [(view.place, model) for model in unscored], M))
    for flag in told:
        own = flag.kind == ABSTAINS and flag.agent == view.agent.name
        if flag.agent not in names:
            flags.append(replace(flag, reason=flag.reason + MEAN_STANDS_IN) if own else flag)
    return flags


def find_unscored(scorer: Scorer, place: int) -> Mask | None:
    """Which models an asker, whose own is at `place`, could not score on its rows, (K,); None: none."""
    if scorer.unscored is None:
        return None
    others = scorer.unscored.copy()
    others[place] = False
    return others if others.any() else None


def find_distinct(scorer: Scorer, place: int, unscored: Mask | None = None) -> NDArray[np.intp]:
    """The places of the models among which an asker chooses: all that it could score, but for copies of its own."""
    left_out = find_copies(scorer, place)
    return np.setdiff1d(
        np.arange(scorer.residuals.shape[2]),
        left_out if unscored is None else np.append(left_out, np.flatnonzero(unscored)),
    )


def find_copies(scorer: Scorer, place: int) -> NDArray[np.intp]:
    """The places of peers that say of the asker's rows what its own model, the one at `place`, says of them.

    Such a copy is the own model by another name. It may have been trained on the asker's rows, and then what it says of
    them is no evidence.
    """
    agent, residuals = scorer.agent, scorer.residuals
    if residuals.shape[2] == 1:
        return np.empty(0, np.intp)
    some = sample_rows(agent, ROWS)
    labels = agent.y.reshape(agent.n_rows, -1)[some]
    if agent.own_predictions is None:
        said = residuals[some][:, :, place] + labels
    else:
        said = predict_where_able(agent, take(agent.X, some), agent.lacks)
        if (silent := np.isnan(said[:, 0])).any():  # where its model abstains there is nothing to compare
            some, labels, said = some[~silent], labels[~silent], said[~silent]
        if not len(some):
            return np.empty(0, np.intp)
    gap = np.abs(residuals[some] + labels[..., None] - said[..., None]).max(axis=(0, 1))
    unit = float(np.ptp(said)) or float(np.abs(said).max()) or 1.0
    return np.flatnonzero((gap <= SAME * unit) & (np.arange(residuals.shape[2]) != place))
