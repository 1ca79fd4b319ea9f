"""`degroot train` with classes: numbers as labels, and the usual figures of classifiers on held-out rows."""

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from rich.console import Console
from sklearn.metrics import brier_score_loss, roc_auc_score

from degroot import InvalidInput
from degroot.training import train
from degroot.training.class_scores import score_classes
from degroot.training.organisations import gather

NAMES = ("north", "south", "west")


def frame(name, classes=2, n=60):
    random = np.random.default_rng(NAMES.index(name))
    table = pd.DataFrame(random.normal(NAMES.index(name) / 2 - 0.5, 1.0, size=(n, 2)), columns=["size", "age"])
    score = table["size"] - table["age"] + random.normal(size=n)
    return table.assign(sold=np.digitize(score, np.linspace(-1, 1, classes + 1)[1:-1]))


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with a file for each organisation, whose target is 0 or 1."""
    monkeypatch.chdir(tmp_path)
    for name in NAMES:
        frame(name).to_csv(f"{name}.csv", index=False)
    return tmp_path


def trained(place, target="sold", **settings):
    files = [place / f"{name}.csv" for name in NAMES]
    return train(files, target, place / "out", **{"model": "linear", "classes": True} | settings)


# -- numbers as labels -------------------------------------------------------------------------------------------------


def test_a_number_is_one_label_however_the_files_write_it(place):
    frame("south").astype({"sold": float}).to_csv("south.csv", index=False)
    frame("west").astype({"sold": float}).to_parquet("west.parquet")
    files = [place / file for file in ("north.csv", "south.csv", "west.parquet")]
    found = gather(files, "sold", classes=True)
    assert found.classes == ("0", "1")
    for organisation in found.organisations:
        assert organisation.y.tolist() == [str(label) for label in frame(organisation.name)["sold"]]


@pytest.mark.parametrize(
    ("written", "labels"),
    [
        (["1", "2", "10"], ("1", "2", "10")),
        (["1.0", "2.50", "1e1"], ("1", "2.5", "10")),
        (["01", "02", "10"], ("01", "02", "10")),
        (["98765432109876543210", "98765432109876543211", "3"], ("3", "98765432109876543210", "98765432109876543211")),
        (["1.0", "2.0", "unknown"], ("unknown", "1.0", "2.0")),
    ],
)
def test_labels_are_numbers_in_order_or_as_they_are_written(place, written, labels):
    for name in NAMES:
        frame(name).assign(sold=written * 20).to_csv(f"{name}.csv", index=False)
    assert gather([place / f"{name}.csv" for name in NAMES], "sold", classes=True).classes == labels


def test_numbers_that_are_no_classes_are_refused_with_what_to_do(place):
    for name in NAMES:
        frame(name).assign(sold=np.arange(60) / 8).to_csv(f"{name}.csv", index=False)
    told = "must have 2 to 50 labels; 'sold' has 60 labels, such as '0'. Without --classes its numbers are predicted."
    with pytest.raises(InvalidInput, match=re.escape(told)):
        trained(place)
    for name in NAMES:
        frame(name).assign(sold=1).to_csv(f"{name}.csv", index=False)
    with pytest.raises(InvalidInput, match=r"must have 2 to 50 labels; 'sold' has '1' only\.$"):
        trained(place)


# -- scores ------------------------------------------------------------------------------------------------------------


def make_answers(Q, sizes=(30, 50), seed=0):
    """One-hot outcomes and probabilities of organisations with so many rows."""
    random = np.random.default_rng(seed)
    labels = [random.integers(Q, size=n) for n in sizes]
    chances = [random.dirichlet(np.ones(Q), size=n) for n in sizes]
    return labels, [np.eye(Q)[each] for each in labels], chances


@pytest.mark.parametrize("Q", [2, 4])
def test_scores_are_those_of_scikit_learn(Q):
    labels, truths, chances = make_answers(Q)
    found = score_classes(truths, chances)
    pairs = [*zip(labels, chances, strict=True), (np.concatenate(labels), np.concatenate(chances))]
    for k, (y, p) in enumerate(pairs):
        assert found.error_rate[k] == pytest.approx(np.mean(p.argmax(axis=1) != y))
        assert found.log_loss[k] == pytest.approx(-np.log(p[np.arange(len(y)), y]).mean())
        ones = [brier_score_loss(y == q, p[:, q]) for q in range(Q)]  # of each class against the rest
        assert found.brier[k] == pytest.approx(np.sum(ones))
        assert found.auc[k] == pytest.approx(roc_auc_score(y, p[:, 1] if Q == 2 else p, multi_class="ovr"))


def test_the_auc_is_over_classes_that_occur_and_there_is_none_of_one_class():
    labels, _, chances = make_answers(3)
    y = np.minimum(labels[0], 1)
    found = score_classes([np.eye(3)[y], np.eye(3)[0 * labels[1]]], chances)
    expected = [roc_auc_score(y == q, chances[0][:, q]) for q in (0, 1)]
    assert found.auc[0] == pytest.approx(np.mean(expected))
    assert np.isnan(found.auc[1])
    assert np.isfinite([found.error_rate, found.log_loss, found.brier]).all()


def test_scores_stand_below_the_gains_and_in_their_file(place):
    gains = trained(place).gains
    for name, scores in gains.scores.items():
        np.testing.assert_allclose(scores.brier, [*getattr(gains, name), gains.total(name)])
    told = str(gains).split("\n")
    start = told.index("On all 36 rows together; AUC of '1':")
    assert told[start + 1].split() == ["error", "rate", "log", "loss", "Brier", "score", "AUC"]
    own = gains.scores["own"]
    for line, name in zip(told[start + 2 :], gains.scores, strict=True):
        scores = gains.scores[name]
        expected = [scores.error_rate[-1], scores.log_loss[-1], scores.brier[-1], scores.auc[-1]]
        assert line.split() == [name, *(f"{value:.4f}" for value in expected)]
    for shown in (gains._repr_html_(), capture(gains)):
        assert "AUC" in shown
        assert f"{own.log_loss[-1]:.4f}" in shown
    table = pd.read_csv(place / "out" / "gains.csv")
    np.testing.assert_allclose(table["collective_auc"], gains.scores["collective"].auc[:-1])
    np.testing.assert_allclose(table["own_log_loss"], own.log_loss[:-1])
    np.testing.assert_allclose(table["pooled_error_rate"], gains.scores["pooled"].error_rate[:-1])


def capture(viewed):
    console = Console(width=200)
    with console.capture() as captured:
        console.print(viewed)
    return captured.get()


def test_rows_of_one_class_have_no_auc_which_is_told(place):
    gains = trained(place).gains
    known = gains.scores["own"]
    empty = {"own": replace(known, auc=np.full(4, np.nan))}
    told = str(replace(gains, scores=empty))
    assert (
        "On all 36 rows together; no AUC, as all rows are of one class:\n     error rate  log loss  Brier score" in told
    )


def test_numbers_have_no_scores_of_classes(place):
    gains = trained(place, classes=False).gains
    assert gains.scores is None
    assert "log loss" not in str(gains)
    assert not any("log_loss" in name for name in gains.to_frame().columns)


# -- files that cannot be read -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("others", [[], ["north.csv"]])
def test_a_file_that_is_missing_or_a_spreadsheet_is_named(place, others):
    files = [place / file for file in ["sales.xlsx", *others]]
    with pytest.raises(InvalidInput, match=r"sales\.xlsx: No such file"):
        train(files, "sold", place / "out")
    (place / "sales.xlsx").touch()
    with pytest.raises(InvalidInput, match=r"got .*sales.xlsx. Save its sheet as .csv."):
        train(files, "sold", place / "out")
