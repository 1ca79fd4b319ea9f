"""Prediction intervals between nodes."""
