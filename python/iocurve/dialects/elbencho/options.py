"""Reads elbencho's command line."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import msgspec
from msgspec.structs import replace

from iocurve.dialects.base import read_job_file, typed
from iocurve.dialects.option_table import OptionReader, TableOption, adds, flag, ignored, refused, sets
from iocurve.foundation.errors import Diagnostic, DialectError, Where, in_order
from iocurve.foundation.structs import read_bundled
from iocurve.foundation.units import MIB, SECOND_NS

WORKERS_MAX = 4096
PATHS_MAX = 10_000
PHASES = {
    "mkdirs": "MKDIRS",
    "write": "WRITE",
    "stat": "STAT",
    "read": "READ",
    "delfiles": "RMFILES",
    "deldirs": "RMDIRS",
}
"""elbencho's names of the phases by their options, in the order in which they run."""


class ElbenchoOptions(msgspec.Struct, frozen=True):
    """A command line with elbencho's defaults."""

    paths: tuple[str, ...] = ()
    phases: frozenset[str] = frozenset()
    """Options of the phases that run."""
    threads: int = 1
    """Threads of each host."""
    hosts: int = 0
    """Agents; 0 runs on this machine."""
    cluster: str | None = None
    shares_directories: bool = False
    """All threads use the directories of the first (--dirsharing)."""
    share_paths: bool = True
    """The data set is divided among the hosts; otherwise each has one of the same names."""
    directories: int = 1
    files: int = 1
    sizes_tree: bool = False
    """-n or -N was given."""
    size: int = 0
    block: int = MIB
    depth: int = 1
    direct: bool = False
    random: bool = False
    aligned: bool = True
    random_bytes: int = 0
    extends: bool = False
    """Files get their size before the write phase (--trunctosize)."""
    read_percent: int = 0
    read_limit: int = 0
    write_limit: int = 0
    runtime_ns: int = 0
    repeats: bool = False
    """Threads start again until the time is over (--infloop)."""
    iterations: int = 1
    pause_s: int = 0
    ignores_missing: bool = False
    refill_percent: int = 100
    cpus: tuple[int, ...] = ()
    syncs: bool = False
    drops_caches: bool = False
    only_counts: bool = False
    """Print the size of the data set and run nothing (--dryrun)."""
    shows_latency: bool = False
    shows_percentiles: bool = False
    nines: int = 0
    shows_histogram: bool = False
    shows_elapsed: bool = False
    base10: bool = False
    """Throughput in MB/s (--base10)."""
    live_csv: Path | None = None
    """File of the values while a phase runs (--livecsv), or ``STDOUT``."""
    live_interval_ms: int = 2000
    csv_path: Path | None = None
    csv_labels: bool = True
    json_path: Path | None = None
    results_path: Path | None = None
    label: str = ""
    out: Path | None = None
    arguments: tuple[str, ...] = ()

    @property
    def ranks(self) -> int:
        """Threads of all hosts."""
        return self.threads * max(1, self.hosts)

    @property
    def sharers(self) -> int:
        """Threads that the data set is divided among."""
        return self.ranks if self.share_paths else self.threads

    @property
    def moves_whole_blocks(self) -> bool:
        """Direct and random transfers have no shorter block at a file's end."""
        return (self.direct or self.random) and not self.phases.isdisjoint(("write", "read"))


TABLE = read_bundled(Path(__file__).parent, "options")
"""Options that set one field or nothing, by the kind of their value."""
STDOUT = Path("/dev/stdout")
UNSUPPORTED = {"--s3": ("object storage is not supported", "files, directories and devices are")}
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40, "p": 1 << 50}


def parse(arguments: Sequence[str], directory: Path) -> ElbenchoOptions:
    """Reads a command line; relative names start from ``directory``. Raises ``DialectError`` with every error."""
    letters = {letter: f"--{name}" for letter, name in TABLE["letters"].items()}
    reader = OptionReader("elbencho", _options(directory), letters, partial(_add_path, directory), UNSUPPORTED)
    reader.read(arguments)
    options = ElbenchoOptions(**reader.values, arguments=typed(arguments))  # type: ignore[arg-type]
    errors = reader.errors or [Diagnostic(text) for text, holds in CONTRADICTIONS.items() if holds(options)]
    if errors:
        raise DialectError(in_order(errors))
    return replace(
        options,
        random_bytes=options.random_bytes if options.random else 0,
        # All threads make and remove the directories.
        ignores_missing=options.ignores_missing or options.shares_directories,
    )


def _options(directory: Path) -> dict[str, TableOption]:
    def place(name: str) -> TableOption:
        return sets(name, lambda text: directory / text)

    options = {
        **{name: adds("phases", name) for name in PHASES},
        **{name: flag(target, value=value) for name, (target, value) in TABLE["flags"].items()},
        **{name: _number(name, *row) for name, row in TABLE["numbers"].items()},
        **{name: _size(name, target) for name, target in TABLE["sizes"].items()},
        **{name: place(target) for name, target in TABLE["paths"].items()},
        **{name: sets(target, str) for name, target in TABLE["texts"].items()},
        **{
            name: ignored(takes_value=kind == "values")
            for kind, names in TABLE["ignored"].items()
            for name in names.split()
        },
        **{
            name: refused(f"--{name} is not supported", hint, takes_value=kind == "values")
            for kind, rows in TABLE["refused"].items()
            for names, hint in rows.items()
            for name in names.split()
        },
        "cores": sets("cpus", _cores),
        "livecsv": sets("live_csv", lambda text: STDOUT if text == "stdout" else directory / text),
        "configfile": TableOption(partial(_config, directory)),
    }
    return {f"--{name}": option for name, option in options.items()}


def _number(name: str, target: str, low: int, high: int) -> TableOption:
    def effect(reader: OptionReader, text: str) -> None:
        if not re.fullmatch(r"\d{1,12}", text, re.ASCII) or not low <= int(text) <= high:
            raise ValueError(f"--{name}: '{text[:40]}' is not a number from {low:,} to {high:,}")
        before = reader.values.get(target, int(text))
        if name == "numhosts" and before != int(text):
            raise ValueError(f"--numhosts {text} and {before} hosts of --hosts", "list the hosts to use in --hosts")
        reader.values[target] = int(text) * (SECOND_NS if name == "timelimit" else 1)
        if name in ("dirs", "files"):
            reader.values["sizes_tree"] = True

    return TableOption(effect)


def _size(name: str, target: str) -> TableOption:
    def read(text: str) -> int:
        found = re.fullmatch(r"(\d{1,15})([kmgtp]?)(?:i?b)?", text.lower(), re.ASCII)
        size = int(found[1]) * _UNITS[found[2]] if found else -1
        if not 0 <= size < 1 << 62 or (name == "block" and not 1 <= size <= 1 << 30):
            raise ValueError(f"--{name}: '{text[:40]}' is not a size", "such as 4k, 1m or 20g")
        return size

    return sets(target, read)


def _cores(text: str) -> tuple[int, ...]:
    """``0,2,4`` or ``0-3``; ``all`` binds nothing."""
    cpus: list[int] = []
    for part in text.split(",") if text != "all" else ():
        found = re.fullmatch(r"(\d{1,5})(?:-(\d{1,5}))?", part)
        if not found:
            raise ValueError(f"--cores: '{text[:40]}' is not a list of processors", "such as 0,2 or 0-3")
        cpus += range(int(found[1]), int(found[2] or found[1]) + 1)
    return tuple(cpus)


def _config(directory: Path, reader: OptionReader, name: str) -> None:
    """A file with ``option=value`` on each line."""
    try:
        text = read_job_file(directory / name, "utf-8", "replace")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ValueError(f"--configfile {name[:80]} cannot be read: {reason}") from None
    for number, line in enumerate(text.splitlines(), 1):
        option, _, value = line.strip().partition("=")
        if option and not option.startswith("#"):
            reader.where = Where(name, number)
            full = reader.full_name(f"--{option.strip()}")
            if full in ("--configfile", "--hosts", "--hostsfile"):
                reader.error(f"{full[2:]} belongs on the command line")
            else:
                reader.apply(full, value.strip())


def _add_path(directory: Path, reader: OptionReader, text: str) -> None:
    text = text.removeprefix("file://")
    paths = [text] if text.startswith("nfs:") else [str(directory / path) for path in expanded(text)]
    before = reader.values.get("paths")
    reader.values["paths"] = (*(before if isinstance(before, tuple) else ()), *paths)


def expanded(text: str) -> list[str]:
    """``file[1-3]`` as ``file1``, ``file2``, ``file3``; several brackets give all combinations.

    Raises ``ValueError`` if there are too many.
    """
    found = re.search(r"\[([\d,-]+)\]", text)
    if not found:
        return [text]
    names: list[str] = []
    for part in found[1].split(","):
        span = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?", part)
        if not span:
            raise ValueError(f"'[{found[1][:40]}]' is not a list of numbers such as [1-4] or [1,3]")
        first, last = int(span[1]), int(span[2] or span[1])
        if last - first >= PATHS_MAX:
            raise ValueError(f"'{text[:80]}' is more than {PATHS_MAX} paths")
        names += [f"{number:0{len(span[1])}}" for number in range(first, last + 1)]
    paths = [
        path
        for rest in expanded(text[found.end() :])
        for path in (f"{text[: found.start()]}{name}{rest}" for name in names)
    ]
    if len(paths) > PATHS_MAX:
        raise ValueError(f"'{text[:80]}' is more than {PATHS_MAX} paths")
    return paths


CONTRADICTIONS: Mapping[str, Callable[[ElbenchoOptions], bool]] = {
    "no path is given; name a directory, files or block devices": lambda options: not options.paths,
    "no phase is given; choose -d, -w, -r, --stat, -F or -D": lambda options: not options.phases,
    f"the paths are more than {PATHS_MAX}": lambda options: len(options.paths) > PATHS_MAX,
    f"-t times the hosts is more than {WORKERS_MAX} threads": lambda options: options.ranks > WORKERS_MAX,
    "--norandalign and --direct exclude each other: direct I/O needs aligned offsets": lambda options: (
        options.direct and not options.aligned
    ),
    "--infloop repeats -w, -r and --stat; leave out -d, -F and -D": lambda options: (
        options.repeats and not options.phases.isdisjoint(("mkdirs", "delfiles", "deldirs"))
    ),
    "--blockvarpct is 0 or 100 here: each write repeats the block or refills all of it": lambda options: (
        options.refill_percent not in (0, 100)
    ),
    "--rwmixpct needs the write phase: -w": lambda options: options.read_percent > 0 and "write" not in options.phases,
    "--sync and --dropcache work on this machine; leave them out with --hosts": lambda options: (
        options.hosts > 0 and (options.syncs or options.drops_caches)
    ),
}
