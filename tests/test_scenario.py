"""Scenarios: parsing, their points, and measuring, keeping and resuming them."""

import re
import signal
import tomllib
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import tomli_w
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from goldens import Golden, cases, data, matches, present
from iocurve.analysis.answers import FAMILIES, FEWEST_CLIENTS
from iocurve.foundation.errors import DialectError, IocurveError, PlanError, TargetError
from iocurve.foundation.units import SECOND_NS
from iocurve.measure import local
from iocurve.measure.campaign import Keep
from iocurve.measure.scenario import command, runner
from iocurve.measure.scenario.cases import Case, Cases, scaled
from iocurve.measure.scenario.document import Scenario, load, names
from iocurve.measure.scenario.runner import Request
from iocurve.report.progress import NoView
from iocurve.result.document import Point, Result
from iocurve.result.document_file import RESULT_NAME
from iocurve.targets import target as targets
from iocurve.targets.opened_target import UNOPENED
from programs import iocurve, started, stopped

TINY = data("scenarios/tiny.toml")
PLAIN = re.sub("cache = .*", 'cache = "untouched"', TINY)
"""Without the runs that show what caches do."""


def tiny(tmp_path: Path, text: str = TINY) -> Scenario:
    path = tmp_path / "tiny.toml"
    path.write_text(text)
    return load(str(path))


def cases_of(scenario: Scenario) -> list[Case]:
    return Cases(scenario, scenario.full, {need.name: UNOPENED for need in scenario.targets}, "tag").all()


def request(scenario: Scenario, directory: Path) -> Request:
    directory.mkdir(exist_ok=True)
    return Request(
        scenario, scenario.full, "full", {"volume": targets.parse(str(directory))}, probe=False, repeats_max=0
    )


def requested(scenario: Scenario, named: Sequence[str], **said: Any) -> Request:
    """The request of a command line that says no more than this."""
    silent: dict[str, Any] = dict.fromkeys(("quick", "full", "overwrite", "keep_data"), False) | {
        "scale": None,
        "points": [],
    }
    return command.requested(scenario, named, **(silent | said))


def carried_out(asked: Request, keep: Keep = lambda _: None, earlier: Result | None = None) -> Result:
    return runner.carry_out(asked, NoView(), keep, earlier)


@pytest.mark.parametrize("name", names())
def test_every_bundled_scenario_has_points_in_both_forms(name: str) -> None:
    scenario = load(name)
    assert scenario.why
    assert cases_of(scenario)
    text = command.description(scenario)
    assert [family.name for family in scenario.families if family.name not in text] == []


@pytest.mark.parametrize("name", names())
def test_every_bundled_scenario_varies_what_its_question_asks(name: str) -> None:
    scenario = load(name)
    assert scenario.question
    if scenario.answer == FAMILIES:
        assert all(family.title for family in scenario.families)
    elif scenario.answer:
        axis = "clients" if scenario.answer == FEWEST_CLIENTS else scenario.answer
        assert len({case.varied[axis] for case in cases_of(scenario) if axis in case.varied}) > 1


def test_the_earlier_keys_of_a_scenario_are_read(tmp_path: Path) -> None:
    earlier = {"[[series]]": "[[family]]", "parameters": "axes", "iodepth": "depth", " bs =": " blocks ="}
    text = TINY
    for name, before in earlier.items():
        assert name in text, name
        text = text.replace(name, before)
    assert tiny(tmp_path, text) == tiny(tmp_path)


def test_axes_nest_in_their_written_order(tmp_path: Path) -> None:
    matches("scenario/axes_nest_in_their_written_order", [case.name for case in cases_of(tiny(tmp_path))])


def with_axes(tmp_path: Path, axes: str) -> list[Case]:
    scenario = tiny(tmp_path, TINY.replace("parameters = { iodepth = [4, 8] }", f"parameters = {{ {axes} }}"))
    return [case for case in cases_of(scenario) if case.family.name == "again"]


@cases("measure/url_axes")
def test_a_parameter_of_an_exports_url_is_an_axis(axis: str, urls: list[str], tmp_path: Path) -> None:
    cases = with_axes(tmp_path, axis)
    assert [{section.target.nfs_url for section in case.job.sections} for case in cases] == [
        {f"nfs://unopened/export?{url}"} for url in urls
    ]
    name, _, value = urls[-1].rpartition("&")[2].partition("=")
    assert str(cases[-1].axes[name]) == value


def test_a_field_of_a_job_is_an_axis(tmp_path: Path) -> None:
    cases = with_axes(tmp_path, 'direct = [true, false], think = ["1ms", "2ms"]')
    found = [(section.target.direct, section.pace.think_ns) for case in cases for section in case.job.sections[:1]]
    assert found == [(True, 1_000_000), (True, 2_000_000), (False, 1_000_000), (False, 2_000_000)]
    assert [case.axes["direct"] for case in cases[::2]] == ["true", "false"]
    with pytest.raises(DialectError, match="runtime"):
        with_axes(tmp_path, 'runtime = ["1s"]')


def test_each_client_has_its_own_workers_and_each_worker_its_own_files(tmp_path: Path) -> None:
    sections = cases_of(tiny(tmp_path))[0].job.sections
    assert [section.files.paths for section in sections] == [(f"iocurve-tiny-tag-data.{n}",) for n in range(4)]
    assert [section.files.size for section in sections] == [1 << 20] * 4


def test_the_depth_of_an_axis_is_shared_by_all_workers(tmp_path: Path) -> None:
    deep = cases_of(tiny(tmp_path))[-1]
    assert (deep.axes["depth"], [section.pace.depth for section in deep.job.sections]) == (8, [2] * 4)


@cases("measure/scenario_errors")
def test_errors_of_a_scenario_come_at_once_with_their_lines(
    tmp_path: Path, replaced: dict[str, str], golden: Golden
) -> None:
    text = f"{TINY}THE END"
    for before, after in replaced.items():
        assert before in text
        text = text.replace(before, after)
    with pytest.raises((DialectError, PlanError)) as refused:
        cases_of(tiny(tmp_path, text.removesuffix("THE END")))
    golden.check([str(error).rpartition("tiny.toml:")[2] for error in refused.value.errors])


def test_only_cached_families_repeat_offsets(tmp_path: Path) -> None:
    repeatable = {case.family.name: {s.data.repeatable for s in case.job.sections} for case in cases_of(tiny(tmp_path))}
    assert repeatable == {"mix": {False}, "again": {True}}


def test_a_scale_cuts_data_and_times_but_no_point_below_a_second() -> None:
    full = load("anf-regular-iops").full
    form = scaled(full, 0.01, 0)
    parts = (full.size_bytes, full.runtime_ns, full.ramp_ns)
    assert (form.size_bytes, form.runtime_ns, form.ramp_ns) == tuple(part // 100 for part in parts)
    assert scaled(full, 1e-6, 1 << 20).runtime_ns == 10**9


def test_reductions_are_listed(tmp_path: Path) -> None:
    scenario = tiny(tmp_path)
    asked = replace(request(scenario, tmp_path / "data"), form=scenario.short, form_name="short")
    assert runner.shortened(asked, cases_of(scenario), 2) == (
        "each point 20 ms instead of 40 ms",
        "mix: block_bytes 4096 only",
        "2 points left out",
    )


@pytest.mark.slow
def test_points_are_measured_and_the_directory_is_left_as_it_was(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    result = carried_out(request(tiny(tmp_path), directory))
    assert result.state == "finished"
    assert [point.name for point in result.points] == [case.name for case in cases_of(tiny(tmp_path))]
    assert all(point.summary().operations for point in result.points)
    assert [point.cache.policy for point in result.points if point.cache] == ["uncached"] * 4 + ["cached"] * 2
    assert list(directory.iterdir()) == []


def test_a_file_says_whether_to_probe(tmp_path: Path) -> None:
    assert tiny(tmp_path).probe
    assert not tiny(tmp_path, f"probe = false\n{TINY}").probe


@pytest.mark.slow
def test_an_interrupted_run_resumes(tmp_path: Path) -> None:
    asked = request(tiny(tmp_path, PLAIN), tmp_path / "data")
    first = carried_out(replace(asked, is_wanted=lambda case: case.family.name == "mix"))
    whole = carried_out(asked, earlier=first)
    assert (whole.points[:4], [point.family for point in whole.points[4:]]) == (first.points, ["again", "again"])


@pytest.mark.slow
def test_a_point_that_fails_costs_only_itself_and_is_measured_by_a_resumed_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, count = request(tiny(tmp_path, PLAIN), tmp_path / "data"), iter(range(100))

    def measure(*arguments: Any) -> tuple[Point, Any]:
        point, uses = whole(*arguments)
        if next(count) != 1:
            return point, uses
        worker, *others = point.outcome.workers
        failed = worker.replace(state="failed", error="5 operations did not complete")
        return point.replace(outcome=point.outcome.replace(state="failed", workers=(failed, *others))), uses

    whole = local.measure
    monkeypatch.setattr(local, "measure", measure)
    result = carried_out(asked)
    assert [point.outcome.state for point in result.points] == ["finished", "failed", *["finished"] * 4]
    assert result.state == "failed"
    reason = r"point 2 of 6 \(mix 100:0 8 KiB\) was cut short: .*: 5 operations did not complete"
    assert re.fullmatch(reason, result.incomplete_reason or "")
    again = carried_out(asked, earlier=result)
    assert (again.state, again.incomplete_reason, next(count)) == ("finished", None, 7)


def test_each_point_is_kept_as_soon_as_it_is_measured(tmp_path: Path) -> None:
    kept: list[int] = []
    carried_out(request(tiny(tmp_path, PLAIN), tmp_path / "data"), lambda result: kept.append(len(result.points)))
    assert list(dict.fromkeys(kept)) == [1, 2, 3, 4, 5, 6]


@pytest.mark.slow
def test_an_existing_file_is_overwritten_only_if_allowed(tmp_path: Path) -> None:
    path = tmp_path / "precious"
    path.write_bytes(b"x" * (8 << 20))
    asked = replace(request(tiny(tmp_path, PLAIN), tmp_path / "data"), targets={"volume": targets.parse(str(path))})
    with pytest.raises(TargetError, match="--overwrite to allow the writes"):
        carried_out(asked)
    assert path.read_bytes() == b"x" * (8 << 20)
    assert carried_out(replace(asked, overwrite=True)).state == "finished"
    assert path.stat().st_size == 8 << 20


@pytest.mark.slow
def test_the_command_resumes_only_the_same_scenario(tmp_path: Path) -> None:
    asked = request(tiny(tmp_path, PLAIN), tmp_path / "data")
    out = tmp_path / "out"
    command.run(asked, out, resume=False)
    assert len(Result.read(out / RESULT_NAME).points) == 6
    with pytest.raises(TargetError, match="of another scenario, form or target"):
        command.run(replace(asked, form_name="short"), out, resume=True)


def test_points_are_chosen_by_family_and_axis(tmp_path: Path) -> None:
    scenario = tiny(tmp_path)
    asked = requested(scenario, [str(tmp_path)], points=["mi*", "read_percent=0"])
    chosen = [case.name for case in cases_of(scenario) if asked.is_wanted(case)]
    assert chosen == ["mix 0:100 4 KiB", "mix 0:100 8 KiB"]


@pytest.mark.slow
def test_an_interrupted_run_keeps_its_points_and_can_be_resumed(tmp_path: Path) -> None:
    """Ctrl-C in the middle: exit status 130, the points so far are kept, no files are left; then the rest runs."""
    scenario = tmp_path / "tiny.toml"
    slow = PLAIN.replace('runtime = "40ms"', 'runtime = "300ms"').replace(
        "[load]\n", "[load]\nrate_operations = 2000\n"
    )
    scenario.write_text("probe = false\n" + slow)
    (place := tmp_path / "data").mkdir()
    words = ["run", str(scenario), "--target", str(place), "--out", str(out := tmp_path / "out"), "--retries", "0"]
    with started(*words) as process:
        assert any(line.startswith("2/6") for line in present(process.stderr))
        ended = stopped(process, signal.SIGINT)
    assert (ended.returncode, list(place.iterdir())) == (130, [])
    first = Result.read(out / RESULT_NAME)
    assert (first.state, first.points == ()) == ("interrupted", False)
    resumed = iocurve(*words, "--resume")
    assert resumed.returncode == 0, resumed.stderr
    whole = Result.read(out / RESULT_NAME)
    finished = [point for point in first.points if point.outcome.state == "finished"]
    assert (whole.state, len(whole.points), list(whole.points[: len(finished)])) == ("finished", 6, finished)


def test_a_data_set_that_does_not_fit_is_refused_before_any_file_is_created(tmp_path: Path) -> None:
    asked = request(tiny(tmp_path, TINY.replace('size = "4MiB"', 'size = "4096TiB"')), tmp_path / "data")
    with pytest.raises(
        TargetError, match=r"the run needs .* for its files, and .* are available in .*; use --quick or --scale"
    ):
        carried_out(asked)
    assert list((tmp_path / "data").iterdir()) == []


LEAVES = st.one_of(
    st.integers(-1, 2**40),
    st.floats(0, 10),
    st.booleans(),
    st.sampled_from(["", "4KiB", "1s", "mix", "volume", "cached"]),
)


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_a_scenario_with_a_slip_raises_nothing_but_our_own_errors(data: st.DataObject) -> None:
    """A valid value of a scenario, replaced or removed."""
    document = tomllib.loads(TINY)
    places = [place for place in _places(document) if place]
    place = data.draw(st.sampled_from(places))
    inner = document
    for key in place[:-1]:
        inner = inner[key]
    if data.draw(st.booleans()):
        del inner[place[-1]]
    else:
        inner[place[-1]] = data.draw(st.one_of(LEAVES, st.lists(LEAVES, max_size=3), st.just({})))
    with TemporaryDirectory() as directory, suppress(IocurveError):
        scenario = tiny(Path(directory), tomli_w.dumps(document))
        cases_of(scenario)
        command.description(scenario)


def _places(value: Any, place: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place, *(found for key, inner in items for found in _places(inner, (*place, key)))]


@pytest.mark.parametrize("name", names())
def test_the_short_form_of_a_bundled_scenario_is_expected_within_two_minutes(name: str) -> None:
    facts = command.forms(load(name))
    assert facts["short"].expected_ns <= 120 * SECOND_NS
    assert facts["short"].measured_ns < facts["short"].expected_ns < facts["full"].expected_ns
    assert command.announcement(requested(load(name), [], quick=True)).endswith(", at most 2 min")


def test_the_full_speed_of_an_embedded_target_is_requested() -> None:
    def asked(*named: str, full_speed: bool) -> dict[str, str]:
        found = requested(load("anf-large-scale-out"), named, quick=True, full_speed=full_speed)
        return {name: targets.facts_of(target).address for name, target in found.targets.items()}

    slowed, whole = asked(full_speed=False)["volume"], asked(full_speed=True)["volume"]
    assert (slowed.endswith("&speed=0.05"), whole) == (True, slowed.removesuffix("&speed=0.05"))
    with pytest.raises(DialectError, match="--full-speed is for the embedded target"):
        asked("volume:unlimited", full_speed=True)
