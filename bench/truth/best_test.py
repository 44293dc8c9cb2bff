"""The power of the best test for a step: no test that keeps its false-alarm rate can find more.

The test of Neyman and Pearson knows the size of the step and the correlation of the noise; like every test it knows
neither the place of the step nor the scale of the noise. It must keep its rate of false alarms under every correlation
up to 0.9, and so under any mixture of them: its power against a mixture is a bound, and the mixture is chosen for a low
bound (E. L. Lehmann, J. P. Romano, "Testing Statistical Hypotheses", section 3.8, least favorable distributions).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

CORRELATIONS = (0.0, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9)
"""Without a step."""
SEGMENT_MIN = 3
FALSE_ALARMS = 0.01
SEED = 5
ROUNDS = 200
"""Adjustments of the mixture."""

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Alternative:
    """A step in AR(1) noise."""

    count: int
    correlation: float
    height: float
    """In standard deviations of the noise."""


def power_bound(alternative: Alternative, runs: int = 1000) -> float:
    """The largest share of steps, at places drawn at random, that a test can find."""
    chance = np.random.default_rng(SEED)
    noise = [_noise(chance, runs, alternative.count, correlation) for correlation in CORRELATIONS]
    without = np.array([_ratios(series, alternative) for series in noise])
    series = _noise(chance, runs, alternative.count, alternative.correlation)
    places = chance.integers(SEGMENT_MIN, alternative.count - SEGMENT_MIN + 1, runs)
    series -= alternative.height * (np.arange(alternative.count)[None, :] >= places[:, None])
    stepped = _ratios(series, alternative)
    weights = _least_favourable(without)
    shares = np.exp(weights - weights.max())
    scores = np.array([_score(one, weights) for one in without])
    limit = _weighted_quantile(scores.ravel(), np.repeat(shares / shares.sum() / runs, runs))
    return float(np.mean(_score(stepped, weights) > limit))


def _noise(chance: np.random.Generator, runs: int, count: int, correlation: float) -> Array:
    values = chance.standard_normal((runs, count))
    for at in range(1, count):
        values[:, at] = correlation * values[:, at - 1] + np.sqrt(1 - correlation**2) * values[:, at]
    return values


def _whitened(series: Array, correlation: float) -> Array:
    first = np.sqrt(1 - correlation**2) * series[:, :1]
    return np.concatenate([first, series[:, 1:] - correlation * series[:, :-1]], axis=1)


def _levelled(series: Array, correlation: float) -> tuple[Array, float]:
    """Whitened series without their level, and the logarithm of the factor that the level leaves."""
    constant = _whitened(np.ones((1, series.shape[1])), correlation)[0]
    power = float(constant @ constant)
    whitened = _whitened(series, correlation)
    levelled = whitened - np.outer(whitened @ constant / power, constant)
    return levelled, float(np.log(1 - correlation**2) - np.log(power)) / 2


def _ratios(series: Array, alternative: Alternative) -> Array:
    """Logarithms of the likelihood with a step, relative to each likelihood without one: a column per correlation."""
    without = np.array([_without(series, one) for one in CORRELATIONS]).T
    ratios: Array = _with_step(series, alternative)[:, None] - without
    return ratios


def _without(series: Array, correlation: float) -> Array:
    levelled, factor = _levelled(series, correlation)
    return factor + _scale_averaged(np.sum(levelled**2, axis=1), np.zeros(len(series)), series.shape[1])


def _with_step(series: Array, alternative: Alternative) -> Array:
    """The mean over all places and both signs."""
    count, correlation = alternative.count, alternative.correlation
    places = np.arange(SEGMENT_MIN, count - SEGMENT_MIN + 1)
    shapes, _ = _levelled((np.arange(count)[None, :] >= places[:, None]).astype(float), correlation)
    levelled, factor = _levelled(series, correlation)
    height = alternative.height / np.sqrt(1 - correlation**2)
    power = np.sum(levelled**2, axis=1)[:, None]
    # The other sign of the best fit adds nothing that counts.
    averaged = _scale_averaged(power, height * np.abs(levelled @ shapes.T), count)
    each = averaged - height**2 * np.sum(shapes**2, axis=1) / 2
    stepped: Array = factor + _log_sum(each) - np.log(2 * len(places))
    return stepped


def _scale_averaged(power: Array, product: Array, count: int) -> Array:
    """Logarithm of the integral of u^(count - 2) exp(product u - power u^2 / 2), by Laplace's method."""
    mode = (product + np.sqrt(product**2 + 4 * power * (count - 2))) / (2 * power)
    curvature = power + (count - 2) / mode**2
    averaged: Array = (count - 2) * np.log(mode) - power * mode**2 / 2 + product * mode - np.log(curvature) / 2
    return averaged


def _log_sum(terms: Array) -> Array:
    highest = terms.max(axis=1, keepdims=True)
    summed: Array = (highest + np.log(np.exp(terms - highest).sum(axis=1, keepdims=True)))[:, 0]
    return summed


def _score(ratios: Array, weights: Array) -> Array:
    """Logarithm of the likelihood ratio to the mixture."""
    return -_log_sum(weights - ratios)


def _least_favourable(without: Array) -> Array:
    """Logarithms of weights: raised for correlations with too many false alarms, lowered for those with too few."""
    weights = np.zeros(len(CORRELATIONS))
    for turn in range(ROUNDS):
        rates = np.array([np.mean(_score(one, weights) > 0) for one in without])
        stride = 0.5 if turn < ROUNDS / 2 else 0.1
        weights += stride * np.clip((rates - FALSE_ALARMS) / FALSE_ALARMS, -1, 2)
    return weights


def _weighted_quantile(scores: Array, weights: Array) -> float:
    """The score that a share of ``FALSE_ALARMS`` exceeds."""
    order = np.argsort(-scores)
    place = int(np.searchsorted(np.cumsum(weights[order]), FALSE_ALARMS))
    return float(scores[order][place])
