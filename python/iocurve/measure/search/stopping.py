"""Says when a mean is precise enough to stop measuring.

A look after every interval that stops at the first narrow one stops at flukes: coverage at the moment of stopping is
then far below what the interval says (Y. S. Chow and H. Robbins, "On the asymptotic theory of fixed-width sequential
confidence intervals", Annals of Mathematical Statistics 36, 1965; P. W. Glynn and W. Whitt, "The asymptotic validity
of sequential stopping rules", Annals of Applied Probability 2, 1992). So there are few looks: each that finds the
interval too wide projects the length that is needed (C. Stein, "A two-sample test for a linear hypothesis whose power
is independent of the variance", Annals of Mathematical Statistics 16, 1945), and the next look is there. Intervals of
later looks are widened for the choice that is left. ``docs/truth.md`` has the coverage.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from iocurve.result.stats import Estimate, series_mean

FIRST_LOOK = 30
"""Values before the first look."""
MARGIN = 1.3
"""Ratio of the next length to the length that seems to be needed, and smallest growth of the length."""
WIDENING = 1.15
"""Factor on intervals of later looks."""


@dataclass
class Stopping:
    """The looks at one series."""

    precision: float
    """Half of the interval, relative to the mean."""
    first_look: int = FIRST_LOOK
    _looks: int = 0
    _next: int = 0
    _stopped: bool = False

    def enough(self, values: Sequence[float]) -> bool:
        """True once the mean of the series so far is precise enough."""
        if self._stopped:
            return True
        if len(values) < max(self.first_look, self._next):
            return False
        found = self._widened(series_mean(values).precision)
        self._looks += 1
        self._stopped = found <= self.precision
        self._next = math.ceil(
            len(values) * MARGIN * max(1.0, (found / self.precision) ** 2 if found < math.inf else 1)
        )
        return self._stopped

    def estimate(self, values: Sequence[float]) -> Estimate:
        """The mean of the whole series, with the interval that holds after these looks."""
        found = series_mean(values)
        return found.widened(WIDENING) if self._stopped and self._looks > 1 else found

    def _widened(self, precision: float) -> float:
        return precision * WIDENING if self._looks else precision
