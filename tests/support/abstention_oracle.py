"""Gaps in the evidence, by plain loops: written from the documentation, not from the package."""

import numpy as np


def fill_unscored(errors, spread, pairs, present):
    """Errors (M, K, K) where agent i has not scored model j: what the others measured, by coverage."""
    filled = errors.copy()
    M, K = spread.shape
    for m in range(M):
        for i, j in pairs:
            scorers = [k for k in range(K) if (k, j) not in pairs]
            there = [k for k in scorers if present[m, k]] or scorers
            if there:
                coverage = np.array([1.0 / spread[m, k] for k in there])
                measured = np.array([errors[m, k, j] for k in there])
                filled[m, i, j] = (coverage * measured).sum() / coverage.sum()
    return filled


def consult_without_absent(errors, beliefs):
    """Weights (M, K) of the paper's rule, and values (M,), where agents with beliefs of NaN take no part."""
    weights, values = np.zeros(beliefs.shape), np.empty(len(beliefs))
    for m in range(len(beliefs)):
        members = [k for k in range(beliefs.shape[1]) if not np.isnan(beliefs[m, k])]
        trust = np.array([[1.0 / errors[m, i, j] for j in members] for i in members])
        trust /= trust.sum(axis=1, keepdims=True)
        stationary = np.linalg.matrix_power(trust, 1 << 12)[0]
        weights[m, members] = stationary
        values[m] = sum(w * beliefs[m, k] for w, k in zip(stationary, members, strict=True))
    return weights, values
