"""What has left an organisation, in words: each sentence is true of the exchanges behind it, and none is missing."""

import re
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from degroot.node.records.departures import NOTHING, QUIET, WORDS, describe_departures, find_departures
from degroot.node.records.ledger import IN, OUT, LedgerEntry

NOW = datetime.fromtimestamp(0, UTC)
KINDS = sorted({kind for kind, _ in [*WORDS, *NOTHING]} | {*QUIET, "something new"})
ENTRIES = st.lists(
    st.tuples(
        st.sampled_from(["me", "south", "west"]),
        st.sampled_from(KINDS),
        st.sampled_from([IN, OUT]),
        st.integers(0, 5000),
        st.integers(0, 2),
    )
)


def entry(peer, kind, direction, rows=0, sent=1):
    return LedgerEntry(peer, kind, direction, 1, rows, sent, 0, NOW, NOW)


@pytest.mark.parametrize(
    ("kind", "direction", "rows", "words"),
    [
        ("model query", OUT, 91, "features of 91 rows were sent to south, for scoring its model"),
        ("model query", IN, 91, "predictions of our model for 91 rows were given to south"),
        ("prediction", OUT, 40, "40 asked points were sent to south, for its predictions"),
        ("prediction", OUT, 1, "1 asked point was sent to south, for its predictions"),
        ("prediction", IN, 1, "predictions of our model for 1 row were given to south"),
        ("consult", IN, 1200, "answers about 1,200 rows were given to south"),
        ("opinion", IN, 40, "pooled evidence (exact averages) near 40 points was given to south, for the consensus"),
        ("opinion", OUT, 40, "40 asked points were sent to south, for the consensus"),
        ("copy", IN, 0, "our model was given as a copy to south (it holds version 1a2b)"),
        ("pushed copy", OUT, 0, "our model was given as a copy to south (it holds version 1a2b)"),
    ],
)
def test_every_kind_of_exchange_is_a_sentence(kind, direction, rows, words):
    assert describe_departures([entry("south", kind, direction, rows)], "me", {"south": "1a2b"}) == [words]


def test_a_copy_whose_version_is_not_known_is_told_without_it_and_once():
    entries = [entry("west", "copy", IN), entry("west", "pushed copy", OUT)]
    assert describe_departures(entries, "me") == ["our model was given as a copy to west"]


@pytest.mark.parametrize(
    "nothing",
    [
        entry("south", "describe", IN),
        entry("south", "about the model", IN),
        entry("south", "copy", OUT),  # a request for theirs
        entry("south", "pushed copy", IN),  # theirs
        entry("me", "consult", IN, rows=9),  # our own people
        entry("south", "model query", IN, rows=9, sent=0),  # refused
    ],
)
def test_where_nothing_of_ours_has_left_nothing_is_said(nothing):
    assert describe_departures([nothing], "me") == []


@given(ENTRIES)
def test_every_row_that_left_is_in_one_sentence_and_the_order_of_exchanges_does_not_matter(exchanges):
    entries = [entry(*each) for each in exchanges]
    found = find_departures(entries, "me")
    left = [
        each for each in entries
        if each.peer != "me" and each.sent and each.kind not in QUIET and (each.kind, each.direction) not in NOTHING
    ]  # fmt: skip
    assert sum(each.rows for each in found) == sum(each.rows for each in left)
    assert {each.peer for each in found} == {each.peer for each in left}
    assert len(set(map(str, found))) == len(found)
    assert found == find_departures(entries[::-1], "me")
    for each in found:
        counts = [int(written.replace(",", "")) for written in re.findall(r"\b[\d,]+\b", each.what)]
        assert counts in ([], [each.rows])


def test_a_kind_that_is_not_known_is_told_all_the_same():
    assert describe_departures([entry("south", "gossip", OUT, 3)], "me") == [
        "messages of another kind (gossip) were sent to south"
    ]
