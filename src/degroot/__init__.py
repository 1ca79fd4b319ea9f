"""Collective prediction without sharing data, models or labels."""
