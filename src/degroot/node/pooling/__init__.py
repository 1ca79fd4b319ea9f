"""Pooling in rounds between nodes."""
