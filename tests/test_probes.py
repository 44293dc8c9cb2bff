"""Probes after the last point: which loads they repeat, what they find, and for which points it counts."""

import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from data import synthetic
from goldens import matches, present
from iocurve.analysis import read
from iocurve.analysis.limit_kinds import limit
from iocurve.analysis.limits import probed_limits, verdicts_of
from iocurve.analysis.observations import observations
from iocurve.engine.plan import Plan
from iocurve.foundation.units import KIB, MIB, MILLISECOND_NS
from iocurve.measure.scenario import command, runner
from iocurve.measure.scenario.runner import Request
from iocurve.report.progress import NoView
from iocurve.result.document import Limit, Point, Probe, Result, TargetFacts
from test_result_limits import measured

SILENT = TargetFacts(kind="nfs", address="nfs://server/vol")
Run = Callable[[Plan], Point]
IOPS = limit("volume_iops", "at a limit of about 5,000 IOPS", SILENT, confidence="likely", evidence=["bursts"])


def result(*loads: tuple[int, int, str, int], probed: tuple[Probe, ...] = ()) -> Result:
    """Points by IOPS, block size, kind and depth."""
    points = [measured(iops, size, name, depth, 0.0) for iops, size, name, depth in loads]
    return synthetic.result(points, target=SILENT).replace(perturbation_tests=probed)


def probe_of(found: Limit, name: str = "4096 read 64", iops: float = 5000) -> Probe:
    return Probe(point=name, limit=found, iops=iops, elapsed_ns=10**9)


LOADS = ((5000, 4 * KIB, "read", 64), (5010, 64 * KIB, "write", 16), (3000, 64 * KIB, "read", 2))


def codes(measured_run: Result) -> list[tuple[str, str] | None]:
    return [(found.code, found.confidence) if found else None for found in verdicts_of(measured_run)]


# ---- what a probe counts for


def test_a_probe_speaks_for_points_at_the_same_rate() -> None:
    found = codes(result(*LOADS, probed=(probe_of(IOPS),)))
    assert found == [("volume_iops", "likely"), ("volume_iops", "likely"), ("depth", "possible")]
    (verdict, *_) = verdicts_of(result(*LOADS, probed=(probe_of(IOPS),)))
    assert present(verdict).evidence == ("bursts", "found by changes of the load of 4096 read 64 after the run")


@pytest.mark.parametrize(("is_held_up", "spoken_for"), [(False, [5000, 4800, 4300]), (True, [5000, 4800])])
def test_a_probe_speaks_for_points_that_were_held_up_if_they_are_near(is_held_up: bool, spoken_for: list[int]) -> None:
    """Rates that are known to 10 %; what this machine held up may be anywhere below a limit."""
    points = [measured(iops, size * KIB, "read", 64, 0.0) for iops, size in ((5000, 4), (4800, 16), (4300, 64))]
    seen = [replace(one, is_held_up=is_held_up, error=0.1) for one in observations(points, SILENT)]
    found = probed_limits(seen, points, [probe_of(IOPS)], {}, SILENT)
    assert [round(point.summary().iops) for point in points if id(point) in found] == spoken_for


def test_a_probe_that_got_another_rate_does_not_count() -> None:
    assert codes(result(*LOADS, probed=(probe_of(IOPS, iops=7000),)))[0] == ("depth", "possible")


def test_a_probe_that_is_inconclusive_takes_a_guess_back() -> None:
    unknown = limit("unknown", "the changes do not agree", SILENT, confidence="none")
    matches("measure#probe cannot", codes(result(*LOADS, probed=(probe_of(unknown),))))


def test_a_possible_limit_that_the_points_show_as_well_is_likely() -> None:
    equal = ((16_000, 4 * KIB, "read", 64), (16_000, 4 * KIB, "write", 64), (1_000, 64 * KIB, "read", 16))
    alone = codes(result(*equal))
    assert alone[0] == ("volume_throughput", "possible")
    possible = limit("volume_throughput", "at a limit of about 62 MiB/s", SILENT, confidence="possible")
    probed = codes(result(*equal, probed=(probe_of(possible, iops=16_000),)))
    assert probed == [("volume_throughput", "likely")] * 3


def test_a_depth_that_ends_at_another_limit_is_no_knee() -> None:
    series = ((16_000, 4 * KIB, "read", 64), (1_000, 4 * KIB, "read", 1))
    found = limit("volume_throughput", "at a limit of about 62 MiB/s", SILENT, confidence="likely")
    (told, *_) = read(result(*series, probed=(probe_of(found, iops=16_000),))).findings
    assert told == "Read: IOPS grow up to depth 64 (16k), which is limited otherwise: MiB/s limit (likely)."
    (told, *_) = read(result(*series)).findings
    assert told == "Read: IOPS grow up to depth 64 (16k), which is limited otherwise: saturation (likely)."


def test_a_limit_that_is_not_sure_heads_as_not_known() -> None:
    groups = read(result(*LOADS)).limit_groups
    assert {(group.code, group.confidence) for group in groups} == {("depth", "possible")}
    assert groups[0].text.startswith("the limit is not known; possibly ")
    assert groups[0].next_step.startswith("iocurve why --confirm")


def test_a_result_without_probes_is_read(tmp_path: Path) -> None:
    whole = result(*LOADS, probed=(probe_of(IOPS),))
    whole.write(tmp_path / "result.json")
    assert Result.read(tmp_path / "result.json").perturbation_tests == whole.perturbation_tests
    text = (tmp_path / "result.json").read_text()
    before = text[: text.rindex('"perturbation_tests"')].rstrip().rstrip(",") + "}"
    (tmp_path / "before.json").write_text(before)
    assert Result.read(tmp_path / "before.json").perturbation_tests == ()


def test_a_limit_that_changes_during_the_page_has_two_values() -> None:
    """As credits that end: nothing but the order of the points has to do with the rate."""
    loads = [(size, name, depth) for name in ("read", "write") for size, depth in ((4 * KIB, 64), (64 * KIB, 16))]
    page = result(*((2400, *load) for load in loads), *((850, *load) for load in [*loads, (4 * KIB, "read", 8)]))
    assert [((found and found.text) or "").partition(" IOPS")[0] for found in verdicts_of(page)] == [
        *["at a limit of about 2,400"] * 4,
        *["at a limit of about 850"] * 5,
    ]


# ---- which loads are probed


def request(target: Path, *, overwrite: bool = False, probe: bool = True) -> Request:
    """An envelope with points of 60 ms; a probe finds what a test says."""
    asked = command.envelope(str(target), quick=True, size_bytes=4 * MIB)
    kept = tuple(one for one in asked.scenario.families if one.name != "random-4k-depth")
    short = {
        one.name: replace(asked.form.families[one.name], ramp_ns=0, runtime_ns=60 * MILLISECOND_NS) for one in kept
    }
    return replace(
        asked,
        scenario=replace(asked.scenario, families=kept),
        form=replace(asked.form, families=short, interval_ns=10 * MILLISECOND_NS),
        is_wanted=lambda case: not int(case.axes["read_percent"]) % 100,
        overwrite=overwrite,
        probe=probe,
    )


def test_on_a_noisy_machine_loads_that_hardly_need_it_come_first() -> None:
    """Small blocks, of which a thread waits for a processor; and large ones, which have as many bytes per second."""

    def page(others: float, waits: float) -> Result:
        loads = ((16_000, 4 * KIB, "read", 64), (16_000, 4 * KIB, "write", 64), (1_000, 64 * KIB, "read", 16))
        points = [measured(*load, delay=waits if load[0] > 1000 else 0.05) for load in loads]
        noisy = [one.replace(machine=present(one.machine).replace(others_share=others)) for one in points]
        return synthetic.result(noisy, target=SILENT)

    quiet, noisy = page(0.02, 0.0), page(0.5, 0.8)
    names = [present(runner.next_probe(one, [], lambda _: synthetic.plan([]), {})).name for one in (quiet, noisy)]
    assert names == ["4096 read 64", "65536 read 16"]
    assert [*map(runner.probe_short_s, (quiet, noisy))] == [runner.PROBE_SHORT_S, runner.PROBE_NOISY_S]


OF_A_BUSY_MACHINE = {"repeats_over"}


class Diagnosis:
    """Stands in for the probes: records the plans that they repeat, and the time that each may take."""

    def __init__(self, before: Callable[[], object] = lambda: None) -> None:
        self.before = before
        self.repeated: list[Plan] = []
        self.patiences: list[float] = []

    def __call__(self, plan: Plan, _: TargetFacts, run: Run, patience_s: float) -> tuple[Limit, Point]:
        self.before()
        self.repeated.append(plan)
        self.patiences.append(patience_s)
        return IOPS, run(plan)


def carried_out(asked: Request, diagnosis: Diagnosis) -> Result:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runner, "diagnose", diagnosis)
        # On a busy machine the processors are named, and leave nothing to probe.
        patch.setattr(runner, "wants_probe", lambda _: True)
        return runner.carry_out(asked, NoView(), lambda _: None)


@pytest.mark.slow
def test_the_fastest_loads_are_repeated_on_the_files_of_the_run(tmp_path: Path) -> None:
    found = carried_out(request(tmp_path), diagnosis := Diagnosis())
    assert (found.state, len(found.points)) == ("finished", 4)
    assert {note.code for note in found.notes} <= OF_A_BUSY_MACHINE
    assert [one.point for one in found.perturbation_tests] == ["random-4k-mix 100:0", "random-4k-mix 0:100"]
    assert all(one.limit == IOPS and one.elapsed_ns for one in found.perturbation_tests)
    assert [plan.name for plan in diagnosis.repeated] == [one.point for one in found.perturbation_tests]
    first, second = diagnosis.patiences
    assert runner.PROBE_LEAST_S <= second < first <= runner.PROBE_NOISY_S
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_file_that_was_there_is_only_read(tmp_path: Path) -> None:
    (path := tmp_path / "precious").write_bytes(b"x" * (4 * MIB))
    found = carried_out(request(path, overwrite=True), diagnosis := Diagnosis())
    assert [one.point for one in found.perturbation_tests] == ["random-4k-mix 100:0", "sequential-64k-mix 100:0"]
    files = [file for plan in diagnosis.repeated for worker in plan.groups[0].workers for file in worker.files]
    assert {(file.path, file.layout, file.keep) for file in files} == {(str(path), "existing", True)}


@pytest.mark.slow
def test_no_probe_runs_if_none_is_wanted(tmp_path: Path) -> None:
    found = carried_out(request(tmp_path, probe=False), diagnosis := Diagnosis())
    assert (found.perturbation_tests, diagnosis.repeated) == ((), [])


@pytest.mark.slow
def test_ctrl_c_in_a_probe_keeps_the_result(tmp_path: Path) -> None:
    found = carried_out(request(tmp_path), Diagnosis(lambda: signal.raise_signal(signal.SIGINT)))
    assert (found.state, len(found.points), found.perturbation_tests) == ("finished", 4, ())
    assert {note.code for note in found.notes} - OF_A_BUSY_MACHINE == {"probe_interrupted"}
    assert list(tmp_path.iterdir()) == []
