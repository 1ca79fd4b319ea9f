"""scikit-learn's checks of estimators, and those that a collective does not have to pass."""

from functools import partial

from sklearn.utils.estimator_checks import parametrize_with_checks

WEIGHTS_ARE_FOR_TRAINING = "weights go to the models; rows are dealt to agents, and are evidence of errors, one by one"
EXPECTED_FAILURES = dict.fromkeys(
    ("check_sample_weight_equivalence_on_dense_data", "check_sample_weight_equivalence_on_sparse_data"),
    WEIGHTS_ARE_FOR_TRAINING,
)

parametrize_with_applicable_checks = partial(
    parametrize_with_checks, expected_failed_checks=lambda estimator: EXPECTED_FAILURES
)
