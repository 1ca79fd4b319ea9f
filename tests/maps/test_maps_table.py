"""Tables: an oracle that goes row by row, sensitivity by brute force, refusals, and bytes."""

import math
import re
import struct
import sys
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.map_audit import find_epsilon

from degroot.exceptions import InvalidInput
from degroot.maps import EvidenceMap, MapSettings, TooFewRows, least_rows, make_map, prepare_map
from degroot.maps.noise import add_noise, find_noise_scale
from degroot.maps.table import COUNT_PART, LARGEST_RESIDUAL, MAGIC, UNIT, find_sensitivity, sum_rows, weigh_rows
from degroot.maps.trees import draw_trees

SMALL = MapSettings(((0.0, 1.0), (0.0, 1.0)), 1.0, 4000, 1.0, trees=3, depth=2)
MODELS = (("south", "1"), ("west", "2"))

few = settings(max_examples=25, deadline=None)
seeds = st.integers(0, 2**32 - 1)


def draw(seed, n=30, m=2, Q=None):
    random = np.random.default_rng(seed)
    scale = 10.0 ** random.uniform(-2, 3)
    X = random.uniform(-0.2, 1.2, size=(n, 2))
    return X, scale * random.standard_t(2, size=(n, m) if Q is None else (n, m, Q))


def literal_table(X, residuals, chosen, units):
    """Row by row, as docs/maps.md says it, in floats."""
    trees, m = draw_trees(chosen), residuals.shape[1]
    cells = trees.find_cells(X)
    table = np.zeros((chosen.n_trees, chosen.n_cells, 1 + m * (m + 1) // 2))
    for row in range(len(X)):
        r = np.clip(residuals[row].reshape(m, -1) / chosen.residual_bound, -LARGEST_RESIDUAL, LARGEST_RESIDUAL)
        products = [(r[j] * r[k]).sum() for j in range(m) for k in range(j + 1)]
        vector = np.array([COUNT_PART, *(each / math.sqrt(len(products)) for each in products)])
        vector /= max(1.0, math.sqrt((vector**2).sum()))
        for tree in range(chosen.n_trees):
            table[tree, cells[tree, row]] += vector / list(units).count(units[row])
    return table


@few
@given(seeds, st.sampled_from([2, 3, 5]), st.sampled_from([None, 1, 3]), st.booleans())
def test_tables_are_what_goes_row_by_row(seed, m, Q, has_units):
    X, residuals = draw(seed, 30, m, Q)
    units = np.random.default_rng(seed).integers(0, 12, 30) if has_units else np.arange(30)
    table = sum_rows(X, residuals, SMALL, m, units if has_units else None)
    np.testing.assert_allclose(table / UNIT, literal_table(X, residuals, SMALL, units), atol=1e-6)


@few
@given(seeds, st.sampled_from([2, 3, 6]), st.sampled_from([None, 4]), st.booleans())
def test_one_unit_moves_a_table_by_no_more_than_the_sensitivity(seed, m, Q, has_units):
    """Exactly, in whole numbers: every unit in turn is taken out."""
    X, residuals = draw(seed, 24, m, Q)
    random = np.random.default_rng(seed)
    residuals[random.integers(0, 24, 4)] = random.choice([np.nan, np.inf, -np.inf, 1e300], size=4).reshape(
        4, *[1] * (residuals.ndim - 1)
    )
    units = random.integers(0, 6, 24) if has_units else np.arange(24)
    whole = sum_rows(X, residuals, SMALL, m, units)
    for unit in np.unique(units):
        kept = units != unit
        apart = (whole - sum_rows(X[kept], residuals[kept], SMALL, m, units[kept])).astype(object)
        assert int((apart**2).sum()) <= SMALL.n_trees * UNIT**2  # not a float among them
    assert find_sensitivity(SMALL) ** 2 >= SMALL.n_trees * UNIT**2


@few
@given(seeds, st.sampled_from([2, 4]))
def test_one_exchanged_row_moves_a_table_by_a_root_of_two_more(seed, m):
    X, residuals = draw(seed, 10, m)
    other_X, other_residuals = X.copy(), residuals.copy()
    other_X[0], other_residuals[0] = draw(seed + 1, 1, m)[0], draw(seed + 1, 1, m)[1]
    apart = sum_rows(X, residuals, SMALL, m) - sum_rows(other_X, other_residuals, SMALL, m)
    assert np.linalg.norm(apart.astype(float)) <= math.sqrt(2.0) * find_sensitivity(SMALL) * (1.0 + 1e-7)


def test_a_row_with_large_residuals_uses_all_of_the_sensitivity():
    one = sum_rows(np.array([[0.5, 0.5]]), np.array([[100.0, -100.0]]), SMALL, 2)
    assert np.linalg.norm(one.astype(float)) >= 0.999 * find_sensitivity(SMALL)


@few
@given(seeds)
def test_no_vector_of_a_row_is_longer_than_one(seed):
    _, residuals = draw(seed, 200, 4)
    vectors = weigh_rows(residuals[..., None], 0.37).astype(object)
    assert ((vectors**2).sum(axis=1) <= UNIT**2).all()


# -- noise -------------------------------------------------------------------------------------------------------------


def test_noise_has_the_scale_that_is_asked_for():
    """Twenty thousand draws: the standard deviation is off by 4 % with probability below 1e-14."""
    scale = find_noise_scale(find_sensitivity(SMALL), 1.0, 1e-6)
    noise = add_noise(np.full((4, 5000), 10**12), scale) - 10**12
    assert noise.shape == (4, 5000)
    assert 0.96 < noise.std() / scale < 1.04
    assert abs(noise.mean()) < 8.0 * scale / math.sqrt(noise.size)


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 1.0, 2.0, 8.0, 100.0])
def test_the_scale_keeps_epsilon_and_is_no_larger_than_needed(epsilon):
    scale = find_noise_scale(find_sensitivity(SMALL), epsilon, 1e-6)
    assert find_epsilon(find_sensitivity(SMALL), scale, 1e-6) <= epsilon
    assert find_epsilon(find_sensitivity(SMALL), 0.999 * scale, 1e-6) > epsilon


def test_without_opendp_tables_can_be_read_but_not_made(monkeypatch):
    content = publish().to_bytes()
    monkeypatch.setitem(sys.modules, "opendp.prelude", None)
    assert EvidenceMap.from_bytes(content).owner == "north"
    with pytest.raises(InvalidInput, match=r"^Evidence maps need extra packages: pip install 'degroot\[maps\]'\.$"):
        add_noise(np.zeros(2, np.int64), 1.0)
    find_noise_scale.cache_clear()
    with pytest.raises(InvalidInput, match="extra packages"):
        prepare()


# -- maps --------------------------------------------------------------------------------------------------------------


def publish(n=6000, declared=4000, make=make_map, **changed):
    X, residuals = np.random.default_rng(0).uniform(size=(n, 2)), 0.3 * np.random.default_rng(1).normal(size=(n, 2))
    given_ = {"owner": "north", "models": MODELS} | changed
    return make(X, residuals, replace(SMALL, rows=declared), **given_)


def prepare(**changed):
    return publish(make=prepare_map, **changed)


def test_a_map_tells_about_how_many_rows_and_which_moments():
    """Tolerances are eight standard deviations of the noise."""
    made = publish()
    spread = made.count_noise * math.sqrt(made.settings.n_cells)
    assert abs(made.n_rows - 6000) < 8.0 * spread
    second = made.sums().sum(axis=1).mean(axis=0) / made.n_rows
    noise = 8.0 * made.sum_noise * math.sqrt(made.settings.n_cells) / 6000
    np.testing.assert_allclose(second, [0.09, 0.0, 0.09], atol=noise + 0.01)


def test_two_draws_of_noise_differ_and_serials_tell_nothing_of_rows():
    one, two = publish(), publish()
    assert (one.table != two.table).mean() > 0.99
    assert one.serial != two.serial


def test_too_few_declared_rows_are_refused():
    least = least_rows(SMALL)
    with pytest.raises(InvalidInput, match=r"at least 3,000 rows or units; 2,999 are declared\.$"):
        prepare(declared=least - 1)


def test_too_few_rows_are_refused_by_the_noisy_count():
    """A hundred rows are counted as three thousand with probability below 1e-30."""
    with pytest.raises(TooFewRows, match=r"at least 3,000 rows or units; .* are in the table by its own noisy count"):
        publish(n=100)


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"owner": ""}, "must have an owner"), ({"owner": "west"}, "leave out its owner's own model"),
        ({"models": MODELS[:1]}, "two models of others"), ({"models": MODELS[:1] * 2}, "each once"),
        ({"models": (*MODELS, ("east", "1"))}, "one column for each of 3 models"),
        ({"units": np.zeros(3)}, "one label for each of 6000 rows"),
        ({"units": np.array(["a", 1] * 3000, object)}, "can be sorted"),
    ],
)  # fmt: skip
def test_what_is_no_map_is_refused(changed, why):
    with pytest.raises(InvalidInput, match=why):
        prepare(**changed)


def test_a_map_survives_its_bytes():
    made = publish()
    again = EvidenceMap.from_bytes(made.to_bytes())
    assert (again.owner, again.models, again.serial) == (made.owner, made.models, made.serial)
    assert (again.settings, again.noise_scale) == (made.settings, made.noise_scale)
    np.testing.assert_array_equal(again.table, made.table)
    assert not again.table.flags.writeable
    assert again.to_bytes() == made.to_bytes()


@pytest.fixture(scope="module")
def content():
    return publish().to_bytes()


HUGE = 400 * b"0"  # a whole number with so many digits is more than a float holds


def edit(content, old, new):
    """The same map with another description."""
    start = len(MAGIC) + 4
    (size,) = struct.unpack_from("<I", content, len(MAGIC))
    header = content[start : start + size].replace(old, new)
    return MAGIC + struct.pack("<I", len(header)) + header + content[start + size :]


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        (b'"owner"', b'"owned"', "must have"), (b'"north"', b'"west"', "leave out"), (b'"north"', b"3", "owner"),
        (b'["west", "2"]', b'"west"', "pairs of name and version"), (b'"depth": 2', b'"depth": 3', "bytes"),
        (b'"depth": 2', b'"depth": "2"', "`depth`"), (b'"epsilon": 1.0', b'"epsilon": NaN', "`epsilon`"),
        (b'"trees": 3', b'"trees": 1000000000', "`trees`"), (b'"noise_scale": ', b'"noise_scale": -', "`noise_scale`"),
        (b'"ranges": [[', b'"ranges": [["x", ', "pairs of numbers"), (b"{", b"[", "JSON"),
        (b'"seed"', b'"sead"', "seed"), (b'"serial": "', b'"serial": "0', "serial"),
        (b'"epsilon": 1.0', b'"epsilon": 1' + HUGE, "`epsilon`"), (b'"rows": 4000', b'"rows": 1' + HUGE, "`rows`"),
        (b'"residual_bound": 1.0', b'"residual_bound": 1' + HUGE, "`residual_bound`"),
        (b'"delta": 1e-06', b'"delta": 1' + HUGE, "`delta`"), (b'"seed": 0', b'"seed": 1' + HUGE, "`seed`"),
        (b'"ranges": [[0.0', b'"ranges": [[-1' + HUGE, "pairs of numbers"),
        (b'"depth": 2', b'"depth": 1' + HUGE, "`depth`"),
        (b'"north"', b'"' + 201 * b"n" + b'"', "at most 200 printable"), (b'"north"', b'"no\\nrth"', "printable"),
        (b'["west"', b'["' + 10_000 * b"w" + b'"', "at most 200 printable"),
        (b'"west", "2"', b'"west", "\\u0000"', "printable"),
    ],
)  # fmt: skip
def test_a_changed_description_is_refused_in_one_line(content, old, new, why):
    with pytest.raises(InvalidInput, match=why) as refusal:
        EvidenceMap.from_bytes(edit(content, old, new))
    assert "\n" not in str(refusal.value)
    assert len(str(refusal.value)) < 250


@pytest.mark.parametrize("scale", ["1" + "0" * 400, "-1.0", "NaN", "Infinity", "true", '"1"', "null"])
def test_a_noise_scale_that_is_no_number_is_refused(content, scale):
    said = re.search(rb'"noise_scale": ([0-9.e+]+)', content).group(1)
    with pytest.raises(InvalidInput, match="`noise_scale` must be finite and not negative") as refusal:
        EvidenceMap.from_bytes(edit(content, b'"noise_scale": ' + said, b'"noise_scale": ' + scale.encode()))
    assert len(str(refusal.value)) < 250


def test_a_serial_is_hex_digits(content):
    serial = EvidenceMap.from_bytes(content).serial.encode()
    for strange in (b"g" * 32, serial.upper() if serial.upper() != serial else b"A" * 32, b" " * 32):
        with pytest.raises(InvalidInput, match="32 hex digits"):
            EvidenceMap.from_bytes(edit(content, serial, strange))


def test_a_prepared_map_knows_how_many_bytes_it_will_have():
    X, residuals = draw(0, n=100)
    prepared = prepare_map(X, residuals, replace(SMALL, epsilon=100.0), owner="north", models=MODELS)
    drawn = EvidenceMap("north", MODELS, "0" * 32, prepared.settings, prepared.noise_scale, prepared.exact)
    assert prepared.n_bytes == len(drawn.to_bytes())


@few
@given(st.data())
def test_damaged_bytes_are_refused_or_are_a_map(data):
    good = publish_once()
    cut = data.draw(st.integers(0, len(good)))
    with pytest.raises(InvalidInput):
        EvidenceMap.from_bytes(good[:cut] + b"x" * (cut == len(good)))
    place, byte = data.draw(st.integers(0, 700)), data.draw(st.integers(0, 255))
    changed = good[:place] + bytes([byte]) + good[place + 1 :]
    with suppress(InvalidInput):
        assert EvidenceMap.from_bytes(changed).table.shape == (3, 4, 4)


def publish_once(kept=[]):  # noqa: B006
    if not kept:
        kept.append(publish().to_bytes())
    return kept[0]
