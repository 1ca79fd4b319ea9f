"""A collective of nodes as its client sees it, over a channel that is no network."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from degroot import Collective, InvalidInput, plot
from degroot.answers import Consensus, Consultable
from degroot.node.client import RemoteCollective
from degroot.node.protocol.tensors import tensor
from degroot.node.protocol.v1 import collective_pb2 as v1

NAMES, FEATURES = ("north", "south"), ["a", "b"]


class Channel:
    """Answers every row with its number, and describes two nodes."""

    def __init__(self):
        self.asked = []

    def unary_unary(self, method, **_):
        return self.describe if method.endswith("/Describe") else self.answer

    def stream_stream(self, _method, **_):
        return None

    def describe(self, _request, **_):
        members = [v1.Member(name="south", state="ready")]
        return v1.Description(protocol=1, name="north", n_features=2, feature_names=FEATURES, members=members)

    def answer(self, request, **_):
        self.asked.append(request)
        M = request.points.shape[0]
        known = {"value": np.arange(float(M))[:, None], "weights": np.full((M, 2), 0.5)}
        return v1.Answer(names=NAMES, fields={name: tensor(known[name]) for name in request.fields})

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
