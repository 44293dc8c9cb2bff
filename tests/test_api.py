"""The Python API: jobs as text, live snapshots, clean stops, tables and charts."""

import asyncio
import json
import os
import re
import signal
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, cast

import pytest

import iocurve
import notebook
from data import synthetic
from goldens import cases, data, matches, present
from iocurve import _native
from iocurve.api import measure, results
from iocurve.cli.commands import run
from iocurve.cluster import session
from iocurve.engine import plan
from iocurve.engine.outcome import IntervalKind, Live
from iocurve.foundation.errors import DialectError, Interrupted, PlanError, ResultError, TargetError
from iocurve.foundation.units import GIB, KIB, MIB, MILLISECOND_NS, SECOND_NS
from iocurve.measure import programs
from iocurve.measure.scenario import command as scenarios
from iocurve.measure.search import command
from iocurve.measure.search.command import Question
from iocurve.report.progress import NoView, StartedPoint
from iocurve.report.views import KindSnapshot, Watch
from iocurve.result import frames
from iocurve.targets.target import VolumeTarget
from plans import end, null_plan, plan_of, worker
from programs import completed

READS = "[reads]\nioengine=null\nrw=randread\nbs=4k\nsize=1m\n"
"""Ends after 256 operations."""
SCENARIOS = Path(iocurve.__file__).parent / "measure" / "scenarios"
INDEPENDENT = plan.Access(cover="independent", passes="same")
ENDLESS = plan_of(worker(plan.NullEngine(), "nothing", access=INDEPENDENT, end=end(runtime_ns=60 * SECOND_NS))).replace(
    name="endless"
)
"""Runs for a minute, unless it is stopped."""


def operations(result: iocurve.Result) -> list[tuple[str, int | None]]:
    return [(point.name, point.figures.operations) for point in result.points]


# ---- the package


def test_importing_loads_no_module() -> None:
    listing = "import sys; before = set(sys.modules); import iocurve; print(*sorted(set(sys.modules) - before))"
    loaded = completed([sys.executable, "-c", listing]).stdout.split()
    assert {name for name in loaded if name.startswith("iocurve")} == {"iocurve"}


def test_dir_lists_the_public_names() -> None:
    assert dir(iocurve) == sorted([*iocurve.__all__, "__version__"])
    assert iocurve.__version__ == _native.VERSION
    assert all(getattr(iocurve, name).__doc__ for name in iocurve.__all__)
    assert not hasattr(iocurve, "surprise")


# ---- jobs


def test_jobs_are_texts_files_command_lines_and_plans(tmp_path: Path) -> None:
    (file := tmp_path / "reads.fio").write_text(READS)
    line = "--name=reads --ioengine=null --rw=randread --size=1m"
    for job in (READS, file, str(file), line):
        result = iocurve.run(job)
        assert (result.kind, result.state, operations(result)) == ("fio", "finished", [("reads", 256)])
    assert operations(iocurve.run(null_plan())) == [("test", 256)]


def test_jobs_of_other_dialects(tmp_path: Path) -> None:
    toml = '[defaults]\nengine = "null"\nsize = "1MiB"\n[[job]]\nname = "reads"\n'
    assert operations(iocurve.run(toml, dialect="iocurve"))[0][1] == 256
    vdbench = data("vdbench/left_parameters.parm").format(tmp_path)
    assert [step.name for step in programs.prepared(vdbench, "vdbench").steps] == ["rd1"]
    assert len(programs.prepared("-c1M -b4K -d1 data", "diskspd").steps) == 1


def test_errors_in_a_text_have_their_lines() -> None:
    with pytest.raises(DialectError) as caught:
        iocurve.run("[a]\nsize=1m\nrw=reed\nfoo=1\n")
    assert [str(error.where) for error in caught.value.errors] == ["job text:3:4", "job text:4:1"]


@cases("api/errors")
def test_errors_are_ours(call: str, text: str) -> None:
    names = {"iocurve": iocurve, "null_plan": null_plan, "READS": READS, "SCENARIOS": SCENARIOS}
    with pytest.raises(iocurve.IocurveError) as caught:
        eval(call, names)
    assert str(caught.value).startswith(text.replace("{SCENARIOS}", str(SCENARIOS)))


# ---- targets


def test_a_job_moves_to_another_target(tmp_path: Path) -> None:
    job = "[global]\nioengine=psync\nsize=64k\nrw=write\n[named]\nfilename=/dev/surprise\n[own]\n"
    result = iocurve.run(job, target=tmp_path)
    assert (result.target.kind, result.target.address) == ("directory", str(tmp_path))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["own.0.0", "surprise"]


def test_existing_files_are_not_overwritten_by_accident(tmp_path: Path) -> None:
    content = b"precious" * 128 * KIB
    (file := tmp_path / "data").write_bytes(content)
    with pytest.raises(TargetError, match="already exists and writes would destroy its data"):
        iocurve.run("--name=a --size=64k --rw=write", target=file)
    assert file.read_bytes() == content
    iocurve.run("--name=a --size=64k --rw=write", target=file, overwrite=True)
    assert file.read_bytes() != content


@pytest.mark.slow
def test_a_volume_serves_while_its_block_lasts(tmp_path: Path) -> None:
    with iocurve.Volume("anf-premium", "1TiB") as volume:
        result = iocurve.run("--name=a --size=1m --rw=read --bs=64k", target=volume, out=tmp_path)
        assert (result.target.kind, result.target.address) == ("embedded_volume", volume.url)
        assert result.target.throughput_bytes_per_s == 64 * MIB
        volume.set(quota="2TiB")
        assert volume.target.export.quota == "2TiB"
        assert volume.stats().exports[0].read_bytes == MIB
        with pytest.raises(TargetError, match="the volume serves already"), volume:
            pass
    with pytest.raises(TargetError, match="the volume does not serve"):
        _ = volume.url
    assert iocurve.load(tmp_path) == result
    assert {path.name for path in tmp_path.iterdir()} >= {"report.html", "points.csv", "result.json"}


def test_searches_and_scenarios_get_their_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(measure, "measured", lambda search, out: asked.append((search, out)))
    for search in ("knee_search", "max_search", "curve_search"):
        monkeypatch.setattr(command, search, lambda *arguments: arguments)
    iocurve.knee(tmp_path, size="64MiB", iodepth_max=8, percent_of_capacity=95, out="out")
    iocurve.max_rate(tmp_path, "2ms", percentile=99.9, patience="30s")
    iocurve.curve(tmp_path, steps=3, precision=0.1)
    iocurve.scenario("envelope", target=tmp_path, confirm=False, runs=4, margin=0.05, retries=0)
    iocurve.ab(targets=(tmp_path, tmp_path), runs=3, iodepth=4, size="1MiB", runtime="100ms", retries=1)
    ((knee,), out), ((most, percent, limit_ns), _), ((curve, steps), _), (scenario, _), (ab, _) = asked
    assert isinstance(knee, Question)
    assert (knee.size_bytes, knee.iodepth_max, knee.percent_of_capacity, out) == (64 * MIB, 8, 95, "out")
    assert (most.size_bytes, most.effort.patience_ns) == (GIB, 30 * SECOND_NS)
    assert (percent, limit_ns) == (99.9, 2 * MILLISECOND_NS)
    assert (curve.effort.precision, steps) == (0.1, 3)
    (request,) = scenario.args
    assert (request.form_name, request.probe, request.targets["target"].path) == ("full", False, tmp_path)
    assert (request.form.rounds, request.margin, request.repeats_max) == (4, 0.05, 0)
    (request,) = ab.args
    assert (list(request.targets), request.form.size_bytes, request.form.rounds) == (["A", "B"], MIB, 3)
    assert (request.form.runtime_ns, request.repeats_max) == (300 * MILLISECOND_NS, 1)
    with pytest.raises(TypeError, match="unexpected keyword argument 'surprise'"):
        iocurve.scenario("envelope", **cast(Any, {"surprise": 1}))


def test_loads_run_on_the_clients_of_the_block(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class Group:
        count, are_here = 2, False

    @contextmanager
    def opened(address: str, clients: int | None) -> Iterator[Group]:
        assert (address, clients) == ("10.0.0.4:6379", 2)
        yield Group()

    asked: list[Any] = []
    monkeypatch.setattr(session, "opened", opened)
    monkeypatch.setattr(measure, "measured", lambda search, _: asked.append(search))
    with iocurve.load_clients("10.0.0.4:6379", 2) as count:
        assert count == 2
        iocurve.scenario("envelope", target=tmp_path)
        iocurve.run("--name=a --size=64k --rw=read --ioengine=null")
    iocurve.scenario("envelope", target=tmp_path)
    assert [asked[0].args[0].machines.count, asked[2].args[0].machines.count] == [2, 1]
    assert asked[1].keywords["machines"].count == 2
    job = programs.prepared("--name=a --size=64k --rw=read", "fio")
    target, how = VolumeTarget.of("volume:anf-ultra"), {"overwrite": False, "machines": cast(Any, Group())}
    with pytest.raises(TargetError, match="the agents are elsewhere"):
        programs.measured_on(target, "fio", job, NoView(), lambda _: None, **how)


def test_an_earlier_run_of_a_scenario_is_resumed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    synthetic.result([]).write(tmp_path / "result.json")
    with pytest.raises(TargetError, match=r"^resume=: .* is of another scenario, form or target; choose another out="):
        iocurve.scenario("envelope", target=tmp_path, resume=True, out=tmp_path)
    found = synthetic.result([])
    monkeypatch.setattr(scenarios, "earlier", lambda _, directory: found if directory == tmp_path else None)
    monkeypatch.setattr(measure, "measured", lambda search, _: search.keywords["earlier"])
    assert iocurve.scenario("envelope", target=tmp_path, resume=True, out=str(tmp_path)) is found


def test_metrics_are_served_while_loads_run() -> None:
    with iocurve.metrics() as url:
        result = iocurve.run(READS)
        with urllib.request.urlopen(url, timeout=10) as reply:
            served = reply.read().decode()
    for text in (served, iocurve.openmetrics(result)):
        assert 'iocurve_point_operations_total{operation="read",point="reads"} 256.0' in text


@pytest.mark.slow
def test_two_commands_take_turns() -> None:
    result = iocurve.ab(
        "fio --name=a --ioengine=null --size=64k --rw=read", "fio --name=b --ioengine=null --size=64k --rw=read", runs=3
    )
    assert [len(point.runs) for point in result.points] == [3, 3]
    assert {one.point for one in iocurve.compare(result).differences} == {"A"}


def test_a_running_volume_is_a_target_with_its_limits() -> None:
    volume = VolumeTarget.of("volume:anf-ultra?quota=1TiB")
    running = VolumeTarget("nfs://127.0.0.1:1/vol", volume.export, url="nfs://127.0.0.1:1/vol")
    with running.opened() as target:
        assert target.text == "nfs://127.0.0.1:1/vol"


# ---- snapshots


def live(interval: int, phase: str = "run", **operations: IntervalKind) -> Live:
    return synthetic.live(phase=phase, elapsed_ns=interval * SECOND_NS // 2, intervals=interval, operations=operations)


def kind(operations: int, size: int = 4 * KIB) -> IntervalKind:
    (interval,) = synthetic.intervals([operations], size)
    times = {"mean_ns": 2500.0, "p50_ns": 2000, "p99_ns": 9000, "min_ns": 1000, "max_ns": 10_000}
    return interval.operations["read"].replace(errors=1, **times)


def started(index: int = 0) -> StartedPoint:
    return StartedPoint(index, 2, f"point-{index}", 1.0, interval_ns=SECOND_NS // 2)


def watching(*updates: Live) -> Watch:
    watch = Watch()
    watch.point_started(started())
    for update in updates:
        watch.update(update)
    return watch


def test_a_snapshot_has_the_rates_of_the_newest_interval() -> None:
    _, snapshot = present(watching(live(1, read=kind(1000))).after(0))
    assert (snapshot.point, snapshot.number, snapshot.count, snapshot.phase) == ("point-0", 1, 2, "run")
    assert (snapshot.elapsed_s, snapshot.iops, snapshot.mib_per_s, snapshot.errors) == (0.5, 2000.0, 7.8125, 1)
    assert (snapshot.p50_us, snapshot.p99_us) == (2.0, 9.0)
    assert snapshot.kinds == {"read": KindSnapshot(1000, 1, 2000.0, 7.8125, 2.5, 2.0, 9.0, 10.0)}


def test_percentiles_of_several_kinds_are_not_added_up_and_flushes_are_no_operations() -> None:
    _, snapshot = present(watching(live(1, read=kind(1000), write=kind(500), fsync=kind(10, 0))).after(0))
    assert (snapshot.iops, snapshot.errors, snapshot.p99_us) == (3000.0, 3, None)
    assert snapshot.kinds["write"].p99_us == 9.0


def test_a_slow_reader_gets_the_newest_snapshot_and_each_interval_once() -> None:
    watch = watching(*(live(interval, read=kind(interval)) for interval in (0, 0, 1, 1, 2, 2)))
    version, newest = present(watch.after(0))
    assert (version, newest.kinds["read"].operations) == (3, 2)
    watch.preparing("fill the cache")
    watch.update(live(1, read=kind(7)))
    watch.preparing(None)
    watch.point_started(started(1))
    watch.update(live(2, read=kind(0)))
    version, newest = present(watch.after(version))
    assert (version, newest.point, newest.kinds["read"].p99_us, newest.iops) == (4, "point-1", None, 0.0)
    watch.end()
    assert watch.after(version) is None


def test_each_request_to_stop_interrupts_the_measuring_thread_once() -> None:
    watch = watching()
    watch.stop()
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            watch.update(live(1))
        watch.update(live(1))
        watch.stop()
    with pytest.raises(KeyboardInterrupt):
        watch.point_started(started(1))
    with pytest.raises(KeyboardInterrupt):
        watch.preparing("fill the cache")
    watch.preparing(None)


# ---- runs in a thread


def test_a_run_gives_snapshots_and_its_result() -> None:
    with iocurve.start(iocurve.run, null_plan()) as running:
        snapshots = list(running)
    assert {snapshot.point for snapshot in snapshots} == {"test"}
    result = running.result()
    assert running.done
    assert (result.state, len(result.points)) == ("finished", 1)
    assert running.result() is result


def test_a_stopped_run_keeps_what_it_measured() -> None:
    with iocurve.start(iocurve.run, ENDLESS) as running:
        next(snapshot for snapshot in running if snapshot.iops)
    result = running.result()
    assert (result.state, result.points[0].outcome.state) == ("interrupted", "interrupted")
    assert result.points[0].summary().operations > 0


def test_ctrl_c_ends_a_run_in_order() -> None:
    running = iocurve.start(iocurve.run, ENDLESS)

    def interrupt() -> None:
        next(snapshot for snapshot in running if snapshot.iops)
        # The signal itself, because the main thread waits for a lock.
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    threading.Thread(target=interrupt).start()
    result = running.result()
    assert (result.state, len(result.points)) == ("interrupted", 1)


def test_ctrl_c_in_a_loop_over_snapshots_leaves_a_result() -> None:
    with suppress(KeyboardInterrupt), iocurve.start(iocurve.run, ENDLESS) as running:
        for snapshot in running:
            if snapshot.iops:
                raise KeyboardInterrupt
    assert running.result().points[0].summary().operations > 0


def test_a_function_that_measures_several_times_stops_as_one() -> None:
    done: list[str] = []

    def sweep() -> None:
        done.extend(iocurve.run(job).state for job in (null_plan(), ENDLESS, null_plan()))

    with iocurve.start(sweep) as running:
        next(snapshot for snapshot in running if snapshot.iops and snapshot.point == "endless")
    with pytest.raises(Interrupted, match="stopped before it measured anything"):
        running.result()
    assert done == ["finished", "interrupted"]


def test_errors_are_raised_where_the_result_is_wanted() -> None:
    running = iocurve.start(iocurve.run, "[a]\nrw=reed\n")
    for wanted in (lambda: list(running), running.result):
        with pytest.raises(DialectError):
            wanted()
    with pytest.raises(DialectError), running:
        pass


def test_a_cancelled_task_ends_its_run_in_order() -> None:
    async def cancelled() -> iocurve.Result:
        running = iocurve.start(iocurve.run, ENDLESS)

        async def wait() -> iocurve.Result:
            return await running

        task = asyncio.create_task(wait())
        await asyncio.to_thread(lambda: next(snapshot for snapshot in running if snapshot.iops))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert running.done
        return running.result()

    assert asyncio.run(cancelled()).state == "interrupted"


def test_a_task_iterates_over_snapshots_and_awaits_the_result() -> None:
    async def seen() -> tuple[list[iocurve.Snapshot], iocurve.Result]:
        running = iocurve.start(iocurve.run, READS)
        return [snapshot async for snapshot in running], await running

    snapshots, result = asyncio.run(seen())
    assert (bool(snapshots), result.state) == (True, "finished")
    assert {snapshot.point for snapshot in snapshots} == {result.point(result.points[0].name).name}


def test_a_point_is_found_by_its_name() -> None:
    result = synthetic.envelope()
    point = result.points[2]
    assert result.point(point.name) is point
    # The form of the documentation, which type checkers accept.
    assert (
        f"{point.name}: {point.limit_label}" == f"{point.name}: {point.limit.label if point.limit else 'inconclusive'}"
    )
    with pytest.raises(ResultError, match="there is no point 'a'; there are '"):
        result.point("a")


def test_other_threads_run_while_the_engine_is_waited_for() -> None:
    run = _native.Run(ENDLESS.to_json())
    counted = 0

    def count() -> None:
        nonlocal counted
        while counted < 100_000:
            counted += 1
        run.stop()

    threading.Thread(target=count).start()
    # Holding the interpreter for the whole wait, this would end with the load, after a minute.
    outcome = present(run.wait(120))
    assert (counted, '"state":"interrupted"' in outcome) == (100_000, True)


# ---- results


def test_results_and_their_paths_are_compared(tmp_path: Path) -> None:
    result = synthetic.envelope()
    result.write(tmp_path / "result.json")
    found = iocurve.compare(result, tmp_path, margin=0.05)
    assert (found.margin, {one.change_percent for one in found.differences}) == (0.05, {0.0})
    assert {(one["other"], one["change_percent"]) for one in found.to_records()} == {(1, 0.0)}
    with pytest.raises(ResultError, match="no points have interleaved runs; name two results to compare"):
        iocurve.compare(tmp_path)


def test_expressions_are_checked() -> None:
    found = iocurve.check(synthetic.envelope(), "iops < 1", "errors > 0")
    assert (found.verdict, {one.expression for one in found.all}) == ("passed", {"iops < 1", "errors > 0"})
    with pytest.raises(DialectError):
        iocurve.check(synthetic.envelope(), "speed > 1")


def test_outputs_of_other_tools_are_imported(tmp_path: Path) -> None:
    text = '{"jobs": [{"jobname": "old", "read": {"iops": 100.5, "total_ios": 1005, "io_bytes": 4116480}}]}'
    (tmp_path / "old.json").write_text(text)
    (tmp_path / "notes.txt").write_text("none of it")
    result = iocurve.import_results(tmp_path)
    assert [(point.name, point.figures.iops) for point in result.points] == [("old", 100.5)]
    assert [note.text for note in result.notes if note.code == "left_out"] == [f"left out: {tmp_path}/notes.txt"]
    with pytest.raises(ResultError, match="not an output that iocurve reads"):
        iocurve.import_results(tmp_path / "notes.txt")


# ---- tables and charts


@pytest.mark.slow
def test_records_as_tables_of_other_libraries(tmp_path: Path) -> None:
    from pyarrow import parquet

    result = synthetic.envelope()
    records = result.to_records()
    pandas, polars, arrow = result.to_pandas(), result.to_polars(), result.to_arrow()
    assert list(pandas.columns) == polars.columns == arrow.column_names == list(records[0])
    assert pandas["iops"].tolist() == polars["iops"].to_list() == arrow["iops"].to_pylist()
    assert polars.to_dicts() == arrow.to_pylist() == records
    result.write_parquet(tmp_path / "points.parquet")
    table = parquet.read_table(tmp_path / "points.parquet")
    assert table.to_pylist() == records
    assert table.schema.metadata[b"iocurve.name"] == result.name.encode()
    result.write(tmp_path / "result.json")
    assert run(["report", str(tmp_path), "--parquet"]) == 0
    assert parquet.read_table(tmp_path / "points.parquet")["iops"].to_pylist() == arrow["iops"].to_pylist()
    with pytest.raises(ResultError, match="No such file or directory"):
        result.write_parquet(tmp_path / "missing" / "points.parquet")


def test_a_missing_library_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    converters = (frames.to_pandas, frames.to_polars, frames.to_arrow)
    extras = {"pandas": "pandas", "polars": "polars", "pyarrow": "arrow"}
    for convert, (library, extra) in zip(converters, extras.items(), strict=True):
        monkeypatch.setitem(sys.modules, library, None)
        told = f"{library} is not installed; install it with: pip install 'iocurve[{extra}]'"
        with pytest.raises(ResultError, match=f"^{re.escape(told)}$"):
            convert([])


@pytest.mark.slow
def test_a_chart_draws_fields_of_the_records() -> None:
    result = synthetic.envelope()
    drawn = result.chart("p99_us", x="depth").to_dict()
    (line,) = drawn["layer"]
    assert (line["encoding"]["x"]["field"], line["encoding"]["y"]["field"]) == ("depth", "p99_us")
    assert line["encoding"]["color"]["field"] == "series"
    records: list[dict[str, float | str | None]] = [{"name": "a", "iops": 5.0, "iops_low": 4.0, "iops_high": 6.0}]
    rule, line = frames.chart(records, "iops", None, None, []).to_dict()["layer"]
    assert line["encoding"]["x"] == {"field": "name", "type": "nominal"}
    assert (rule["encoding"]["y"]["field"], rule["encoding"]["y2"]["field"]) == ("iops_low", "iops_high")
    with pytest.raises(ResultError, match="no point has 'speed'; there are name, series"):
        result.chart("speed")


@pytest.mark.slow
def test_the_charts_of_a_report_are_objects_of_altair() -> None:
    charts = results.charts(synthetic.fio_run())
    assert list(charts) == [f"fio-fioreadwrite-ini-{number}" for number in (1, 2, 3, 4)]
    for chart in charts.values():
        chart.to_dict()


def test_a_result_is_short_where_it_is_shown() -> None:
    result = synthetic.envelope()
    shown = result._repr_html_()
    matches("result#shown in a notebook", [repr(result), repr(result.points[0]), shown.split("</tr>")[:2]])


def test_a_dialect_with_nothing_to_run_is_an_error() -> None:
    with pytest.raises(PlanError, match="this runs nothing; ask on the command line"):
        iocurve.run("--name=a --size=1m --showcmd")


@pytest.mark.slow
def test_the_end_of_the_program_stops_a_run_in_order(tmp_path: Path) -> None:
    program = (
        "import iocurve\n"
        "job = '--name=a --size=1m --rw=randread --time_based --runtime=60 --unlink=1 --status-interval=1'\n"
        f"running = iocurve.start(iocurve.run, job, target={str(tmp_path)!r})\n"
        "next(snapshot for snapshot in running if snapshot.phase in ('run', 'ramp'))\n"
    )
    ran = completed([sys.executable, "-c", program], timeout=50)
    assert (ran.returncode, list(tmp_path.iterdir())) == (0, []), ran.stderr


# ---- the documentation

DOCS = Path(__file__).parent.parent / "docs"
PAGE = (DOCS / "python.md").read_text(encoding="utf-8")
NOTEBOOK = DOCS / "notebook.ipynb"
EXAMPLES = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_the_page_lists_all_public_names() -> None:
    assert [name for name in iocurve.__all__ if not re.search(rf"`{name}\b", PAGE)] == []


@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES)
def test_the_examples_run(example: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(example, "docs/python.md", "exec"), {})


@pytest.mark.slow
def test_the_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    document, updates = json.loads(NOTEBOOK.read_text(encoding="utf-8")), bool(os.environ.get("IOCURVE_UPDATE_GOLDEN"))
    monkeypatch.chdir(tmp_path)
    cells = notebook.run(document["cells"], draws=updates)
    if updates:
        text = json.dumps(document | {"cells": cells}, indent=1, ensure_ascii=False)
        NOTEBOOK.write_text(f"{text}\n", encoding="utf-8")
    assert shown(cells) == shown(document["cells"]) or updates


def shown(cells: list[Any]) -> list[list[str]]:
    """The kinds of output of each cell: the values differ with each run."""
    return [[kind for output in cell.get("outputs", ()) for kind in output.get("data", output)] for cell in cells]
