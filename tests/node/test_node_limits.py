"""Limits: laws of the bucket and of a day's budget, slots that come back, and memory that does not grow."""

import asyncio
from collections import Counter
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from degroot.node.config import Limits
from degroot.node.records.ledger import IN, OUT, Ledger
from degroot.node.server.access import LINES, Allowance, Allowances, Bucket, DailyBudgets, Exceeded, RefusalLines


class Clock:
    """Time as the test has it."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


RATES = st.floats(0.01, 1e6)
PAUSES = st.floats(0, 100)


@given(RATES, st.lists(st.tuples(PAUSES, st.floats(0, 1e6)), max_size=60))
def test_in_no_window_more_is_taken_than_rate_and_burst_allow(rate, asked):
    clock = Clock()
    bucket, taken = Bucket(rate, clock), []
    for pause, tokens in asked:
        clock.now += pause
        if bucket.take(tokens):
            taken.append((clock.now, tokens))
    for start, (begun, _) in enumerate(taken):
        total = 0.0
        for at, tokens in taken[start:]:
            total += tokens
            assert total <= (rate * (at - begun) + bucket.burst) * (1 + 1e-9)


@given(RATES, st.lists(st.tuples(PAUSES, st.floats(0, 1e6)), max_size=60))
def test_what_is_within_the_rate_always_passes(rate, asked):
    clock = Clock()
    bucket = Bucket(rate, clock)
    for pause, tokens in asked:
        bucket.take(tokens)
        clock.now += pause + bucket.burst / rate + 1e-6  # it is full again
        assert bucket.take(bucket.burst * (1 - 1e-9))
        bucket.put_back(bucket.burst * (1 - 1e-9))


@given(st.lists(st.tuples(st.sampled_from([0.0, 0.0, 0.1, 0.5, 3.0]), st.sampled_from("abcd")), max_size=120))
def test_every_callers_first_refusal_is_logged_and_every_other_is_logged_or_counted(refusals):
    clock = Clock()
    lines, begun = RefusalLines(clock), clock.now
    seen, unlogged, logged = set(), 0, 0
    for pause, name in refusals:
        clock.now += pause
        counted = lines.take(name)
        if counted is None:
            assert name in seen
            assert pause < 1.0  # after a second's silence there is room
            unlogged += 1
        else:
            assert counted == unlogged
            unlogged, logged = 0, logged + 1
        seen.add(name)
    assert logged <= LINES * (clock.now - begun) + LINES + len(seen)


def test_of_those_who_were_refused_only_the_latest_are_remembered():
    lines = RefusalLines(Clock(), names=3)
    for name in "abcdefgh":
        assert lines.take(name) == 0
    assert [lines.take(name) for name in "hgf"] == [0, 0, None]  # two a second, of callers who were logged before
    assert lines.take("a") == 1  # as good as new
    assert [lines.take(name) for name in "agfh"] == [None, None, None, 3]  # for which h was forgotten


ACTS = st.lists(st.one_of(st.just("enter"), st.just("leave"), st.integers(0, 2000)), max_size=80)


@given(st.integers(1, 5), ACTS)
def test_slots_are_as_many_as_allowed_and_come_back(slots, acts):
    allowance = Allowance(Limits(concurrent_calls=slots, rows_per_request=1000, rows_per_second=3000), Clock())
    inside = 0
    for act in acts:
        if act == "enter" and inside < slots:
            allowance.enter()
            inside += 1
        elif act == "enter":
            with pytest.raises(Exceeded, match="concurrent_calls"):
                allowance.enter()
        elif act == "leave" and inside:
            allowance.leave()
            inside -= 1
        elif isinstance(act, int):
            with suppress(Exceeded):
                allowance.take(act)
        assert allowance.calls == inside
    for _ in range(inside):
        allowance.leave()
    for _ in range(slots):
        allowance.enter()


def test_a_message_that_is_refused_takes_nothing():
    clock = Clock()
    allowance = Allowance(Limits(requests_per_second=2, rows_per_second=100, rows_per_request=80), clock)
    for rows in (81, 10**30):
        with pytest.raises(Exceeded, match=f"At most 80 rows in a request .*rows_per_request.*; {rows} came"):
            allowance.take(rows)
    allowance.take(70)
    with pytest.raises(Exceeded, match=r"At most 100 rows a second .*rows_per_second.*; 31 more came"):
        allowance.take(31)
    allowance.take(30)
    with pytest.raises(Exceeded, match=r"At most 2 requests a second .*requests_per_second.*; more came"):
        allowance.take(0)
    clock.now += 0.5
    allowance.take(50)


def test_a_negative_number_of_rows_gives_nothing_back():
    allowance = Allowance(Limits(rows_per_second=10), Clock())
    allowance.take(-1000)
    allowance.take(10)
    with pytest.raises(Exceeded, match="rows_per_second"):
        allowance.take(1)


def test_less_than_one_request_a_second_is_some():
    clock = Clock()
    allowance = Allowance(Limits(requests_per_second=0.1), clock)
    allowance.take(1)
    with pytest.raises(Exceeded, match=r"At most 0\.1 requests a second"):
        allowance.take(1)
    clock.now += 10
    allowance.take(1)


def test_each_name_has_an_allowance_of_its_own():
    allowances = Allowances(Limits(concurrent_calls=1), Clock())
    allowances.of("south").enter()
    allowances.of("west").enter()
    with pytest.raises(Exceeded):
        allowances.of("south").enter()


def test_names_without_end_take_no_memory_without_end():
    allowances = Allowances(Limits(concurrent_calls=1), Clock(), names=10)
    allowances.of("south").enter()
    for k in range(1000):
        allowances.of(f"peer{k}").take(1)
        assert len(allowances) <= 10
    with pytest.raises(Exceeded, match="concurrent_calls"):
        allowances.of("south").enter()  # it is not forgotten while its call lasts


def test_when_all_are_busy_nobody_is_forgotten():
    allowances = Allowances(Limits(), Clock(), names=3)
    for name in "abc":
        allowances.of(name).enter()
    with pytest.raises(Exceeded, match="At most 3 callers at a time"):
        allowances.of("d")
    allowances.of("b").leave()
    allowances.of("d").enter()
    assert len(allowances) == 3


def test_slots_come_back_from_calls_that_are_cancelled():
    async def scene():
        allowance = Allowance(Limits(concurrent_calls=50))

        async def call():
            allowance.enter()
            try:
                await asyncio.sleep(60)
            finally:
                allowance.leave()

        calls = [asyncio.create_task(call()) for _ in range(50)]
        await asyncio.sleep(0)
        assert allowance.calls == 50
        for task in calls:
            task.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        assert allowance.calls == 0

    asyncio.run(scene())


# a day's budget

DAY = 86_400
BUDGETS = {"south": 100, "west": 30}


class Book:
    """What a ledger knows of rows, in memory."""

    def __init__(self) -> None:
        self.rows: Counter[tuple[int, str]] = Counter()

    def count_rows_asked(self, day: int) -> dict[str, int]:
        return {name: rows for (at, name), rows in self.rows.items() if at == day}


STEPS = st.lists(
    st.tuples(
        st.sampled_from([0.0, 1.0, 30_000.0, 86_399.0, 86_400.0, 200_000.0, -50_000.0]),  # seconds that pass
        st.sampled_from(["south", "west", "north"]),
        st.integers(-5, 60),
        st.booleans(),  # whether the node is started again before
    ),
    max_size=60,
)


@given(STEPS)
def test_no_more_rows_a_day_than_the_budget_whatever_the_clock_and_however_often_it_is_started(steps):
    clock, book = Clock(), Book()
    clock.now = 20_000.0 * DAY
    budgets = DailyBudgets(lambda: BUDGETS, book, clock)
    for pause, name, rows, again in steps:
        clock.now += pause
        key = int(clock.now // DAY), name
        if again:
            budgets = DailyBudgets(lambda: BUDGETS, book, clock)
        try:
            budgets.take(name, rows)
            passed = True
        except Exceeded:
            passed = False
        assert passed == (name not in BUDGETS or book.rows[key] + max(rows, 0) <= BUDGETS[name])
        book.rows[key] += max(rows, 0) if passed else 0


def test_a_budget_is_told_with_what_came_before_and_may_be_changed_meanwhile():
    clock, allowed = Clock(), {"south": 100}
    budgets = DailyBudgets(lambda: allowed, Book(), clock)
    budgets.take("south", 90)
    with pytest.raises(Exceeded) as refused:
        budgets.take("south", 11)
    assert refused.value.limit == "rows_per_day"
    assert str(refused.value) == "At most 100 rows a day are allowed (rows_per_day); 90 came before, and 11 more."
    allowed["south"] = 101
    budgets.take("south", 11)
    allowed["south"] = 5
    budgets.take("south", 0)  # what has no rows, such as who the node is, is always told
    del allowed["south"]
    budgets.take("south", 10**12)


def test_the_ledger_counts_rows_that_were_asked_for_and_only_today(tmp_path):
    clock = Clock()
    clock.now = 20_000.0 * DAY - 1.0
    ledger = Ledger(tmp_path / "ledger.sqlite", kept=1, clock=clock)  # all but the last are folded into days
    ledger.record("south", "consult", IN, 7, 0, 0)
    clock.now += 1.0
    for kind, direction, rows in (
        ("prediction", IN, 20), ("model query", IN, 30), ("describe", IN, 0), ("model query", OUT, 1000),
    ):  # fmt: skip
        ledger.record("south", kind, direction, rows, 0, 0)
    ledger.record("west", "consult", IN, 5, 0, 0)
    for folded in (False, True):
        if folded:
            ledger.close()
            ledger = Ledger(tmp_path / "ledger.sqlite", kept=1, clock=clock)
        assert ledger.count_rows_asked(20_000) == {"south": 50, "west": 5}
        assert ledger.count_rows_asked(19_999) == {"south": 7}
        assert ledger.count_rows_asked(19_998) == {}
    budgets = DailyBudgets(lambda: BUDGETS, ledger, clock)
    with pytest.raises(Exceeded, match="50 came before, and 51 more"):
        budgets.take("south", 51)
    budgets.take("south", 50)
    clock.now += DAY
    budgets.take("south", 100)
    ledger.close()
