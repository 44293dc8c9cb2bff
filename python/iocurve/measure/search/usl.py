"""Gunther's universal scalability law: X(N) = lambda N / (1 + sigma (N - 1) + kappa N (N - 1)).

lambda is what one operation in flight carries, sigma the part that cannot be done at once (contention), kappa the cost
of keeping each consistent with the others (coherency). Source: N. J. Gunther, "Guerrilla Capacity Planning", Springer
2007, chapters 4 to 6.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from iocurve.result.stats import Estimate

ERROR_FLOOR = 0.01
"""No point counts as surer than 1 %: what the law leaves out is of that order."""
MISFIT_ERRORS = 3.0
"""So many standard errors off, and by more than 5 %, a point does not fit."""
MISFIT_SHARE = 0.05
STEPS_MAX = 200


@dataclass(frozen=True)
class Misfit:
    """A point that the law does not describe."""

    in_flight: int
    measured: float
    fitted: float


@dataclass(frozen=True)
class Usl:
    """The terms of a fit."""

    rate: Estimate
    """lambda, operations per second of one in flight."""
    contention: Estimate
    """sigma."""
    coherency: Estimate
    """kappa."""
    misfits: tuple[Misfit, ...]

    def at(self, in_flight: float) -> float:
        """X(N), operations per second."""
        return _law((self.rate.mean, self.contention.mean, self.coherency.mean), in_flight)

    @property
    def peak_in_flight(self) -> float | None:
        """Where the law is highest; None if it grows for ever."""
        kappa, sigma = self.coherency.mean, self.contention.mean
        return math.sqrt((1 - sigma) / kappa) if kappa > 0 and sigma < 1 else None


def fit(points: Sequence[tuple[int, Estimate]]) -> Usl | None:
    """Weighted least squares (Levenberg and Marquardt); None with fewer than four different loads."""
    if len({in_flight for in_flight, _ in points}) < 4:
        return None
    loads = [float(in_flight) for in_flight, _ in points]
    values = [estimate.mean for _, estimate in points]
    errors = [
        max(estimate.error, ERROR_FLOOR * value, 1e-9) for (_, estimate), value in zip(points, values, strict=True)
    ]
    terms = _solved(loads, values, errors)
    spread = _chi(terms, loads, values, errors) / (len(points) - 3)
    covariance = _inverse(_normal(terms, loads, errors))
    scale = math.sqrt(max(1.0, spread))
    freedom = len(points) - 3
    estimates = [
        Estimate(term, math.sqrt(max(0.0, covariance[i][i])) * scale, freedom + 1) for i, term in enumerate(terms)
    ]
    misfits = [
        Misfit(int(load), value, _law(terms, load))
        for load, value, error in zip(loads, values, errors, strict=True)
        if abs(value - _law(terms, load)) > max(MISFIT_ERRORS * error, MISFIT_SHARE * value)
    ]
    rate, contention, coherency = estimates
    return Usl(rate, contention, coherency, tuple(misfits))


Terms = tuple[float, float, float]


def _law(terms: Terms, load: float) -> float:
    rate, sigma, kappa = terms
    return rate * load / (1 + sigma * (load - 1) + kappa * load * (load - 1))


def _slopes(terms: Terms, load: float) -> Terms:
    rate, sigma, kappa = terms
    below = 1 + sigma * (load - 1) + kappa * load * (load - 1)
    value = rate * load / below
    return load / below, -value * (load - 1) / below, -value * load * (load - 1) / below


def _chi(terms: Terms, loads: Sequence[float], values: Sequence[float], errors: Sequence[float]) -> float:
    return math.fsum(
        ((value - _law(terms, load)) / error) ** 2 for load, value, error in zip(loads, values, errors, strict=True)
    )


def _normal(terms: Terms, loads: Sequence[float], errors: Sequence[float]) -> list[list[float]]:
    rows = [[slope / error for slope in _slopes(terms, load)] for load, error in zip(loads, errors, strict=True)]
    return [[math.fsum(row[i] * row[j] for row in rows) for j in range(3)] for i in range(3)]


def _solved(loads: Sequence[float], values: Sequence[float], errors: Sequence[float]) -> Terms:
    """The terms that fit best; sigma and kappa are not below 0, where they would mean nothing."""
    terms: Terms = (max(value / load for load, value in zip(loads, values, strict=True)), 0.01, 1e-6)
    chi, damping = _chi(terms, loads, values, errors), 1e-3
    for _ in range(STEPS_MAX):
        normal = _normal(terms, loads, errors)
        gradient = [
            math.fsum(
                _slopes(terms, load)[i] * (value - _law(terms, load)) / error**2
                for load, value, error in zip(loads, values, errors, strict=True)
            )
            for i in range(3)
        ]
        for i in range(3):
            normal[i][i] *= 1 + damping
        inverse = _inverse(normal)
        step = [math.fsum(inverse[i][j] * gradient[j] for j in range(3)) for i in range(3)]
        tried: Terms = (terms[0] + step[0], max(0.0, terms[1] + step[1]), max(0.0, terms[2] + step[2]))
        better = _chi(tried, loads, values, errors) if tried[0] > 0 else math.inf
        if better < chi:
            is_done = chi - better < 1e-12 * chi
            terms, chi, damping = tried, better, max(damping / 10, 1e-12)
            if is_done:
                break
        else:
            damping *= 10
            if damping > 1e12:
                break
    return terms


def _inverse(matrix: list[list[float]]) -> list[list[float]]:
    """Of a symmetric 3 x 3 matrix, scaled to a unit diagonal first; terms that nothing depends on get no variance."""
    scale = [1 / math.sqrt(matrix[i][i]) if matrix[i][i] > 0 else 0.0 for i in range(3)]
    a = [[matrix[i][j] * scale[i] * scale[j] if i != j else 1.0 for j in range(3)] for i in range(3)]
    cofactors = [
        [
            a[(i + 1) % 3][(j + 1) % 3] * a[(i + 2) % 3][(j + 2) % 3]
            - a[(i + 1) % 3][(j + 2) % 3] * a[(i + 2) % 3][(j + 1) % 3]
            for j in range(3)
        ]
        for i in range(3)
    ]
    determinant = math.fsum(a[0][j] * cofactors[0][j] for j in range(3))
    if abs(determinant) < 1e-14:
        determinant = math.copysign(1e-14, determinant)
    return [[cofactors[j][i] / determinant * scale[i] * scale[j] for j in range(3)] for i in range(3)]
