"""Families of simulated series of rates: noise of many kinds about a mean that is known.

Parameters that a family does not fix are drawn anew for each series, so that no rule can suit them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Make = Callable[[np.random.Generator, int], tuple[Array, Array]]
"""A series of a length, and the true mean at each of its values."""

SPREADS = (0.005, 0.08)
"""Standard deviations that are drawn, relative to the mean."""
QUIET = 0.01
"""Standard deviation of the noise within a level."""


def spread(chance: np.random.Generator, low: float = SPREADS[0], high: float = SPREADS[1]) -> float:
    """Drawn evenly by its logarithm."""
    return math.exp(chance.uniform(math.log(low), math.log(high)))


def correlated(chance: np.random.Generator, count: int, correlation: float) -> Array:
    """AR(1) noise of variance 1."""
    values = chance.standard_normal(count)
    innovation = math.sqrt(1 - correlation**2)
    for at in range(1, count):
        values[at] = correlation * values[at - 1] + innovation * values[at]
    return values


def autoregressive(
    chance: np.random.Generator, count: int, *, correlation: float | None = None, deviation: float | None = None
) -> tuple[Array, Array]:
    """AR(1); without a correlation it is drawn from 0 to 0.95."""
    rho = chance.uniform(0, 0.95) if correlation is None else correlation
    sd = deviation or spread(chance)
    return 1 + sd * correlated(chance, count, rho), np.ones(count)


def moving_average(chance: np.random.Generator, count: int) -> tuple[Array, Array]:
    """Means of 2 to 10 neighbours of white noise."""
    width = int(chance.integers(2, 11))
    noise = np.convolve(chance.standard_normal(count + width - 1), np.ones(width), "valid")
    return 1 + spread(chance) * noise / math.sqrt(width), np.ones(count)


def lognormal(
    chance: np.random.Generator,
    count: int,
    *,
    correlation: float | None = None,
    sigma: tuple[float, float] = (0.01, 0.3),
) -> tuple[Array, Array]:
    """The exponential of AR(1) noise; the standard deviation of the logarithm is drawn between the two sigmas."""
    rho = chance.uniform(0, 0.95) if correlation is None else correlation
    scale = spread(chance, *sigma)
    return np.exp(scale * correlated(chance, count, rho) - scale**2 / 2), np.ones(count)


def cyclic(chance: np.random.Generator, count: int) -> tuple[Array, Array]:
    """AR(2) noise that swings with a period of 4 to 20 values."""
    radius, angle, warm = chance.uniform(0.5, 0.95), 2 * math.pi / chance.uniform(4, 20), 60
    noise = chance.standard_normal(count + warm)
    for at in range(2, count + warm):
        noise[at] += 2 * radius * math.cos(angle) * noise[at - 1] - radius**2 * noise[at - 2]
    first, second = 2 * radius * math.cos(angle), -(radius**2)
    variance = (1 - second) / ((1 + second) * ((1 - second) ** 2 - first**2))
    return 1 + spread(chance) * noise[warm:] / math.sqrt(variance), np.ones(count)


def hidden(chance: np.random.Generator, count: int) -> tuple[Array, Array]:
    """AR(1) noise, of a correlation from 0.5 to 0.95, under white noise that has 20 to 80 % of the variance."""
    share = chance.uniform(0.2, 0.8)
    slow = correlated(chance, count, chance.uniform(0.5, 0.95))
    noise = math.sqrt(share) * slow + math.sqrt(1 - share) * chance.standard_normal(count)
    return 1 + spread(chance) * noise, np.ones(count)


def switching(chance: np.random.Generator, count: int, *, dwell: float) -> tuple[Array, Array]:
    """Two levels 10 to 40 % apart, each of which lasts for ``dwell`` values on average."""
    gap, low = chance.uniform(0.1, 0.4), np.empty(count)
    is_low = bool(chance.random() < 0.5)
    for at in range(count):
        low[at] = is_low
        is_low ^= bool(chance.random() < 1 / dwell)
    return 1 - gap * low + QUIET * chance.standard_normal(count), np.full(count, 1 - gap / 2)


def queue(chance: np.random.Generator, count: int) -> tuple[Array, Array]:
    """Mean response times of 100 to 2,000 successive requests of an M/M/1 queue, 20 to 80 % busy, in equilibrium."""
    busy, size = chance.uniform(0.2, 0.8), round(spread(chance, 100, 2000))
    services = chance.exponential(busy, count * size)
    # Lindley's recursion: the work that a request finds, between arrivals with a mean distance of 1.
    found = chance.exponential(busy / (1 - busy)) if chance.random() < busy else 0.0
    work = np.cumsum(np.append(found, services[:-1] - chance.exponential(1, count * size - 1)))
    responses = work - np.minimum(np.minimum.accumulate(work), 0) + services
    return responses.reshape(count, size).mean(axis=1) * (1 - busy) / busy, np.ones(count)


def dips(chance: np.random.Generator, count: int, *, period: int) -> tuple[Array, Array]:
    """One value in each period is 20 to 80 % lower, as while garbage is collected."""
    depth = chance.uniform(0.2, 0.8)
    is_dip = (np.arange(count) + chance.integers(period)) % period == 0
    return 1 - depth * is_dip + QUIET * chance.standard_normal(count), np.full(count, 1 - depth / period)


def dropouts(
    chance: np.random.Generator, count: int, *, share: float, depth: float = 0.6, deviation: float = 0.02
) -> tuple[Array, Array]:
    """Values that are lower at random."""
    noise = deviation * chance.standard_normal(count)
    return 1 - depth * (chance.random(count) < share) + noise, np.full(count, 1 - depth * share)


def stalls(chance: np.random.Generator, count: int, *, share: float, lasts: float) -> tuple[Array, Array]:
    """Values are 60 % lower for some values in a row, and for a share of the time."""
    low, is_low = np.empty(count), False
    for at in range(count):
        is_low = bool(chance.random() < (1 - 1 / lasts if is_low else share / lasts))
        low[at] = is_low
    return 1 - 0.6 * low + 0.03 * chance.standard_normal(count), np.full(count, 1 - 0.6 * share)


def drifting(chance: np.random.Generator, count: int) -> tuple[Array, Array]:
    """A loss or gain of up to 30 % on the way, in AR(1) noise of a correlation up to 0.7; no value is special."""
    course = 1 + chance.uniform(-0.3, 0.3) * ((np.arange(count) + 0.5) / count - 0.5)
    return course + spread(chance) * correlated(chance, count, chance.uniform(0, 0.7)), course


def student(chance: np.random.Generator, count: int, *, correlation: float = 0.0) -> tuple[Array, Array]:
    """AR(1) noise whose innovations have the tails of Student's t with 3 degrees of freedom."""
    noise = chance.standard_t(3, count)
    for at in range(1, count):
        noise[at] += correlation * noise[at - 1]
    return 1 + 0.03 * noise, np.ones(count)


def fixed(correlation: float, deviation: float | None = None) -> Make:
    """AR(1) of one correlation."""
    return partial(autoregressive, correlation=correlation, deviation=deviation)
