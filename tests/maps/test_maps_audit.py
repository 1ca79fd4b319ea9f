"""The audit: it stays below what epsilon allows, and a noise scale that is too small is caught by the same audit.

Confidence bounds err with probability 1e-7 each, so that a test fails by chance less than once in a million runs.
"""

import pytest
from support.map_audit import Audit, bound_epsilons, epsilon_of_distance

ERROR = 1e-7


@pytest.mark.parametrize("kind", ["membership", "label"])
def test_attacks_stay_within_epsilon_and_broken_noise_is_caught(kind):
    """At a quarter of the scale the bound is exceeded by six standard errors."""
    right, broken = Audit(2.0, kind), Audit(2.0, kind, broken=4.0)
    assert max(bound_epsilons(*right.attack(400, 1), ERROR)) <= right.find_allowed()
    assert max(bound_epsilons(*broken.attack(400, 2), ERROR)) > broken.find_allowed()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["membership", "label"])
@pytest.mark.parametrize("epsilon", [1.0, 2.0, 8.0])
def test_thousands_of_pairs_stay_within_epsilon_and_half_the_noise_is_caught(epsilon, kind):
    """At half of the scale and epsilon 1 the distance of means is 0.44 and its bound 0.34 on average, with a standard
    error of 0.014: it is below the 0.24 that stand for epsilon 1 with probability below 1e-10."""
    right, broken = Audit(epsilon, kind), Audit(epsilon, kind, broken=2.0)
    assert max(bound_epsilons(*right.attack(4000, 1), ERROR)) <= right.find_allowed()
    assert max(bound_epsilons(*broken.attack(16_000 if epsilon == 1.0 else 6000, 2), ERROR)) > broken.find_allowed()


def test_two_normal_distributions_are_as_close_as_their_distance_says():
    assert epsilon_of_distance(0.0, 1e-6) == 0.0
    assert epsilon_of_distance(1.0, 1e-5) == pytest.approx(4.38, abs=0.02)  # Balle and Wang 2018, figure 1
