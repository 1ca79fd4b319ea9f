"""Prediction intervals between nodes: leave-one-out calibration, its schedule, and the bounds.
Imports other packages of the node and the layers below."""
