"""Mixed questions for long, while nodes are restarted, and all that operators do: no wrong answer, flat memory."""

import os

import pytest
from support.soak import Soaked, soak, soak_operations


@pytest.mark.slow
@pytest.mark.parametrize(("evidence", "share"), [("pooled", 1.0), ("own", 0.5)])
def test_a_soak(tmp_path, evidence, share):
    seconds = share * float(os.environ.get("DEGROOT_SOAK_SECONDS", "600"))
    result = soak(tmp_path, seconds, min(30.0, seconds / 4), evidence)
    check(result)


@pytest.mark.slow
def test_a_soak_of_operations(tmp_path):
    """Half an hour: certificates are renewed and revoked, members leave, join, are killed and restarted."""
    seconds = 3.0 * float(os.environ.get("DEGROOT_SOAK_SECONDS", "600"))
    check(soak_operations(tmp_path, seconds, min(10.0, seconds / 20)))


def check(result: Soaked) -> None:
    assert result.wrong == result.refused == 0, result.failures
    assert result.restarts >= 3
    assert 0 < result.without < result.questions
    assert result.last < 1.1 * result.first + 10.0, "memory must be flat"
