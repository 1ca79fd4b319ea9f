"""Synthetic problems: the paper's logistic curve, and two with known errors. Imports paper and public names only."""
