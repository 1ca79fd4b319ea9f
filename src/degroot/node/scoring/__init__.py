"""Scores of every model on this node's rows."""
