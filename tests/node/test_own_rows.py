"""Own rows that others ask about are counted, each once for each caller and day; what is answered does not change."""

import asyncio

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from degroot.node.records import own_rows
from degroot.node.records.metrics import Metrics
from degroot.node.records.own_rows import LEAST_ROWS, SHARE, OwnRowsWatch

DAY = 86_400


class Log:
    """Keeps what is told."""

    def __init__(self):
        self.lines = []

    def warning(self, event, **about):
        self.lines.append((event, about))


class Watched:
    """A watch, with its log, its metrics and a clock."""

    def __init__(self, X):
        self.now, self.log, self.metrics = 20_000.0 * DAY, Log(), Metrics()
        self.watch = OwnRowsWatch(np.asarray(X, float), self.metrics, self.log, lambda: self.now)

    def look(self, caller, points):
        self.watch.look(caller, np.asarray(points, float))
        return self.counted(caller)

    def counted(self, caller):
        """What metrics say of a caller."""
        return self.metrics.registry.get_sample_value("degroot_own_rows_asked", {"peer": caller}) or 0


def as_seen(row):
    """A row as it is compared: in single precision, and without a sign of zero."""
    with np.errstate(over="ignore"):
        return tuple(float(each) + 0.0 for each in np.asarray(row, np.float32))


def count_by_hand(X, batches):
    """How many rows of X, unique in their features, are among the points of all batches."""
    own = [as_seen(row) for row in X]
    alone = {row for row in own if own.count(row) == 1}
    return len(alone & {as_seen(point) for batch in batches for point in batch})


NUMBERS = st.sampled_from([0.0, -0.0, 1.0, -1.0, 0.1, 0.1 + 1e-12, 1e-30, 3e38, 1e300, -1e300, 1e-320, 7.5])
TABLES = hnp.arrays(float, st.tuples(st.integers(0, 25), st.just(2)), elements=NUMBERS)


@given(TABLES, st.lists(TABLES, max_size=4))
def test_what_is_counted_is_what_is_counted_by_hand(X, batches):
    watched = Watched(X)
    for end, batch in enumerate(batches, 1):
        assert watched.look("south", batch) == count_by_hand(X, batches[:end])


ROWS = np.arange(600.0).reshape(200, 3) / 7


@given(st.lists(st.tuples(st.sampled_from(["south", "west"]), st.integers(0, 40), st.integers(0, 400)), max_size=8))
def test_an_alert_takes_so_many_rows_and_a_share_of_what_was_asked_or_of_the_rows(acts):
    """By hand: at least 10 rows, and 5 % of the caller's points or of all rows; each caller by itself."""
    watched, rng = Watched(ROWS), np.random.default_rng(0)
    found, asked, expected = {"south": set(), "west": set()}, {"south": 0, "west": 0}, {}
    for caller, own, other in acts:
        places = rng.choice(len(ROWS), own, replace=False)
        watched.look(caller, np.vstack([ROWS[places], rng.normal(size=(other, 3))]))
        found[caller] |= set(places.tolist())
        asked[caller] += own + other
        rows = len(found[caller])
        if own and rows >= LEAST_ROWS and rows >= SHARE * min(asked[caller], len(ROWS)):
            expected[caller] = (rows, asked[caller])
    assert {name: (each.rows, each.asked) for name, each in watched.watch.alerts.items()} == expected
    assert {about["caller"] for _, about in watched.log.lines} == expected.keys()
    assert all(watched.counted(name) == len(places) for name, places in found.items())


def test_the_same_row_again_and_rows_that_are_alike_do_not_count():
    X = np.vstack([ROWS[:50], ROWS[:20]])  # 30 of them are alone
    watched = Watched(X)
    for _ in range(20):
        assert watched.look("south", ROWS[40:49]) == 9
    assert watched.look("south", ROWS[:20]) == 9  # there are two of each
    assert not watched.watch.alerts
    assert watched.look("south", ROWS[49:50]) == 10
    assert watched.watch.alerts["south"].rows == 10


def test_points_in_single_precision_and_other_zeros_are_the_rows_that_they_were():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(40, 3))
    X[:, 1] = 0.0
    watched = Watched(X)
    assert watched.look("south", X.astype(np.float32) * [1.0, -0.0, 1.0]) == 40
    assert Watched(X).look("south", X + np.array([0.0, 1e-3, 0.0])) == 0
    assert Watched(X).look("south", X[:, ::-1]) == 0  # the features are in order


def test_a_new_day_begins_at_nothing_and_the_alert_says_when_it_was():
    watched = Watched(ROWS)
    watched.look("south", ROWS[:9])
    watched.now += DAY - 1.0
    assert watched.look("south", ROWS[9:10]) == 10  # the same day
    at = watched.watch.alerts["south"].at
    assert at == watched.now
    watched.now += 1.0
    assert watched.look("south", ROWS[:9]) == 9
    assert watched.watch.alerts["south"].at == at
    assert watched.look("south", ROWS[20:21]) == 10
    assert watched.watch.alerts["south"].at == watched.now
    watched.now += DAY
    assert watched.look("south", ROWS[:0] + 1.0) == 0  # also in the metrics


def test_the_log_is_told_when_it_is_so_and_when_it_is_twice_as_bad():
    watched = Watched(ROWS)
    for place in range(len(ROWS)):
        watched.look("south", ROWS[place : place + 1])
    assert [about["rows"] for _, about in watched.log.lines] == [10, 20, 40, 80, 160]
    assert {event for event, _ in watched.log.lines} == {"own rows were asked about"}


@pytest.mark.parametrize("X", [ROWS[:0], np.ones((30, 3))])
def test_where_no_row_is_alone_nothing_is_told(X):
    watched = Watched(X)
    assert watched.look("south", np.ones((50, 3))) == 0
    assert watched.look("south", np.ones((0, 3))) == 0
    assert not watched.watch.alerts
    assert not watched.log.lines


def test_points_are_looked_at_and_left_as_they_are():
    watched, points = Watched(ROWS), ROWS[:50].copy()
    points[0, 0] = -0.0
    before = points.tobytes()
    assert watched.watch.look("south", points) is None  # nothing that a reply could hang on
    assert points.tobytes() == before
    points.setflags(write=False)
    watched.look("south", points)


@pytest.mark.parametrize("most", [10_000, 3])
def test_what_is_noted_is_looked_at_a_little_later_as_if_at_once(monkeypatch, most):
    monkeypatch.setattr(own_rows, "MAX_NOTED_ROWS", most)
    if most < 10_000:  # then it is not the clock that decides
        monkeypatch.setattr(own_rows, "LATER_SECONDS", 3600.0)
    batches = [("south", ROWS[:4]), ("west", ROWS[40:52]), ("south", ROWS[2:9]), ("south", ROWS[30:31] + 1.0)]
    at_once, later = Watched(ROWS), Watched(ROWS)

    async def note():
        for caller, points in batches:
            later.watch.note(caller, points)
        assert not later.watch.alerts
        async with asyncio.timeout(60):
            while later.counted("south") < 9:
                await asyncio.sleep(0.01)

    asyncio.run(note())
    for caller, points in batches:
        at_once.look(caller, points)
    for caller in ("south", "west"):
        assert later.counted(caller) == at_once.counted(caller) > 0
    assert later.watch.alerts == at_once.watch.alerts
