"""The hosts and SDs of a parameter file, with the path of each SD on each host."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from fnmatch import fnmatchcase

import msgspec

from iocurve.dialects.base import PathMapping
from iocurve.dialects.vdbench.read import values
from iocurve.dialects.vdbench.read.keywords import Definition, Definitions
from iocurve.dialects.vdbench.read.values import Band
from iocurve.foundation.errors import Diagnostic, Where
from iocurve.foundation.units import counted
from iocurve.job.model import PlanNote

LOCALHOST = "localhost"
HITAREA = 1 << 20
THREADS = 8
_PARTS = re.compile(r"[/\\]")
"""Separators of the parts of a LUN, on Unix and on Windows."""


class Storage(msgspec.Struct, frozen=True):
    """An SD, with the name of its LUN on each of its hosts."""

    name: str
    luns: dict[str, str]
    size: int | None
    threads: int
    openflags: tuple[str, ...] | None
    align: int
    offset: int
    range: Band | None
    hitarea: int
    dedup_ratio: Decimal
    journal: str | None
    """Directory of the SD's journal."""
    where: Where


class Topology(msgspec.Struct, frozen=True):
    """Hosts and SDs."""

    hosts: tuple[str, ...]
    storage: dict[str, Storage]
    """SDs by name."""
    nodes: dict[str, str]
    """The name of the agent that is a host: where --map-host maps it, else its system=, else its label."""
    host_of: dict[str, str]
    """Host of each label, after --map-host."""
    anchors: dict[str, str]
    """Directories that --map-lun gives instead of anchors."""
    errors: tuple[Diagnostic, ...]
    notes: tuple[PlanNote, ...]
    on_cluster: bool = False


class TopologyMaker(msgspec.Struct, kw_only=True):
    """Reads the hosts and SDs of a parameter file, and applies --map-host, --map-lun and --size."""

    definitions: Definitions
    host_maps: Sequence[PathMapping]
    lun_maps: Sequence[PathMapping]
    is_directory: Callable[[str], bool]
    size: int | None = None
    on_cluster: bool = False
    _hosts: dict[str, str] = msgspec.field(default_factory=dict)
    _used: set[PathMapping] = msgspec.field(default_factory=set)
    _errors: list[Diagnostic] = msgspec.field(default_factory=list)
    _storage: dict[str, Storage] = msgspec.field(default_factory=dict)
    _by_pattern: dict[PathMapping, dict[str, list[tuple[str, str]]]] = msgspec.field(default_factory=dict)
    """SDs and hosts by LUN, for patterns that map to one path."""

    @property
    def _labels(self) -> list[str]:
        return self.definitions.hosts or [LOCALHOST]

    def make(self) -> Topology:
        """The topology, with every error."""
        systems = {label: self._system(label) for label in self._labels}
        self._hosts = {label: self._mapped_host(label, systems[label]) for label in self._labels}
        for sd in self.definitions.by_kind["sd"]:
            for name, pairs in self._counted(sd):
                self._add(sd, name, pairs)
        separated = list(self._separate())
        anchors = self._mapped_anchors()
        for mapping in (*self.host_maps, *self.lun_maps):
            if mapping not in self._used:
                text = f"{mapping.where.option} {mapping.origin}=… matches nothing in the parameter files"
                self._errors.append(Diagnostic(text, mapping.where))
        return Topology(
            tuple(dict.fromkeys(self._hosts.values())),
            self._storage,
            {host: host if host != label else systems[label] or label for label, host in self._hosts.items()},
            self._hosts,
            anchors,
            tuple(self._errors),
            (*self._notes(), *separated),
            self.on_cluster,
        )

    def _notes(self) -> Iterator[PlanNote]:
        hosts = dict.fromkeys(self._hosts.values())
        if list(hosts) != [LOCALHOST] and not self.on_cluster:
            subject = f"hosts {_list_names(list(hosts))} run" if len(hosts) > 1 else f"host {next(iter(hosts))} runs"
            text = f"{subject} as workers on this machine; results are those of one machine"
            yield PlanNote("hosts_are_local", text, None, "warning")

    def _system(self, label: str) -> str | None:
        """The system= of a host; an ``hd=`` with clients has one for all its labels."""
        systems = {hd.name: hd.get("system") for hd in self.definitions.by_kind["hd"]}
        return systems.get(label) or systems.get(label.rpartition("-")[0])

    def _mapped_host(self, label: str, system: str | None) -> str:
        for mapping in self.host_maps:
            if fnmatchcase(label, mapping.origin) or (system and fnmatchcase(system, mapping.origin)):
                self._used.add(mapping)
                return mapping.goal
        return label

    def _counted(self, sd: Definition) -> Iterator[tuple[str, list[tuple[str, tuple[str, ...]]]]]:
        """Yields the SD, or with ``count=(first,number)`` that number of SDs."""
        if "count" not in sd.values:
            yield sd.name, sd.pairs
            return
        first, number = sd.values["count"]
        for index in range(first, first + number):
            pairs = [
                (kind, tuple(_numbered(word, index) if kind == "lun" else word for word in words))
                for kind, words in sd.pairs
            ]
            yield f"{sd.name}{index}", pairs

    def _add(self, sd: Definition, name: str, pairs: list[tuple[str, tuple[str, ...]]]) -> None:
        if name in self._storage:
            self._error(f"sd={name} is defined twice", sd.where)
        self._storage[name] = Storage(
            name=name,
            luns=self._luns(sd, name, pairs),
            size=self.size or sd.get("size"),
            threads=sd.get("threads", THREADS),
            openflags=sd.get("openflags"),
            align=sd.get("align", 0),
            offset=sd.get("offset", 0),
            range=sd.get("range"),
            hitarea=sd.get("hitarea", HITAREA),
            dedup_ratio=sd.get("dedupratio", Decimal(1)),
            journal=sd.get("journal"),
            where=sd.where,
        )

    def _luns(self, sd: Definition, name: str, pairs: list[tuple[str, tuple[str, ...]]]) -> dict[str, str]:
        hosts = [words for kind, words in pairs if kind == "host"]
        luns = [words[0] for kind, words in pairs if kind == "lun"]
        if not luns and "lun" in sd.values:
            luns = [sd.values["lun"]]
        if not luns:
            self._error(f"sd={name} has no lun", sd.where, "add lun=/path")
            return {}
        if not hosts:
            hosts = [sd.values["host"]] if "host" in sd.values else [tuple(self._labels)]
        if len(luns) > 1 and len(luns) != len(hosts):
            text = f"sd={name} has {len(luns)} luns and {len(hosts)} hosts"
            self._error(text, sd.position_of("lun"), "write pairs: lun=/a,host=h1,lun=/b,host=h2")
            return {}
        placed: dict[str, str] = {}
        for number, words in enumerate(hosts):
            for label in self._matching(words, sd):
                lun = self._mapped_lun(luns[number if len(luns) > 1 else 0], label, name)
                before = placed.setdefault(self._hosts[label], lun)
                if before != lun:
                    text = f"sd={name} would be both {before} and {lun} on host {self._hosts[label]}"
                    self._error(text, sd.where, "map its luns to one path, or its hosts to different names")
        return placed

    def _matching(self, words: Sequence[str], sd: Definition) -> list[str]:
        try:
            return values.matching(words, self._labels, "host")
        except ValueError as error:
            self._error(str(error), sd.position_of("host"), "define hosts with hd=")
            return []

    def _mapped_lun(self, lun: str, host: str, sd: str) -> str:
        for mapping in self.lun_maps:
            origin = mapping.origin
            wanted, separator, path = origin.partition(":")
            if separator and wanted in self._labels:
                if wanted != host:
                    continue
                origin = path
            mapped = _mapped(lun, origin, mapping.goal)
            if mapped is not None:
                self._used.add(mapping)
                if _is_pattern(origin) and "{" not in mapping.goal:
                    self._by_pattern.setdefault(mapping, {}).setdefault(lun, []).append((sd, self._hosts[host]))
                return mapped.replace("{host}", self._hosts[host]).replace("{sd}", sd)
        return lun

    def _separate(self) -> Iterator[PlanNote]:
        """Gives each LUN its own file if a pattern maps several LUNs to one path, or one LUN to a directory."""
        for mapping, luns in self._by_pattern.items():
            if len(luns) < 2 and not self.is_directory(mapping.goal):
                continue
            names = {lun: _PARTS.split(lun.rstrip("/\\"))[-1] for lun in luns}
            if len(set(names.values())) < len(luns):
                names = {lun: _PARTS.sub("_", lun.strip("/\\")) for lun in luns}
            for lun, users in luns.items():
                for sd, host in users:
                    self._storage[sd].luns[host] = f"{mapping.goal.rstrip('/')}/{names[lun]}"
            matches = f"{mapping.where.option} {mapping.origin}=… matches {counted(len(luns), 'lun')}"
            text = f"{matches}: each is a file in {mapping.goal}"
            yield PlanNote("luns_separated", text, mapping.where)

    def _mapped_anchors(self) -> dict[str, str]:
        """Maps anchors as LUNs are mapped. Each of several anchors mapped to one directory gets a subdirectory."""
        mapped: dict[str, str] = {}
        for fsd in self.definitions.by_kind["fsd"]:
            start, number = fsd.get("count", (None, 1))
            for index in range(number):
                suffix = "" if start is None else str(start + index)
                anchor = f"{fsd.get('anchor', '')}{suffix}"
                goal = self._mapped_lun(anchor, self._labels[0], f"{fsd.name}{suffix}")
                if goal != anchor:
                    mapped[anchor] = goal
        goals = list(mapped.values())
        shared = {goal for goal in goals if goals.count(goal) > 1}
        own = {anchor: _PARTS.sub("_", anchor.strip("/\\")) for anchor in mapped}
        return {
            anchor: f"{goal.rstrip('/')}/{own[anchor]}" if goal in shared else goal for anchor, goal in mapped.items()
        }

    def _error(self, text: str, where: Where, hint: str | None = None) -> None:
        self._errors.append(Diagnostic(text, where, hint))


def _mapped(lun: str, origin: str, goal: str) -> str | None:
    """Maps a LUN if ``origin`` is the LUN, a directory above it or a pattern that matches it; else None."""
    if _is_pattern(origin):
        return goal if fnmatchcase(lun, origin) else None
    if lun == origin:
        return goal
    directory = origin.rstrip("/") + "/"
    return goal.rstrip("/") + "/" + lun[len(directory) :] if lun.startswith(directory) else None


def _is_pattern(origin: str) -> bool:
    return "*" in origin or "?" in origin


def _numbered(lun: str, number: int) -> str:
    """Inserts the number: ``/dir/file%04d`` in place of the mask, ``/dir/file`` at the end."""
    mask = re.search(r"%(0?\d{0,2})d", lun)
    if mask is None:
        return f"{lun}{number}"
    width = mask[1].lstrip("0") or "1"
    text = str(number).zfill(int(width)) if mask[1].startswith("0") else str(number).rjust(int(width))
    return lun[: mask.start()] + text + lun[mask.end() :]


def _list_names(names: Sequence[str]) -> str:
    """Formats ``a, b and 3 more``."""
    if len(names) <= 4:
        return ", ".join(names[:-1]) + f" and {names[-1]}"
    return f"{', '.join(names[:3])} and {len(names) - 3} more"
