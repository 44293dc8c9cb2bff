"""A profile as XML, as DiskSpd prints it (-Rpxml, and at the head of its results); what -X reads again."""

from __future__ import annotations

from iocurve.dialects.diskspd.options import ETW_EVENTS
from iocurve.dialects.diskspd.profile import Profile, Target, TimeSpan
from iocurve.dialects.diskspd.xml_lines import XmlLines


def profile_xml(profile: Profile) -> str:
    """The ``<Profile>`` element."""
    xml = XmlLines()
    add_profile(xml, profile)
    return xml.text()


def add_profile(xml: XmlLines, profile: Profile) -> None:
    """Adds the ``<Profile>`` element."""
    with xml.element("Profile"):
        xml.value("Progress", profile.progress)
        if profile.experiment_flags:
            xml.value("ExperimentFlags", profile.experiment_flags)
        xml.value("ResultFormat", profile.result_format)
        xml.value("Verbose", profile.verbose)
        if profile.verbose_stats:
            xml.value("VerboseStats", True)
        if profile.precreate_files:
            xml.value("PrecreateFiles", profile.precreate_files)
        if profile.etw:
            with xml.element("ETW"):
                for name in ETW_EVENTS.values():
                    xml.value(name, profile.etw.get(name, False))
        with xml.element("TimeSpans"):
            for span in profile.time_spans:
                _add_time_span(xml, span)


def _add_time_span(xml: XmlLines, span: TimeSpan) -> None:
    with xml.element("TimeSpan"):
        xml.value("CompletionRoutines", span.completion_routines)
        xml.value("MeasureLatency", span.measure_latency)
        xml.value("CalculateIopsStdDev", span.measure_iops_deviation)
        xml.value("DisableAffinity", span.affinity_disabled)
        xml.value("Duration", span.duration_s)
        xml.value("Warmup", span.warmup_s)
        xml.value("Cooldown", span.cooldown_s)
        xml.value("ThreadCount", span.threads)
        xml.value("RequestCount", span.requests)
        xml.value("IoBucketDuration", span.bucket_ms)
        xml.value("RandSeed", span.seed)
        # DiskSpd itself leaves -Zr out of the profiles it prints, so that they lose it when they are run.
        if span.random_write_data:
            xml.value("RandomWriteData", True)
        if span.affinity:
            with xml.element("Affinity"):
                for group, processor in span.affinity:
                    xml.empty("AffinityGroupAssignment", Group=group, Processor=processor)
        with xml.element("Targets"):
            for target in span.targets:
                _add_target(xml, target)


def _add_target(xml: XmlLines, target: Target) -> None:
    with xml.element("Target"):
        xml.value("Path", target.path)
        xml.value("BlockSize", target.block_bytes)
        xml.value("BaseFileOffset", target.base_bytes)
        xml.value("SequentialScan", target.sequential_hint)
        xml.value("RandomAccess", target.random_hint)
        xml.value("TemporaryFile", target.temporary_hint)
        xml.value("UseLargePages", target.large_pages)
        _add_caching(xml, target)
        _add_buffers(xml, target)
        xml.value("ParallelAsyncIO", target.parallel)
        if target.burst is not None:
            xml.value("BurstSize", target.burst)
        if target.think_ms is not None:
            xml.value("ThinkTime", target.think_ms)
        if target.create_bytes is not None:
            xml.value("FileSize", target.create_bytes)
        _add_order(xml, target)
        xml.value("ThreadStride", target.thread_stride_bytes)
        xml.value("MaxFileSize", target.end_bytes)
        xml.value("RequestCount", target.requests)
        xml.value("WriteRatio", target.write_percent)
        if target.iops:
            xml.value("Throughput", target.iops, unit="IOPS")
        else:
            xml.value("Throughput", target.bytes_per_ms)
        xml.value("ThreadsPerFile", target.threads)
        xml.value("IOPriority", target.io_priority)
        xml.value("Weight", target.weight)
        _add_threads(xml, target)


def _add_caching(xml: XmlLines, target: Target) -> None:
    if target.cache != "cached":
        xml.value("DisableLocalCache" if target.cache == "local_disabled" else "DisableOSCache", True)
    if target.write_through:
        xml.value("WriteThrough", True)
    if target.memory_mapped:
        xml.value("MemoryMappedIo", True)
    if target.flush:
        xml.value("FlushType", target.flush)


def _add_buffers(xml: XmlLines, target: Target) -> None:
    with xml.element("WriteBufferContent"):
        if target.zero_buffers:
            xml.value("Pattern", "zero")
        elif not target.buffer_bytes:
            xml.value("Pattern", "sequential")
        else:
            xml.value("Pattern", "random")
            with xml.element("RandomDataSource"):
                xml.value("SizeInBytes", target.buffer_bytes)
                if target.buffer_path:
                    xml.value("FilePath", target.buffer_path)


def _add_order(xml: XmlLines, target: Target) -> None:
    if not target.random_percent:
        xml.value("StrideSize", target.step_bytes)
        xml.value("InterlockedSequential", target.interlocked)
        return
    xml.value("Random", target.step_bytes)
    if target.random_percent < 100:
        xml.value("RandomRatio", target.random_percent)
    if target.spans:
        with xml.element("Distribution"), xml.element(target.distribution):
            for span in target.spans:
                xml.value("Range", span.length, IO=span.io_percent)


def _add_threads(xml: XmlLines, target: Target) -> None:
    if not target.thread_weights:
        return
    with xml.element("ThreadTargets"):
        for thread, weight in target.thread_weights:
            with xml.element("ThreadTarget"):
                xml.value("Thread", thread)
                if weight:
                    xml.value("Weight", weight)
