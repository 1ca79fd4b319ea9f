"""Intervals over nodes: what all who answer tell of their rehearsed rows becomes bounds or sets of classes."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from degroot.compute.compiled import Array
from degroot.exceptions import InvalidInput
from degroot.intervals import half_width, prediction_sets, threshold
from degroot.node.intervals.leave_one_out import overall_error, pooled_error
from degroot.node.protocol.codec import CalibrationSummary, Model, NodeAnswer, PeerOpinion


def add_bounds(
    answered: NodeAnswer, told: Sequence[CalibrationSummary], coverage: float, *, classes: bool
) -> NodeAnswer:
    """The answer with `lower` and `upper`, or with `sets` of classes; its fields must have the value."""
    summaries = [each.summary for each in told if each.summary is not None]
    value, reached = answered.fields["value"], threshold(summaries, coverage)
    found: dict[str, Array]
    if classes:
        found = {"sets": prediction_sets(value, float(reached[0])).astype(float)}
    else:
        overall = overall_error(told)
        half = half_width(reached, pooled_error(told, overall), overall)
        found = {"lower": value - half, "upper": value + half}
    return replace(answered, fields=answered.fields | found)


def collect_calibration(members: Sequence[str], opinions: Mapping[str, PeerOpinion]) -> list[CalibrationSummary]:
    """What the members tell of their rehearsed rows, if all have rehearsed with all models that answer."""
    models = {Model(name, opinions[name].version) for name in members}
    told = {name: opinions[name].calibrated for name in members}
    lacking = {name: why for name, each in told.items() if (why := _lacking(each, models))}
    if lacking:
        reasons = "; ".join(f"{name}: {reason.rstrip('.')}" for name, reason in lacking.items())
        raise InvalidInput(f"Intervals must be calibrated at all nodes that answer; not yet at {reasons}.")
    return [each for each in told.values() if each is not None]


def _lacking(told: CalibrationSummary | None, models: set[Model]) -> str:
    """What is lacking, if anything is."""
    if told is None:
        return "it tells nothing for intervals"
    others = sorted(name for name, _ in models - set(told.models))
    if told.lacking or not others:
        return told.lacking or ("" if told.summary is not None else "it waits for the others to rehearse")
    return f"it has not rehearsed yet with {', '.join(others)} as they are now"
