"""The engine, the statistics and the embedded volume, in Rust (``crates/py``)."""

from typing import Final, Self

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
        """Adds all values of another."""

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

class Run:
    """A run that is under way in threads of its own."""

    def __new__(cls, plan: str) -> Self:
        """Starts a plan (JSON). Raises RunError."""

    def live(self) -> str:
        """What runs now, as JSON (``Live``)."""

    def stop(self) -> None:
        """Asks the run to end in order; what was measured is kept."""

    def wait(self, seconds: float) -> str | None:
        """Waits at most so long; the outcome as JSON, or None while it runs. After the end every call returns the same.

        Raises TargetError or RunError when nothing could be measured.
        """

class Volume:
    """An embedded NFS volume that serves in threads of its own."""

    def __new__(cls, config: str) -> Self:
        """Starts serving (JSON of ``VolumeConfig``). Raises TargetError."""

    @property
    def port(self) -> int:
        """TCP port of the NFS and MOUNT programs."""

    def stats(self) -> str | None:
        """What was served so far, as JSON; None after the end."""

    def set_limits(self, export: str, limits: str) -> None:
        """Limits an export (by its path) from now on (JSON of ``Limits`` in ``iocurve.volume``). Raises TargetError."""

    def set_quota(self, export: str, quota_bytes: int) -> None:
        """Sets the size of an export (by its path) from now on. Raises TargetError."""

    def stop(self) -> None:
        """Ends in order; clients see their connections closed."""

def null_ceiling(seconds: float) -> float:
    """Operations per second that the loop itself does on one core, without I/O."""

def plan_as_read(plan: str) -> str:
    """A plan as the engine reads it, written again. Raises RunError."""

def remove_files(plan: str) -> None:
    """Removes all files that a plan names; one that is gone already is fine. Raises TargetError."""
