"""Collectives that version 0.1.0 saved load as they are, and answer as they did."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from degroot import Agent, Collective, saved
from degroot.answers.flags import FAR_FROM_ALL

DATA = Path(__file__).parents[1] / "data" / "0.1.0" / "collectives"
EXPECTED = json.loads((DATA / "expected.json").read_text())
SAVED = sorted(EXPECTED.keys() - {"handwritten"})

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.InconsistentVersionWarning")


def read_contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.fixture
def copy(tmp_path):
    """A copy of one of the folders; in the end it must be as it was."""
    copied = {}

    def make(name):
        copied[name] = Path(shutil.copytree(DATA / name, tmp_path / name))
        return copied[name]

    yield make
    for name, folder in copied.items():
        assert read_contents(folder) == read_contents(DATA / name)


@pytest.fixture
def asked(monkeypatch):
    """How many rows the agents' models were asked about, call by call."""
    calls, predict = [], Agent.predict

    def count(self, X):
        calls.append(X.shape[0])
        return predict(self, X)

    monkeypatch.setattr(Agent, "predict", count)
    return calls


def check_answer(collective, expected):
    answer = collective.consult(np.array(expected["points"]))
    assert list(answer.names) == expected["names"]
    for name in ("value", "standard_error", "weights", "beliefs", "trust", "influence"):
        assert_allclose(getattr(answer, name), expected[name], rtol=1e-9, atol=1e-12, err_msg=name)
    known = [flag for flag in answer.flags if flag.kind != FAR_FROM_ALL]  # which version 0.1.0 did not tell
    found = [(flag.agent, flag.kind, flag.points.tolist()) for flag in known]
    assert found == [(agent, reason.partition(":")[0], points) for agent, reason, points in expected["flags"]]


@pytest.mark.parametrize("name", SAVED)
def test_a_saved_collective_answers_as_it_did_and_scores_no_model_again(name, copy, asked):
    folder, expected = copy(name), EXPECTED[name]
    assert 'search = "exact"' in (folder / "collective.toml").read_text()  # which is no longer a setting
    saved.verify(folder)
    collective = Collective.load(folder)
    assert asked == []
    check_answer(collective, expected)
    assert asked == [len(expected["points"])] * len(collective.agents)


def test_a_collective_that_is_written_by_hand_answers_as_it_did(copy, asked):
    check_answer(Collective.load(copy("handwritten") / "collective.toml"), EXPECTED["handwritten"])
    assert max(asked) == 24  # models are asked about all rows, and that is seen


def test_a_rule_that_was_chosen_is_not_chosen_again(copy, tmp_path):
    choice = Collective.load(copy("auto")).choice
    assert choice.rule == EXPECTED["auto"]["rule"] == "stacking"
    assert_array_equal(choice.errors, EXPECTED["auto"]["errors"])
    other = shutil.copytree(DATA / "auto", tmp_path / "other") / "collective.toml"
    other.write_text(other.read_text().replace("chosen = 0\n", "chosen = 10\n"))
    assert Collective.load(other).choice.rule == "average"


def test_the_index_of_a_large_set_is_not_made_again(copy, monkeypatch):
    monkeypatch.setattr("degroot.neighbourhoods.large.rows.LARGE", 0)
    for name in ("draw", "cheapest"):
        monkeypatch.setattr(f"degroot.neighbourhoods.large.rows.{name}", lambda *_: pytest.fail("it was made again"))
    collective = Collective.load(copy("indexed"))
    check_answer(collective, EXPECTED["indexed"])
    kept = {path.stem.removeprefix("kept-") for path in (DATA / "indexed" / "agent-1").glob("kept-*.npy")}
    assert collective.scorers[0].kept.keys() == kept != set()
