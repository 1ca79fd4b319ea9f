"""Labels without probabilities: every agent whose model gives them says so, once."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression, Ridge, RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from degroot import Agent, Collective, DeGrootRegressor
from degroot.exceptions import HardLabelsWarning

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(60, 2))
LABELS = (X[:, 0] > 0).astype(int) + (X[:, 1] > 1)


def list_warned(warned):
    """The agents of the warnings about labels."""
    return [each.message.agent for each in warned if isinstance(each.message, HardLabelsWarning)]


def ask_twice(agents, points):
    collective = Collective(agents, neighbours=5)
    for _ in range(2):
        collective.predict(points)


def test_a_gap_in_the_rows_does_not_swallow_the_warning():
    frame = pd.DataFrame({"town": RANDOM.choice(["a", "b"], 60), "owner": RANDOM.choice(["u", "v"], 60)})
    y = np.where(frame["town"] == "a", "yes", "no")
    model = make_pipeline(OneHotEncoder(handle_unknown="ignore"), RidgeClassifier()).fit(frame, y)
    for gaps in (frame, frame.assign(owner=frame["owner"].where(np.arange(60) > 0))):
        agents = [Agent(model, gaps, y, name, classes=["no", "yes"]) for name in ("north", "south")]
        with pytest.warns(HardLabelsWarning) as warned:
            ask_twice(agents, gaps)
        assert sorted(list_warned(warned)) == ["north", "south"]


@pytest.mark.parametrize(
    "model",
    [RidgeClassifier(), LogisticRegression(), make_pipeline(StandardScaler(), LogisticRegression())],
    ids=["labels", "probabilities", "pipeline"],
)
def test_a_classifier_that_predicts_numbers_says_so(model):
    with pytest.warns(HardLabelsWarning, match="give the agent `classes`, or use DeGrootClassifier") as warned:
        ask_twice([Agent(model.fit(X, LABELS), X, LABELS, name) for name in ("north", "south")], X)
    assert list_warned(warned) == ["north", "south"]
    again = pickle.loads(pickle.dumps(warned[0].message))
    assert str(again) == str(warned[0].message)
    with warnings.catch_warnings(action="error"):
        Agent(Ridge().fit(X, LABELS), X, LABELS, "north")
        if hasattr(model, "predict_proba"):
            Collective([Agent(model, X, LABELS, "north", classes=[0, 1, 2])], neighbours=5).predict(X)


def test_a_regressor_of_classifiers_says_so_of_each_agent():
    with pytest.warns(HardLabelsWarning) as warned:
        DeGrootRegressor(LogisticRegression(), n_agents=3, random_state=0).fit(X, LABELS).predict(X)
    assert list_warned(warned) == ["agent 1", "agent 2", "agent 3"]
