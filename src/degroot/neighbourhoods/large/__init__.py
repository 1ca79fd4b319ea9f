"""Neighbourhoods in sets of rows too large to copy. Imports neighbourhoods and compute only."""
