"""Synthetic problems of the paper."""
