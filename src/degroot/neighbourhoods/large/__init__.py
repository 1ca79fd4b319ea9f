"""Neighbourhoods in sets of rows too large to copy."""
