"""Answers to questions put to this node."""
