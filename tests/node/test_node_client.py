"""A collective of nodes as its client sees it, over a channel that is no network."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from degroot import Collective, InvalidInput, plot
from degroot.answers import Consensus, Consultable
from degroot.answers.choice import Mixture
from degroot.answers.flags import Flag
from degroot.node.answering.terms import merge_batches
from degroot.node.client import RemoteCollective
from degroot.node.protocol.codec import PROTOCOL, Malformed, NodeAnswer, decode_answer, encode_answer
from degroot.node.protocol.v3 import collective_pb2 as wire

NAMES, FEATURES = ("north", "south"), ["a", "b"]


class Channel:
    """Answers every row with its number, and describes two nodes."""

    def __init__(self, fields=("value", "interval", "weights")):
        self.asked, self.fields = [], fields

    def unary_unary(self, method, **_):
        return self.describe if method.endswith("/Describe") else self.answer

    def stream_stream(self, _method, **_):
        return None

    def stream_unary(self, _method, **_):
        return None

    def describe(self, _request, **_):
        members = [wire.Member(name="south", state="ready")]
        return wire.Description(
            protocol=PROTOCOL, name="north", n_features=2, feature_names=FEATURES, members=members, fields=self.fields
        )

    def answer(self, request, **_):
        self.asked.append(request)
        M = request.points.shape[0]
        known = {"value": np.arange(float(M))[:, None], "weights": np.full((M, 2), 0.5)}
        fields = {name: known.get(name, np.zeros((M, 2, 1))) for name in request.fields}
        fields |= {"correction": np.zeros((M, 1))} if "correction" in fields else {}
        return encode_answer(NodeAnswer(NAMES, fields, (), asker="north" if request.view == "own" else None), None)

    def close(self):
        pass


@pytest.fixture
def nodes():
    return RemoteCollective(Channel(), "127.0.0.1:7441")


def test_both_kinds_of_collectives_have_all_that_code_which_asks_may_use():
    wanted = {name for name in vars(Consultable) if not name.startswith("_")}
    assert wanted >= {"names", "feature_names", "outputs", "classes", "predict", "consult", "calibrate"}
    for kind in (Collective, RemoteCollective):
        assert wanted <= set(dir(kind))


def test_a_collective_of_nodes_has_nothing_that_it_cannot_do(nodes):
    assert not isinstance(nodes, Collective)
    for name in ("agents", "scorers", "guarded", "save", "load", "audit", "join", "leave", "replace", "n_jobs"):
        assert not hasattr(nodes, name)
    assert not nodes.takes_gaps
    assert nodes.calibrate() is nodes


def test_it_is_described_and_displayed_by_its_nodes(nodes):
    assert (nodes.names, nodes.feature_names, nodes.outputs, nodes.classes) == (NAMES, FEATURES, None, ())
    assert repr(nodes) == "RemoteCollective(north, south; through '127.0.0.1:7441')"
    assert "RemoteCollective(north, south" in nodes._repr_html_()


@pytest.mark.parametrize(
    ("X", "said"),
    [
        ([[1.0]], "`X` must have 2 features, as the nodes' rows do; got 1."),
        ([1.0, 2.0], "`X` must be 2-dimensional, (rows, features); its shape is (2,)."),
        (pd.DataFrame({"b": [1.0], "a": [2.0]}), "feature 0 is 'b', not 'a'."),
        ([[1.0, np.nan]], "`X` must be finite; row 0, column 1 is nan."),
        ([["1", "2"]], "`X` must hold numbers; it holds <U1."),
    ],
)
def test_points_are_checked_before_anybody_is_asked(nodes, X, said):
    for ask in (nodes.predict, nodes.consult):
        with pytest.raises(InvalidInput) as caught:
            ask(X)
        assert said in str(caught.value)
    assert nodes._channel.asked == []


def test_what_draws_answers_asks_nodes_as_it_asks_a_collective_in_process(nodes):
    assert_array_equal(nodes.predict(np.zeros((3, 2))), [0.0, 1.0, 2.0])
    assert isinstance(nodes.consult(np.zeros((3, 2)), "value"), Consensus)
    assert plot.weights(nodes, np.arange(6.0).reshape(3, 2)).get_ylabel() == "weight"


def test_the_own_view_is_asked_for_and_the_consensus_only_by_name(nodes):
    assert nodes.consult(np.zeros((3, 2)), "value").asker == "north"
    neutral = RemoteCollective(Channel(), "127.0.0.1:7441", view="consensus")
    assert neutral.consult(np.zeros((3, 2)), "value").asker is None
    assert [each.view for each in (*nodes._channel.asked, *neutral._channel.asked)] == ["own", "consensus"]
    assert RemoteCollective(Channel(), "127.0.0.1:7441", way="rounds").view == "consensus"


@pytest.mark.parametrize(
    ("granted", "asked"),
    [
        (("value", "interval"), ["value"]),
        (("weights", "trust"), ["weights", "correction"]),
        (("beliefs",), ["beliefs", "influence"]),
        ((), []),
    ],
)
def test_what_nobody_names_is_asked_for_as_far_as_it_is_granted(granted, asked):
    nodes = RemoteCollective(Channel(granted), "127.0.0.1:7441")
    assert nodes.granted == set(granted)
    nodes.consult(np.zeros((3, 2)))
    assert sorted(nodes._channel.asked[0].fields) == sorted(asked)
    nodes.consult(np.zeros((3, 2)), "weights")  # who names a field asks for it: the node refuses, or not
    assert nodes._channel.asked[1].fields == ["weights"]


@pytest.mark.parametrize("setting", ["guard", "unguarded", "queries"])
def test_the_guard_and_the_evidence_are_not_for_the_caller_to_choose(setting):
    with pytest.raises(TypeError, match=setting):
        RemoteCollective(Channel(), "127.0.0.1:7441", **{setting: False})


def test_intervals_of_the_consensus_are_refused_before_anybody_is_asked():
    nodes = RemoteCollective(Channel(), "127.0.0.1:7441", view="consensus")
    with pytest.raises(InvalidInput) as caught:
        nodes.consult(np.zeros((3, 2)), coverage=0.9)
    assert str(caught.value) == (
        "Intervals between nodes must be asked for with a node's own view, on whose rows they are calibrated; got "
        "`coverage` with the consensus."
    )
    assert nodes._channel.asked == []


def an_answer(names, M, Q=1, rounds=0):
    rng, K = np.random.default_rng(M), len(names)
    shapes = {"value": (M, Q), "weights": (M, K), "trust": (M, K, K), "beliefs": (M, K, Q), "lower": (M, Q)}
    fields = {name: rng.normal(size=shape) for name, shape in shapes.items()}
    fields["beliefs"][0, 0] = np.nan  # as of an agent that is missing
    flags = (Flag(names[0], "missing: late", np.array([0, M - 1])),)
    mixed = Mixture(names[0], ("own", "centred"), *rng.random((4, 2)), rows=M, folds=2)
    return NodeAnswer(names, fields, flags, rounds, names[0], mixed)


@pytest.mark.parametrize(("outputs", "Q"), [(None, 1), (1, 1), (3, 3)])
def test_an_answer_comes_out_of_the_codec_as_it_went_in(outputs, Q):
    sent = an_answer(NAMES, 5, Q, rounds=7)
    message = wire.Answer.FromString(encode_answer(sent, outputs).SerializeToString())
    came = decode_answer(message, list(sent.fields), outputs)
    assert (came.names, came.rounds, came.missing) == (sent.names, sent.rounds, sent.missing)
    assert came.fields.keys() == sent.fields.keys()
    for name, values in sent.fields.items():
        assert_array_equal(came.fields[name], values)
    assert_array_equal(came.flags[0].points, sent.flags[0].points)
    assert (came.asker, came.choice.candidates) == (sent.asker, sent.choice.candidates)
    assert str(came.choice) == str(sent.choice)


def test_an_answer_without_a_field_that_was_asked_for_is_refused():
    message = encode_answer(an_answer(NAMES, 5), None)
    for fields in (["influence"], ["value", "upper"]):
        with pytest.raises(Malformed, match=f"`{fields[-1]}` must have the shape"):
            decode_answer(message, fields, None)


def test_batches_become_one_answer_whoever_was_in_the_roster():
    first, second = an_answer(NAMES, 4), an_answer(("north", "west"), 3, rounds=2)
    whole = merge_batches([first, second], None, NAMES, coverage=0.9)
    assert whole.names == ("north", "south", "west")
    assert (whole.points, whole.outputs, whole.rounds, whole.coverage) == (7, None, 2, 0.9)
    assert (whole.asker, whole.choice) == ("north", second.choice)
    for name in ("value", "lower"):
        assert_array_equal(getattr(whole, name), np.r_[first.fields[name], second.fields[name]][:, 0])
    assert_array_equal(whole.weights[:4], np.c_[first.fields["weights"], np.zeros(4)])
    assert_array_equal(whole.beliefs[4:, [0, 2]], second.fields["beliefs"][..., 0])
    assert np.isnan(whole.beliefs[4:, 1]).all()
    assert_array_equal(whole.trust[4:][:, [0, 2]][:, :, [0, 2]], second.fields["trust"])
    flags = {flag.agent: (flag.reason, flag.points.tolist()) for flag in whole.flags}
    assert flags.pop("north")[1] == [0, 3, 4, 6]
    unlisted = "missing: not in the roster"  # of the node when it answered
    assert flags == {"west": (unlisted, [0, 1, 2, 3]), "south": (unlisted, [4, 5, 6])}


def test_a_batch_alone_is_the_whole_answer():
    alone = an_answer(NAMES, 4, Q=2)
    whole = merge_batches([alone], 2, NAMES)
    assert (whole.names, whole.rounds, whole.outputs) == (NAMES, None, 2)
    for name, values in alone.fields.items():
        assert_array_equal(getattr(whole, name), values)
