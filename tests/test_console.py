"""Output for the user: in place on a terminal, plain lines elsewhere, a table at the end."""

import fcntl
import io
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from msgspec.structs import replace
from rich.console import Console, RenderableType

from data import synthetic
from data.browser import visit
from goldens import matches, present
from iocurve.analysis import read
from iocurve.engine.outcome import Live, LiveClient, LiveTotals
from iocurve.foundation.errors import TargetError
from iocurve.foundation.units import MIB, SECOND_NS
from iocurve.report.live import TerminalView, bars
from iocurve.report.progress import NoView, PlainView, StartedPoint, finished_line
from iocurve.report.table import result_table
from iocurve.report.views import progress_view, served_progress, with_observer
from iocurve.result.caps import Cap
from iocurve.result.document import Point
from programs import IOCURVE, started, stopped


class Clock:
    """A clock that advances when the test says so."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def console(*, terminal: bool = False, width: int = 120, height: int | None = None) -> Console:
    how: dict[str, Any] = {"force_terminal": terminal, "color_system": None, "legacy_windows": False}
    return Console(file=io.StringIO(), width=width, height=height, **how)


def text(of: Console) -> str:
    assert isinstance(of.file, io.StringIO)
    return of.file.getvalue()


def running(elapsed_ns: int, operations: int) -> Live:
    (part,) = synthetic.intervals([operations])
    return synthetic.live(elapsed_ns=elapsed_ns, intervals=1, operations=part.operations)


LAYOUT = synthetic.live(phase="layout", elapsed_ns=1, layout_bytes=64 * MIB, layout_bytes_total=256 * MIB)


def lines_of(out: Console, drawn: RenderableType) -> list[str]:
    with out.capture() as captured:
        out.print(drawn)
    return [line.rstrip() for line in captured.get().splitlines()]


def plain(*started: StartedPoint) -> tuple[PlainView, io.StringIO, Clock]:
    """A view without a terminal, with what it writes and its clock."""
    out, clock = io.StringIO(), Clock()
    view = PlainView(out, clock)
    for point in started:
        view.point_started(point)
    return view, out, clock


def test_without_a_terminal_a_plain_line_comes_every_five_seconds() -> None:
    view, out, clock = plain(StartedPoint(0, 2, "first", 10.0))
    view.update(LAYOUT)
    for _ in range(9):
        clock.now += 1
        view.update(running(SECOND_NS, 59_000))
    matches("console/without_a_terminal_a_plain_line_comes", out.getvalue().splitlines())


def test_a_load_that_prepares_a_point_is_named_and_shows_no_figures() -> None:
    view, out, clock = plain(StartedPoint(0, 1, "point", 10.0, turn=(2, 4)))

    def update(live: Live) -> None:
        clock.now += 6
        view.update(live)

    view.preparing("filling caches")
    update(LAYOUT)
    update(running(SECOND_NS, 170))
    view.preparing(None)
    update(running(SECOND_NS, 59_000))
    view.turn_finished()
    update(running(SECOND_NS, 170))
    view.preparing("looking whether caches answer")
    update(running(SECOND_NS, 170))
    matches("console/a_load_that_prepares_a_point_is_named", out.getvalue().splitlines())


def test_a_finished_point_leaves_a_line() -> None:
    points = synthetic.envelope().points
    view, out, _ = plain()
    for index in (0, 5):
        view.point_started(StartedPoint(index, 26, points[index].name, 2.0))
        view.point_finished(points[index].summary())
    matches("console/a_finished_point_leaves_a_line", out.getvalue().splitlines())


def test_a_point_that_measured_nothing_says_so() -> None:
    nothing = synthetic.worker_outcome({"read": synthetic.kind({}, 4096)}, state="failed", error="connection refused")
    point = synthetic.envelope().points[0].replace(outcome=synthetic.outcome(nothing))
    view, out, _ = plain(StartedPoint(0, 1, point.name, 1.0))
    view.point_finished(point.summary())
    assert out.getvalue() == "1/1  4 KiB, 100 % reads: nothing was measured (failed)\n"


def test_the_time_left_is_that_of_the_whole_plan() -> None:
    view, _, clock = plain(StartedPoint(0, 4, "first", 10.0))
    assert view.seconds_left() == 40.0
    clock.now += 20
    assert view.seconds_left() == 0 + 3 * 20
    view.point_finished(synthetic.envelope().points[0].summary())
    assert view.seconds_left() == 0.0
    view.point_started(StartedPoint(1, 4, "second", 10.0))
    assert view.seconds_left() == 10 + 2 * 15


def test_the_time_left_counts_turns_and_runs_that_are_repeated() -> None:
    """Ten seconds for one point and for two turns of another; the first point laid out files for half a minute."""
    first = StartedPoint(0, 2, "first", 10.0, seconds_planned=30.0)
    view, _, clock = plain(first)
    assert view.seconds_left() == 30.0
    clock.now += 40
    view.point_finished(synthetic.envelope().points[0].summary())
    turn = replace(first, index=1, turn=(1, 2))
    view.point_started(turn)
    assert view.seconds_left() == 20.0
    clock.now += 10
    view.point_started(replace(turn, is_again=True))
    assert view.seconds_left() == 10 + 10
    clock.now += 10
    view.turn_finished()
    view.point_started(replace(turn, turn=(2, 2)))
    assert view.seconds_left() == 10.0


def test_a_point_that_is_measured_again_says_so_and_its_line_is_aligned_and_marked() -> None:
    point = synthetic.envelope().points[0]
    view, out, _ = plain(StartedPoint(0, 3, point.name, 2.0, is_again=True, name_columns=30))
    view.update(running(SECOND_NS, 0))
    view.point_finished(point.summary(), "other processes used 48% of the processors")
    matches("console/a_point_that_is_measured_again_says_so", out.getvalue().splitlines())


def test_the_line_of_a_finished_point_fits_80_columns() -> None:
    summary = synthetic.envelope().points[0].summary()
    long = replace(summary, name="sequential-64k-read nconnect 16 depth 1024")
    line, state = finished_line(long, "others", 42)
    assert line == "sequential-64k-read nconnect 16 dept…   118k IOPS  p99 1.5 ms"
    assert len(f"20/20  {line}{state}") <= 80


def test_the_only_point_has_no_number() -> None:
    lines = live_lines(running(SECOND_NS, 59_000))
    assert lines[0].split()[-3:] == ["3", "s", "left"]
    assert "point 1 of 1" not in lines[0]


def test_rates_are_per_second_whatever_the_interval() -> None:
    view, out, _ = plain(StartedPoint(0, 1, "quick", 1.0, interval_ns=SECOND_NS // 10))
    view.update(running(SECOND_NS // 2, 5_900))
    assert "59k IOPS" in out.getvalue()


def test_a_terminal_shows_progress_and_figures() -> None:
    out, clock = console(terminal=True), Clock()
    with TerminalView(out, clock) as view:
        view.point_started(StartedPoint(2, 26, "4 KiB, 50 % reads", 3.0))
        view.update(running(SECOND_NS, 59_000))
        clock.now += 1
    expected = ("point 3 of 26", "4 KiB, 50 % reads", "  running, 1.0 s", "59k IOPS")
    assert [part for part in expected if part not in text(out)] == []


def table_lines(width: int, *points: Point) -> list[str]:
    return lines_of(console(width=width), result_table(read(synthetic.result(points))))


def test_the_table_has_every_point_and_what_limited_it() -> None:
    matches("console/the_table_has_every_point", table_lines(130, *synthetic.envelope().points[4:6]))


def test_the_table_keeps_all_columns_at_120() -> None:
    names = ("sequential-64k-read nconnect 8 depth 256", "sequential-64k-write nconnect 8 depth 256")
    points = [one.replace(name=name) for one, name in zip(synthetic.envelope().points, names, strict=False)]
    lines = table_lines(120, *(point.replace(compared_with=names, noise="others") for point in points))
    assert " ".join(lines[0].split()) == "point IOPS MiB/s mean p50 p99 p99.9 in flight limited by speedup"


def test_an_empty_result_has_an_empty_table() -> None:
    matches("console/an_empty_result_has_an_empty_table", " ".join(table_lines(120)).split())


def test_a_narrow_table_keeps_the_columns_that_matter() -> None:
    lines = table_lines(80, *synthetic.envelope().points)
    assert lines[0] == "point                   IOPS  MiB/s      p50      p99  limited by"
    assert lines[7] == "64 KiB, 100 % reads    8.19k  512.0  6.75 ms  21.6 ms  MiB/s limit (certain)"
    assert all("…" not in line and len(line) <= 80 for line in lines)


def clients(count: int, states: dict[int, str] | None = None) -> Live:
    known = states or {}
    found = [
        LiveClient(host=f"vm{at}", state=known.get(at, "running"), operations=1000 + at, bytes=at * MIB)
        for at in range(count)
    ]
    return running(SECOND_NS, 59_000).replace(clients=tuple(found))


def live_lines(live: Live, *, height: int = 24) -> list[str]:
    out = console(terminal=True, width=80, height=height)
    view = TerminalView(out, Clock())
    view.point_started(StartedPoint(0, 1, "point", 3.0))
    view._live = live
    return lines_of(out, view._render())


def on_screen(view: TerminalView, out: Console) -> list[str]:
    return lines_of(out, view._render_screen())


def full_view(clock: Clock, *, points: int = 1, caps: tuple[Cap, ...] = ()) -> tuple[TerminalView, Console]:
    """A view of the whole screen of 80 × 24, with 30 intervals of a point."""
    out = console(terminal=True, width=80, height=24)
    view = TerminalView(out, clock, fills_screen=True)
    view.point_started(StartedPoint(0, points, "4 KiB reads", 60.0, caps=caps))
    for number in range(30):
        clock.now += 1
        view.update(running((number + 1) * SECOND_NS, 1000 * (number + 1)).replace(intervals=number + 1))
    return view, out


def test_the_screen_has_rates_charts_and_keys_in_exactly_its_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    view, out = full_view(Clock(), caps=(Cap(scope="volume", quantity="iops", value=40_000),))
    monkeypatch.setattr(view, "noise", lambda: "processors 61 % busy, other programs and local servers 3 %")
    matches("console/the_screen_has_rates_charts_and_keys", on_screen(view, out))


def test_keys_choose_what_is_shown_and_pause_it() -> None:
    view, out = full_view(Clock())
    for key, line in (
        ("l", "read                 mean   450 µs   max   2.8 ms   13.5 in flight"),
        ("j", "All load is of one job."),
        ("c", "This machine is the only client."),
    ):
        view._press(key)
        assert line in on_screen(view, out)
    for words in ("p go on", "p pause"):
        view._press("p")
        assert on_screen(view, out)[-1].strip() == f"r rate · l latency · j jobs · c clients · {words} · q end"


def test_the_key_q_ends_the_run_once() -> None:
    view, out = full_view(Clock())
    with pytest.raises(KeyboardInterrupt):
        view._press("q")
    view._press("q")
    assert on_screen(view, out)[-1].strip().endswith("ending")


def test_the_charts_of_a_new_point_begin_empty_and_those_that_ended_are_listed() -> None:
    view, out = full_view(Clock(), points=2)
    view._is_full = True
    view.point_finished(synthetic.envelope().points[0].summary())
    view.point_started(StartedPoint(1, 2, "second", 60.0))
    lines = on_screen(view, out)
    assert not any("over time" in line for line in lines)
    assert "1/2  4 KiB, 100 % reads           118k IOPS  p99 1.5 ms" in lines
    assert len(lines) == 24


def test_bars_are_from_zero_and_more_values_than_columns_are_averaged() -> None:
    assert bars([0, 1, 4, 8], 10) == [" ▁▄█"]
    assert bars([8, 4, 12], 10, rows=2) == ["▃ █", "█▅█"]
    assert bars([0, 8, 8, 8], 2) == ["▄█"]
    assert bars([], 10) == [""]


def test_only_a_run_that_takes_long_fills_the_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("iocurve.report.live._is_in_foreground", lambda: True)
    shown = []
    for seconds in (9.0, 11.0):
        out = console(terminal=True)
        with TerminalView(out, Clock()) as view:
            view.point_started(StartedPoint(0, 1, "point", seconds))
        shown.append("\x1b[?1049h" in text(out))
    assert shown == [False, True]


def test_what_was_written_while_the_screen_was_full_appears_after_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    out = console(terminal=True)
    with TerminalView(out, Clock(), fills_screen=True) as view:
        view.point_started(StartedPoint(0, 1, "point", 3.0))
        print("warning: slow", file=sys.stderr)
        assert capsys.readouterr().err == ""
        assert "warning: slow" in on_screen(view, out)
    assert capsys.readouterr().err == "warning: slow\n"
    assert text(out).count("\x1b[?1049h") == text(out).count("\x1b[?1049l") == 1


def test_the_page_shows_the_run_and_becomes_the_report(tmp_path: Path) -> None:
    report = tmp_path / "report.html"
    report.write_text("<p>report</p>", encoding="utf-8")
    with served_progress(0) as url:
        with urlopen(url) as page:
            assert b"EventSource" in page.read()
        with progress_view(quiet=True) as view:
            view.point_started(StartedPoint(0, 2, "point", 60.0))
            view.update(running(SECOND_NS, 59_000))
            events = urlopen(f"{url}events")
            state = json.loads(events.readline().removeprefix(b"data: "))
            assert state["title"] == "point"
            assert state["phase"] == "point 1 of 2, running, 1.0 s, 2 min left"
            assert state["charts"][0] == {"name": "IOPS", "values": [59000.0], "text": "now 59k, 59k to 59k"}
        with_observer(NoView()).report_written(report)
    with events:
        lines = events.read().splitlines()
    assert lines[-3:-1] == [b"event: end", b'data: "<p>report</p>"']


@pytest.mark.slow
@pytest.mark.parametrize("has_report", [True, False])
def test_a_browser_shows_a_whole_run_and_its_report(has_report: bool, tmp_path: Path) -> None:
    job = ["fio", "--serve=0", *(["--out=out"] if has_report else []), *JOB[1:], "--runtime=4", "--name=log", *JOB[2:]]
    with started(*job, "--runtime=4", "--rate_iops=100", cwd=tmp_path) as process:
        url = next(line for line in present(process.stderr) if line.startswith("progress: ")).split()[1]
        seen = visit(url, tmp_path)
        stopped(process)
    assert (process.returncode, seen.console) == (0, [])
    assert set(seen.requests) == {f"{url}events"}
    if has_report:
        assert "Made by iocurve" in seen.dom
        assert seen.dom.count('class="marks"') == 4
    else:
        assert "iocurve · the run has ended" in seen.dom
        assert re.search(r'<pre id="jobs">job  .* IOPS .*\nlog  .* IOPS ', seen.dom)
        assert seen.dom.count('<path d="M0 100L') == 3


def test_the_page_is_refused_to_other_sites() -> None:
    with served_progress(0) as url:
        assert urlopen(Request(url, headers={"Host": "localhost:1"})).status == 200
        with pytest.raises(HTTPError, match="403"):
            urlopen(Request(url, headers={"Host": "evil.example:80"}))


def test_a_port_that_is_taken_is_named() -> None:
    with served_progress(0) as url:
        again = served_progress(int(url.rpartition(":")[2].rstrip("/")))
        with pytest.raises(TargetError, match="cannot listen on"):
            again.__enter__()


def in_terminal(command: list[str], *, stdout: Path | None = None, keys: str = "", ends: int | None = None) -> bytes:
    """Runs a command in a terminal of 80 × 24, and gives what it shows there.

    Once the whole screen is taken it gets the keys or the signal; at the end the terminal must be as it was.
    """
    head, tail = pty.openpty()
    fcntl.ioctl(tail, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    before = termios.tcgetattr(tail)
    with stdout.open("wb") if stdout else nullcontext(tail) as out:
        process = subprocess.Popen(
            [*IOCURVE, *command],
            stdin=tail,
            stdout=out,
            stderr=tail,
            env={**os.environ, "TERM": "xterm"},
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
    shown = b""
    while process.poll() is None or select.select([head], [], [], 0)[0]:
        if not select.select([head], [], [], 0.05)[0]:
            continue
        shown += os.read(head, 65536)
        if b"over time" in shown and (keys or ends):
            os.write(head, keys.encode())
            if ends:
                process.send_signal(ends)
            keys, ends = "", None
    assert termios.tcgetattr(tail) == before
    os.close(head)
    os.close(tail)
    return shown


JOB = ["fio", "--name=job", "--ioengine=null", "--size=1m", "--rw=randread", "--time_based", "--rate_iops=1000"]


@pytest.mark.slow
@pytest.mark.parametrize("end", ["q", signal.SIGINT, signal.SIGTERM])
def test_the_terminal_is_whole_after_a_run_that_was_ended_on_the_full_screen(end: str | int) -> None:
    keys, ends = (end, None) if isinstance(end, str) else ("", end)
    shown = in_terminal([*JOB, "--runtime=30"], keys=keys, ends=ends)
    assert shown.count(b"\x1b[?1049h") == shown.count(b"\x1b[?1049l") == 1
    after = shown.rpartition(b"\x1b[?1049l")[2]
    assert b"job: (groupid=0, jobs=1)" in after
    assert after.count(b"\x1b[?25l") <= after.count(b"\x1b[?25h")


@pytest.mark.slow
def test_a_file_gets_the_output_while_the_terminal_shows_the_view(tmp_path: Path) -> None:
    elbencho = ["elbencho", "-w", "-t", "1", "-s", "64k", "-b", "4k", str(tmp_path / "file")]
    shown = in_terminal(elbencho, stdout=tmp_path / "out")
    assert b"WRITE       Elapsed time" in (tmp_path / "out").read_bytes()
    assert b"Elapsed time" not in shown


def test_the_live_view_has_a_row_for_each_of_a_few_clients() -> None:
    matches("console/the_live_view_has_a_row_for_each_of_a_few", live_lines(clients(3))[1:])


def test_several_jobs_have_rows_also_together_with_clients() -> None:
    parts = {
        name: LiveTotals(operations=count, bytes=count * 4096, errors=0) for name, count in (("db", 9), ("log", 4))
    }
    lines = live_lines(clients(2).replace(jobs=parts))[4:]
    assert [line.split()[0] for line in lines] == ["db", "log", "vm0", "vm1"]
    assert len(live_lines(clients(40).replace(jobs=parts), height=12)) == 10, "the view fits a low terminal"
    view, out = full_view(Clock())
    view._live = running(SECOND_NS, 59_000).replace(jobs=parts)
    view._press("j")
    assert "db                        9 IOPS       0.0 MiB/s" in on_screen(view, out)


def test_the_limit_that_is_closest_is_named() -> None:
    caps = (
        Cap(scope="volume", quantity="iops", value=100_000),
        Cap(scope="client", quantity="bytes_per_s", kind="read", value=64 * MIB),
        Cap(scope="connection", quantity="requests", value=1),
    )
    view, _ = full_view(Clock(), caps=caps)
    view._live = running(SECOND_NS, 59_000).replace(clients=clients(10).clients)
    assert view.approached() == "59 % of the target's IOPS limit"
    view._live = running(SECOND_NS, 59_000).replace(clients=clients(4).clients)
    assert view.approached() == "90 % of the target's limit on read bandwidth of a client"
    view._used = 0.97
    assert view.approached() == "97 % of this machine's processors"


def test_of_many_clients_the_lost_and_the_slowest_are_shown_and_the_rest_counted() -> None:
    lines = live_lines(clients(40, {7: "lost"}))[4:]
    matches("report#many clients lost", [line.split()[0] for line in lines])
    assert lines[0].endswith("7.0 MiB/s   lost")
    assert lines[-1] == "  … 28 more clients     1.03k IOPS      25.5 MiB/s each"
    assert len(live_lines(clients(40), height=12)) == 10, "the view fits a low terminal"
