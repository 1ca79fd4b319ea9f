"""Ten minutes of mixed questions with a peer restarted every half minute: no wrong answer, flat memory."""

import os

import pytest
from support.soak import soak


@pytest.mark.slow
@pytest.mark.parametrize(("evidence", "share"), [("pooled", 1.0), ("own", 0.5)])
def test_a_soak(tmp_path, evidence, share):
    seconds = share * float(os.environ.get("DEGROOT_SOAK_SECONDS", "600"))
    result = soak(tmp_path, seconds, min(30.0, seconds / 4), evidence)
    assert result.wrong == result.refused == 0, result.failures
    assert result.restarts >= 3
    assert 0 < result.without < result.questions
    assert result.last < 1.1 * result.first + 10.0, "memory must be flat"
