"""Searches, on simulated targets: their measured loads, their findings, and their reasons to stop."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from iocurve.errors import DialectError, TargetError
from iocurve.job.model import Section
from iocurve.measure.search import ceiling, knee, usl
from iocurve.measure.search.ceiling import Trial
from iocurve.measure.search.command import Question, draw_curve, find_knee, find_max, shown, workload_of
from iocurve.measure.search.knee import Sample
from iocurve.measure.search.loads import Effort
from iocurve.result.document import RESULT_NAME, Result
from iocurve.result.stats import Estimate, batch_means
from iocurve.targets import target as targets
from iocurve.units import MIB, MILLISECOND_NS


@dataclass
class Simulated:
    """A closed system, measured in batches that vary a little."""

    rate: Callable[[float], float]
    noise: float = 0.01
    seed: int = 1
    asked: list[int] = field(default_factory=list)

    def __call__(self, in_flight: int) -> Sample:
        self.asked.append(in_flight)
        chance = random.Random(f"{self.seed} {in_flight}")
        rates = [self.rate(in_flight) * chance.gauss(1, self.noise) for _ in range(12)]
        return Sample(in_flight, batch_means(rates), batch_means([1e9 * in_flight / rate for rate in rates]))


def capped(capacity: float, latency_s: float) -> Callable[[float], float]:
    """A fixed latency, and a limit on the rate."""
    return lambda in_flight: min(in_flight / latency_s, capacity)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize(("capacity", "latency_s"), [(20_000, 0.005), (5_000, 0.002), (100_000, 0.0005), (700, 0.0031)])
def test_the_knee_of_a_fixed_latency_and_a_cap_is_their_product(capacity: float, latency_s: float, seed: int) -> None:
    found = knee.find(Simulated(capped(capacity, latency_s), seed=seed), 4096)
    assert found.saturated
    assert found.in_flight.mean == pytest.approx(capacity * latency_s, rel=0.03)
    assert found.in_flight.low <= capacity * latency_s * 1.03
    assert found.in_flight.high >= capacity * latency_s * 0.97


def test_a_sharp_knee_takes_few_points() -> None:
    target = Simulated(capped(20_000, 0.005), noise=0.002)
    found = knee.find(target, 4096)
    assert target.asked == [1, 4, 16, 64, 256, 1024, 100]
    assert found.at.in_flight == 100
    assert found.stopped == "from 256 to 1024 in flight the rate changed by -0.1% only"


def test_a_soft_knee_is_looked_at_more_closely_where_it_bends() -> None:
    """One server of 50 µs behind 1 ms: the mean value analysis of a closed system."""

    def rate(in_flight: float) -> float:
        queue = 0.0
        carried = 0.0
        for number in range(1, int(in_flight) + 1):
            wait = 50e-6 * (1 + queue)
            carried = number / (1e-3 + wait)
            queue = carried * wait
        return carried

    found = knee.find(Simulated(rate, noise=0.002), 4096)
    # Capacity 20,000, unloaded 1.05 ms.
    assert found.in_flight.mean == pytest.approx(21, rel=0.05)
    around = [sample.in_flight for sample in found.samples if 4 < sample.in_flight < 64]
    assert len(around) >= 3


def test_a_target_that_still_grows_gives_a_lower_bound() -> None:
    found = knee.find(Simulated(capped(1e9, 0.001)), 300)
    assert not found.saturated
    assert found.stopped == "300 in flight is the most that was to be tried, and the rate still grew"


def test_a_target_of_one_server_has_its_knee_at_one() -> None:
    found = knee.find(Simulated(lambda _: 1000.0, noise=0.002), 4096)
    assert found.in_flight.mean == pytest.approx(1.0, rel=0.02)
    assert found.at.in_flight == 1


def test_the_law_gives_back_its_own_terms() -> None:
    def rate(in_flight: float) -> float:
        return 1000 * in_flight / (1 + 0.03 * (in_flight - 1) + 0.0002 * in_flight * (in_flight - 1))

    points = [(n, Simulated(rate, noise=0.005)(n).iops) for n in (1, 2, 4, 8, 16, 32, 64, 128)]
    law = usl.fit(points)
    assert law is not None
    for term, true in ((law.rate, 1000), (law.contention, 0.03), (law.coherency, 0.0002)):
        assert term.low <= true <= term.high
        assert term.mean == pytest.approx(true, rel=0.1)
    assert law.misfits == ()
    assert law.peak_in_flight == pytest.approx(math.sqrt(0.97 / 0.0002), rel=0.05)


def test_where_the_law_does_not_fit_is_said() -> None:
    points = [(n, Simulated(capped(20_000, 0.005), noise=0.002)(n).iops) for n in (1, 4, 16, 64, 100, 256, 1024)]
    law = usl.fit(points)
    assert law is not None
    assert 100 in {misfit.in_flight for misfit in law.misfits}


def test_three_points_are_too_few_for_the_law() -> None:
    assert usl.fit([(n, Estimate(1000.0 * n, 1.0, 10)) for n in (1, 2, 4)]) is None


@dataclass
class Server:
    """An open system of one server: the p-th percentile of an exponential response time."""

    capacity: float
    noise: float = 0.03
    chance: random.Random = field(default_factory=lambda: random.Random(3))
    tried: list[float] = field(default_factory=list)

    def latency_ns(self, rate: float, percent: float = 99.0) -> float:
        return -math.log(1 - percent / 100) / (self.capacity - rate) * 1e9

    def __call__(self, rate: float) -> Trial:
        self.tried.append(rate)
        if rate >= self.capacity:
            return Trial(self.capacity * 0.97, 1e9)
        return Trial(rate, self.latency_ns(rate) * self.chance.gauss(1, self.noise))


def test_the_most_load_under_a_limit_is_found_to_the_precision() -> None:
    server = Server(capacity=10_000)
    # p99 = ln 100 / (capacity - rate): 2 ms at 7,697 a second.
    found = ceiling.find(server, 10_000, 2e6, 0.02)
    assert found.best is not None
    assert found.best.rate == pytest.approx(10_000 - math.log(100) / 2e-3, rel=0.03)
    assert found.failed_rate is not None
    assert found.best.rate < found.failed_rate <= found.best.rate * 1.03
    assert found.stopped == "the highest rate that held and the lowest that failed are within 2.0%"


def test_a_rate_is_repeated_until_it_is_clear() -> None:
    server = Server(capacity=10_000, noise=0.3)
    near = ceiling.judge(server, 10_000 - math.log(100) / 2e-3, 2e6)
    assert len(server.tried) == ceiling.REPEATS_MAX
    assert not near.is_sure
    server.tried.clear()
    assert ceiling.judge(server, 1_000, 2e6).is_sure
    assert len(server.tried) == ceiling.REPEATS_MIN


def test_a_target_that_does_not_keep_up_has_failed_at_once() -> None:
    server = Server(capacity=10_000)
    verdict = ceiling.judge(server, 12_000, 2e6)
    assert (verdict.holds, verdict.is_sure, len(server.tried)) == (False, True, 1)


def test_a_limit_that_nothing_keeps_is_said() -> None:
    found = ceiling.find(Server(capacity=10_000), 10_000, 1e3, 0.02)
    assert found.best is None
    assert found.stopped.startswith("even ")


def test_a_limit_that_all_loads_keep_is_said() -> None:
    found = ceiling.find(lambda rate: Trial(rate, 1e5 + rate), 10_000, 2e6, 0.02)
    assert found.best is not None
    assert found.best.rate == pytest.approx(10_000, rel=0.03)
    assert found.stopped == "the limit holds up to all that the target carries"


def test_a_workload_is_in_fios_words() -> None:
    section, defaults = workload_of("rw=randrw rwmixread=70 bs=8k")
    load = Section.of(section, defaults).load
    assert (load.reads, load.writes, load.read_percent) == (True, True, 70.0)


def test_what_a_search_decides_itself_is_refused() -> None:
    with pytest.raises(DialectError, match="--iodepth=4 is for the search to decide"):
        workload_of("rw=randread iodepth=4")
    with pytest.raises(DialectError, match="--workload: fio and iocurve read only the beginning of '4x', as 4 bytes"):
        workload_of("rw=randread bs=4x")


# ---- on real targets

SHORT = Effort(
    precision=0.2,
    ramp_ns=20 * MILLISECOND_NS,
    interval_ns=20 * MILLISECOND_NS,
    shortest_ns=160 * MILLISECOND_NS,
    longest_ns=400 * MILLISECOND_NS,
    trial_ns=100 * MILLISECOND_NS,
)


def asked(target: str) -> Question:
    return Question(targets.parse(target), "rw=randread bs=4k", 8 * MIB, SHORT, iodepth_max=64)


def test_a_knee_is_found_on_a_volume_and_told(tmp_path: Path) -> None:
    result = find_knee(asked("volume:unlimited?iops=2000&latency=4ms"), tmp_path)
    assert result.state == "finished"
    assert result.search is not None
    assert [finding.name for finding in result.search.findings][:3] == [
        "knee",
        "load at the knee",
        "latency at the knee",
    ]
    assert {point.family for point in result.points} == {"depth"}
    assert Result.read(tmp_path / RESULT_NAME) == result
    assert "knee" in shown(result.search)


def test_a_search_leaves_a_directory_as_it_was(tmp_path: Path) -> None:
    place = tmp_path / "data"
    place.mkdir()
    result = draw_curve(asked(str(place)), 2, tmp_path / "out")
    assert [point.family for point in result.points].count("curve") == 2
    assert list(place.iterdir()) == []


def test_the_most_load_is_told_with_what_did_not_hold(tmp_path: Path) -> None:
    result = find_max(asked("volume:unlimited?iops=2000"), 50.0, 500 * MILLISECOND_NS, tmp_path)
    assert result.search is not None
    assert result.search.question == "the most load with p50 of response times at most 500 ms"
    assert {point.family for point in result.points} == {"depth", "max"}


def test_a_search_does_not_write_to_what_is_there(tmp_path: Path) -> None:
    path = tmp_path / "precious"
    path.write_bytes(bytes(4 * MIB))
    question = replace(asked(str(path)), workload="rw=randwrite bs=4k")
    with pytest.raises(TargetError, match="--overwrite to allow the writes"):
        find_knee(question, tmp_path / "out")
