"""Experiments beyond the paper. Imports paper and public names only."""
