"""Reads an XML profile (-X) by DiskSpd's schema into a ``Profile``, and collects every error with its position."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from iocurve.dialects.diskspd.read import xml_tree
from iocurve.dialects.diskspd.read.options import ETW_EVENTS
from iocurve.dialects.diskspd.read.profile import TEMPLATE_PREFIX, Profile, Span, Target, TimeSpan
from iocurve.dialects.diskspd.read.values import U32_MAX, U64_MAX
from iocurve.dialects.diskspd.read.xml_tree import Node, XmlError
from iocurve.errors import Diagnostic, nearest
from iocurve.job.model import PlanNote

_UNSIGNED = re.compile(r"\+?\d{1,40}", re.ASCII)
_TEMPLATE = re.compile(r"[1-9]\d{0,8}", re.ASCII)


@dataclass
class ParsedProfile:
    """A profile with its errors and notes."""

    profile: Profile
    errors: list[Diagnostic] = field(default_factory=list)
    notes: list[PlanNote] = field(default_factory=list)


def read_profile(path: Path, replacements: Sequence[str]) -> ParsedProfile:
    """Reads a profile; ``replacements`` replace the template paths ``*1``, ``*2``, …"""
    reader = _Reader(replacements)
    try:
        root = xml_tree.read(path)
    except XmlError as error:
        reader.parsed.errors.append(error.diagnostic)
        return reader.parsed
    reader.read(root)
    return reader.parsed


Convert = Callable[["_Reader", Node], Any]
"""Reads the value of an element. Raises ``ValueError`` with the message for the user."""


def _text(_reader: _Reader, node: Node) -> str:
    return node.text


def _integer(largest: int, smallest: int = 0) -> Convert:
    def convert(_reader: _Reader, node: Node) -> int:
        return _number(node.text, largest, smallest)

    return convert


def _boolean(reader: _Reader, node: Node) -> bool:
    word = node.text.strip()
    if word not in ("true", "false", "1", "0"):
        raise ValueError(f"'{word}' is not true or false")
    if word == "1":
        text = (
            f"<{node.name}>1</{node.name}>: the schema allows it, but DiskSpd reads everything except 'true' as false"
        )
        reader.parsed.notes.append(PlanNote("boolean_digit", text, node.where, "warning"))
    return word == "true"


def _word(*words: str) -> Convert:
    def convert(_reader: _Reader, node: Node) -> str:
        if node.text not in words:
            raise ValueError(f"'{node.text}' is not one of {', '.join(words)}")
        return node.text

    return convert


def _number(text: str, largest: int, smallest: int = 0) -> int:
    word = text.strip()
    if not _UNSIGNED.fullmatch(word) or not smallest <= int(word) <= largest:
        raise ValueError(f"'{word}' is not a whole number from {smallest} to {largest}")
    return int(word)


def _priority(_reader: _Reader, node: Node) -> int:
    """Reads an I/O priority; 0 means not set, as in the schema."""
    return _number(node.text, 3) or 3


_U32, _U64 = _integer(U32_MAX), _integer(U64_MAX)

_PROFILE: dict[str, tuple[str, Convert]] = {
    "Verbose": ("verbose", _boolean),
    "VerboseStats": ("verbose_stats", _boolean),
    "Progress": ("progress", _U32),
    "ExperimentFlags": ("experiment_flags", _U32),
    "ResultFormat": ("result_format", _word("text", "xml")),
    "PrecreateFiles": (
        "precreate_files",
        _word("UseMaxSize", "CreateOnlyFilesWithConstantSizes", "CreateOnlyFilesWithConstantOrZeroSizes"),
    ),
}
_TIME_SPAN: dict[str, tuple[str, Convert]] = {
    "Duration": ("duration_s", _U32),
    "Warmup": ("warmup_s", _U32),
    "Cooldown": ("cooldown_s", _U32),
    "RandSeed": ("seed", _U32),
    "RandomWriteData": ("random_write_data", _boolean),
    "ThreadCount": ("threads", _U32),
    "RequestCount": ("requests", _U32),
    "DisableAffinity": ("affinity_disabled", _boolean),
    "CompletionRoutines": ("completion_routines", _boolean),
    "MeasureLatency": ("measure_latency", _boolean),
    "CalculateIopsStdDev": ("measure_iops_deviation", _boolean),
    "IoBucketDuration": ("bucket_ms", _integer(U32_MAX, 1)),
}
_TARGET: dict[str, tuple[str, Convert]] = {
    "Path": ("path", _text),
    "BlockSize": ("block_bytes", _integer(U32_MAX - 1, 1)),
    "InterlockedSequential": ("interlocked", _boolean),
    "BaseFileOffset": ("base_bytes", _U64),
    "SequentialScan": ("sequential_hint", _boolean),
    "RandomAccess": ("random_hint", _boolean),
    "TemporaryFile": ("temporary_hint", _boolean),
    "UseLargePages": ("large_pages", _boolean),
    "RequestCount": ("requests", _integer(U32_MAX, 1)),
    "StrideSize": ("alignment_bytes", _U64),
    "Random": ("alignment_bytes", _U64),
    "RandomRatio": ("random_percent", _integer(99, 1)),
    "WriteThrough": ("write_through", _boolean),
    "MemoryMappedIo": ("memory_mapped", _boolean),
    "FlushType": ("flush", _word("ViewOfFile", "NonVolatileMemory", "NonVolatileMemoryNoDrain")),
    "BurstSize": ("burst", _U32),
    "ThinkTime": ("think_ms", _U32),
    "ThreadsPerFile": ("threads", _integer(U32_MAX, 1)),
    "FileSize": ("create_bytes", _U64),
    "MaxFileSize": ("end_bytes", _U64),
    "WriteRatio": ("write_percent", _integer(100)),
    "ParallelAsyncIO": ("parallel", _boolean),
    "ThreadStride": ("thread_stride_bytes", _U64),
    "IOPriority": ("io_priority", _priority),
    "Weight": ("weight", _U32),
}
_CACHE_SWITCHES = ("DisableOSCache", "DisableAllCache", "DisableLocalCache")


class _Reader:
    def __init__(self, replacements: Sequence[str]) -> None:
        self.parsed = ParsedProfile(Profile())
        self._replacements = list(replacements)
        self._replaced: set[int] = set()

    def read(self, root: Node) -> None:
        if root.name != "Profile":
            hint = "save its <Profile> element as a file of its own" if root.name == "Results" else None
            self._error(root, f"this is not a profile: its root is <{root.name}>, not <Profile>", hint)
            return
        profile = self.parsed.profile
        self._check_children(root, {*_PROFILE, "TimeSpans", "ETW"}, ("TimeSpans",))
        self._fields(root, _PROFILE, profile)
        self._etw(root.child("ETW"), profile)
        spans = self._repeated(root.child("TimeSpans"), "TimeSpan")
        profile.time_spans = [self._time_span(node) for node in spans]
        for number, path in enumerate(self._replacements, start=1):
            if number not in self._replaced:
                text = f"{path}: the profile has no template {TEMPLATE_PREFIX}{number} to replace"
                self.parsed.errors.append(Diagnostic(text, root.where))

    # -- parts ---------------------------------------------------------------------------------------------------------

    def _etw(self, node: Node | None, profile: Profile) -> None:
        if node is None:
            return
        self._check_children(node, set(ETW_EVENTS.values()), ())
        for child in node.children:
            value = self._convert(_boolean, child)
            if value is not None:
                profile.etw[child.name] = value
        text = "event tracing (ETW) exists only on Windows: nothing is traced"
        self.parsed.notes.append(PlanNote("windows_only", text, node.where, "warning"))

    def _time_span(self, node: Node) -> TimeSpan:
        span = TimeSpan()
        self._check_children(node, {*_TIME_SPAN, "Targets", "GroupAffinity", "Affinity"}, ("Targets",))
        self._fields(node, _TIME_SPAN, span)
        self._group_affinity(node.child("GroupAffinity"))
        self._affinity(node.child("Affinity"), span)
        span.targets = [self._target(child) for child in self._repeated(node.child("Targets"), "Target")]
        span.positions["time_span"] = node.where
        return span

    def _group_affinity(self, node: Node | None) -> None:
        if node is not None and self._convert(_boolean, node) is not None:
            text = "<GroupAffinity> has no effect, as in DiskSpd: on Linux all processors are in one group"
            self.parsed.notes.append(PlanNote("no_effect", text, node.where))

    def _affinity(self, node: Node | None, span: TimeSpan) -> None:
        if node is None:
            return
        pairs = []
        for child in node.children:
            try:
                if child.name == "AffinityAssignment":
                    pairs.append((0, _number(child.text, 255)))
                elif child.name == "AffinityGroupAssignment":
                    group = _number(child.attributes.get("Group", "0"), 2**16 - 1)
                    pairs.append((group, _number(child.attributes.get("Processor", "0"), 255)))
                else:
                    self._unknown(child, ("AffinityAssignment", "AffinityGroupAssignment"))
            except ValueError as error:
                self._error(child, str(error))
        span.affinity = tuple(pairs)
        span.positions["affinity"] = node.where

    def _target(self, node: Node) -> Target:
        target = Target()
        special = {*_CACHE_SWITCHES, "Distribution", "WriteBufferContent", "Throughput", "ThreadTargets"}
        self._check_children(node, {*_TARGET, *special}, ("Path",))
        self._fields(node, _TARGET, target)
        self._order(node, target)
        self._cache(node, target)
        self._buffers(node.child("WriteBufferContent"), target)
        self._throughput(node.child("Throughput"), target)
        self._distribution(node.child("Distribution"), target)
        target.thread_weights = tuple(
            map(self._thread_target, self._repeated(node.child("ThreadTargets"), "ThreadTarget"))
        )
        target.positions |= {child.name: child.where for child in node.children if child.name in special}
        target.positions["target"] = node.where
        self._replace_template(node, target)
        return target

    def _order(self, node: Node, target: Target) -> None:
        random, sequential = node.child("Random"), node.child("StrideSize")
        if random is not None and target.random_percent == 0:
            target.random_percent = 100
        if sequential is not None:
            for other in (random, node.child("RandomRatio")):
                if other is not None:
                    self._error(other, f"<{other.name}> conflicts with the sequential <StrideSize>", "keep one of them")

    def _cache(self, node: Node, target: Target) -> None:
        for name in _CACHE_SWITCHES:
            child = node.child(name)
            if child is not None and self._convert(_boolean, child):
                target.cache = "local_disabled" if name == "DisableLocalCache" else "disabled"
                target.positions["cache"] = child.where
                if name == "DisableAllCache":
                    target.write_through = True

    def _buffers(self, node: Node | None, target: Target) -> None:
        if node is None:
            return
        self._check_children(node, {"Pattern", "RandomDataSource"}, ("Pattern",))
        pattern = node.child("Pattern")
        kind = None if pattern is None else self._convert(_word("sequential", "zero", "random"), pattern)
        target.zero_buffers = kind == "zero"
        source = node.child("RandomDataSource")
        if kind != "random" or source is None:
            return
        self._check_children(source, {"SizeInBytes", "FilePath"}, ("SizeInBytes",))
        fields = {"SizeInBytes": ("buffer_bytes", _U64), "FilePath": ("buffer_path", _text)}
        self._fields(source, fields, target)

    def _throughput(self, node: Node | None, target: Target) -> None:
        if node is None:
            return
        unit = node.attributes.get("unit", "BPMS")
        value = self._convert(_U32, node)
        if unit not in ("IOPS", "BPMS"):
            self._error(node, f"unknown unit of throughput '{unit}'", "use IOPS or BPMS (bytes per millisecond)")
        elif value is not None:
            setattr(target, "iops" if unit == "IOPS" else "bytes_per_ms", value)

    def _distribution(self, node: Node | None, target: Target) -> None:
        if node is None:
            return
        kinds = [child for child in node.children if child.name in ("Percent", "Absolute")]
        if len(kinds) != 1 or len(node.children) != 1:
            self._error(node, "<Distribution> takes exactly one element, <Percent> or <Absolute>")
            return
        spans: list[Span] = []
        start = 0
        for child in self._repeated(kinds[0], "Range"):
            try:
                length = _number(child.text, 100, 1) if kinds[0].name == "Percent" else _number(child.text, U64_MAX)
                spans.append(Span(_number(child.attributes.get("IO", ""), 100), start, length))
                start += length
            except ValueError as error:
                self._error(child, str(error))
        if spans:
            target.set_spans("Percent" if kinds[0].name == "Percent" else "Absolute", spans)

    def _thread_target(self, node: Node) -> tuple[int, int]:
        self._check_children(node, {"Thread", "Weight"}, ("Thread",))
        thread, weight = node.child("Thread"), node.child("Weight")
        number = None if thread is None else self._convert(_U32, thread)
        return number or 0, (None if weight is None else self._convert(_U32, weight)) or 0

    def _replace_template(self, node: Node, target: Target) -> None:
        if not target.path.startswith(TEMPLATE_PREFIX):
            return
        path = node.child("Path") or node
        number = target.path[1:]
        if not _TEMPLATE.fullmatch(number):
            self._error(path, f"'{target.path}' is not a template: templates are *1, *2, …")
        elif self._replacements and int(number) > len(self._replacements):
            self._error(path, f"no target on the command line replaces {target.path}", "add a target for each template")
        elif self._replacements:
            target.path = self._replacements[int(number) - 1]
            self._replaced.add(int(number))

    # -- elements ------------------------------------------------------------------------------------------------------

    def _fields(self, node: Node, fields: dict[str, tuple[str, Convert]], to: Profile | TimeSpan | Target) -> None:
        for child in node.children:
            if child.name not in fields:
                continue
            name, convert = fields[child.name]
            value = self._convert(convert, child)
            if value is not None:
                setattr(to, name, value)
                to.positions[name] = child.where

    def _convert(self, convert: Convert, node: Node) -> Any:
        """Returns the value of an element, or adds an error and returns None."""
        for child in node.children:
            self._unknown(child, ())
        try:
            return convert(self, node)
        except ValueError as error:
            self._error(node, f"<{node.name}>: {error}")
            return None

    def _check_children(self, node: Node, known: Collection[str], needed: Sequence[str]) -> None:
        seen: set[str] = set()
        for child in node.children:
            if child.name not in known:
                self._unknown(child, known)
            elif child.name in seen:
                self._error(child, f"<{node.name}> has a second <{child.name}>", "keep one")
            seen.add(child.name)
        for name in needed:
            if name not in seen:
                self._error(node, f"<{node.name}> needs a <{name}>")

    def _repeated(self, node: Node | None, name: str) -> list[Node]:
        """Returns the children, of which there must be at least one."""
        if node is None:
            return []
        if not node.children:
            self._error(node, f"<{node.name}> needs a <{name}>")
        for child in node.children:
            if child.name != name:
                self._unknown(child, (name,))
        return [child for child in node.children if child.name == name]

    def _unknown(self, node: Node, known: Collection[str]) -> None:
        close = nearest(node.name, known)
        self._error(node, f"unknown element <{node.name}>", f"Did you mean <{close}>?" if close else None)

    def _error(self, node: Node, text: str, hint: str | None = None) -> None:
        self.parsed.errors.append(Diagnostic(text, node.where, hint))
