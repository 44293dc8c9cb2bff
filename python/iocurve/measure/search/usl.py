"""Gunther's universal scalability law: X(N) = lambda N / (1 + sigma (N - 1) + kappa N (N - 1)).

lambda is what one operation in flight carries, sigma the part that cannot be done at once (contention), kappa the cost
of keeping each consistent with the others (coherency). Source: N. J. Gunther, "Guerrilla Capacity Planning", Springer
2007, chapters 4 to 6.

The errors of the points are known, so the intervals of the terms follow from them, and so does the test of the fit.
Each point's variance is estimated from a few values only; it is moved towards the relative variance that all points
have in common (G. K. Smyth, "Linear models and empirical Bayes methods", Statistical Applications in Genetics and
Molecular Biology 3, 2004). Intervals hold the true terms in 95 of 100 fits, and of 100 curves that follow the law at
most 5 have a point that is called a misfit; ``docs/evidence/accuracy.md`` has the counts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from iocurve.result.stats import Estimate, student_quantile

ERROR_MIN = 1e-4
"""No point counts as surer than this fraction."""
COMMON_FREEDOM = 20
"""Degrees of freedom that the common variance of the points is worth."""
MISFIT_CHANCE = 0.05
"""Chance that any point of a curve that follows the law is called a misfit."""
MISFIT_SHARE = 0.05
"""A point that is off by less is none."""
UNKNOWN_ERROR = 0.01
"""Taken where no point has an error."""
STEPS_MAX = 200


class Usl(msgspec.Struct, frozen=True):
    """The terms of a fit."""

    rate: Estimate
    """lambda, operations per second of one in flight."""
    contention: Estimate
    """sigma."""
    coherency: Estimate
    """kappa."""
    misfits: tuple[tuple[int, float, float], ...]
    """Points that the law does not describe: what is in flight, the measured rate, and the fitted one."""

    def at(self, in_flight: float) -> float:
        """X(N), operations per second."""
        return _law((self.rate.mean, self.contention.mean, self.coherency.mean), in_flight)


def fit(points: Sequence[tuple[int, Estimate]]) -> Usl | None:
    """Weighted least squares (Levenberg and Marquardt); None with fewer than four different loads."""
    if len({in_flight for in_flight, _ in points}) < 4:
        return None
    loads = [float(in_flight) for in_flight, _ in points]
    values = [estimate.mean for _, estimate in points]
    errors = _errors([estimate for _, estimate in points])
    terms, free = _solved(loads, values, errors)
    freedom = sum(max(1, estimate.batches - 1) for _, estimate in points)
    covariance = _inverse(_normal(terms, loads, errors, free))
    misfits = _misfits(terms, loads, values, errors, covariance, freedom)
    spread = _chi(terms, loads, values, errors) / max(1, len(points) - 3)
    # If the law does not fit, the terms are as unsure as the misfit is large.
    scale = math.sqrt(max(1.0, spread)) if misfits else 1.0
    # sigma and kappa have the intervals of a fit with both, also where one of them came out as 0.
    whole = _inverse(_normal(terms, loads, errors, ALL_FREE))
    variances = (covariance[0][0], whole[1][1], whole[2][2])
    rate, contention, coherency = (
        Estimate(term, math.sqrt(max(0.0, variance)) * scale, freedom + 1)
        for term, variance in zip(terms, variances, strict=True)
    )
    return Usl(rate, contention, coherency, misfits)


def _errors(estimates: Sequence[Estimate]) -> list[float]:
    """Standard errors of the points, each moved towards the relative error that all have in common."""
    known = [estimate for estimate in estimates if math.isfinite(estimate.error) and estimate.mean]
    common = math.fsum((one.error / one.mean) ** 2 for one in known) / len(known) if known else UNKNOWN_ERROR**2
    return [_error(estimate, max(common, ERROR_MIN**2)) for estimate in estimates]


def _error(estimate: Estimate, common: float) -> float:
    shared = common * estimate.mean**2
    if not math.isfinite(estimate.error):
        return max(math.sqrt(shared), 1e-9)
    freedom = estimate.batches - 1
    return max(math.sqrt((COMMON_FREEDOM * shared + freedom * estimate.error**2) / (COMMON_FREEDOM + freedom)), 1e-9)


def _misfits(
    terms: Terms,
    loads: Sequence[float],
    values: Sequence[float],
    errors: Sequence[float],
    covariance: Sequence[Sequence[float]],
    freedom: int,
) -> tuple[tuple[int, float, float], ...]:
    """Points farther from the law than their errors explain, all points taken together (Bonferroni)."""
    most = student_quantile(freedom, 1 - MISFIT_CHANCE / len(loads))
    found = []
    for load, value, error in zip(loads, values, errors, strict=True):
        fitted, slopes = _law(terms, load), _slopes(terms, load)
        # The fit follows a point by as much as the point alone determines it.
        taken = math.fsum(slopes[i] * covariance[i][j] * slopes[j] for i in range(3) for j in range(3))
        left = math.sqrt(max(error**2 - taken, 0.01 * error**2))
        if abs(value - fitted) > max(most * left, MISFIT_SHARE * value):
            found.append((int(load), value, fitted))
    return tuple(found)


Terms = tuple[float, float, float]
Free = tuple[bool, bool, bool]
"""The terms that are fitted; the others are 0."""
ALL_FREE: Free = (True, True, True)


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


def _normal(terms: Terms, loads: Sequence[float], errors: Sequence[float], free: Free) -> list[list[float]]:
    rows = [
        [slope / error if one else 0.0 for slope, one in zip(_slopes(terms, load), free, strict=True)]
        for load, error in zip(loads, errors, strict=True)
    ]
    return [[math.fsum(row[i] * row[j] for row in rows) for j in range(3)] for i in range(3)]


def _solved(loads: Sequence[float], values: Sequence[float], errors: Sequence[float]) -> tuple[Terms, Free]:
    """The terms that fit best; sigma and kappa are not below 0, where they would mean nothing."""
    best: tuple[float, Terms, Free] | None = None
    for free in (ALL_FREE, (True, True, False), (True, False, True), (True, False, False)):
        terms = _solved_free(loads, values, errors, free)
        if min(terms) < 0:
            continue
        chi = _chi(terms, loads, values, errors)
        if best is None or chi < best[0]:
            best = chi, terms, free
        if free == ALL_FREE:
            break
    assert best is not None, "the last of the fits has no term that could be negative"
    return best[1], best[2]


def _solved_free(loads: Sequence[float], values: Sequence[float], errors: Sequence[float], free: Free) -> Terms:
    """Levenberg and Marquardt over the free terms."""
    start = max(value / load for load, value in zip(loads, values, strict=True))
    terms: Terms = (start, 0.01 if free[1] else 0.0, 1e-6 if free[2] else 0.0)
    chi, damping = _chi(terms, loads, values, errors), 1e-3
    for _ in range(STEPS_MAX):
        normal = _normal(terms, loads, errors, free)
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
        tried: Terms = (terms[0] + step[0], terms[1] + step[1], terms[2] + step[2])
        better = _chi(tried, loads, values, errors) if _is_possible(tried, loads) else math.inf
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


def _is_possible(terms: Terms, loads: Sequence[float]) -> bool:
    """True where the law gives a positive rate at every load."""
    return terms[0] > 0 and all(1 + terms[1] * (load - 1) + terms[2] * load * (load - 1) > 0 for load in loads)


def _inverse(matrix: list[list[float]]) -> list[list[float]]:
    """The inverse of a symmetric 3 x 3 matrix, scaled to a unit diagonal first; unused terms get no variance."""
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
