"""Ledger, logs, metrics and recent answers."""
