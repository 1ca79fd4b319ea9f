"""The path of a question, from the agents' opinions to an answer; leave-one-out calibration; rule selection.
Imports the layers below only."""
