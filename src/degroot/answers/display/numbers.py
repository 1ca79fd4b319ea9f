"""Numbers as they are shown: with as many digits as matter, and all of one kind alike."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

SHOWN = 3  # digits of the differences that matter
MOST = 9  # digits in all
LARGE, SMALL = 1e7, 1e-4  # beyond these, powers of ten are told


@dataclass(frozen=True, slots=True)
class Digits:
    """How numbers of one kind are written: with so many digits after the point, or with powers of ten."""

    after: int
    powers: bool = False
    unit: float = 0.01  # of the last digit that is shown

    @classmethod
    def of(cls, values: Iterable[float | None], differences: Iterable[float | None] = ()) -> "Digits":
        """For these values, so that these differences between them can be told.

        Examples
        --------
        >>> Digits.of([1201.3, 1250.9], [49.6]).write(1201.3)
        '1201.3'
        >>> Digits.of([2.5e-9, 3.0]).write(3.0), Digits.of([2.5e-9]).write(2.5e-9), Digits.of([]).write(None)
        ('3.00', '2.50e-09', '-')
        """
        size = max(_sizes(values), default=0.0)
        step = max(_sizes(differences), default=0.0) or size
        if size == 0.0:
            return cls(SHOWN - 1)
        after = min(SHOWN - 1 - _power(step), MOST - 1 - _power(size))
        if SMALL <= size < LARGE:
            return cls(max(after, 0), unit=10.0 ** -max(after, 0))
        after = max(after + _power(size), SHOWN - 1)
        return cls(after, True, 10.0 ** (_power(size) - after))

    def write(self, value: float | None) -> str:
        """The number; a dash where there is none."""
        if value is None or math.isnan(value):
            return "-"
        return f"{value:z.{self.after}{'e' if self.powers else 'f'}}"

    def nothing(self, value: float) -> bool:
        """Whether a number is 0, or so small that nothing is to be seen of it."""
        return abs(value) < 0.5 * self.unit


def share(value: float | None) -> str:
    """A weight, or trust.

    Examples
    --------
    >>> share(0.25), share(1e-9), share(0.0), share(None)
    ('0.250', '<0.001', '0', '-')
    """
    if value is None or math.isnan(value):
        return "-"
    return "0" if value == 0.0 else "<0.001" if value < 0.0005 else f"{value:.3f}"


def _sizes(values: Iterable[float | None]) -> list[float]:
    return [abs(value) for value in values if value is not None and math.isfinite(value)]


def _power(size: float) -> int:
    return math.floor(math.log10(size))
