"""The lifetime budget: what is refused, what is given out again, and drills with damaged files."""

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest

from degroot.exceptions import DeGrootError, InvalidInput
from degroot.files.lock import try_lock
from degroot.maps import EvidenceMap, LifetimeBudget, MapSettings, TooFewRows, name_version, prepare_map
from degroot.maps.budget import BudgetSpent
from degroot.maps.noise import find_noise_scale

CHOSEN = MapSettings(((0.0, 1.0),), 1.0, 4000, 1.0, 1e-6, trees=1, depth=1)


def draw(chosen=CHOSEN):
    """A map with other noise each time."""
    noise = np.random.default_rng().integers(-(10**9), 10**9, size=(1, 2, 4))
    return EvidenceMap("north", (("south", "1"), ("west", "1")), "0" * 32, chosen, 1e9, noise)


@dataclass
class Prepared:
    """As much of a prepared map as the budget looks at."""

    settings: MapSettings = CHOSEN
    drawing: Callable[[], EvidenceMap] = draw
    n_bytes: int = 10_000

    def draw(self):
        return self.drawing()


def make(chosen=CHOSEN):
    return Prepared(chosen, lambda: draw(chosen))


def fail():
    raise InvalidInput("Nothing may be made here.")


def count_too_few():
    raise TooFewRows("There are too few rows.")


@pytest.fixture
def budget(tmp_path):
    return LifetimeBudget(tmp_path / "maps", 2.0, 1e-5)


def test_a_spent_budget_refuses_a_new_version_and_says_so(budget):
    budget.publish("a", CHOSEN, make)
    budget.publish("b", CHOSEN, make)
    with pytest.raises(BudgetSpent) as refusal:
        budget.publish("c", replace(CHOSEN, epsilon=0.5), fail)
    assert str(refusal.value) == (
        "All versions of a map together must cost at most epsilon 2 and delta 1e-05; spent are 2 and 2e-06, left are 0 "
        "and 8e-06, and this version asks for 0.5 and 1e-06."
    )
    assert isinstance(refusal.value, DeGrootError)
    assert budget.spent() == (2.0, 2e-6)


def test_delta_is_a_budget_too(budget):
    small = replace(CHOSEN, epsilon=0.01, delta=6e-6)
    budget.publish("a", small, lambda: make(small))
    with pytest.raises(BudgetSpent, match=r"left are 1\.99 and 4e-06"):
        budget.publish("b", small, fail)


def test_tenths_add_up_without_rounding(tmp_path):
    budget, tenth = LifetimeBudget(tmp_path, 1.0, 1e-5), replace(CHOSEN, epsilon=0.1)
    for version in range(10):
        budget.publish(str(version), tenth, lambda: make(tenth))
    assert budget.spent() == (1.0, 1e-5)
    with pytest.raises(BudgetSpent):
        budget.publish("10", replace(tenth, epsilon=0.01), fail)


def test_the_same_version_costs_nothing_and_is_the_same_table(budget):
    one = budget.publish("a", CHOSEN, make)
    for again in (budget, LifetimeBudget(budget.folder, 0.5, 1e-9)):  # also where less is left than it took
        assert again.publish("a", CHOSEN, fail).to_bytes() == one.to_bytes()
    assert budget.spent() == (1.0, 1e-6)


def test_noise_is_paid_for_before_it_is_drawn_and_a_failure_costs_too(budget):
    seen = []

    def look():
        seen.append(budget.spent())
        return fail()

    with pytest.raises(InvalidInput, match="Nothing may be made"):
        budget.publish("a", CHOSEN, lambda: Prepared(drawing=look))
    assert seen == [(1.0, 1e-6)]
    budget.publish("a", CHOSEN, make)  # was never stored, so never left: paid for again
    assert budget.spent() == (2.0, 2e-6)


def test_what_is_refused_without_noise_costs_nothing(budget, monkeypatch):
    X, residuals, models = np.zeros((4, 1)), np.zeros((4, 2)), [("south", "1"), ("west", "1")]
    wrong = [
        {"models": models[:1]}, {"owner": "south"}, {"units": np.zeros(3)}, {"residuals": residuals[:3]},
        {"settings": replace(CHOSEN, rows=10)}, {"settings": replace(CHOSEN, epsilon=2.0)},
    ]  # fmt: skip
    for changed in wrong:
        given = {"X": X, "residuals": residuals, "settings": CHOSEN, "owner": "north", "models": models} | changed
        with pytest.raises(InvalidInput):
            budget.publish("a", CHOSEN, lambda given=given: prepare_map(**given))
    find_noise_scale.cache_clear()
    monkeypatch.setitem(sys.modules, "opendp.prelude", None)
    with pytest.raises(InvalidInput, match="extra packages"):
        budget.publish("a", CHOSEN, lambda: prepare_map(X, residuals, CHOSEN, owner="north", models=models))
    assert budget.spent() == (0.0, 0.0)


def test_a_disk_without_room_for_the_table_costs_nothing(budget):
    budget.folder.mkdir(parents=True)
    budget._unfinished("a").mkdir()  # which no file can be written to
    with pytest.raises(IsADirectoryError):
        budget.publish("a", CHOSEN, make)
    assert budget.spent() == (0.0, 0.0)


def test_too_few_rows_by_the_noisy_count_cost_once(budget):
    with pytest.raises(TooFewRows, match="There are too few"):
        budget.publish("a", CHOSEN, lambda: Prepared(drawing=count_too_few))
    for again in (budget, LifetimeBudget(budget.folder, 2.0, 1e-5)):  # as after a restart
        with pytest.raises(
            TooFewRows, match=r"at least 3,000 rows or units; the noisy table of this version, which is"
        ):
            again.publish("a", CHOSEN, fail)
    assert budget.spent() == (1.0, 1e-6)
    budget.publish("b", CHOSEN, make)
    assert budget.spent() == (2.0, 2e-6)


def test_no_message_has_a_version_or_a_path(budget):
    """The version is a digest of private rows, and messages are shown."""
    version, said = "0123456789abcdef" * 4, []

    def hear(version=version):
        with pytest.raises(DeGrootError) as refusal:
            budget.publish(version, CHOSEN, fail)
        said.append(str(refusal.value))

    with pytest.raises(TooFewRows):
        budget.publish(version, CHOSEN, lambda: Prepared(drawing=count_too_few))
    hear()
    budget.publish(version[::-1], CHOSEN, make)
    hear("f" * 64)  # over the budget
    (table,) = budget.folder.glob("*.map")
    table.write_bytes(b"")
    hear(version[::-1])
    table.unlink()
    hear(version[::-1])
    with open(budget.folder / "lock", "ab") as other:
        assert try_lock(other)
        hear()
    (budget.folder / "spent.jsonl").write_text("{}\n")
    hear()
    assert len(set(said)) == 6
    for each in said:
        assert not {version[:8], version[::-1][:8], "f" * 8} & {each[i : i + 8] for i in range(len(each))}
        assert str(budget.folder) not in each


@pytest.mark.parametrize("limits", [(np.inf, 1e-5), (1.0, np.nan)])
def test_a_budget_without_a_limit_is_refused(tmp_path, limits):
    with pytest.raises(InvalidInput, match="must be finite"):
        LifetimeBudget(tmp_path, *limits).publish("a", CHOSEN, fail)


def test_a_map_of_other_settings_than_paid_for_is_refused(budget):
    with pytest.raises(InvalidInput, match="settings that are paid for"):
        budget.publish("a", CHOSEN, lambda: make(replace(CHOSEN, epsilon=8.0)))
    assert budget.spent() == (0.0, 0.0)


def drop_first(lines):
    return lines[1:]


def tear_last(lines):
    return [*lines[:-1], lines[-1][: len(lines[-1]) // 2]]


def lower(lines):
    return [lines[0].replace('"epsilon": 1.0', '"epsilon": 0.1'), *lines[1:]]


def negative(lines):
    told = json.loads(lines[-2])
    return [*lines[:-2], json.dumps(told | {"epsilon": -5.0}) + "\n", lines[-1]]


@pytest.mark.parametrize("damage", [drop_first, tear_last, lower, negative, lambda lines: ["\n", *lines]])
def test_a_damaged_record_refuses_everything_in_one_line(budget, damage):
    budget.publish("a", CHOSEN, make)
    budget.publish("b", replace(CHOSEN, epsilon=0.5), lambda: make(replace(CHOSEN, epsilon=0.5)))
    record = budget.folder / "spent.jsonl"
    lines = record.read_text().splitlines(keepends=True)
    assert len(lines) == 4
    record.write_text("".join(damage(lines)))
    for version in ("a", "c"):
        with pytest.raises(
            InvalidInput, match=r"must be whole, or no map is published; line \d of .* is damaged"
        ) as no:
            budget.publish(version, CHOSEN, fail)
        assert "\n" not in str(no.value)


@pytest.mark.parametrize("what", [b"", b"\xff\xfe", b"null\n", b"[" * 100_000 + b"\n", b"{}\n"])
def test_a_record_that_is_something_else_is_refused(budget, what):
    budget.folder.mkdir(parents=True)
    (budget.folder / "spent.jsonl").write_bytes(what or b"x")
    with pytest.raises(InvalidInput, match="damaged"):
        budget.spent()


def test_a_stored_table_that_is_missing_or_changed_is_not_drawn_again(budget):
    budget.publish("a", CHOSEN, make)
    (table,) = budget.folder.glob("*.map")
    good = table.read_bytes()
    table.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
    with pytest.raises(InvalidInput, match="must be as it was published; it has changed"):
        budget.publish("a", CHOSEN, fail)
    table.unlink()
    with pytest.raises(InvalidInput, match="must be readable"):
        budget.publish("a", CHOSEN, fail)


def test_only_one_process_publishes(budget):
    budget.folder.mkdir(parents=True)
    with open(budget.folder / "lock", "ab") as other:
        assert try_lock(other)
        with pytest.raises(InvalidInput, match="One process at a time"):
            budget.publish("a", CHOSEN, fail)
    budget.publish("a", CHOSEN, make)


def test_a_version_changes_with_all_that_decides_the_table():
    X, y, models = np.ones((3, 1)), np.arange(3.0), [("south", "1"), ("west", "1")]
    others = [
        name_version(X, y, CHOSEN, owner="north", models=models),
        name_version(2 * X, y, CHOSEN, owner="north", models=models),
        name_version(X, y + 1, CHOSEN, owner="north", models=models),
        name_version(X, y, replace(CHOSEN, epsilon=2.0), owner="north", models=models),
        name_version(X, y, CHOSEN, owner="north", models=[("south", "2"), ("west", "1")]),
        name_version(X, y, CHOSEN, owner="east", models=models),
        name_version(X, y, CHOSEN, owner="north", models=models, units=["a", "a", "b"]),
        name_version(X, y, CHOSEN, owner="north", models=models, units=["a", "b", "b"]),
    ]
    assert len(set(others)) == len(others)
    assert others[0] == name_version(X.tolist(), y.tolist(), CHOSEN, owner="north", models=models)


@pytest.mark.parametrize("left", [0, 1, 2])
def test_a_record_that_does_not_know_of_a_published_table_refuses(budget, left):
    """Whoever deletes the record, or its end, does not get the budget back while the tables are there."""
    budget.publish("a", CHOSEN, make)
    budget.publish("b", CHOSEN, make)
    record = budget.folder / "spent.jsonl"
    lines = record.read_bytes().splitlines(keepends=True)
    record.write_bytes(b"".join(lines[:left]))
    if left == 0:
        record.unlink()
    for attempt in (budget.spent, lambda: budget.publish("a", CHOSEN, make)):
        with pytest.raises(InvalidInput, match="must name every table that was published"):
            attempt()
