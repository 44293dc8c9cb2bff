"""Writes a profile as XML, as DiskSpd prints it (-Rpxml, and at the head of its results); -X reads it again."""

from __future__ import annotations

from iocurve.dialects.diskspd.output.xml_lines import XmlLines
from iocurve.dialects.diskspd.read.options import ETW_EVENTS
from iocurve.dialects.diskspd.read.profile import Profile, Target, TimeSpan


def profile_xml(profile: Profile) -> str:
    """The ``<Profile>`` element."""
    xml = XmlLines()
    add_profile(xml, profile)
    return xml.text()


def add_profile(xml: XmlLines, profile: Profile) -> None:
    """Adds the ``<Profile>`` element."""
    with xml.element("Profile"):
        xml.values(
            Progress=profile.progress,
            ExperimentFlags=profile.experiment_flags or None,
            ResultFormat=profile.result_format,
            Verbose=profile.verbose,
            VerboseStats=profile.verbose_stats or None,
            PrecreateFiles=profile.precreate_files,
        )
        if profile.etw:
            with xml.element("ETW"):
                xml.values(**{name: profile.etw.get(name, False) for name in ETW_EVENTS.values()})
        with xml.element("TimeSpans"):
            for span in profile.time_spans:
                _add_time_span(xml, span)


def _add_time_span(xml: XmlLines, span: TimeSpan) -> None:
    with xml.element("TimeSpan"):
        xml.values(
            CompletionRoutines=span.completion_routines,
            MeasureLatency=span.measure_latency,
            CalculateIopsStdDev=span.measure_iops_deviation,
            DisableAffinity=span.affinity_disabled,
            Duration=span.duration_s,
            Warmup=span.warmup_s,
            Cooldown=span.cooldown_s,
            ThreadCount=span.threads,
            RequestCount=span.requests,
            IoBucketDuration=span.bucket_ms,
            RandSeed=span.seed,
            # DiskSpd itself omits -Zr from the profiles it prints, so running such a profile loses it.
            RandomWriteData=span.random_write_data or None,
        )
        if span.affinity:
            with xml.element("Affinity"):
                for group, processor in span.affinity:
                    xml.empty("AffinityGroupAssignment", Group=group, Processor=processor)
        with xml.element("Targets"):
            for target in span.targets:
                _add_target(xml, target)


def _add_target(xml: XmlLines, target: Target) -> None:
    with xml.element("Target"):
        xml.values(
            Path=target.path,
            BlockSize=target.block_bytes,
            BaseFileOffset=target.base_bytes,
            SequentialScan=target.sequential_hint,
            RandomAccess=target.random_hint,
            TemporaryFile=target.temporary_hint,
            UseLargePages=target.large_pages,
            DisableLocalCache=target.cache == "local_disabled" or None,
            DisableOSCache=target.cache == "disabled" or None,
            WriteThrough=target.write_through or None,
            MemoryMappedIo=target.memory_mapped or None,
            FlushType=target.flush,
        )
        _add_buffers(xml, target)
        xml.values(
            ParallelAsyncIO=target.parallel,
            BurstSize=target.burst,
            ThinkTime=target.think_ms,
            FileSize=target.create_bytes,
        )
        _add_order(xml, target)
        xml.values(
            ThreadStride=target.thread_stride_bytes,
            MaxFileSize=target.end_bytes,
            RequestCount=target.requests,
            WriteRatio=target.write_percent,
        )
        if target.iops:
            xml.value("Throughput", target.iops, unit="IOPS")
        else:
            xml.value("Throughput", target.bytes_per_ms)
        xml.values(ThreadsPerFile=target.threads, IOPriority=target.io_priority, Weight=target.weight)
        _add_threads(xml, target)


def _add_buffers(xml: XmlLines, target: Target) -> None:
    pattern = "zero" if target.zero_buffers else "random" if target.buffer_bytes else "sequential"
    with xml.element("WriteBufferContent"):
        xml.value("Pattern", pattern)
        if pattern == "random":
            with xml.element("RandomDataSource"):
                xml.values(SizeInBytes=target.buffer_bytes, FilePath=target.buffer_path or None)


def _add_order(xml: XmlLines, target: Target) -> None:
    if not target.random_percent:
        xml.values(StrideSize=target.step_bytes, InterlockedSequential=target.interlocked)
        return
    xml.values(Random=target.step_bytes, RandomRatio=target.random_percent if target.random_percent < 100 else None)
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
                xml.values(Thread=thread, Weight=weight or None)
