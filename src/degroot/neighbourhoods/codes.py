"""Metrics and smoothing kernels: their names, and the numbers by which compiled code knows them."""

EUCLIDEAN, COSINE, MANHATTAN = 0, 1, 2
METRICS = {"euclidean": EUCLIDEAN, "cosine": COSINE, "manhattan": MANHATTAN}

UNIFORM, TRICUBE, GAUSSIAN = 0, 1, 2
KERNELS = {"uniform": UNIFORM, "tricube": TRICUBE, "gaussian": GAUSSIAN}
