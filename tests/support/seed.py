"""The seed of the tests of the paper's experiments. Any has to pass: DEGROOT_TEST_SEED=7 pytest tests."""

import os

SEED = int(os.environ.get("DEGROOT_TEST_SEED", "0"))
