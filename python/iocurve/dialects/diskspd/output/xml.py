"""Writes results as DiskSpd's XML (-Rxml)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from iocurve._native import VERSION
from iocurve.dialects.diskspd.output import text as texts
from iocurve.dialects.diskspd.read.profile import Profile, TimeSpan
from iocurve.dialects.diskspd.read.profile_xml import add_profile
from iocurve.dialects.diskspd.read.xml_text import XmlLines
from iocurve.engine.outcome import IntervalKind, WorkerOutcome
from iocurve.foundation.units import MILLISECOND_NS
from iocurve.machine.processes import Topology
from iocurve.result.course import work
from iocurve.result.document import MachineUse
from iocurve.result.summary import Latency, MergedOperations

PERCENTILES = (
    *(str(percent) for percent in range(1, 100)),
    *("99.9", "99.99", "99.999", "99.9999", "99.99999", "99.999999", "99.9999999"),
)
_COLUMNS = {"Read": texts.READS, "Write": texts.WRITES, "Total": texts.BOTH}


def results_xml(
    profile: Profile,
    system: Topology,
    start: datetime,
    measured: Sequence[texts.Measured],
    incomplete: str | None = None,
) -> str:
    """The complete output: system, profile and each time span; a comment at its end says why it is ``incomplete``."""
    xml = XmlLines()
    with xml.element("Results"):
        _add_system(xml, system, start)
        add_profile(xml, profile)
        for span, (stats, machine) in zip(profile.time_spans, measured, strict=False):
            with xml.element("TimeSpan"):
                if stats.seconds:
                    _add_time_span(xml, span, stats, machine, system)
                    _add_threads(xml, span, stats)
                else:
                    xml.value("Error", texts.NOT_BEGUN)
    # A comment must not have two hyphens.
    return xml.text() + (f"<!-- incomplete: {incomplete.replace('--', '- -')} -->\n" if incomplete else "")


def _add_system(xml: XmlLines, system: Topology, start: datetime) -> None:
    numbers = [processor.number for processor in system.processors]
    with xml.element("System"):
        xml.value("ComputerName", system.name)
        with xml.element("Tool"):
            xml.value("Version", f"iocurve {VERSION}")
            xml.value("VersionDate", "")
        xml.value("RunTime", f"{start:%Y/%m/%d %H:%M:%S} UTC")
        xml.empty("PowerScheme", Name=system.power_scheme, Guid="")
        with xml.element("ProcessorTopology", Heterogeneous=False):
            active = {"MaximumProcessors": len(numbers), "ActiveProcessors": len(numbers)}
            xml.empty("Group", Group=0, **active, ActiveProcessorMask=_mask(numbers))
            _add_topology(xml, system)


def _add_topology(xml: XmlLines, system: Topology) -> None:
    places: dict[str, dict[int, list[int]]] = {"Node": {}, "Socket": {}, "Core": {}}
    for processor in system.processors:
        for name, numbers in places.items():
            numbers.setdefault(getattr(processor, name.lower()), []).append(processor.number)
    for name in ("Node", "Socket"):
        for number, processors in places[name].items():
            with xml.element(name, **{name: number}):
                xml.empty("Group", Group=0, Mask=_mask(processors))
    for core, processors in places["Core"].items():
        xml.empty("Core", Group=0, Core=core, Mask=_mask(processors), EfficiencyClass=0)


def _mask(numbers: Sequence[int]) -> str:
    return f"0x{sum(1 << number for number in numbers):x}"


def _add_time_span(
    xml: XmlLines, span: TimeSpan, stats: texts.SpanStats, machine: MachineUse | None, system: Topology
) -> None:
    xml.values(
        TestTimeSeconds=f"{stats.seconds:.2f}",
        ThreadCount=len(stats.threads),
        RequestCount=span.requests,
        ProcCount=len(system.processors),
    )
    _add_processors(xml, machine, system)
    if span.measure_latency:
        _add_latencies(xml, stats)
    if span.measure_iops_deviation:
        _add_iops(xml, span, stats.workers())


def _add_processors(xml: XmlLines, machine: MachineUse | None, system: Topology) -> None:
    by_number = {processor.number: processor for processor in system.processors}
    uses = () if machine is None else machine.processors
    with xml.element("CpuUtilization"):
        for use in uses:
            processor = by_number.get(use.processor)
            with xml.element("CPU"):
                xml.values(
                    Socket=processor.socket if processor else 0,
                    Node=processor.node if processor else 0,
                    Group=0,
                    Core=processor.core if processor else 0,
                    EfficiencyClass=0,
                    Id=use.processor,
                )
                _add_shares(xml, use.user_share, use.system_share)
        count = len(uses) or 1
        with xml.element("Average"):
            _add_shares(xml, sum(use.user_share for use in uses) / count, sum(use.system_share for use in uses) / count)


def _add_shares(xml: XmlLines, user: float, system: float) -> None:
    xml.values(
        UsagePercent=f"{100 * (user + system):.2f}",
        UserPercent=f"{100 * user:.2f}",
        KernelPercent=f"{100 * system:.2f}",
        IdlePercent=f"{100 * (1 - user - system):.2f}",
    )


def _add_latencies(xml: XmlLines, stats: texts.SpanStats) -> None:
    workers = stats.workers()
    latencies = {name: MergedOperations(workers, kinds).service for name, kinds in _COLUMNS.items()}
    with xml.element("Latency", **{f"{name}HistoBuckets": _buckets(latency) for name, latency in latencies.items()}):
        for name, deviation in (
            ("Read", "ReadLatencyStdev"),
            ("Write", "WriteLatencyStdev"),
            ("Total", "LatencyStdev"),
        ):
            if latencies[name].count:
                xml.value(f"Average{name}Milliseconds", _ms(latencies[name].mean_ns))
                xml.value(deviation, _ms(latencies[name].stddev_ns))
        _add_percentile(xml, "0", {name: latency.min_ns for name, latency in latencies.items()}, latencies)
        for percent in PERCENTILES:
            values = {name: latency.percentile(float(percent)) for name, latency in latencies.items()}
            _add_percentile(xml, percent, values, latencies)
        _add_percentile(xml, "100", {name: latency.max_ns for name, latency in latencies.items()}, latencies)


def _add_percentile(xml: XmlLines, percent: str, values: dict[str, float], latencies: dict[str, Latency]) -> None:
    with xml.element("Bucket"):
        xml.value("Percentile", percent)
        for name, value in values.items():
            if latencies[name].count:
                xml.value(f"{name}Milliseconds", _ms(value))


def _buckets(latency: Latency) -> int:
    return 0 if latency.histogram is None else len(latency.histogram.buckets())


def _add_iops(xml: XmlLines, span: TimeSpan, workers: Sequence[WorkerOutcome]) -> None:
    with xml.element("Iops"):
        for name, kinds in (("Read", texts.READS), ("Write", texts.WRITES), ("", texts.BOTH)):
            xml.value(f"{name}IopsStdDev", f"{texts.iops_deviation(MergedOperations(workers, kinds)):.3f}")
        for number, bucket in enumerate(texts.buckets(workers), start=1):
            xml.empty(
                "Bucket",
                SampleMillisecond=number * span.bucket_ms,
                **{name: f"{texts.iops(bucket, kinds):.0f}" for name, kinds in _COLUMNS.items()},
                **_latency_attributes("Read", work(bucket, texts.READS)),
                **_latency_attributes("Write", work(bucket, texts.WRITES)),
            )


def _latency_attributes(name: str, done: IntervalKind) -> dict[str, str]:
    return {
        f"{name}MinLatencyMilliseconds": _ms(done.min_ns),
        f"{name}MaxLatencyMilliseconds": _ms(done.max_ns),
        f"{name}AvgLatencyMilliseconds": _ms(done.mean_ns),
        f"{name}LatencyStdDev": _ms(done.stddev_ns),
    }


def _add_threads(xml: XmlLines, span: TimeSpan, stats: texts.SpanStats) -> None:
    for thread, targets in enumerate(stats.threads):
        with xml.element("Thread"):
            xml.value("Id", thread)
            for target in targets:
                with xml.element("Target"):
                    _add_target(xml, target)
                    if span.measure_latency:
                        _add_target_latency(xml, target)
                    if span.measure_iops_deviation:
                        _add_iops(xml, span, target.workers)


def _add_target(xml: XmlLines, target: texts.TargetStats) -> None:
    reads, writes, both = (target.view(kinds) for kinds in (texts.READS, texts.WRITES, texts.BOTH))
    xml.values(
        Path=target.row.path,
        BytesCount=both.bytes,
        FileSize=target.row.bytes,
        IOCount=both.operations,
        ReadBytes=reads.bytes,
        ReadCount=reads.operations,
        WriteBytes=writes.bytes,
        WriteCount=writes.operations,
    )
    if not target.row.zones:
        return
    with xml.element("Distribution"), xml.element("Absolute"):
        next_offset = 0
        for zone in target.row.zones:
            if zone.start != next_offset:
                xml.value("Range", zone.start - next_offset, IO=0)
            xml.value("Range", zone.length, IO=zone.io_percent)
            next_offset = zone.end


def _add_target_latency(xml: XmlLines, target: texts.TargetStats) -> None:
    for name, kinds in (("Read", texts.READS), ("Write", texts.WRITES), ("", texts.BOTH)):
        latency = target.view(kinds).service
        if latency.count:
            xml.value(f"Average{name}LatencyMilliseconds", _ms(latency.mean_ns))
            xml.value(f"{name}LatencyStdev", _ms(latency.stddev_ns))


def _ms(nanoseconds: float) -> str:
    return f"{nanoseconds / MILLISECOND_NS:.3f}"
