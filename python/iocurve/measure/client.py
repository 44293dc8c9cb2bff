"""An agent: one machine that generates load, in this process or as an actor of a cluster.

Calls take and give bytes (JSON), so that any transport can carry them: ``prepare``, then ``run``, whose stream ends
with the outcome. ``clock``, ``progress``, ``release``, ``renew_lease`` and ``stop`` answer while these run.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import IO

import msgspec

from iocurve._native import VERSION, Run
from iocurve.engine.outcome import Outcome
from iocurve.foundation.errors import IocurveError, RunError
from iocurve.foundation.units import SECOND_NS
from iocurve.machine.files import boot_id, state_directory
from iocurve.machine.processes import children, run_ns
from iocurve.measure import spin
from iocurve.measure.local import Observer, run_to_the_end
from iocurve.measure.records import (
    INTERVALS,
    LIVE,
    TASKS,
    ClosedRecord,
    EndRecord,
    Introduction,
    ReadyRecord,
    Record,
    StartedRecord,
    Survey,
    Task,
)
from iocurve.result import host
from iocurve.result.document import IdleCost
from iocurve.targets.places import LocalPlace

POLL_S = 0.05
"""Time between two polls of the engine."""
ROOM_BYTES_MIN = 256 << 10
ROOM_BYTES_MAX = 64 << 20
INTERVAL_BYTES = 4096
"""Room for an interval in the local file."""
ALIVE_S = 1.0
"""A client that has nothing else to send says every so often that it is alive."""


class LoadClient:
    """Runs one plan after another on this machine.

    Every record goes into a local file before it is sent. The file is removed by ``forget``, once the coordinator has
    the outcome; the file of a client that was lost stays, for ``iocurve result merge``.
    """

    def __init__(self, clock_error_ns: int = 0, *, is_under_daemons: bool = False) -> None:
        """``clock_error_ns`` makes the client's clock wrong, for tests.

        With ``is_under_daemons`` the daemons of a cluster started this process, on the processors that are theirs.
        """
        self._clock_error_ns = clock_error_ns
        self._daemons = Daemons() if is_under_daemons else None
        self._run: Run | None = None
        self._task: Task | None = None
        self._observer: Observer | None = None
        self.journal: LocalFile | None = None
        """The local file of the run; None before the first."""

    def introduce(self) -> bytes:
        """The machine and its versions (``Introduction``)."""
        if self._daemons:
            self._daemons.leave_processors(threads=os.cpu_count() or 1)
        return msgspec.json.encode(Introduction(host=host.collect(), iocurve=VERSION, boot=boot_id()))

    def survey(self, path: str) -> bytes:
        """The state of a directory, and the network (``Survey``)."""
        place = Path(path)
        exists = bool(path) and place.is_dir()
        return msgspec.json.encode(
            Survey(
                exists=exists,
                mount=host.mount_of(place) if exists else None,
                free_bytes=shutil.disk_usage(place).free if exists else None,
                nic_mbit_per_s=_nic_mbit_per_s(),
            )
        )

    def idle_cost(self, name: str, seconds: float) -> bytes:
        """The cost of the daemons on this machine while no load runs (``IdleCost``; null where there are none)."""
        return msgspec.json.encode(self._daemons.idle_cost(name, seconds) if self._daemons else None)

    def clock(self) -> int:
        """The client's clock, ns since 1970."""
        return time.time_ns() + self._clock_error_ns

    def prepare(self, task: bytes) -> str:
        """Lays out files and opens connections; returns once the first group waits for its start.

        Returns the path of the local file, which has room for its records; nothing where there is none.
        Raises ``TargetError``, ``RunError``, and ``Interrupted`` after ``stop``.
        """
        self._abandon()
        self._task = TASKS.decode(task)
        if self._daemons:
            self._daemons.leave_processors(threads=max(len(group.workers) for group in self._task.plan.groups))
        self._observer = Observer(self._task.plan, run_to_the_end)
        self._run = Run.held(self._task.plan.to_json())
        self._run.renew_lease(self._task.lease_s)
        while True:
            if self._run.wait(POLL_S / 5) is not None:
                raise RunError("the run ended before its start")
            live = LIVE.decode(self._run.live())
            self._observer.update(live)
            if live.phase == "ready":
                break
        self.journal = LocalFile(self._task)
        return str(self.journal.path or "")

    def progress(self) -> bytes:
        """The state of the engine (``Live``)."""
        run = self._run
        return run.live().encode() if run else b"null"

    def run(self, start_ns: int) -> Iterator[bytes]:
        """Releases the first group at ``start_ns`` by the client's clock, and yields messages until the run has ended.

        A message is records, one a line; intervals wait for others, and an empty message says that the client is alive.
        Raises ``TargetError`` or ``RunError`` where nothing was measured.
        """
        assert self._task is not None, "prepare comes first"
        assert self.journal is not None
        try:
            with self.journal as journal:
                journal.add(msgspec.json.encode(self._task))
                waiting: list[bytes] = []
                sent = time.monotonic()
                for records in self._records(start_ns):
                    for record in records:
                        waiting.append(msgspec.json.encode(record))
                        journal.add(waiting[-1])
                    is_urgent = not all(isinstance(record, ClosedRecord) for record in records)
                    if is_urgent or time.monotonic() - sent >= (self._task.send_s if waiting else ALIVE_S):
                        sent = time.monotonic()
                        yield b"\n".join(waiting)
                        waiting.clear()
        except Exception:
            # No caller learns what the load measures from now on.
            self.stop()
            raise

    def release(self, group: int, start_ns: int) -> int:
        """Starts a further group at ``start_ns`` by the client's clock; returns its start, which may be later."""
        assert self._run is not None, "prepare comes first"
        del group  # The engine has one group that waits.
        return self._run.release(max(0, start_ns - self._clock_error_ns)) + self._clock_error_ns

    def renew_lease(self) -> None:
        """Tells the client that the coordinator is there."""
        if self._run and self._task:
            self._run.renew_lease(self._task.lease_s)

    def stop(self) -> None:
        """Stops the run cleanly; the stream ends with what was measured."""
        if self._run:
            self._run.stop()

    def finish(self) -> None:
        """Ends the load as if its time were over; the stream ends with an outcome that has finished."""
        if self._run:
            self._run.finish()

    def in_directory(
        self, directory: str, method: str, arguments: tuple[object, ...], options: Mapping[str, object]
    ) -> object:
        """Calls a method of a directory of this machine (``Place``). Raises ``TargetError``."""
        return getattr(LocalPlace(Path(directory)), method)(*arguments, **options)

    def forget(self) -> None:
        """Removes the local file, once its records have arrived."""
        if self.journal and self.journal.path:
            self.journal.path.unlink(missing_ok=True)

    def kept(self, run: str, client: int) -> bytes | None:
        """The local file of a client of an earlier run, if this machine has it."""
        for directory in _directories():
            with suppress(OSError):
                return (directory / _name(run, client)).read_bytes()
        return None

    def all_kept(self) -> list[bytes]:
        """The local files of all runs that have ended; one that an agent still writes is locked."""
        found = []
        for path in sorted(path for directory in _directories() for path in directory.glob("*.jsonl")):
            with suppress(OSError), path.open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                found.append(file.read())
        return [text for text in found if text]

    def forget_kept(self, run: str, client: int) -> None:
        """Removes that file, once its records are in the result."""
        for directory in _directories():
            with suppress(OSError):
                (directory / _name(run, client)).unlink(missing_ok=True)

    def _records(self, start_ns: int) -> Iterator[list[Record]]:
        """The new records, at each poll of the engine."""
        assert self._run is not None
        assert self._observer is not None
        group, outcome = 0, None
        yield [StartedRecord(group=group, start_ns=self.release(group, start_ns))]
        while outcome is None:
            outcome = self._run.wait(POLL_S)
            live = LIVE.decode(self._run.live())
            self._observer.update(live)
            records: list[Record] = [ClosedRecord(interval=one) for one in INTERVALS.decode(self._run.take_records())]
            if live.phase == "ready" and live.group > group:
                group = live.group
                records.append(ReadyRecord(group=group))
            yield records
        end = EndRecord(
            outcome=Outcome.from_json(outcome),
            layout=self._observer.layout,
            machine=self._observer.machine(),
            local_file_error=self.journal.error if self.journal else None,
        )
        yield [end]

    def _abandon(self) -> None:
        """Ends a run whose outcome no caller waits for."""
        if self._run is None:
            return
        self._run.stop()
        with suppress(IocurveError):
            while self._run.wait(POLL_S) is None:
                pass


def _nic_mbit_per_s() -> int | None:
    """Speed of the fastest network interface; virtual ones publish none, or -1."""
    speeds = []
    for file in Path("/sys/class/net").glob("*/speed"):
        try:
            speeds.append(int(file.read_text()))
        except (OSError, ValueError):
            continue
    return max((speed for speed in speeds if speed > 0), default=None)


def _directories() -> tuple[Path, Path]:
    """``~/.local/state/iocurve/clients``, and one below the temporary directory."""
    return state_directory() / "clients", Path(tempfile.gettempdir()) / f"iocurve-clients-{os.getuid()}"


def _name(run: str, client: int) -> str:
    return f"{run}-{client}.jsonl"


class LocalFile:
    """A client's records on its own machine: a backup, so a load goes on without it."""

    def __init__(self, task: Task) -> None:
        self.path: Path | None = None
        """None where no directory has room."""
        self.error: str | None = None
        """The first error; the file has no record after it."""
        self._file: IO[bytes] | None = None
        for directory in _directories():
            path = directory / _name(task.run, task.client)
            try:
                directory.mkdir(parents=True, exist_ok=True)
                _require_room(path, _bytes_expected(task))
            except OSError as error:
                self.error = self.error or f"{path}: {error.strerror}"
                path.unlink(missing_ok=True)
                continue
            self.path, self.error = path, None
            return

    def __enter__(self) -> LocalFile:
        if self.path:
            self._try(partial(self._open, self.path))
        return self

    def __exit__(self, *_: object) -> None:
        if self._file:
            self._try(self._file.close)

    def add(self, line: bytes) -> None:
        """Writes a line, unless an earlier one could not be written."""
        if self._file and self.error is None:
            self._try(partial(self._write, self._file, line))

    def _open(self, path: Path) -> None:
        self._file = path.open("wb")
        fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)

    @staticmethod
    def _write(file: IO[bytes], line: bytes) -> None:
        file.write(line + b"\n")
        file.flush()

    def _try(self, step: Callable[[], object]) -> None:
        try:
            step()
        except OSError as error:
            self.error = self.error or f"{self.path}: {error.strerror}"


def _bytes_expected(task: Task) -> int:
    """The size of the local file of a run, at most ``ROOM_BYTES_MAX``."""
    ends = [worker.end.runtime_ns for group in task.plan.groups for worker in group.workers]
    intervals = max((end or 0 for end in ends), default=0) // max(1, task.plan.interval_ns)
    return min(ROOM_BYTES_MAX, ROOM_BYTES_MIN + intervals * INTERVAL_BYTES)


def _require_room(path: Path, size: int) -> None:
    """Raises ``OSError`` unless that many bytes can be written."""
    with path.open("wb", buffering=0) as file:
        left = size
        while left > 0:
            left -= file.write(bytes(min(left, 1 << 20)))
        file.truncate(0)


class Daemons:
    """The process that started this one, and its other children that are no agents."""

    def __init__(self) -> None:
        self._parent = os.getppid()

    def free_processors(self) -> set[int]:
        """The processors of this machine that the daemons do not use."""
        _bind(range(os.cpu_count() or 1))
        return os.sched_getaffinity(0) - self._processors()

    def leave_processors(self, threads: int) -> None:
        """Lets this thread, and those it starts, use all processors, but those of the daemons only if they are needed.

        Threads inherit the processors of the thread that starts them; the daemons are bound to some.
        """
        free = self.free_processors()
        if len(free) >= threads:
            _bind(free)

    def idle_cost(self, name: str, seconds: float) -> IdleCost:
        """Measures what the daemons cost; ``name`` is that of the client."""
        free = self.free_processors() or os.sched_getaffinity(0)
        used_ns, started_ns = self._run_ns(), time.monotonic_ns()
        longest_ns, lost_ns = spin.gaps(seconds, max(free))
        elapsed_ns = time.monotonic_ns() - started_ns
        return IdleCost(
            client=name,
            seconds=elapsed_ns / SECOND_NS,
            daemon_share=(self._run_ns() - used_ns) / elapsed_ns,
            daemon_processors=tuple(sorted(self._processors())),
            longest_gap_ns=longest_ns,
            gap_share=lost_ns / (seconds * SECOND_NS),
        )

    def _processors(self) -> set[int]:
        return os.sched_getaffinity(self._parent)

    def _run_ns(self) -> int:
        """CPU time of the daemons."""
        siblings = [pid for pid, line in children(self._parent) if pid != os.getpid() and not line.startswith("ray::")]
        return sum(map(run_ns, (self._parent, *siblings)))


def _bind(processors: range | set[int]) -> None:
    os.sched_setaffinity(0, processors)
