"""Files of a worker: names, state on disk, the region of each that is used, and the layout."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

import msgspec
from msgspec.structs import replace

from iocurve.engine import plan as planned
from iocurve.foundation.errors import Diagnostic
from iocurve.job.model import Amount, Job, Percent, Section, ZonesSaid, paths_text
from iocurve.job.resolve.checks import Diagnostics
from iocurve.job.resolve.machine import ENDLESS, Machine, PathFacts
from iocurve.targets.disk import DiskSpec

URL = re.compile(r"[a-z][a-z0-9+.-]*://")
_LARGEST_FILE = 2**63 - 1
_ENDLESS_FILE = 2**62
_SIZES = ("offset", "size", "file_bytes", "file_count", "blocks")


class Region(msgspec.Struct):
    """The region of one file of a worker, while it is being computed."""

    path: str
    facts: PathFacts
    offset: int = 0
    bytes: int = 0
    start: int = 0


class ResolvedFiles(msgspec.Struct, frozen=True):
    """Examines the files of a job's sections; adds errors and obstacles to ``diagnostics``."""

    job: Job
    machine: Machine
    directory: Path
    diagnostics: Diagnostics
    is_disk: bool = False
    """Names are relative to an emulated disk and must not lead out of it."""
    seen: dict[str, PathFacts] = msgspec.field(default_factory=dict)
    """Facts of the paths seen so far."""

    def on(self, disk: DiskSpec | None) -> ResolvedFiles:
        """The same files on an emulated disk: its directory is the root of all names."""
        return replace(self, directory=self.directory / disk.directory, is_disk=True) if disk else self

    def regions(self, section: Section, jobnum: int, rng: random.Random) -> list[Region] | None:
        """The regions of one worker's files; None after an error."""
        paths = self._paths(section, jobnum)
        regions = self._examined(section, paths)
        if section.load.tree:
            regions[0].bytes = section.load.tree.bytes
            return regions[:1]
        known = sum(region.facts.bytes for region in regions)
        is_sized = bool(section.files.file_bytes or section.files.path_bytes or section.files.until_full)
        if not known and not is_sized and (isinstance(section.files.size, Percent) or not section.files.size):
            self._sizeless(section, regions)
            return None
        block = section.load.smallest_block()
        shares = _shares(section, len(regions), block)
        for region, share, limits in zip(regions, shares, _limits(section, len(regions)), strict=True):
            region.offset = (
                region.facts.bytes
                if section.files.append and region.facts.kind == "file"
                else _offset(section, region, jobnum, block)
            )
            region.bytes = _region_bytes(section, region, share, limits, block, rng)
            region.start = section.load.start_bytes + jobnum * section.load.start_increment_bytes
            if not self._check_region(section, region):
                return None
        return regions if self._check_zones(section, regions) else None

    def planned(self, section: Section, region: Region) -> planned.FilePlan:
        """The region as a part of the plan."""
        return planned.FilePlan(
            path=region.path,
            offset_bytes=region.offset,
            bytes=region.bytes,
            start_bytes=region.start,
            layout=_layout(section, region),
            keep=not section.files.unlink,
        )

    def _sizeless(self, section: Section, regions: Sequence[Region]) -> None:
        paths = [region.path for region in regions]
        missing = [region.path for region in regions if region.facts.kind == "missing"]
        if section.target.engine not in ("nfs", "null") and any(map(_is_device_name, missing)):
            self.diagnostics.error(section, f"there is no device {paths_text(paths)}", ("paths",))
            return
        hint = f"add a size, such as {self.job.words.asks['size']}"
        self.diagnostics.error(section, f"no size is given for {paths_text(paths)}", ("size",), hint)

    def _check_region(self, section: Section, region: Region) -> bool:
        block = section.load.least_room()
        text = None
        if region.bytes < block:
            text = (
                f"{region.path}: the region from byte {region.offset} has {max(0, region.bytes)} bytes, "
                f"less than one block ({block} bytes)"
            )
        elif region.offset + region.bytes > _LARGEST_FILE:
            text = f"{region.path}: no file can be larger than {_LARGEST_FILE} bytes"
        elif region.start + block > region.bytes:
            text = f"{region.path}: a worker would start at byte {region.start} of a region of {region.bytes} bytes"
        if text:
            self.diagnostics.error(section, text, _SIZES)
        needed = region.offset + region.bytes
        if section.files.read_only and region.facts.kind == "file" and region.facts.bytes < needed:
            had = f"{region.path} has {region.facts.bytes} bytes, and the job reads {needed}"
            self._obstacle(section, f"{had}: {self._read_only} forbids extending it")
        return text is None

    @property
    def _read_only(self) -> str:
        return self.diagnostics.option("read_only")

    def _check_zones(self, section: Section, regions: Sequence[Region]) -> bool:
        said = section.load.distribution
        zoned = [part for part in said.values() if isinstance(part, ZonesSaid)]
        sizes = {region.bytes for region in regions}
        text = None
        if zoned and section.load.random and len(sizes) > 1:
            text = "zones need files of the same size"
        elif section.load.random and any(_zoned_bytes(zones, min(sizes)) > min(sizes) for zones in zoned):
            text = f"the zones are larger than the region of {min(sizes)} bytes"
        if text:
            self.diagnostics.error(section, f"{self.diagnostics.option('distribution')}: {text}", ("distribution",))
        return text is None

    # -- names ---------------------------------------------------------------------------------------------------------

    def _paths(self, section: Section, jobnum: int) -> list[str]:
        directories = section.files.directories
        if section.files.paths:
            return self._placed(section, directories[:1], section.files.paths)
        name = section.name or self.job.name
        # The name of a job may be the device it uses.
        if not directories and section.files.file_count == 1 and section.target.engine != "nfs":
            path = str(self.directory / name)
            if self.stat(path).kind == "block":
                return [path]
        chosen = (directories[jobnum % len(directories)],) if directories else ()
        pattern = section.files.file_name_pattern
        numbers = range(section.files.file_count)
        return self._placed(
            section, chosen, [pattern.format(job=name, jobnum=jobnum, file=number) for number in numbers]
        )

    def _placed(self, section: Section, directories: Sequence[str], names: Sequence[str]) -> list[str]:
        """fio puts the directory before the name even if the name begins with a slash."""
        if section.target.engine == "nfs":
            within = [PurePosixPath(*directories, name.lstrip("/")) for name in names]
            return [self._path_within(section, path, "the export") for path in within]
        if self.is_disk:
            within = [PurePosixPath(*(part.lstrip("/") for part in (*directories, name))) for name in names]
            return _below(self.directory, [self._path_within(section, path, "the emulated disk") for path in within])
        for name in filter(URL.match, (*directories, *names)):
            export = self.diagnostics.option("nfs_url", name.rpartition("/")[0])
            hint = f"{self.diagnostics.option('engine', 'nfs')} with {export} loads an export"
            self.diagnostics.error(section, f"{name} is a URL, not a file", ("paths", "directories"), hint)
        if not directories:
            return _below(self.directory, names)
        return _below(self.directory / directories[0], [name.lstrip("/") for name in names])

    def _path_within(self, section: Section, path: PurePosixPath, whole: str) -> str:
        if ".." in path.parts:
            self.diagnostics.error(section, f"'{path}' leads out of {whole}", ("paths", "directories"))
        return str(path).lstrip("/")

    # -- state on disk -------------------------------------------------------------------------------------------------

    def stat(self, path: str) -> PathFacts:
        """Facts of a path, which is read once."""
        facts = self.seen.get(path)
        if facts is None:
            facts = self.seen[path] = self.machine.stat(path)
        return facts

    def _examined(self, section: Section, paths: Sequence[str]) -> list[Region]:
        """Regions with the facts of their files; for NFS and the null engine files are unknown and count as missing."""
        if section.target.engine in ("nfs", "null"):
            return [Region(path, PathFacts("missing")) for path in paths]
        bases = [str(self.directory / name) for name in (not self.is_disk and section.files.directories) or ("",)]
        regions = [Region(path, self.stat(path)) for path in paths]
        for region in regions:
            self._check_path(section, region.path, region.facts, bases)
        return regions

    def _check_path(self, section: Section, path: str, facts: PathFacts, bases: Sequence[str]) -> None:
        if (section.load.tree or section.files.are_directories) and facts.kind == "directory":
            # The root of a tree, or directories, that were laid out before.
            return
        base = next((name for name in bases if path.startswith(name.rstrip("/") + "/")), bases[0])
        if facts.kind in ("directory", "other"):
            what = "a directory" if facts.kind == "directory" else "neither a file nor a block device"
            self._obstacle(section, f"{path} is {what}", f"name a file with {self.diagnostics.option('paths')}")
        elif facts.kind == "null" and section.load.reads:
            self._obstacle(section, f"{path} has no data to read", "read /dev/zero instead")
        elif facts.kind == "missing" and _is_device_name(path):
            self._obstacle(section, f"there is no device {path}, and a regular file in /dev would be kept in memory")
        elif facts.kind == "missing" and self.stat(base).kind != "directory":
            self._obstacle(section, f"directory {base} does not exist", f"create it: mkdir -p {base}")
        elif facts.kind == "missing" and section.data.verify is not None and section.data.verify.only:
            self._obstacle(section, f"{path} does not exist: there are no written data to verify")
        elif facts.kind == "missing" and (section.files.read_only or not section.files.create):
            forbids = self._read_only if section.files.read_only else self.job.words.asks["no create"]
            self._obstacle(section, f"{path} does not exist, and {forbids} forbids creating it")
        elif facts.kind == "block" and section.load.writes and self.machine.is_mounted(path):
            self._obstacle(section, f"{path} is mounted and would be overwritten", "unmount it first")
        above, slash, _ = path.rpartition("/")
        parent = above or slash or "."
        if facts.kind == "missing" and self.stat(parent).kind == "missing":
            self.diagnostics.directories.append(parent)

    def _obstacle(self, section: Section, text: str, hint: str | None = None) -> None:
        where = section.where("paths", "directories", "name")
        self.diagnostics.obstacles.append(Diagnostic(text, where, hint))


def _below(base: Path, names: Sequence[str]) -> list[str]:
    """Same as ``base / name``, but faster for plain names: a job may name a million files."""
    start = f"{base}/"
    return [
        start + name if "/" not in name and name.strip(".") and len(start) > 2 else str(base / name) for name in names
    ]


def _is_device_name(path: str) -> bool:
    return path.startswith("/dev/") and not path.startswith("/dev/shm/")


# -- sizes -------------------------------------------------------------------------------------------------------------


def _shares(section: Section, files: int, block: int) -> list[int]:
    """``size`` divided among the files; the remainder goes to the first files, a block each."""
    size = section.files.size if isinstance(section.files.size, int) else 0
    share = size // files
    larger = (size - share * files) // block
    return [share + (block if number < larger else 0) for number in range(files)]


def _offset(section: Section, region: Region, jobnum: int, block: int) -> int:
    """Start of the region; offsets given as a percentage are rounded up to a block."""
    offset, increment = section.files.offset, section.files.offset_increment
    start = _bytes_of(offset, region.facts.bytes) + jobnum * _bytes_of(increment, region.facts.bytes)
    if not isinstance(offset, Percent) and not isinstance(increment, Percent):
        return start
    multiple = section.files.offset_align or block
    return -(-start // multiple) * multiple


def _limits(section: Section, files: int) -> Sequence[tuple[int, int] | None]:
    """Smallest and largest size of each file; None without limits."""
    if section.files.path_bytes:
        return [(size, size) for size in section.files.path_bytes]
    return [section.files.file_bytes] * files


def _region_bytes(
    section: Section, region: Region, share: int, limits: tuple[int, int] | None, block: int, rng: random.Random
) -> int:
    """Length of the region of one file."""
    existing_bytes = region.facts.bytes
    if section.files.until_full and not section.files.size and limits is None and region.facts.kind != "block":
        return _ENDLESS_FILE - region.offset
    if limits is None:
        length = share or existing_bytes - region.offset
    else:
        length = _file_bytes(limits, existing_bytes, block, rng) - region.offset
    if not isinstance(section.files.size, Percent) or section.files.size.percent in (0, 100):
        return length
    portion = min((length + region.offset) * section.files.size.percent // 100, length)
    return portion - portion % block


def _file_bytes(limits: tuple[int, int], existing_bytes: int, block: int, rng: random.Random) -> int:
    """Size of a file: an existing one within the limits keeps its size."""
    low, high = limits
    if low <= existing_bytes <= high:
        return existing_bytes
    drawn = low + int((high - low) * rng.random())
    return max(drawn - drawn % block, min(block, high)) if low != high else low


def _zoned_bytes(said: ZonesSaid, region_bytes: int) -> int:
    return sum(_bytes_of(zone.size, region_bytes) for zone in said.zones)


def _bytes_of(amount: Amount | None, whole: int) -> int:
    return whole * amount.percent // 100 if isinstance(amount, Percent) else amount or 0


def _layout(section: Section, region: Region) -> planned.Layout:
    """Files that are read are filled with data first; files that are only written have their space preallocated."""
    if section.data.verify is not None and section.data.verify.only:
        return "existing"
    has_sizes = section.files.file_bytes is not None or section.files.path_bytes is not None
    is_sized = has_sizes or (isinstance(section.files.size, int) and section.files.size > 0)
    if (
        region.facts.kind in ("block", *ENDLESS)
        or section.files.read_only
        or not section.files.create
        or not (is_sized or section.files.until_full)
    ):
        return "existing"
    needs_data = section.load.reads or section.files.overwrite
    can_grow = section.target.engine != "mmap"
    if can_grow and (section.files.create_on_open or section.files.until_full):
        return "create"
    needs_space = section.files.preallocate or section.files.recreate or section.target.space_call is not None
    if can_grow and not (needs_data or needs_space):
        return "create"
    if section.files.recreate:
        return "recreate" if needs_data else "recreate_reserve"
    return "fill" if needs_data else "reserve"
