"""Spaces that a file names: what takes rows to where distances are taken."""

from typing import Any

from degroot.models import open_transformer
from degroot.tomlfile import Table

NEEDED = "Collectives in files need extra packages: pip install 'degroot[batch]'"
STANDARDISE = "standardise"


def space_of(table: Table, key: str) -> Any:
    """Features of mean 0 and standard deviation 1, or the transformer in a file."""
    if table.text(key) != STANDARDISE:
        return open_transformer(table.file(key), NEEDED)
    from sklearn.preprocessing import StandardScaler

    return StandardScaler()
