"""From what a person wrote to what runs: every size, file and ending is decided here, on a given machine.

Rules are fio's where dialects agree with it: sizes are per worker and divided among its files, files by name are
shared by all clones, a runtime caps and does not extend.
"""

from __future__ import annotations

import hashlib
import os
import random
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Literal, Protocol

from iocurve import plan as planned
from iocurve.errors import Mistake, PlanError
from iocurve.model import Amount, Job, Note, Percent, PerKind, Section, named, settled
from iocurve.nfs_url import NfsUrl, parse_nfs_url
from iocurve.traps import traps
from iocurve.units import SECOND_NS

PathKind = Literal["missing", "file", "directory", "block", "other"]
MAX_WORKERS = 4096
MAX_FILES = 1_000_000
_LARGEST_FILE = 2**63 - 1
_ENDLESS = 2**64 - 1
_DEFAULT_SEED = 0x89


@dataclass(frozen=True)
class PathFacts:
    """What is at a path."""

    kind: PathKind
    bytes: int = 0


class Machine(Protocol):
    """What a plan depends on besides the job."""

    def look(self, path: str) -> PathFacts:
        """What is at ``path`` now."""

    def is_mounted(self, device: str) -> bool:
        """Whether a block device holds a mounted file system."""

    def cpus(self) -> frozenset[int]:
        """Processors that workers may be bound to."""

    def user(self) -> tuple[int, int]:
        """User and group to be for an NFS server."""

    def fresh_seed(self) -> int:
        """64 bits that no other run has."""


@dataclass(frozen=True)
class ReportGroup:
    """What is reported as one; its position is its number in the plan."""

    section: int
    """Index of the section whose settings stand for it: the first."""
    number: int
    """fio's groupid: counts barriers and new groups."""
    workers: int


@dataclass(frozen=True)
class Resolution:
    """A plan, and what to say about it."""

    plan: planned.Plan
    notes: tuple[Note, ...]
    obstacles: tuple[Mistake, ...]
    """What keeps it from running on this machine as it is now (a directory that is missing)."""
    directories: tuple[str, ...]
    """To be made before the run: file names lead into them."""
    report_groups: tuple[ReportGroup, ...]


def resolve(job: Job, machine: Machine, directory: Path) -> Resolution:
    """Makes the plan of a job; relative names start from ``directory``. Raises ``PlanError`` with all reasons."""
    return _Resolver(job, machine, directory).resolve()


class ThisMachine:
    """The machine we are on."""

    def look(self, path: str) -> PathFacts:
        """What is at ``path`` now; what cannot be looked at counts as missing."""
        try:
            status = Path(path).stat()
        except (OSError, ValueError):
            return PathFacts("missing")
        if stat.S_ISREG(status.st_mode):
            return PathFacts("file", status.st_size)
        if stat.S_ISBLK(status.st_mode):
            return PathFacts("block", _device_bytes(path))
        return PathFacts("directory" if stat.S_ISDIR(status.st_mode) else "other")

    def is_mounted(self, device: str) -> bool:
        """Whether the mount table names it, under any of its names."""
        real = os.path.realpath(device)
        try:
            mounts = Path("/proc/self/mounts").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return False
        sources = {line.split(" ", 1)[0] for line in mounts.splitlines()}
        return any(os.path.realpath(source) == real for source in sources if source.startswith("/"))

    def cpus(self) -> frozenset[int]:
        """Those this process may run on."""
        return frozenset(os.sched_getaffinity(0))

    def user(self) -> tuple[int, int]:
        """Ours."""
        return os.getuid(), os.getgid()

    def fresh_seed(self) -> int:
        """From the operating system."""
        return int.from_bytes(os.urandom(8))


def _device_bytes(path: str) -> int:
    try:
        with Path(path).open("rb") as device:
            return device.seek(0, os.SEEK_END)
    except OSError:
        return 0


@dataclass
class _Region:
    """One file of a worker while its size is worked out."""

    path: str
    facts: PathFacts
    offset: int = 0
    bytes: int = 0


@dataclass
class _Resolver:
    job: Job
    machine: Machine
    directory: Path
    mistakes: list[Mistake] = field(default_factory=list)
    obstacles: list[Mistake] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    directories: list[str] = field(default_factory=list)
    workers: int = 0

    def resolve(self) -> Resolution:
        sections = [section.over(self.job.defaults) for section in self.job.sections]
        self._check_amounts(sections)
        workers = [self._workers(index, section) for index, section in enumerate(sections)]
        if not any(workers) and not self.mistakes:
            self.mistakes.append(Mistake("there is no job to run"))
        if self.mistakes:
            raise PlanError(list(dict.fromkeys(self.mistakes)))
        report_groups, numbers = _report_groups(sections)
        numbered = [
            [worker.model_copy(update={"report_group": next(numbers)}) for worker in clones] for clones in workers
        ]
        plan = planned.Plan(name=self.job.name, interval_ns=SECOND_NS, groups=_start_groups(sections, numbered))
        return Resolution(
            plan=plan,
            notes=tuple(dict.fromkeys(self.notes)),
            obstacles=tuple(dict.fromkeys(self.obstacles)),
            directories=tuple(dict.fromkeys(self.directories)),
            report_groups=tuple(report_groups),
        )

    def _check_amounts(self, sections: Sequence[Section]) -> None:
        """Before anything is built from them."""
        workers = sum(settled(section.clones) for section in sections)
        files = sum(
            settled(section.clones) * (len(section.paths or ()) or settled(section.file_count)) for section in sections
        )
        if workers > MAX_WORKERS:
            self.mistakes.append(Mistake(f"{workers} workers are too many; {MAX_WORKERS} can run at once"))
        elif files > MAX_FILES:
            self.mistakes.append(Mistake(f"{files} files are too many; {MAX_FILES} can be open at once"))
        if self.mistakes:
            raise PlanError(self.mistakes)

    # -- one section ---------------------------------------------------------------------------------------------------

    def _workers(self, index: int, section: Section) -> list[planned.Worker]:
        mistakes_before = len(self.mistakes)
        nfs_url = self._nfs_url(section)
        self._check_section(section)
        if len(self.mistakes) > mistakes_before:
            return []
        workers = []
        for clone in range(settled(section.clones)):
            self.workers += 1
            worker = self._worker(section, clone, nfs_url)
            # What is wrong with one clone is wrong with all.
            if worker is None:
                return []
            workers.append(worker)
        self._note_traps(index, section, workers)
        return workers

    def _nfs_url(self, section: Section) -> NfsUrl | None:
        if section.engine != "nfs":
            return None
        if section.nfs_url is None:
            self._mistake(section, "ioengine=nfs needs a server", ("engine",), "add nfs_url=nfs://host/export")
            return None
        try:
            return parse_nfs_url(section.nfs_url)
        except ValueError as error:
            self._mistake(section, str(error), ("nfs_url",))
            return None

    def _check_section(self, section: Section) -> None:
        if any(_both(section.rate_operations)) and any(_both(section.rate_bytes)):
            self._mistake(
                section, "rate and rate_iops exclude one another", ("rate_operations", "rate_bytes"), "keep one"
            )
        smallest = _smallest_block(section)
        if isinstance(section.size, int) and 0 < section.size < smallest:
            text = f"size ({section.size} bytes) is smaller than one block ({smallest} bytes)"
            self._mistake(section, text, ("size", "blocks"))
        unknown = sorted(set(section.cpus or ()) - self.machine.cpus())
        if unknown:
            text = f"processor {unknown[0]} is not there, or not for this process"
            self._mistake(section, text, ("cpus",), f"there are {_ranges(sorted(self.machine.cpus()))}")

    def _worker(self, section: Section, clone: int, nfs_url: NfsUrl | None) -> planned.Worker | None:
        seed = self._seed(section)
        chance = random.Random(seed)
        regions = self._regions(section, clone, chance)
        if regions is None:
            return None
        low, high = settled(section.start_delay_ns)
        return planned.Worker(
            job=section.name or self.job.name,
            clone=clone,
            report_group=0,
            engine=self._engine(section, nfs_url),
            files=tuple(self._file(section, region) for region in regions),
            file_select=settled(section.file_select),
            operations=_operations(section),
            access=_access(section),
            depth=1 if section.engine == "sync" else settled(section.depth),
            start_delay_ns=chance.randint(low, high),
            ramp_ns=settled(section.ramp_ns),
            end=_end(section, regions),
            seed=seed,
            payload=_payload(section),
            cpus=_cpus(section, clone),
        )

    def _seed(self, section: Section) -> int:
        """The same in every run for the same worker of a job, unless the job wants it otherwise."""
        if section.seed is None and not section.repeatable:
            return self.machine.fresh_seed()
        said = _DEFAULT_SEED if section.seed is None else section.seed
        return int.from_bytes(hashlib.blake2b(f"{said}/{self.workers}".encode(), digest_size=8).digest())

    def _engine(self, section: Section, url: NfsUrl | None) -> planned.EnginePlan:
        if url is not None:
            return planned.NfsEngine(mount=self._mount(section, url))
        if section.engine == "null":
            return planned.NullEngine()
        how = planned.FileOpen(
            direct=settled(section.direct),
            durability=settled(section.durability),
            invalidate=settled(section.invalidate),
        )
        if section.engine == "aio":
            return planned.AioEngine(open=how)
        return planned.UringEngine(open=how) if section.engine == "uring" else planned.SyncEngine(open=how)

    def _mount(self, section: Section, url: NfsUrl) -> planned.NfsMount:
        uid, gid = self.machine.user()
        said = section.nconnect if "nconnect" in section.positions or url.nconnect is None else url.nconnect
        return planned.NfsMount(
            host=url.host,
            port=url.port,
            mount_port=url.mount_port,
            export=url.export,
            version=3,
            nconnect=settled(said),
            uid=uid if url.uid is None else url.uid,
            gid=gid if url.gid is None else url.gid,
            durability=settled(section.durability),
            timeout_ns=settled(section.nfs_timeout_ns),
            keep_payload=False,
        )

    # -- files ---------------------------------------------------------------------------------------------------------

    def _regions(self, section: Section, clone: int, chance: random.Random) -> list[_Region] | None:
        """The files of one worker with the region of each that is used; None where that cannot be."""
        paths = self._paths(section, clone)
        regions = [_Region(path, self._look(section, path)) for path in paths]
        known = sum(region.facts.bytes for region in regions)
        if not known and not section.file_bytes and (isinstance(section.size, Percent) or not section.size):
            hint = "add size=, such as size=1g"
            self._mistake(section, f"nothing says how large {named(paths)} should be", ("size",), hint)
            return None
        block = _smallest_block(section)
        shares = _shares(section, len(regions), block)
        for region, share in zip(regions, shares, strict=True):
            region.offset = _offset(section, region, clone, block)
            region.bytes = _region_bytes(section, region, share, block, chance)
            if not self._check_region(section, region):
                return None
        return regions

    def _check_region(self, section: Section, region: _Region) -> bool:
        fields = ("offset", "size", "file_bytes", "file_count", "blocks")
        block = _largest_block(section)
        if region.bytes < block:
            text = (
                f"{region.path}: the region from byte {region.offset} has {max(0, region.bytes)} bytes, "
                f"less than one block ({block} bytes)"
            )
            self._mistake(section, text, fields)
        elif region.offset + region.bytes > _LARGEST_FILE:
            self._mistake(section, f"{region.path}: no file can be larger than {_LARGEST_FILE} bytes", fields)
        else:
            return True
        return False

    def _paths(self, section: Section, clone: int) -> list[str]:
        directories = section.directories or ()
        if section.paths:
            return [self._place(section, directories[:1], path) for path in section.paths]
        name = section.name or self.job.name
        # A job may bear the name of the device it uses.
        if not directories and section.file_count == 1 and section.engine != "nfs":
            place = str(self.directory / name)
            if self.machine.look(place).kind == "block":
                return [place]
        chosen = (directories[clone % len(directories)],) if directories else ()
        pattern = settled(section.file_name_pattern)
        names = (pattern.format(job=name, clone=clone, file=number) for number in range(settled(section.file_count)))
        return [self._place(section, chosen, name) for name in names]

    def _place(self, section: Section, directories: Sequence[str], name: str) -> str:
        """fio puts the directory before the name even where the name begins with a slash."""
        if section.engine == "nfs":
            return self._place_in_export(section, PurePosixPath(*directories, name.lstrip("/")))
        if not directories:
            return str(self.directory / name)
        return str(self.directory / directories[0] / name.lstrip("/"))

    def _place_in_export(self, section: Section, path: PurePosixPath) -> str:
        if ".." in path.parts:
            self._mistake(section, f"'{path}' leads out of the export", ("paths", "directories"))
        return str(path).lstrip("/")

    def _look(self, section: Section, path: str) -> PathFacts:
        """What is there; unknown for NFS and the null engine, which counts as missing."""
        if section.engine in ("nfs", "null"):
            return PathFacts("missing")
        facts = self.machine.look(path)
        self._check_path(section, path, facts)
        return facts

    def _check_path(self, section: Section, path: str, facts: PathFacts) -> None:
        where = section.where("paths", "directories", "name")
        bases = [str(self.directory / name) for name in section.directories or ("",)]
        base = next((name for name in bases if Path(path).is_relative_to(name)), bases[0])
        if facts.kind in ("directory", "other"):
            what = "a directory" if facts.kind == "directory" else "neither a file nor a block device"
            self.obstacles.append(Mistake(f"{path} is {what}", where, "name a file with filename="))
        elif facts.kind == "missing" and self.machine.look(base).kind != "directory":
            self.obstacles.append(Mistake(f"directory {base} does not exist", where, f"make it: mkdir -p {base}"))
        elif facts.kind == "missing" and not section.create:
            self.obstacles.append(Mistake(f"{path} does not exist, and allow_file_create=0 forbids to make it", where))
        elif facts.kind == "block" and section.writes and self.machine.is_mounted(path):
            self.obstacles.append(Mistake(f"{path} is mounted and would be overwritten", where, "unmount it first"))
        if facts.kind == "missing" and self.machine.look(str(Path(path).parent)).kind == "missing":
            self.directories.append(str(Path(path).parent))

    def _file(self, section: Section, region: _Region) -> planned.FilePlan:
        return planned.FilePlan(
            path=region.path,
            offset_bytes=region.offset,
            bytes=region.bytes,
            layout=_layout(section, region),
            keep=not section.unlink,
        )

    # -- what to say about it ------------------------------------------------------------------------------------------

    def _note_traps(self, index: int, section: Section, workers: Sequence[planned.Worker]) -> None:
        self.notes += traps(self.job.sections[index], section, workers)
        if section.writes:
            self._note_overwritten(section, workers)

    def _note_overwritten(self, section: Section, workers: Sequence[planned.Worker]) -> None:
        paths = dict.fromkeys(file.path for worker in workers for file in worker.files)
        if section.engine in ("nfs", "null"):
            return
        existing = [path for path in paths if self.machine.look(path).kind in ("file", "block")]
        if existing:
            text = f"{named(existing)} {'exists' if len(existing) == 1 else 'exist'} already and will be overwritten"
            self.notes.append(Note("overwrites", text, section.where("paths", "writes", "name"), "warning"))

    def _mistake(self, section: Section, text: str, fields: Sequence[str], hint: str | None = None) -> None:
        where = section.where(*fields, "name")
        self.mistakes.append(Mistake(f"{section.name or self.job.name}: {text}", where, hint))


# -- sizes -------------------------------------------------------------------------------------------------------------


def _shares(section: Section, files: int, block: int) -> list[int]:
    """``size`` divided among the files; what does not divide goes to the first ones, a block each."""
    size = section.size if isinstance(section.size, int) else 0
    share = size // files
    larger = (size - share * files) // block
    return [share + (block if number < larger else 0) for number in range(files)]


def _offset(section: Section, region: _Region, clone: int, block: int) -> int:
    """Start of the region; shares of a file are rounded up to a block."""
    offset, increment = section.offset, section.offset_increment
    place = _bytes_of(offset, region.facts.bytes) + clone * _bytes_of(increment, region.facts.bytes)
    if not isinstance(offset, Percent) and not isinstance(increment, Percent):
        return place
    multiple = section.offset_align or block
    return -(-place // multiple) * multiple


def _region_bytes(section: Section, region: _Region, share: int, block: int, chance: random.Random) -> int:
    """Length of the region of one file."""
    there = region.facts.bytes
    if section.file_bytes is None:
        length = share or there - region.offset
    else:
        length = _file_bytes(section.file_bytes, there, block, chance) - region.offset
    if not isinstance(section.size, Percent) or section.size.percent in (0, 100):
        return length
    portion = min((length + region.offset) * section.size.percent // 100, length)
    return portion - portion % block


def _file_bytes(limits: tuple[int, int], there: int, block: int, chance: random.Random) -> int:
    """A file that is within the limits stays as it is."""
    low, high = limits
    if low <= there <= high:
        return there
    drawn = low + int((high - low) * chance.random())
    return drawn - drawn % block if low != high else low


def _bytes_of(amount: Amount | None, whole: int) -> int:
    return whole * amount.percent // 100 if isinstance(amount, Percent) else amount or 0


def _smallest_block(section: Section) -> int:
    return min(blocks.smallest for blocks in _blocks(section))


def _largest_block(section: Section) -> int:
    return max(blocks.largest for blocks in _blocks(section))


def _blocks(section: Section) -> list[planned.Blocks]:
    blocks = settled(section.blocks)
    return [getattr(blocks, kind) for kind in _kinds(section)]


def _kinds(section: Section) -> list[planned.OperationKind]:
    used: dict[planned.OperationKind, bool | None] = {
        "read": section.reads,
        "write": section.writes,
        "trim": section.trims,
    }
    return [kind for kind, is_used in used.items() if is_used]


# -- the worker's parts ------------------------------------------------------------------------------------------------


def _layout(section: Section, region: _Region) -> planned.Layout:
    """Files that are read hold data first; files that are only written have their space reserved."""
    is_sized = section.file_bytes is not None or (isinstance(section.size, int) and section.size > 0)
    if region.facts.kind == "block" or not section.create or not is_sized:
        return "existing"
    return "fill" if section.reads or section.overwrite else "reserve"


def _operations(section: Section) -> tuple[planned.OperationPlan, ...]:
    blocks, percent = settled(section.blocks), int(settled(section.read_percent))
    mixed = section.reads and section.writes
    shares = {"read": percent if mixed else 100, "write": 100 - percent if mixed else 100, "trim": 100}
    kinds = _kinds(section)
    places = settled(section.random_percent) if section.random else PerKind.same(0)
    rates = {kind: _rate(section, kind) for kind in kinds}
    return tuple(
        planned.OperationPlan(
            kind=kind,
            share=shares[kind],
            blocks=getattr(blocks, kind),
            random_percent=getattr(places, kind),
            rate=rates[kind],
        )
        for kind in kinds
        if shares[kind] or any(rates.values())
    )


def _rate(section: Section, kind: str) -> planned.Rate | None:
    operations, size = getattr(section.rate_operations, kind), getattr(section.rate_bytes, kind)
    if operations:
        return planned.Rate(unit="operations", count=operations, per_ns=SECOND_NS)
    return planned.Rate(unit="bytes", count=size, per_ns=SECOND_NS) if size else None


def _access(section: Section) -> planned.Access:
    if not section.random:
        return planned.Access()
    repeats = section.repeatable and section.seed is None
    return planned.Access(cover=settled(section.cover), passes="same" if repeats else "fresh")


def _end(section: Section, regions: Sequence[_Region]) -> planned.End:
    runtime = section.runtime_ns or None
    if section.time_based and runtime:
        return planned.End(runtime_ns=runtime, bytes=None, operations=None)
    loops = settled(section.loops)
    operations = min(section.operations * loops, _ENDLESS) if section.operations else None
    transferred = min(_bytes_to_transfer(section, regions, loops), _ENDLESS)
    return planned.End(runtime_ns=runtime, bytes=transferred, operations=operations)


def _bytes_to_transfer(section: Section, regions: Sequence[_Region], loops: int) -> int:
    """A pass over the whole blocks of all regions per loop; an amount to transfer ends a pass early or adds to it."""
    block = _smallest_block(section)
    whole = sum(region.bytes - region.bytes % block for region in regions)
    if isinstance(section.transfer, Percent):
        whole, transfer = whole * (section.transfer.percent or 100) // 100, 0
    else:
        transfer = section.transfer or 0
    if isinstance(section.size, int) and section.size:
        whole = min(whole, section.size)
    return max(loops * min(whole, transfer), transfer) if transfer else loops * whole


def _payload(section: Section) -> planned.Payload:
    if section.payload_zero:
        return planned.Payload(content=planned.ZeroContent(), renew="keep")
    renew: Literal["keep", "scramble", "refill"] = "scramble" if section.payload_scramble else "keep"
    return planned.Payload(content=planned.RandomContent(), renew="refill" if section.payload_refill else renew)


def _cpus(section: Section, clone: int) -> tuple[int, ...]:
    cpus = section.cpus or ()
    return (cpus[clone % len(cpus)],) if section.cpus_split and cpus else cpus


# -- groups ------------------------------------------------------------------------------------------------------------


def _start_groups(
    sections: Sequence[Section], workers: Sequence[Sequence[planned.Worker]]
) -> tuple[planned.Group, ...]:
    groups: list[list[planned.Worker]] = []
    for section, clones in zip(sections, workers, strict=True):
        if section.barrier or not groups:
            groups.append([])
        groups[-1].extend(clones)
    return tuple(planned.Group(workers=tuple(group)) for group in groups if group)


def _report_groups(sections: Sequence[Section]) -> tuple[list[ReportGroup], Iterator[int]]:
    """Neighbours that ask for it are reported as one until a barrier or a new group comes between them.

    With the groups comes the number of each worker's.
    """
    groups: list[ReportGroup] = []
    numbers: list[int] = []
    number = 0
    for index, section in enumerate(sections):
        for clone in range(settled(section.clones)):
            if clone == 0 and index and (section.barrier or section.new_report_group):
                number += 1
            if groups and section.report_as_group and groups[-1].number == number:
                last = groups[-1]
                groups[-1] = ReportGroup(last.section, number, last.workers + 1)
            else:
                groups.append(ReportGroup(index, number, 1))
            numbers.append(len(groups) - 1)
    return groups, iter(numbers)


def _both(values: PerKind[int | None] | None) -> tuple[int | None, int | None]:
    return (values.read, values.write) if values else (None, None)


def _ranges(numbers: Sequence[int]) -> str:
    """``0-3, 6``."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
