"""What a collective has prepared is saved with it: its calibration, and what making the views of askers takes."""

import pickle
import re
import shutil
from copy import copy

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from support.askers import ASKERS, KINDS, NAMES, POINTS, make_agents
from support.refusals import complaint

from degroot import Collective, saved
from degroot.consultation.asker import AskerView
from degroot.files.toml import toml_text

FIELDS = ("value", "standard_error", "weights", "beliefs", "influence", "correction", "lower", "upper", "sets")


@pytest.fixture
def left_out(monkeypatch):
    """The agents whose rows were left out, view by view: what is not to be done again."""
    done, leave_out = [], AskerView._leave_out

    def count(self, withouts):
        done.append((self.agent.name, *withouts))
        return leave_out(self, withouts)

    monkeypatch.setattr(AskerView, "_leave_out", count)
    return done


def assert_same(found, expected):
    for name in FIELDS:
        one, other = getattr(found, name), getattr(expected, name)
        assert (one is None) == (other is None), name
        if one is not None:
            assert_allclose(one, other, rtol=1e-9, atol=1e-12, err_msg=name)


def contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# -- the same answers --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_a_loaded_collective_answers_askers_as_it_did(tmp_path, kind):
    made = Collective(make_agents(kind, n=60), rule="stacking").calibrate()
    whole, corrected = {"coverage": 0.9, "asker": ASKERS}, {"fields": "value", "asker": "south", "correct": True}
    expected = [made.consult(POINTS, **about) for about in (whole, corrected)]
    loaded = Collective.load(made.save(tmp_path / "one"))
    for about, answer in zip((whole, corrected), expected, strict=True):
        assert_same(loaded.consult(POINTS, **about), answer)


@pytest.mark.parametrize("kind", KINDS)
def test_a_calibration_is_saved_and_loaded(tmp_path, kind, monkeypatch):
    made = Collective(make_agents(kind, n=60)).calibrate()
    loaded = Collective.load(made.save(tmp_path / "one"))
    monkeypatch.setattr("degroot.collective.calibrate", None)  # which would do it again
    assert loaded.is_calibrated
    for coverage in (0.5, 0.9):
        assert_same(loaded.consult(POINTS, coverage=coverage), made.consult(POINTS, coverage=coverage))
    assert "intervals: calibrated" in loaded._view().text()
    assert str(loaded.calibration) == str(made.calibration)
    assert not Collective.load(Collective(make_agents(kind, n=60)).save(tmp_path / "bare")).is_calibrated


def test_settings_of_views_are_saved_and_loaded(tmp_path):
    for correct in (False, True):
        loaded = Collective.load(Collective(make_agents(), correct=correct).save(tmp_path / f"{correct}"))
        assert (loaded.correct, loaded.evidence) == (correct, "own")
    answers = [Collective.load(tmp_path / name).predict(POINTS, "north") for name in ("False", "True")]
    assert_array_equal(answers[1], Collective(make_agents()).predict(POINTS, "north", correct=True))
    assert not np.array_equal(*answers)


def test_a_file_by_hand_may_ask_for_corrections(tmp_path):
    folder = Collective(make_agents()).save(tmp_path / "one")
    text = (folder / "collective.toml").read_text()
    file = folder / "by-hand.toml"
    file.write_text(re.sub(r"^correct = .*$", "correct = true", text, flags=re.MULTILINE))
    assert Collective.load(file).correct is True
    file.write_text(re.sub(r"^correct = .*$", 'correct = "yes"', text, flags=re.MULTILINE))
    assert complaint(lambda: Collective.load(file)).endswith("`correct` must be true or false; got 'yes'.")
    file.write_text(re.sub(r"^evidence = .*$", 'evidence = "hearsay"', text, flags=re.MULTILINE))
    assert complaint(lambda: Collective.load(file)).endswith("`evidence` must be one of 'own'; got 'hearsay'.")


# -- nothing is done twice ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_views_that_were_made_are_not_made_again(tmp_path, kind, left_out):
    made = Collective(make_agents(kind))
    expected = made.predict(POINTS, "north")
    assert left_out == [("north", -1)]
    loaded = Collective.load(made.save(tmp_path / "one"))
    assert_allclose(loaded.predict(POINTS, "north"), expected, rtol=1e-9)
    assert left_out == [("north", -1)]
    loaded.predict(POINTS, "south")  # of which nothing is known
    assert left_out == [("north", -1), ("south", -1)]


def test_a_rule_that_was_chosen_keeps_its_calibration_and_views(tmp_path, left_out):
    made = Collective(make_agents(n=60), rule="auto").calibrate()
    expected = made.consult(POINTS, ["value"], coverage=0.9, asker=["north", None] * 6)
    loaded = Collective.load(made.save(tmp_path / "one"))
    assert str(loaded.choice) == str(made.choice)
    assert_same(loaded.consult(POINTS, ["value"], coverage=0.9, asker=["north", None] * 6), expected)
    assert left_out == [("north", -1)]


def test_what_is_saved_depends_on_the_collective_only(tmp_path):
    made = Collective(make_agents()).calibrate()
    made.predict(POINTS, "west")
    first = made.save(tmp_path / "one")
    saved.verify(first)
    assert {path.name for path in (first / "agent-3").iterdir()} >= {"view-errors.npy", "view-spread.npy"}
    loaded = Collective.load(first)
    assert contents(loaded.save(tmp_path / "two")) == contents(first)  # before the view was opened
    loaded.predict(POINTS, "west")
    assert contents(loaded.save(tmp_path / "three")) == contents(first)


def test_copies_and_pickles_keep_what_is_known_of_views(left_out):
    made = Collective(make_agents()).calibrate()
    expected = made.consult(POINTS, ["value"], asker="north", coverage=0.9)
    for other in (copy(made), pickle.loads(pickle.dumps(made))):
        other.n_jobs = 1
        assert_same(other.consult(POINTS, ["value"], asker="north", coverage=0.9), expected)
        assert other.is_calibrated
    assert left_out == [("north", -1)]
    assert made._views.places == {0}  # its own view, with its own threads, is still there
    assert made.view_of("north").n_jobs is None


# -- nothing that is stale is used -------------------------------------------------------------------------------------


def test_another_rule_needs_another_calibration_and_other_views(tmp_path, left_out):
    made = Collective(make_agents(), neighbours=20).calibrate()
    made.predict(POINTS, "north")
    loaded = Collective.load(made.save(tmp_path / "one"))
    del left_out[:]
    loaded.rule = "stacking"
    assert not loaded.is_calibrated
    assert complaint(lambda: loaded.consult(POINTS, coverage=0.9)).startswith("Intervals must be calibrated")
    assert_array_equal(loaded.predict(POINTS, "north"), Collective(
        make_agents(), neighbours=20, rule="stacking"
    ).predict(POINTS, "north"))  # fmt: skip
    assert left_out == [("north", -1)] * 2
    loaded.rule = "degroot"
    assert loaded.is_calibrated


@pytest.mark.parametrize("change", ["join", "leave", "replace"])
def test_other_agents_make_all_of_it_void(tmp_path, change, left_out):
    made = Collective(make_agents()).calibrate()
    made.predict(POINTS, "north")
    loaded = Collective.load(made.save(tmp_path / "one"))
    other = make_agents(n=80)[2]
    if change == "join":
        other.name = "east"
    getattr(loaded, change)("west" if change == "leave" else other)
    del left_out[:]
    assert not loaded.is_calibrated
    assert_allclose(loaded.predict(POINTS, "north"), Collective(loaded.agents).predict(POINTS, "north"), rtol=1e-9)
    assert left_out == [("north", -1)] * 2


def test_settings_that_were_changed_in_the_file_make_all_of_it_void(tmp_path, left_out):
    made = Collective(make_agents(), neighbours=20).calibrate()
    made.predict(POINTS, "north")
    file = made.save(tmp_path / "one") / "collective.toml"
    text = file.read_text()
    for before, after in (("neighbours = 20", "neighbours = 10"), ('"euclidean"', '"manhattan"')):
        del left_out[:]
        assert before in text
        file.write_text(text.replace(before, after, 1))
        loaded = Collective.load(file)
        assert not loaded.is_calibrated
        loaded.predict(POINTS, "north")
        assert left_out == [("north", -1)]


def test_other_files_make_all_of_it_void(tmp_path, left_out):
    """Rows of another collective, with their own digests: what was prepared was not made from them."""
    made, other = Collective(make_agents(), 20).calibrate(), Collective(make_agents(n=91), 20)
    made.predict(POINTS, "north")
    folder, others = made.save(tmp_path / "one"), other.save(tmp_path / "two")
    text, digests = (folder / "collective.toml").read_text(), dict(saved.document.Document.read(folder).digests)
    shutil.copytree(others, folder, dirs_exist_ok=True)
    digests |= saved.document.Document.read(others).digests
    head = text[: text.index("[digests]")]
    (folder / "collective.toml").write_text(head + toml_text({"digests": digests}))
    del left_out[:]
    loaded = Collective.load(folder)
    assert not loaded.is_calibrated
    assert_allclose(loaded.predict(POINTS, "north"), other.predict(POINTS, "north"), rtol=1e-9)
    assert left_out == [("north", -1)] * 2


def test_a_view_of_another_version_is_made_again(tmp_path, left_out, monkeypatch):
    made = Collective(make_agents())
    made.predict(POINTS, "north")
    folder = made.save(tmp_path / "one")
    monkeypatch.setattr("degroot.saved.prepared.version", lambda name: "0.0.1")
    Collective.load(folder).predict(POINTS, "north")
    assert left_out == [("north", -1)] * 2


@pytest.mark.parametrize(
    ("file", "array", "told"),
    [
        ("agent-1/calibration-squares.npy", np.ones((3, 1)), "calibration-squares.npy must hold 90 x 1 numbers"),
        ("agent-2/calibration-scores.npy", np.ones(3), "calibration-scores.npy must hold"),
        ("agent-1/view-spread.npy", np.ones(3), "view-spread.npy must hold 90 numbers"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(tmp_path, file, array, told, monkeypatch):
    made = Collective(make_agents()).calibrate()
    made.predict(POINTS, NAMES[0])
    folder = made.save(tmp_path / "one")
    np.save(folder / file, array)
    assert f"{file} must be as it was saved" in complaint(lambda: Collective.load(folder))
    monkeypatch.setattr("degroot.saved.loading.SMALL", 0)  # as of a large one, of which not all is read
    assert told in complaint(lambda: Collective.load(folder))
