"""The paper's data sets."""
