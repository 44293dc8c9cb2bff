"""``result.json``: the one document that everything after a run reads.

It keeps the outcomes of all points as the engine handed them back, with what they were measured on.
What they add up to is computed (``iocurve.summary``) and never stored.
"""

from __future__ import annotations

import math
import os
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from iocurve.engine.outcome import Outcome, State, WorkerOutcome
from iocurve.engine.plan import Plan
from iocurve.errors import ResultError, TargetError
from iocurve.result.reference import Reference
from iocurve.result.stats import Estimate
from iocurve.result.summary import Latency, SeriesInterval, Summary, Totals, series, summarise
from iocurve.result.version import iocurve_version
from iocurve.structs import Struct
from iocurve.units import SECOND_NS

SCHEMA_VERSION = 2
RESULT_NAME = "result.json"
"""The name of a result in the directory of its report."""
Axis = int | float | str


class HostFacts(Struct):
    """The machine that made the load."""

    hostname: str
    cpu_model: str
    cpus: int
    """Processors this process may run on."""
    memory_bytes: int
    kernel: str
    distribution: str
    tcp_congestion_control: str | None
    """Kernel's default for new connections; it moves loopback figures by 5 to 25 %."""
    python: str


class MountFacts(Struct):
    """The mounted file system that a path is on."""

    device: str
    mount_point: str
    file_system: str
    options: str


class TargetFacts(Struct):
    """What was measured. Limits are those that are known; None where none is known or set."""

    kind: Literal["embedded_volume", "nfs", "directory", "file", "device", "emulated_disk", "null", "several"]
    """several: the plan's jobs go to different targets, which the plan lists."""
    address: str
    """URL or path."""
    service_level: str | None = None
    """standard, premium, ultra; of an emulated disk which it is, its cache and its virtual machine."""
    quota_bytes: int | None = None
    throughput_bytes_per_s: int | None = None
    """Limit of reads and writes together."""
    iops: int | None = None
    """Limit of reads and writes together."""
    latency_ns: int | None = None
    """Added to each operation by an embedded volume."""
    client_egress_bytes_per_s: int | None = None
    """What an embedded volume lets each client write; a client is an address."""
    store: str | None = None
    """What an embedded volume keeps data in."""
    mount: MountFacts | None = None


class Note(Struct):
    """Something a reader of the figures must know."""

    code: str
    """Stable, for programs: ``payload_discarded``."""
    text: str
    level: Literal["info", "warning"] = "warning"
    """A warning is about what the figures mean; the rest is worth knowing."""


class LayoutFacts(Struct):
    """What was written to make the files before the point ran."""

    bytes: int
    elapsed_ns: int


class ProcessorUse(Struct):
    """What one processor did while a point ran; the rest of the time it was idle."""

    processor: int
    user_share: float
    """Of the time, 0 to 1."""
    system_share: float
    """In the kernel, interrupts and what other guests of the host took included."""


class MachineUse(Struct):
    """How busy this machine was while a point ran, everything on it counted."""

    busy_share: float
    """Of all processors together, 0 to 1."""
    cpus: int
    processors: tuple[ProcessorUse, ...] = ()
    """Each by itself, where the system tells."""


CachePolicy = Literal["cached", "uncached", "warmed", "untouched"]
"""What is done so that caches play a part, or none: the same offsets again; fresh offsets, and something else read in
between; the cache filled first, until latency has levelled off; nothing, and nothing is compared."""


class Interval(Struct):
    """A figure with its bounds: those between which it lies with a confidence of 95 %, or what it was bracketed by."""

    value: float
    low: float | None
    """None where nothing tells how sure the figure is."""
    high: float | None
    kind: Literal["confidence", "bracket"] = "confidence"
    """bracket: the figure is ``low``, which held, and ``high`` did not."""

    @classmethod
    def of(cls, estimate: Estimate) -> Interval:
        """Of an estimate."""
        is_known = math.isfinite(estimate.half_width)
        bounds = (estimate.low, estimate.high) if is_known else (None, None)
        return cls(value=estimate.mean, low=bounds[0], high=bounds[1])

    @property
    def bounds_text(self) -> str:
        """``95 %: 114 to 118``; empty where the bounds are not known."""
        if self.low is None or self.high is None:
            return ""
        if self.kind == "bracket":
            return f"{self.high:,.6g} did not hold"
        return f"95 %: {self.low:,.6g} to {self.high:,.6g}"


class CacheFacts(Struct):
    """What was done about caches before a point, and whether its figures look cached, whatever was asked."""

    policy: CachePolicy
    preparation: str = ""
    """What was done before, in words."""
    repeated_iops: Interval | None = None
    """The point's offsets once more."""
    fresh_iops: Interval | None = None
    """The same load at offsets that were not used before."""
    gain: Interval | None = None
    """Repeated to fresh, less one: 0.17 is 17 % more. None where it was not compared."""
    verdict: Literal["cached", "uncached", "unclear", "not_checked"] = "not_checked"


class FamilyFacts(Struct):
    """What a scenario says of a family of points."""

    name: str
    title: str
    cache: CachePolicy


class Comparison(Struct):
    """Families of points that are set side by side."""

    title: str
    families: tuple[str, ...]
    """The first is what the others are compared with."""


class ScenarioFacts(Struct):
    """The scenario that was carried out, and in which form."""

    name: str
    title: str
    why: str
    form: Literal["full", "short", "scaled"]
    shortened: tuple[str, ...] = ()
    """What was made smaller or left out against the full form: ``data set 256 MiB instead of 1 TiB``."""
    targets: dict[str, TargetFacts]
    """By the scenario's names for them."""
    families: tuple[FamilyFacts, ...]
    comparisons: tuple[Comparison, ...] = ()
    tag: str
    """Part of the names of its files."""


class Finding(Struct):
    """A figure that a search has found."""

    name: str
    """``knee``, ``capacity``, ``unloaded latency``."""
    unit: str
    """``in flight``, ``IOPS``, ``µs``; empty of a pure number."""
    figure: Interval


class SearchFacts(Struct):
    """What a search was for, and what it found."""

    question: str
    workload: str
    findings: tuple[Finding, ...]
    """The first is the answer."""
    stopped: str
    """Why it ended."""
    remarks: tuple[str, ...] = ()
    """What else a reader must know: where a law does not fit, what is a lower bound only."""


class Point(Struct, dict=True):
    """One measurement: a plan and what came of it."""

    name: str
    family: str
    """Points of one family differ in their axes only and share a chart: ``random-4k-mix``, ``depth``."""
    axes: dict[str, Axis]
    """``read_percent``, ``block_bytes``, ``depth``, ``nconnect``, ``order``."""
    plan: Plan
    outcome: Outcome
    layout: LayoutFacts | None = None
    machine: MachineUse | None = None
    cache: CacheFacts | None = None
    target: str | None = None
    """Which of the scenario's targets is loaded; None of several, and without a scenario."""

    def summary(self) -> Summary:
        """All workers as one."""
        return self._summary

    @cached_property
    def _summary(self) -> Summary:
        return summarise(self.name, self.plan, self.outcome.workers)

    def report_groups(self) -> list[Summary]:
        """Workers with the same report group as one, in plan order (fio's lines of output)."""
        members: dict[int, list[WorkerOutcome]] = {}
        for worker in self.outcome.workers:
            members.setdefault(worker.report_group, []).append(worker)
        return [_report_group(self.plan, group) for group in members.values()]

    def series(self) -> list[SeriesInterval]:
        """The course over time, workers merged."""
        return series(self.outcome.workers)


class Result(Struct):
    """``result.json``."""

    schema_version: Literal[2] = 2
    iocurve: str
    """Version that measured."""
    kind: str
    """What was run: ``envelope``, ``fio``."""
    name: str
    created: Annotated[datetime, Meta(tz=True)]
    state: State
    incomplete_reason: str | None
    """Why points are missing or cut short; None when finished."""
    host: HostFacts
    target: TargetFacts
    null_ceiling_operations_per_s: float | None
    """What one worker's loop does on this machine without I/O: no figure of one worker can be above it."""
    notes: tuple[Note, ...]
    points: tuple[Point, ...]
    scenario: ScenarioFacts | None = None
    search: SearchFacts | None = None
    references: tuple[Reference, ...] = ()
    """Published figures to be set beside the points; a copy, as they were when this was measured."""

    @classmethod
    def start(cls, kind: str, name: str, host: HostFacts, target: TargetFacts, null_ceiling: float | None) -> Result:
        """A result without points, of this moment; interrupted until it is said to be finished."""
        return cls(
            iocurve=iocurve_version(),
            kind=kind,
            name=name,
            created=datetime.now(UTC).replace(microsecond=0),
            state="interrupted",
            incomplete_reason="the run has not ended yet",
            host=host,
            target=target,
            null_ceiling_operations_per_s=null_ceiling,
            notes=(),
            points=(),
        )

    def with_point(self, point: Point) -> Result:
        """With one point more."""
        return self.replace(points=(*self.points, point))

    def with_note(self, code: str, text: str, level: Literal["info", "warning"] = "warning") -> Result:
        """With one note more; the same note is kept once."""
        note = Note(code=code, text=text, level=level)
        return self if note in self.notes else self.replace(notes=(*self.notes, note))

    def ended(self, state: State, reason: str | None = None) -> Result:
        """As it ended: ``reason`` says why points are missing or cut short."""
        return self.replace(state=state, incomplete_reason=reason)

    def target_of(self, point: Point) -> TargetFacts:
        """What a point loads."""
        return self.scenario.targets[point.target] if self.scenario and point.target else self.target

    @classmethod
    def read(cls, path: Path | str) -> Result:
        """Reads ``result.json``. Raises ``ResultError``."""
        import json

        text = _read_text(Path(path))
        try:
            document = json.loads(text)
        except ValueError as error:
            raise ResultError(f"{path} is not JSON ({error}); was it cut short?") from None
        _check_version(path, document)
        try:
            return cls.from_json(text)
        except ValueError as error:
            raise ResultError(f"{path} is not a result of iocurve: {error}") from None

    def write(self, path: Path | str) -> None:
        """Writes ``result.json`` in one step. Raises ``ResultError``."""
        write_in_one_step(Path(path), self.document())

    def document(self) -> bytes:
        """The text of ``result.json``."""
        return msgspec.json.format(msgspec.json.encode(self), indent=1) + b"\n"

    def to_records(self) -> list[dict[str, Axis | None]]:
        """One flat record per point, all with the same keys; units are in the names."""
        records = [_record(point) for point in self.points]
        keys = list(dict.fromkeys(key for record in records for key in record))
        return [{key: record.get(key) for key in keys} for record in records]


def _report_group(plan: Plan, workers: list[WorkerOutcome]) -> Summary:
    return summarise(", ".join(dict.fromkeys(worker.job for worker in workers)), plan, workers)


def _record(point: Point) -> dict[str, Axis | None]:
    summary = point.summary()
    return {
        "name": point.name,
        "family": point.family,
        **point.axes,
        "state": summary.state,
        "workers": summary.workers,
        "window_s": summary.window_ns / SECOND_NS,
        "skew_s": summary.skew_ns / SECOND_NS,
        **_totals_record("", summary),
        "depth_requested": summary.depth_requested,
        "concurrency_achieved": summary.concurrency_achieved,
        "cpu_us_per_operation": summary.cpu_us_per_operation,
        "reconnects": summary.reconnects,
        "labels": " ".join(summary.labels),
        **{
            key: value
            for kind, totals in summary.kinds.items()
            for key, value in _totals_record(f"{kind}_", totals).items()
        },
    }


def _totals_record(prefix: str, totals: Totals) -> dict[str, Axis | None]:
    latencies = {"": totals.service} | ({"response_": totals.response} if totals.response else {})
    return {
        f"{prefix}operations": totals.operations,
        f"{prefix}bytes": totals.bytes,
        f"{prefix}errors": totals.errors,
        f"{prefix}short": totals.short,
        f"{prefix}iops": totals.iops,
        f"{prefix}mib_per_s": totals.mib_per_s,
        **{
            f"{prefix}{which}latency_ns_{key}": value
            for which, latency in latencies.items()
            for key, value in _latency_record(latency).items()
        },
    }


def _latency_record(latency: Latency) -> dict[str, Axis | None]:
    percentiles: dict[str, Axis | None] = {
        f"p{percent:g}".replace(".", "_"): value for percent, value in latency.percentiles.items()
    }
    return {"min": latency.min_ns, "mean": latency.mean_ns, "max": latency.max_ns} | percentiles


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ResultError(f"{path} is not a result of iocurve: it is not text") from None
    except OSError as error:
        raise ResultError(f"{path} cannot be read: {error.strerror}") from None


def _check_version(path: Path | str, document: Any) -> None:
    """Before the details, so that a newer document is called newer and not faulty."""
    found = document.get("schema_version") if isinstance(document, dict) else None
    if found is None:
        raise ResultError(f"{path} is not a result of iocurve: it has no schema_version")
    if found != SCHEMA_VERSION:
        hint = "read it with a newer iocurve" if isinstance(found, int) and found > SCHEMA_VERSION else "measure again"
        raise ResultError(f"{path} has schema_version {found}, this iocurve reads {SCHEMA_VERSION}; {hint}")


def make_writable(directory: Path) -> None:
    """Makes the directory of a report before anything is measured. Raises ``TargetError`` if nothing can be written."""
    import tempfile

    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):
            pass
    except OSError as error:
        raise TargetError(f"--out {directory}: {error.strerror}; name a directory that can be written to") from None


def write_in_one_step(path: Path, content: bytes) -> None:
    """Writes a file such that readers see the old one or the new one, never half of one. Raises ``ResultError``."""
    try:
        _replace(path, content)
    except OSError as error:
        raise ResultError(f"{path} cannot be written: {error.strerror}") from None


def _replace(path: Path, content: bytes) -> None:
    """A temporary file beside the target, renamed over it once it is on disk."""
    import tempfile

    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(file.fileno(), 0o666 & ~_umask())
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _umask() -> int:
    """The process's file mode mask, which mkstemp passes over; it can only be read by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
