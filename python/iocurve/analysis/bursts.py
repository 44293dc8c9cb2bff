"""Tells a limit on the rate from a busy server by what short bursts after pauses get.

A server without memory cannot profit from a pause. Its stations work at their speed, so a burst of n operations
takes at least n / rate on average, whatever the distribution of the service times and the number of stations (work
conservation; L. Kleinrock, "Queueing Systems", volume 2, Wiley 1976, chapter 3). A burst that is done sooner proves
that what admits operations counts them over time: a token bucket, a window, an average. The converse does not hold: a
bucket that holds fewer operations than are in service at the unloaded latency looks like stations behind a delay.

Stations show by two things that no bucket has. A bucket lets operations through one by one once it is empty, so the
wait of the n-th operation grows by at most 1 / rate; an operation that finds all stations taken waits for a whole
service time. And the completions of stations with random service times disperse as renewals do, without bound, with
the squared coefficient of variation of the service time (D. R. Cox, "Renewal Theory", Methuen 1962, chapter 4), while
those of a cap stay within a constant of its rate.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from functools import cached_property
from statistics import fmean, median, pvariance

import msgspec

from iocurve.analysis.measured_load import MeasuredLoad
from iocurve.engine.derived import unpack
from iocurve.foundation.units import SECOND_NS
from iocurve.result.stalls import starved_share
from iocurve.result.stats import Estimate, product, robust_deviation, sample_mean, scaled

BURSTS_MIN = 5
"""Fewer bursts tell nothing of their spread."""
GAIN = 0.85
"""A burst that takes less than this part of the time at the sustained rate profits from the pause before it."""
NO_GAIN = 0.9
"""A burst that takes at least this part does not."""
AT_ONCE = 1.2
"""Operations of a burst that take at most this many times as long as one alone are worked on all at once."""
SPARE = 1.03
"""More operations at once than this many times those in service at the rate of the load: not all stations were busy."""
LARGER = 1.5
"""So many times the operations that are worked on at once have to wait in part."""
STEEPER = 1.3
"""The wait in a burst exceeds the most that a bucket explains by at least this factor."""
ONE = (0.97, 1.15)
"""Operations in service at a server that works on one at a time; the way to it adds to the latency of one alone."""
LATER = 1.05
"""A burst is later than a limit allows by at least this factor."""
MEDIAN_ERROR = 1.2533
"""Standard error of a median to that of a mean, of normal values."""
VARIED = 0.1
"""Squared coefficient of variation from which service times count as random."""
SLOW, SLOW_SHARE, SLOW_MIN = 2.0, 0.04, 3
"""So many times the median latency is slow; service times with a heavy tail have at least this share and number of slow
operations. ..."""
STARVED_MAX = 0.01
"""... They may be this machine's where its threads waited for a processor for more than this share of the time."""
UNEVEN_DELAYED = 0.25
"""A target whose threads wait for a processor for this share of the time completes operations unevenly."""
DISPERSED = 0.3
"""Part of that which the dispersion of a server's completions has at least."""
OVERDISPERSED = 3.0
"""Dispersion beyond this many times that is not the server's."""
LATENCIES_A_CELL = 25
"""Completions are counted over at least this many latencies, so that what is in flight adds next to nothing."""
CELLS_MIN = 12


class Bursts(msgspec.Struct, frozen=True, dict=True):
    """Bursts of a number of operations at once, each after a pause. Times in seconds."""

    size: int
    completions: tuple[tuple[float, ...], ...]
    """Of each burst the times from its start to each of its completions, in order."""
    starved: float = 0.0
    """Share of the time for which threads waited for a processor."""

    @cached_property
    def last(self) -> Estimate:
        """From the start of a burst to its last completion."""
        return sample_mean([burst[-1] for burst in self.completions])

    @property
    def latencies(self) -> list[float]:
        """From the start of their bursts to their completions."""
        return [latency for burst in self.completions for latency in burst]

    @property
    def variation(self) -> float:
        """Squared coefficient of variation of the latencies."""
        latencies = self.latencies
        return pvariance(latencies) / fmean(latencies) ** 2

    @property
    def typical(self) -> float:
        """Squared coefficient of variation of the latencies, without the few that something held up."""
        latencies = self.latencies
        return (robust_deviation(latencies) / median(latencies)) ** 2

    def mean_of(self, count: int) -> Estimate:
        """Mean time to a number of completions, in the median burst."""
        return _median_of([fmean(burst[:count]) for burst in self.completions])

    def done_by(self, seconds: float) -> int:
        """Completions until a time in the median burst."""
        return round(median(bisect_right(burst, seconds) for burst in self.completions))

    def gain(self, rate: Estimate) -> Estimate:
        """Time of a burst to that of as many operations at a rate."""
        return scaled(product(self.last, rate), 1 / self.size)


def _median_of(values: Sequence[float]) -> Estimate:
    return Estimate(median(values), MEDIAN_ERROR * robust_deviation(values) / math.sqrt(len(values)), len(values))


def bursts_of(load: MeasuredLoad, size: int) -> Bursts | None:
    """The bursts in a load's log; None if there are too few whole ones."""
    logs = [unpack(worker.outcome.log) for worker in load.workers if worker.outcome.log]
    found = [one for log in logs for one in _bursts(log.at_ns, log.service_ns) if len(one) == size]
    starved = starved_share(load.point.machine)
    return Bursts(size, tuple(map(tuple, found)), starved) if len(found) >= BURSTS_MIN else None


def _bursts(at_ns: Sequence[int], service_ns: Sequence[float]) -> list[list[float]]:
    """Completions of each burst, since its start: a burst starts when all operations before it are done."""
    operations = sorted((at - service, at) for at, service in zip(at_ns, service_ns, strict=True))
    found: list[list[float]] = []
    start, drained = 0.0, -math.inf
    for submitted, at in operations:
        if submitted >= drained:
            start = submitted
            found.append([])
        found[-1].append((at - start) / SECOND_NS)
        drained = max(drained, at)
    return [sorted(burst) for burst in found]


def in_service(rate: Estimate, alone: Bursts) -> Estimate:
    """Operations in flight at a rate and the latency of one alone: the stations of a server that works at that rate."""
    return product(rate, alone.last)


def profits(bursts: Bursts, rate: Estimate) -> bool:
    """True if bursts take less time than the sustained rate allows."""
    return bursts.gain(rate).high < GAIN


def at_once(alone: Bursts, large: Bursts) -> int:
    """Operations of a burst that are worked on all at once."""
    return large.done_by(AT_ONCE * alone.mean_of(1).mean)


def has_spare_stations(alone: Bursts, large: Bursts, rate: Estimate) -> bool:
    """True if the server works on more operations at once than its rate needs: something else limits that rate."""
    return at_once(alone, large) > SPARE * in_service(rate, alone).high


def is_one_at_a_time(alone: Bursts, rate: Estimate) -> bool:
    """True if one operation keeps a server busy that works on one at a time, each for about the same time.

    A limit that lets operations through one by one does so only if the latency happens to be that of its rate.
    """
    service = in_service(rate, alone)
    return alone.typical < VARIED and ONE[0] <= service.low and service.high <= ONE[1]


def is_later_than_limits_allow(alone: Bursts, large: Bursts, rate: Estimate) -> bool:
    """True if the last operation of a burst is done later than if each waited for its turn at the sustained rate.

    A limit lets the first operation through at once after a pause. A server may work on what waits in batches.
    """
    latest = max(alone.latencies) + large.size / rate.mean
    # A few that were held up do not count.
    usual = _median_of([burst[-1] for burst in large.completions])
    return min(large.last.low, usual.low) > LATER * latest


def is_served_in_steps(alone: Bursts, large: Bursts, rate: Estimate) -> bool:
    """True if the first operations of a burst are worked on all at once, and those after them wait for a whole service.

    What the first wait bounds the capacity of a bucket from below, and so what the next wait from above.
    """
    single = alone.mean_of(1)
    first = at_once(alone, large)
    more = math.ceil(LARGER * first)
    if first < 2 or more > large.size or alone.typical > VARIED or has_spare_stations(alone, large, rate):
        return False
    waited = max(0.0, large.mean_of(first).high - single.low)
    most = _wait(more, _capacity(first, waited, rate.mean), rate.mean)
    return large.mean_of(more).low - single.high > STEEPER * most


def _wait(size: int, capacity: float, rate: float) -> float:
    """Mean wait in a burst at a bucket of a capacity that is full."""
    return math.fsum(max(0.0, number - capacity) for number in range(1, size + 1)) / rate / size


def _capacity(size: int, waited: float, rate: float) -> float:
    """The least capacity at which operations of a burst wait no longer than they did on average."""
    low, high = 0.0, float(size)
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (middle, high) if _wait(size, middle, rate) > waited else (low, middle)
    return high


def is_random(alone: Bursts) -> bool:
    """True if the latencies of single operations vary enough to show in the completions of a busy server.

    A few that this machine held up do not count: they would show in the completions at a cap, too. If it held none up,
    a few slow operations are the server's.
    """
    if alone.typical >= VARIED:
        return True
    latencies = alone.latencies
    slow = sum(latency > SLOW * median(latencies) for latency in latencies)
    is_heavy = slow >= max(SLOW_MIN, SLOW_SHARE * len(latencies)) and alone.variation >= VARIED
    return is_heavy and alone.starved <= STARVED_MAX


def disperses(runs: Sequence[Sequence[float]], length_s: float, alone: Bursts) -> bool:
    """True if the completions of a busy load disperse as the service times of single operations do.

    ``runs`` are counts of completions over successive intervals of a length.
    """
    size = max(1, math.ceil(LATENCIES_A_CELL * alone.last.mean / length_s))
    squares, freedom, total = 0.0, 0, []
    for counts in runs:
        cells = [math.fsum(counts[at : at + size]) for at in range(0, len(counts) - size + 1, size)]
        if len(cells) > 1:
            squares += pvariance(cells) * len(cells)
            freedom += len(cells) - 1
            total += cells
    if freedom < CELLS_MIN or not fmean(total):
        return False
    dispersion = squares / freedom / fmean(total)
    error = math.sqrt(2 / freedom)
    # Wilson and Hilferty's cube of the lower bound of a variance, at 99 %.
    low = dispersion / (1 - 2 / (9 * freedom) + 2.33 * error / 3) ** 3
    return DISPERSED * alone.variation <= low and dispersion <= OVERDISPERSED * alone.variation
