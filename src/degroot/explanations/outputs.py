"""Outputs: what they are called."""

from collections.abc import Iterable

from degroot.reprs import label


def output_names(outputs: int | None, classes: Iterable[str] = ()) -> tuple[str, ...] | None:
    """What outputs are called: by the class, which comes as Python writes it, or by the number; None for one output.

    Examples
    --------
    >>> output_names(2, ["'cat'", "'dog'"]), output_names(2), output_names(None)
    (('cat', 'dog'), ('0', '1'), None)
    """
    labels = tuple(map(label, classes))
    return labels or (None if outputs is None else tuple(str(k) for k in range(outputs)))
