"""Several agents run one plan: one start, one outcome, and what becomes of a client that is lost."""

import asyncio
import fcntl
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from data import synthetic
from goldens import matches, present
from iocurve import _native
from iocurve.analysis import read
from iocurve.cli.commands import run
from iocurve.cli.machines import ClusterOptions
from iocurve.engine import plan as planned
from iocurve.engine.outcome import Live, Stall
from iocurve.foundation.errors import ResultError, RunError, TargetError
from iocurve.foundation.units import MIB, MILLISECOND_NS, SECOND_NS
from iocurve.measure import campaign as campaigns
from iocurve.measure import local
from iocurve.measure.client import LoadClient
from iocurve.measure.data_set import require_reachable
from iocurve.measure.deployment import assigned, parts, replicated
from iocurve.measure.group import ClientGroup, barrier
from iocurve.measure.group.client import Ended, GroupClient, Member, RunningClient, clock_offset
from iocurve.measure.group.merge import LiveView
from iocurve.measure.journals import Journal, merged
from iocurve.measure.machines import client_notes
from iocurve.measure.records import RECORDS, EndRecord, Introduction, StartedRecord, Task, records_of
from iocurve.report.figures import shared
from iocurve.result.document import ClientClock, Point, Result, TargetFacts
from iocurve.result.summary import jain_index, merge_kinds
from iocurve.targets.target import parse
from load_clients import LocalLink, group_of, require_whole_sum
from plans import READ, local_engine, null_plan, own_file, plan_of, worker


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def journals(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / "state/iocurve/clients").glob("*"))


def lasting(runtime_ns: int | None, **changes: object) -> planned.Plan:
    """Runs for a time; without one until it is stopped."""
    end = planned.End(runtime_ns=runtime_ns, bytes=None, operations=None)
    reads = READ.replace(rate=planned.Rate(unit="operations", count=2000, per_ns=SECOND_NS))
    return plan_of(worker(planned.NullEngine(), "nothing", end=end, operations=(reads,), **changes))


def linked(names: str = "one two") -> list[LocalLink]:
    return [LocalLink(name) for name in names.split()]


def grouped(plan: planned.Plan, links: Sequence[LocalLink] = (), **how: Any) -> Point:
    """The measurement of a plan by agents, by default by two."""
    with group_of(links or linked()) as group:
        return local.measure(plan, machines=group, **how)[0]


def cut_off(monkeypatch: pytest.MonkeyPatch, runtime_ms: int, *records: int | None) -> Point:
    """A measurement in which the coordinator loses agents after these numbers of records; their loads go on."""
    monkeypatch.setattr(LocalLink, "abandon", lambda _link: None)
    links = linked()
    for link, after in zip(links, records, strict=True):
        link.cut_after = after
    with group_of(links) as group:
        point, _ = local.measure(replicated(lasting(runtime_ms * MILLISECOND_NS), 2), machines=group)
        assert all(link.ended.wait(60) for link in links if link.cut_after is not None)
    return point


def started() -> Result:
    return campaigns.started("test", "test", TargetFacts(kind="null", address="null"), with_ceiling=False)


def test_a_plan_is_split_by_client_and_keeps_its_places() -> None:
    one, two = (worker(planned.NullEngine(), name) for name in ("a", "b"))
    plan = plan_of(one, two).replace(groups=(planned.Group(workers=(one, two)), planned.Group(workers=(two,))))
    whole = replicated(plan, 2, own_file)
    first, second = parts(whole)
    assert second.positions == ((0, 2), (0, 3), (1, 1))
    matches(
        "cluster#plan split client",
        [file.path for group in second.plan.groups for one in group.workers for file in one.files],
    )
    assert second.by_place()[1, 0] == (1, 1)
    assert first.plan.groups == plan.groups
    assert len({one.seed for group in whole.groups[:1] for one in group.workers}) == 2
    part = parts(assigned(plan_of(one, two), [0, 3]))[1]
    assert (part.client, part.positions, part.groups) == (3, ((0, 1),), (0,))


def test_three_clients_give_exactly_the_sum_of_what_each_measured(tmp_path: Path) -> None:
    file = tmp_path / "data"
    plan = replicated(plan_of(worker(local_engine("sync"), str(file), submission_latency=False)), 3, own_file)
    point = grouped(plan, linked("one two three"))
    assert point.outcome.state == "finished"
    assert [(one.group, one.worker) for one in point.outcome.workers] == [(0, 0), (0, 1), (0, 2)]
    solo, latencies = require_whole_sum(point, operations=256, size=MIB)
    total = merge_kinds(solo)
    assert (total.operations, total.bytes) == (3 * 256, 3 * MIB)
    assert _native.Histogram.decode(total.service.histogram).buckets() == latencies
    assert [point.of_client(client).operations for client in range(3)] == [256] * 3
    assert [(one.name, one.state, one.journal) for one in point.clients] == [
        (name, "finished", None) for name in ("one", "two", "three")
    ]
    assert not journals(tmp_path), "files of clients whose records have arrived are removed"
    assert not list(tmp_path.glob("data*")), "each client removes what it made"


def test_clients_with_wrong_clocks_start_together() -> None:
    errors_ns = (0, 700 * MILLISECOND_NS, -700 * MILLISECOND_NS)
    runtime_ns = 300 * MILLISECOND_NS
    plan = replicated(lasting(runtime_ns), 3)
    measured = grouped(plan, [LocalLink(f"c{number}", error) for number, error in enumerate(errors_ns)])
    for client, error_ns in zip(measured.clients, errors_ns, strict=True):
        clock = present(client.clock)
        assert clock.drift_ns is not None
        assert abs(clock.offset_ns - error_ns) <= clock.error_ns + MILLISECOND_NS
    summary = measured.summary()
    # A busy machine starts a client late, but says so.
    late_ns = max(client.late_ns for client in measured.clients)
    assert summary.overlap_ns == max(0, runtime_ns - late_ns)
    assert not summary.overlap_ns or summary.window_ns == runtime_ns + late_ns


def test_every_group_starts_when_all_clients_are_ready() -> None:
    def reads(operations: int, client: int = 0) -> planned.Worker:
        end = planned.End(runtime_ns=None, bytes=None, operations=operations)
        return worker(planned.NullEngine(), "nothing", end=end, client=client)

    groups = ((reads(10), reads(2_000_000, 1)), (reads(20), reads(30, 1)), (reads(40, 1),))
    plan = null_plan().replace(groups=tuple(planned.Group(workers=workers) for workers in groups))
    done = [(one.group, one.worker, one.operations["read"].operations) for one in grouped(plan).outcome.workers]
    assert done == [(0, 0, 10), (0, 1, 2_000_000), (1, 0, 20), (1, 1, 30), (2, 0, 40)]


def test_the_live_view_has_merged_figures_and_a_row_for_each_client() -> None:
    seen: list[Live] = []

    def watch(live: Live) -> bool:
        seen.append(live)
        return live.phase == "run" and live.intervals > 1 and live.operations["read"].operations > 0

    grouped(replicated(lasting(None), 2), enough=watch, poll_s=0.01)
    running = [live for live in seen if live.phase == "run"]
    assert {client.host for live in running for client in live.clients} == {"one", "two"}
    assert seen[-1].phase == "done"


@pytest.mark.slow
@pytest.mark.parametrize("how", ["dies", "freezes"])
def test_a_lost_client_is_named_and_the_others_finish(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if how == "freezes":
        monkeypatch.setattr(barrier, "SILENT_S_MIN", 1.5)
        monkeypatch.setattr(barrier, "LOST_S_MIN", 3.0)
    links = linked("one two three")
    shown: set[str] = set()

    def watch(live: Live) -> bool:
        shown.update(client.state for client in live.clients if client.host == "two")
        return False

    setattr(links[1], f"{how}_after", 4)
    with group_of(links) as group:
        measured, _ = local.measure(replicated(lasting(600 * MILLISECOND_NS), 3), watch, machines=group)
        lost = measured.clients[1]
        with pytest.raises(RunError, match="agent two was lost before"):
            group.start(replicated(null_plan(), 3), "the next")
    assert [client.state for client in measured.clients] == ["finished", "lost", "finished"]
    assert ("silent" in shown) is (how == "freezes"), "it is named before it is given up"
    assert (measured.outcome.state, [one.worker for one in measured.outcome.workers]) == ("failed", [0, 2])
    until_loss = present(lost.until_loss)
    assert until_loss.intervals == 3, "the first record says that the client has started"
    assert until_loss.elapsed_ns == 300 * MILLISECOND_NS
    kept = until_loss.operations["read"]
    assert kept.operations == kept.service.count > 0
    assert [str(path) for path in journals(tmp_path)] == [lost.journal]
    why = campaigns.reason(measured.outcome, measured.clients)
    assert why.startswith("2 of 3 agents finished: two lost after 300 ms of measuring: ")
    assert why.endswith("ActorDiedError" if how == "dies" else " ms") or "silent for" in why


@pytest.mark.slow
@pytest.mark.parametrize("on_loss", ["continue", "stop"])
def test_a_lost_client_is_told_at_once_and_the_others_continue_or_stop(on_loss: str) -> None:
    links = linked("one two three")
    links[1].dies_after = 2
    told: list[str] = []
    after = 0

    def watch(live: Live) -> bool:
        nonlocal after
        after = max(after, live.intervals) if told else 0
        # Without the stop the load has no end.
        return on_loss == "continue" and bool(told) and live.intervals > 8

    with group_of(links, told.append, stops_on_loss=on_loss == "stop") as group:
        measured, _ = local.measure(replicated(lasting(None), 3), watch, 0.01, group)
    others = "2 others go on" if on_loss == "continue" else "2 others stop"
    (line,) = told
    assert re.match(rf"agent two lost after .* of measuring: ActorDiedError; {others}", line)
    ended = "finished" if on_loss == "continue" else "interrupted"
    assert [client.state for client in measured.clients] == [ended, "lost", ended]
    assert on_loss == "stop" or after > 8, "the others went on after the line"


@pytest.mark.slow
def test_a_silent_client_is_told_when_it_falls_silent_and_when_it_sends_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(barrier, "SILENT_S_MIN", 0.5)
    monkeypatch.setattr(barrier, "SILENT_INTERVALS", 1)
    told: list[str] = []

    class Halting(LocalLink):
        """Sends nothing for a second."""

        async def stream(self, start_ns: int) -> AsyncIterator[bytes]:
            async for record in super().stream(start_ns):
                if self.records == 3:
                    await asyncio.sleep(1.5)
                yield record

    with group_of([LocalLink("one"), Halting("two")], told.append) as group:
        local.measure(replicated(lasting(600 * MILLISECOND_NS), 2), machines=group)
    lines = [re.sub(r"[\d.]+ m?s", "N", line) for line in told if " two " in line]
    matches("cluster#silent client", lines[-2:])


@pytest.mark.slow
def test_the_local_file_of_a_lost_client_makes_the_result_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (out := tmp_path / "out").mkdir()
    point = cut_off(monkeypatch, 600, None, 3)
    why = campaigns.reason(point.outcome, point.clients)
    assert why.startswith("1 of 2 agents finished: two lost after 200 ms of measuring")
    started().with_point(point).ended("failed", why).write(out / "result.json")
    [journal] = journals(tmp_path)
    assert str(journal) == point.clients[1].journal
    assert run(["result", "merge", str(out), str(journal)]) == 1, "what was to follow is missing"
    again = Result.read(out / "result.json").points[0]
    assert [client.state for client in again.clients] == ["finished", "merged"]
    assert (again.outcome.state, [one.worker for one in again.outcome.workers]) == ("finished", [0, 1])
    assert again.summary().operations == sum(again.of_client(client).operations for client in (0, 1))
    assert again.of_client(0).operations == point.summary().operations
    (text := out / "text").write_text("text", encoding="utf-8")
    other = out / "other.jsonl"
    other.write_bytes(journal.read_bytes().replace(point.clients[1].run.encode(), b"0" * 16))
    for file, error in (
        (journal, "the records of agent two are in the result already"),
        (other, "of another run"),
        (text, "is not the local file of an agent"),
    ):
        with pytest.raises(ResultError, match=error):
            run(["result", "merge", str(out), str(file)])
    capsys.readouterr()


def test_the_local_file_of_a_client_that_came_back_is_fetched_and_the_run_is_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    point = cut_off(monkeypatch, 300, None, 2)
    lost = started().with_point(point).replace(points_planned=1).ended("failed", "two was lost")
    lost.write(tmp_path / "result.json")
    asked: list[str | None] = []

    @contextmanager
    def machines(options: ClusterOptions) -> Iterator[ClientGroup]:
        asked.append(options.on)
        with group_of(linked()) as group:
            yield group

    monkeypatch.setattr(ClusterOptions, "agents", machines)
    assert run(["result", "merge", str(tmp_path)]) == 0
    result = Result.read(tmp_path / "result.json")
    assert (result.state, result.incomplete_reason) == ("finished", None)
    assert [client.state for client in result.points[0].clients] == ["finished", "merged"]
    assert journals(tmp_path) == [], "its records are in the result"
    assert asked == ["auto"]
    with pytest.raises(RunError, match="lacks the records of no agent"):
        run(["result", "merge", str(tmp_path)])
    capsys.readouterr()


def test_the_local_files_make_the_result_whole_when_all_clients_were_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    point = cut_off(monkeypatch, 600, 3, 3)
    assert (point.outcome.state, point.outcome.workers, point.summary().operations) == ("failed", (), 0)
    assert [client.until_loss is not None for client in point.clients] == [True, True]
    again = merged(started().with_point(point), [Journal.read(file) for file in journals(tmp_path)]).points[0]
    assert [client.state for client in again.clients] == ["merged", "merged"]
    assert again.outcome.state == "finished"
    assert again.summary().operations == sum(again.of_client(client).operations for client in (0, 1)) > 0


def test_local_files_make_a_result_where_the_program_was_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cut_off(monkeypatch, 600, 3, 3)
    whole, cut = (Journal.read(path) for path in journals(tmp_path))
    lines = cut.path.read_bytes().splitlines(keepends=True)
    (tmp_path / "out").mkdir()
    (tmp_path / "out/proof.html").write_text("of an earlier run")
    # A client that was killed has no last record.
    cut.path.write_bytes(b"".join(lines[:-1]) + lines[-1][:10])
    with (tmp_path / "state/iocurve/clients/running-0.jsonl").open("wb") as running:
        fcntl.flock(running, fcntl.LOCK_EX)
        running.write(b"{")
        running.flush()
        monkeypatch.setattr(ClusterOptions, "agents", lambda _: group_of([LocalLink("vm1")]))
        assert run(["result", "recover", "--hosts", "vm1", "--out", str(tmp_path / "out")]) == 1
    result = Result.read(tmp_path / "out/result.json")
    assert result.state == "failed"
    assert "the program of the run was killed; 2 local files" in (result.incomplete_reason or "")
    (point,) = result.points
    assert [(client.state, str(client.reason).partition(" after ")[0]) for client in point.clients] == [
        ("interrupted", "stopped when it heard no more of its program"),
        ("interrupted", "was killed"),
    ]
    measured = sum(kind.operations for one in cut.intervals if not one.ramp for kind in one.operations.values())
    assert point.of_client(1).operations == measured > 0
    ended = [kind.operations for one in present(whole.end).outcome.workers for kind in one.operations.values()]
    assert point.of_client(0).operations == sum(ended) > 0
    assert [path.name for path in journals(tmp_path)] == ["running-0.jsonl"], "a run that goes on keeps its file"
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"points.csv", "report.html", "result.json"}
    capsys.readouterr()


def test_a_local_file_that_was_cut_off_is_kept_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    point = cut_off(monkeypatch, 600, None, 2)
    [path] = journals(tmp_path)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:5]) + lines[5][:40])
    again = merged(started().with_point(point), [Journal.read(path)]).points[0]
    lost = again.clients[1]
    assert (lost.state, again.outcome.state) == ("lost", "failed")
    assert present(lost.until_loss).intervals == 3, "the file begins with the task and the start"
    assert [one.worker for one in again.outcome.workers] == [0]


def test_a_client_that_answers_slowly_is_asked_for_its_clock_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("iocurve.measure.group.client.CLOCK_S", -1.0)
    slow = LocalLink("slow")
    asyncio.run(clock_offset(slow))
    assert slow.calls["clock"] == 1


def test_clocks_that_are_not_known_well_enough_are_told() -> None:
    point = grouped(replicated(null_plan(), 2))
    clock = ClientClock(offset_ns=0, error_ns=11 * MILLISECOND_NS, drift_ns=0)
    clients = (point.clients[0].replace(clock=clock), point.clients[1].replace(late_ns=11 * MILLISECOND_NS))
    known = tuple(client.replace(clock=clock.replace(error_ns=0), late_ns=0) for client in clients)
    assert list(client_notes(point.replace(clients=known))) == []
    notes = list(client_notes(point.replace(clients=clients)))
    assert [code for code, _ in notes] == ["clock_error", "late_start"]
    assert notes[0][1].startswith("agent one: its clock is known only to within more than a tenth")


class LayingOut(LocalLink):
    """An agent that reports the layout of a list, bytes so far and in all, and runs once all reports were seen."""

    def __init__(self, name: str, reports: list[tuple[int, int] | None], all_seen: asyncio.Barrier) -> None:
        super().__init__(name)
        self._reports, self._all_seen, self._seen = reports, all_seen, asyncio.Event()

    async def call(self, method: str, *arguments: object) -> object:
        if method == "progress" and self._reports:
            laid_out = self._reports.pop(0)
            done, total = laid_out or (0, 0)
            phase = "layout" if laid_out else "prepare"
            live = synthetic.live(0, phase=phase, layout_bytes=done, layout_bytes_total=total)
            return msgspec.json.encode(live)
        if method == "progress" and not self._seen.is_set():
            # It is asked again once its last report was shown.
            self._seen.set()
            return b"null"
        if method == "prepare":
            await self._seen.wait()
            await self._all_seen.wait()
        return await super().call(method, *arguments)


def shown_changes(monkeypatch: pytest.MonkeyPatch, name: str) -> list[dict[str, Any]]:
    """The changes of the live view that have a field, as they come."""
    seen: list[dict[str, Any]] = []
    show = LiveView.show

    def note(view: LiveView, **changes: Any) -> None:
        seen.extend([changes] if name in changes else [])
        show(view, **changes)

    monkeypatch.setattr(LiveView, "show", note)
    return seen


def test_the_layout_of_all_clients_is_one_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(barrier, "PROGRESS_S", 0.01)
    all_seen = asyncio.Barrier(3)
    links = [
        LayingOut("one", [(0, 0), (1, 8), (2, 8), (8, 8)], all_seen),
        LayingOut("two", [(0, 0), (0, 0), (3, 16), (5, 16)], all_seen),
        LayingOut("three", [None, None], all_seen),
    ]
    changes = shown_changes(monkeypatch, "layout_bytes")
    grouped(replicated(null_plan(), 3, own_file), links)
    seen = [(one["layout_bytes"], one["layout_bytes_total"]) for one in changes]
    assert {total for _, total in seen} == {24}, "not before each has told how much it lays out"
    assert (8 + 5, 24) in seen, "one is done, and two has reported five of its bytes"


def test_the_view_has_the_jobs_of_all_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = shown_changes(monkeypatch, "jobs")
    (group,) = null_plan().groups
    workers = tuple(worker.replace(job=job) for worker in group.workers for job in ("db", "log"))
    plan = null_plan().replace(groups=(group.replace(workers=workers),), interval_ns=100_000_000)
    grouped(replicated(plan, 2))
    assert seen
    for changes in seen:
        of_jobs, of_kinds = (sum(one.operations for one in changes[name].values()) for name in ("jobs", "operations"))
        assert ({*changes["jobs"]}, of_jobs) == ({"db", "log"}, of_kinds)


class Waited(LocalLink):
    """An agent that waited for its server."""

    async def stream(self, start_ns: int) -> AsyncIterator[bytes]:
        stall = Stall(
            server="10.0.0.9:2049", phase="load", reason="No route to host", start_ns=0, duration_ns=40 * SECOND_NS
        )
        async for text in super().stream(start_ns):
            record = RECORDS.decode(text) if text else None
            if isinstance(record, EndRecord):
                text = record.replace(outcome=record.outcome.replace(stalls=(stall,))).to_json().encode()
            yield text


def test_the_wait_of_a_client_for_its_server_is_told() -> None:
    point = grouped(replicated(null_plan(), 2), [LocalLink("one"), Waited("two")])
    assert [len(client.stalls) for client in point.clients] == [0, 1]
    text = "agent two: NFS server 10.0.0.9:2049 did not answer for 40 s under the load (No route to host)"
    assert [one for one in client_notes(point) if one[0] == "server_stalled"] == [("server_stalled", text)]


def test_a_client_that_cannot_prepare_is_named_and_none_runs(tmp_path: Path) -> None:
    absent = worker(local_engine("sync"), str(tmp_path / "absent"))
    absent = absent.replace(client=1, files=(absent.files[0].replace(layout="existing"),))
    with pytest.raises(TargetError, match=r"^agent two: .*absent"):
        grouped(plan_of(*lasting(None).groups[0].workers, absent))


def test_a_file_that_clients_share_is_laid_out_by_the_first_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared: list[tuple[str, str]] = []
    prepare = LoadClient.prepare

    def noted(client: LoadClient, task: bytes) -> str:
        name = next(link.name for link in links if link.client is client)
        prepared.append((name, "begins"))
        path = prepare(client, task)
        prepared.append((name, "ends"))
        return path

    monkeypatch.setattr(LoadClient, "prepare", noted)
    links = linked("one two three four")
    shared, other = (worker(local_engine("sync"), str(tmp_path / name)) for name in ("shared", "other"))
    shared = shared.replace(files=(shared.files[0].replace(layout="recreate"),))
    plan = plan_of(*(one.replace(client=client) for client, one in enumerate((shared, shared, other, shared))))
    layouts = [part.plan.groups[0].workers[0].files[0].layout for part in parts(plan)]
    assert layouts == ["recreate", "fill", other.files[0].layout, "fill"]
    assert grouped(plan, links).outcome.state == "finished"
    assert {name for name, _ in prepared[:4]} == {"one", "three"}
    assert {name for name, _ in prepared[4:]} == {"two", "four"}


def test_a_stop_ends_all_clients_and_keeps_what_they_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    # This machine may be busy.
    monkeypatch.setattr(barrier, "STOP_S", 30.0)
    plan = replicated(lasting(None), 2)
    with group_of(linked()) as group:
        enough, _ = local.measure(plan, lambda live: live.intervals >= 2, 0.02, group)
        assert enough.outcome.state == "finished"
        running = group.start(plan, "interrupted")
        while running.live().intervals < 2:
            assert running.wait(0.02) is None
        running.stop()
        outcome = present(running.wait(60))
    assert (outcome.state, len(outcome.workers)) == ("interrupted", 2)
    assert all(one.operations["read"].operations > 0 for one in outcome.workers)


def test_a_client_that_hears_nothing_from_the_head_program_stops_by_itself() -> None:
    client = LoadClient()
    task = Task(run="r", client=0, point="p", plan=lasting(None), positions=((0, 0),), lease_s=30)
    client.prepare(task.to_json().encode())
    messages = client.run(0)
    assert isinstance(records_of(next(messages))[0], StartedRecord)
    # From the start on it hears nothing.
    present(client._run).renew_lease(0.1)
    *_, end = [record for message in messages for record in records_of(message)]
    assert isinstance(end, EndRecord)
    assert end.outcome.state == "interrupted"
    client.forget()


def test_a_client_prepares_runs_and_ends() -> None:
    link = LocalLink("a")
    member = Member(link, Introduction.from_json(link.client.introduce()))
    client = GroupClient(member, parts(null_plan())[0])
    assert (client.phase, client.live().state) == (None, "running")
    silent = RunningClient(group=0, heard_s=1.0, is_silent=True, waits_for=2)
    client.phase = silent
    assert client.live().state == "silent"
    client.phase = silent.after_message(5.0)
    assert (client.phase, client.live().state) == (RunningClient(group=0, heard_s=5.0, waits_for=2), "running")
    client.lose("cut off")
    lost: object = client.phase
    assert lost == Ended("lost", "lost after 0 ns of measuring: cut off")
    assert (client.live().state, client.is_over, member.is_lost) == ("lost", True, True)


@pytest.mark.slow
def test_the_head_program_renews_the_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    # A tenth of the lease passes between two calls.
    monkeypatch.setattr(barrier, "LEASE_S_MIN", 10.0)
    monkeypatch.setattr(barrier, "LOST_S_MIN", 10.0)
    link = LocalLink("one")
    measured = grouped(lasting(None), [link], enough=lambda _live: link.calls["renew_lease"] >= 1)
    assert measured.outcome.state == "finished"


def test_an_embedded_volume_is_refused_for_clients_on_other_machines() -> None:
    with group_of([LocalLink("one")]) as group:
        assert group.are_here
        require_reachable(parse("volume:unlimited"), group)
        group._members[0].introduction = group._members[0].introduction.replace(boot="another")
        with pytest.raises(TargetError, match="listens on this machine only"):
            require_reachable(parse("volume:unlimited"), group)
        require_reachable(parse("nfs://10.0.0.4/vol"), group)


def test_jains_index_is_1_for_equal_shares_and_1_over_n_for_one_that_has_all() -> None:
    assert jain_index([5.0, 5.0, 5.0]) == pytest.approx(1)
    assert jain_index([9.0, 0.0, 0.0]) == pytest.approx(1 / 3)
    assert jain_index([0.0, 0.0]) is None


def test_a_result_with_clients_is_read_as_it_was_written(tmp_path: Path) -> None:
    point = grouped(replicated(null_plan(), 2))
    result = started().with_point(point).ended("finished")
    result.write(tmp_path / "result.json")
    again = Result.read(tmp_path / "result.json")
    assert again == result
    assert [client.name for client in again.points[0].clients] == ["one", "two"]
    [row] = shared(read(again))[0].table.rows
    assert (row[0], row[4]) == ("test", "2 of 2")
    assert {row[1].partition(":")[0], row[2].partition(":")[0]} == {"one", "two"}
    lost = point.clients[1].replace(state="lost", reason="lost")
    [row] = shared(read(result.replace(points=(point.replace(clients=(point.clients[0], lost)),))))[0].table.rows
    assert (row[1].partition(":")[0], row[4], row[7]) == ("one", "1 of 2", "1.000")
