"""Reads and writes XML profiles: -X reads by DiskSpd's schema, -Rpxml and the head of results write.

The elements of single fields are in ``profile``. Here are those that belong to several fields, or contain others.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any, TypeVar

from iocurve.dialects.diskspd.read import xml_text
from iocurve.dialects.diskspd.read.options import ETW_EVENTS
from iocurve.dialects.diskspd.read.profile import TEMPLATE_PREFIX, Part, Profile, TargetParameters, TimeSpan, elements
from iocurve.dialects.diskspd.read.rules import Findings
from iocurve.dialects.diskspd.read.values import U32_MAX, U64_MAX, OffsetZone
from iocurve.dialects.diskspd.read.xml_text import Convert, Node, XmlLines, boolean, number, whole, word
from iocurve.foundation.errors import DialectError, nearest

T = TypeVar("T")
_TEMPLATE = re.compile(r"[1-9]\d{0,8}", re.ASCII)


class ParsedProfile(Findings, kw_only=True):
    """A profile with its errors and notes."""

    profile: Profile


def read_profile(path: Path, replacements: Sequence[str]) -> ParsedProfile:
    """Reads a profile; ``replacements`` replace the template paths ``*1``, ``*2``, …"""
    reader = _ProfileReader(replacements)
    try:
        root = xml_text.read(path)
    except DialectError as error:
        reader.parsed.errors += error.errors
        return reader.parsed
    reader.read(root)
    return reader.parsed


class _ProfileReader:
    def __init__(self, replacements: Sequence[str]) -> None:
        self.parsed = ParsedProfile(profile=Profile())
        self._replacements = list(replacements)
        self._replaced: set[int] = set()

    def read(self, root: Node) -> None:
        if root.name != "Profile":
            hint = "save its <Profile> element as a separate file" if root.name == "Results" else None
            self.error(root, f"this is not a profile: its root is <{root.name}>, not <Profile>", hint)
            return
        self.fields(root, self.parsed.profile, ("TimeSpans",))
        for place, path in enumerate(self._replacements, start=1):
            if place not in self._replaced:
                text = f"{path}: the profile has no template {TEMPLATE_PREFIX}{place} to replace"
                self.parsed.error(text, root.where)

    def replace_template(self, node: Node, target: TargetParameters) -> None:
        if not target.path.startswith(TEMPLATE_PREFIX):
            return
        path = node.child("Path") or node
        place = target.path[1:]
        if not _TEMPLATE.fullmatch(place):
            self.error(path, f"'{target.path}' is not a template: templates are *1, *2, …")
        elif self._replacements and int(place) > len(self._replacements):
            self.error(path, f"no target on the command line replaces {target.path}", "add a target for each template")
        elif self._replacements:
            target.path = self._replacements[int(place) - 1]
            self._replaced.add(int(place))

    # -- elements ------------------------------------------------------------------------------------------------------

    def fields(self, node: Node, to: Part, needed: Sequence[str]) -> None:
        single = {element.name: (name, element.read) for name, element in elements(type(to)).items()}
        others = _READ[type(to)]
        self.check_children(node, single.keys() | others, needed)
        for child in node.children:
            if child.name in single:
                self.set(to, *single[child.name], child)
        for name, read in others.items():
            if (found := node.child(name)) is not None:
                to.positions[name] = found.where
                read(self, found, to)

    def set(self, to: Part, name: str, convert: Convert[object], node: Node) -> None:
        """Sets a field to the value of an element."""
        value = self.convert(convert, node)
        if value is not None:
            setattr(to, name, value)
            to.positions[name] = node.where

    def convert(self, convert: Convert[T], node: Node) -> T | None:
        """Returns the value of an element, or adds an error and returns None."""
        for child in node.children:
            self.unknown(child, ())
        try:
            return convert(node, self.parsed.notes)
        except ValueError as error:
            self.error(node, f"<{node.name}>: {error}")
            return None

    def check_children(self, node: Node, known: Collection[str], needed: Sequence[str]) -> None:
        seen: set[str] = set()
        for child in node.children:
            if child.name not in known:
                self.unknown(child, known)
            elif child.name in seen:
                self.error(child, f"<{node.name}> has a second <{child.name}>", "keep one")
            seen.add(child.name)
        for name in needed:
            if name not in seen:
                self.error(node, f"<{node.name}> needs a <{name}>")

    def repeated(self, node: Node | None, name: str) -> list[Node]:
        """Returns the children, of which there must be at least one."""
        if node is None:
            return []
        if not node.children:
            self.error(node, f"<{node.name}> needs a <{name}>")
        for child in node.children:
            if child.name != name:
                self.unknown(child, (name,))
        return [child for child in node.children if child.name == name]

    def unknown(self, node: Node, known: Collection[str]) -> None:
        close = nearest(node.name, known)
        self.error(node, f"unknown element <{node.name}>", f"Did you mean <{close}>?" if close else None)

    def error(self, node: Node, text: str, hint: str | None = None) -> None:
        self.parsed.error(text, node.where, hint)


# -- elements that belong to several fields, or contain others ---------------------------------------------------------


def _read_events(reader: _ProfileReader, node: Node, profile: Profile) -> None:
    reader.check_children(node, set(ETW_EVENTS.values()), ())
    for child in node.children:
        value = reader.convert(boolean, child)
        if value is not None:
            profile.etw[child.name] = value
    text = "event tracing (ETW) exists only on Windows: nothing is traced"
    reader.parsed.note("windows_only", text, node.where, "warning")


def _write_events(xml: XmlLines, profile: Profile) -> None:
    if profile.etw:
        with xml.element("ETW"):
            xml.values(**{name: profile.etw.get(name, False) for name in ETW_EVENTS.values()})


def _read_time_spans(reader: _ProfileReader, node: Node, profile: Profile) -> None:
    for child in reader.repeated(node, "TimeSpan"):
        span = TimeSpan()
        reader.fields(child, span, ("Targets",))
        span.positions["time_span"] = child.where
        profile.time_spans.append(span)


def _write_time_spans(xml: XmlLines, profile: Profile) -> None:
    with xml.element("TimeSpans"):
        for span in profile.time_spans:
            with xml.element("TimeSpan"):
                _write_fields(xml, span)


def _read_group_affinity(reader: _ProfileReader, node: Node, _span: TimeSpan) -> None:
    if reader.convert(boolean, node) is not None:
        text = "<GroupAffinity> has no effect, as in DiskSpd: on Linux all processors are in one group"
        reader.parsed.note("no_effect", text, node.where)


def _read_affinity(reader: _ProfileReader, node: Node, span: TimeSpan) -> None:
    pairs = []
    for child in node.children:
        try:
            if child.name == "AffinityAssignment":
                pairs.append((0, number(child.text, 255)))
            elif child.name == "AffinityGroupAssignment":
                group = number(child.attributes.get("Group", "0"), 2**16 - 1)
                pairs.append((group, number(child.attributes.get("Processor", "0"), 255)))
            else:
                reader.unknown(child, ("AffinityAssignment", "AffinityGroupAssignment"))
        except ValueError as error:
            reader.error(child, str(error))
    span.affinity = tuple(pairs)
    span.positions["affinity"] = node.where


def _write_affinity(xml: XmlLines, span: TimeSpan) -> None:
    if span.affinity:
        with xml.element("Affinity"):
            for group, processor in span.affinity:
                xml.empty("AffinityGroupAssignment", Group=group, Processor=processor)


def _read_targets(reader: _ProfileReader, node: Node, span: TimeSpan) -> None:
    for child in reader.repeated(node, "Target"):
        target = TargetParameters()
        reader.fields(child, target, ("Path",))
        target.positions["target"] = child.where
        for other in (child.child("Random"), child.child("RandomRatio")):
            if other is not None and child.child("StrideSize") is not None:
                reader.error(other, f"<{other.name}> conflicts with the sequential <StrideSize>", "keep one of them")
        reader.replace_template(child, target)
        span.targets.append(target)


def _write_targets(xml: XmlLines, span: TimeSpan) -> None:
    with xml.element("Targets"):
        for target in span.targets:
            with xml.element("Target"):
                _write_fields(xml, target)


def _read_cache(reader: _ProfileReader, node: Node, target: TargetParameters) -> None:
    if reader.convert(boolean, node):
        target.cache = "local_disabled" if node.name == "DisableLocalCache" else "disabled"
        target.positions["cache"] = node.where
        target.write_through = target.write_through or node.name == "DisableAllCache"


def _write_cache(xml: XmlLines, target: TargetParameters) -> None:
    if target.cache != "cached":
        xml.value("DisableLocalCache" if target.cache == "local_disabled" else "DisableOSCache", True)


def _read_buffers(reader: _ProfileReader, node: Node, target: TargetParameters) -> None:
    reader.check_children(node, {"Pattern", "RandomDataSource"}, ("Pattern",))
    pattern = node.child("Pattern")
    kind = None if pattern is None else reader.convert(word("sequential", "zero", "random"), pattern)
    target.zero_buffers = kind == "zero"
    source = node.child("RandomDataSource")
    if kind != "random" or source is None:
        return
    reader.check_children(source, {"SizeInBytes", "FilePath"}, ("SizeInBytes",))
    for child in source.children:
        if child.name == "SizeInBytes":
            reader.set(target, "buffer_bytes", whole(U64_MAX), child)
        elif child.name == "FilePath":
            reader.set(target, "buffer_path", xml_text.text, child)


def _write_buffers(xml: XmlLines, target: TargetParameters) -> None:
    pattern = "zero" if target.zero_buffers else "random" if target.buffer_bytes else "sequential"
    with xml.element("WriteBufferContent"):
        xml.value("Pattern", pattern)
        if pattern == "random":
            with xml.element("RandomDataSource"):
                xml.values(SizeInBytes=target.buffer_bytes, FilePath=target.buffer_path or None)


def _read_random(reader: _ProfileReader, node: Node, target: TargetParameters) -> None:
    reader.set(target, "alignment_bytes", whole(U64_MAX), node)
    target.random_percent = target.random_percent or 100


def _read_distribution(reader: _ProfileReader, node: Node, target: TargetParameters) -> None:
    kinds = [child for child in node.children if child.name in ("Percent", "Absolute")]
    if len(kinds) != 1 or len(node.children) != 1:
        reader.error(node, "<Distribution> takes exactly one element, <Percent> or <Absolute>")
        return
    is_percent = kinds[0].name == "Percent"
    spans: list[OffsetZone] = []
    start = 0
    for child in reader.repeated(kinds[0], "Range"):
        try:
            length = number(child.text, 100, 1) if is_percent else number(child.text, U64_MAX)
            spans.append(OffsetZone(number(child.attributes.get("IO", ""), 100), start, length))
            start += length
        except ValueError as error:
            reader.error(child, str(error))
    if spans:
        target.set_spans("Percent" if is_percent else "Absolute", spans)


def _write_order(xml: XmlLines, target: TargetParameters) -> None:
    if not target.random_percent:
        xml.values(StrideSize=target.step_bytes, InterlockedSequential=target.interlocked)
        return
    xml.values(Random=target.step_bytes, RandomRatio=target.random_percent if target.random_percent < 100 else None)
    if target.spans:
        with xml.element("Distribution"), xml.element(target.distribution):
            for span in target.spans:
                xml.value("Range", span.length, IO=span.io_percent)


def _read_throughput(reader: _ProfileReader, node: Node, target: TargetParameters) -> None:
    unit = node.attributes.get("unit", "BPMS")
    value = reader.convert(whole(U32_MAX), node)
    if unit not in ("IOPS", "BPMS"):
        reader.error(node, f"unknown unit of throughput '{unit}'", "use IOPS or BPMS (bytes per millisecond)")
    elif value is not None:
        setattr(target, "iops" if unit == "IOPS" else "bytes_per_ms", value)


def _write_throughput(xml: XmlLines, target: TargetParameters) -> None:
    if target.iops:
        xml.value("Throughput", target.iops, unit="IOPS")
    else:
        xml.value("Throughput", target.bytes_per_ms)


def _read_threads(reader: _ProfileReader, node: Node, target: TargetParameters) -> None:
    pairs = []
    for child in reader.repeated(node, "ThreadTarget"):
        reader.check_children(child, {"Thread", "Weight"}, ("Thread",))
        thread, weight = (
            (one and reader.convert(whole(U32_MAX), one)) or 0 for one in map(child.child, ("Thread", "Weight"))
        )
        pairs.append((thread, weight))
    target.thread_weights = tuple(pairs)


def _write_threads(xml: XmlLines, target: TargetParameters) -> None:
    if not target.thread_weights:
        return
    with xml.element("ThreadTargets"):
        for thread, weight in target.thread_weights:
            with xml.element("ThreadTarget"):
                xml.values(Thread=thread, Weight=weight or None)


_READ: dict[type, dict[str, Callable[[_ProfileReader, Node, Any], None]]] = {
    Profile: {"ETW": _read_events, "TimeSpans": _read_time_spans},
    TimeSpan: {"GroupAffinity": _read_group_affinity, "Affinity": _read_affinity, "Targets": _read_targets},
    TargetParameters: {
        "Random": _read_random,
        "DisableOSCache": _read_cache,
        "DisableAllCache": _read_cache,
        "DisableLocalCache": _read_cache,
        "WriteBufferContent": _read_buffers,
        "Throughput": _read_throughput,
        "Distribution": _read_distribution,
        "ThreadTargets": _read_threads,
    },
}
"""Functions by element, in the order in which they are applied."""
_WRITE: dict[str, Callable[[XmlLines, Any], None]] = {
    "etw": _write_events,
    "time_spans": _write_time_spans,
    "affinity": _write_affinity,
    "targets": _write_targets,
    "cache": _write_cache,
    "zero_buffers": _write_buffers,
    "alignment_bytes": _write_order,
    "bytes_per_ms": _write_throughput,
    "thread_weights": _write_threads,
}
"""Functions by the field at whose place the elements are written."""


# -- writing -----------------------------------------------------------------------------------------------------------


def profile_xml(profile: Profile) -> str:
    """The ``<Profile>`` element."""
    xml = XmlLines()
    add_profile(xml, profile)
    return xml.text()


def add_profile(xml: XmlLines, profile: Profile) -> None:
    """Adds the ``<Profile>`` element."""
    with xml.element("Profile"):
        _write_fields(xml, profile)


def _write_fields(xml: XmlLines, of: Part) -> None:
    single = elements(type(of))
    for name, value in vars(of).items():
        if name in _WRITE:
            _WRITE[name](xml, of)
        elif name in single and single[name].is_written(value):
            xml.value(single[name].name, value)
