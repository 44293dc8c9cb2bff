"""The engine, the histograms and the embedded volume, in Rust (``crates/py``)."""

from collections.abc import Sequence
from typing import Final, Self

from iocurve.engine.outcome import LogOutcome

VERSION: Final[str]
"""Version of this package."""

class Histogram:
    """A latency histogram in nanoseconds, three significant digits."""

    def __new__(cls) -> Self: ...
    @staticmethod
    def decode(text: str) -> Histogram:
        """Reads the ``histogram`` of an outcome. Raises ResultError."""

    def encode(self) -> str:
        """The inverse of ``decode``: HdrHistogram V2 with DEFLATE, base64."""

    def record(self, value_ns: int) -> None:
        """Records one value."""

    def add(self, other: Histogram) -> None:
        """Adds all values of another histogram."""

    def percentile(self, percent: float) -> int:
        """Smallest value that ``percent`` of all values do not exceed; 0 when empty."""

    def count_between(self, low_ns: int, high_ns: int) -> int:
        """Values from ``low_ns`` to ``high_ns``, both included, to bucket precision."""

    def buckets(self) -> list[tuple[int, int]]:
        """Non-empty buckets: lowest value and count."""

    @property
    def count(self) -> int: ...
    @property
    def min(self) -> int: ...
    @property
    def max(self) -> int: ...
    @property
    def mean(self) -> float: ...
    @property
    def stddev(self) -> float: ...

def operation_lines(
    log: LogOutcome, name: str, directions: Sequence[str], start_ns: int, epoch_ms: int, with_offsets: bool
) -> str:
    """Lines of fio's log ``name`` (bw, iops, lat, slat, clat), one for each operation whose kind is in ``directions``.

    Milliseconds count from ``start_ns``. Raises ValueError.
    """

class Run:
    """A run in its own threads."""

    def __new__(cls, plan: str) -> Self:
        """Starts a plan (JSON). Raises RunError."""

    @staticmethod
    def held(plan: str) -> Run:
        """Starts a plan (JSON) whose groups wait, prepared, for ``release``. Raises RunError."""

    def release(self, unix_ns: int) -> int:
        """Starts the group that waits at ``unix_ns`` (ns since 1970), or as soon as possible where that has passed.
        Returns its start."""

    def take_records(self) -> str:
        """The intervals that a held run has closed since the last call, as JSON (a list of ``IntervalRecord``)."""

    def renew_lease(self, seconds: float) -> None:
        """A held run stops by itself after ``seconds``, unless this is called again before."""

    def live(self) -> str:
        """The progress so far, as JSON (``Live``)."""

    def stop(self) -> None:
        """Requests a clean stop; the outcome keeps everything measured so far."""

    def finish(self) -> None:
        """Ends the load now, as if its time were over: operations in flight are waited for, and the run finishes."""

    def wait(self, seconds: float) -> str | None:
        """Waits up to ``seconds``. Returns the outcome as JSON, or None while the run goes on.

        After the end every call returns the same outcome. Raises TargetError or RunError if nothing could be measured.
        """

class Export:
    """The root of an NFS export, as a place for small files. Each call mounts the export; signals end it."""

    def __new__(cls, mount: str) -> Self:
        """An export by its mount (JSON of ``NfsMount``). Raises RunError."""

    def names(self, suffix: str) -> list[str]:
        """Names that end in ``suffix``. Raises TargetError."""

    def facts(self, names: list[str]) -> list[tuple[bool, int, int, int, str] | None]:
        """For each name: is it a regular file with one name, bytes, number, time of modification in ns, and owner.

        None for a name that does not exist. Raises TargetError.
        """

    def read(self, name: str, bytes_max: int) -> bytes:
        """The beginning of a file. Raises TargetError."""

    def write(self, name: str, data: bytes, new: bool) -> None:
        """Writes the beginning of a file in one step; ``new`` creates it. Raises TargetError, also where it exists."""

    def remove(self, names: list[str]) -> None:
        """Removes files; ignores missing ones. Raises TargetError."""

class Volume:
    """An embedded NFS volume in its own threads."""

    def __new__(cls, config: str) -> Self:
        """Starts serving (JSON of ``VolumeConfig``). Raises TargetError."""

    @property
    def port(self) -> int:
        """TCP port of the NFS and MOUNT programs."""

    def stats(self) -> str | None:
        """The counters since the start, as JSON (``VolumeStats``); None after the end."""

    def set_limits(self, export: str, limits: str) -> None:
        """Sets the limits of an export (by its path) to ``Limits`` (JSON). Raises TargetError."""

    def set_quota(self, export: str, quota_bytes: int) -> None:
        """Sets the quota of an export (by its path). Raises TargetError."""

    def stop(self) -> None:
        """Stops the volume cleanly; it closes all connections."""

def null_ceiling(seconds: float) -> float:
    """Measures the operations per second of one worker's loop without I/O."""

def check_plan(plan: str) -> None:
    """Raises ``RunError`` if the engine would refuse the plan, before it touches a file."""

def plan_as_read(plan: str) -> str:
    """Parses a plan as the engine does and encodes it again. Raises RunError."""
