"""Experiments beyond the paper."""
