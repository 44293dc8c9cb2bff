"""Reads elbencho's command line."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from iocurve.dialects.base import CLIENTS_MAX, read_job_file
from iocurve.errors import COMMAND_LINE, Diagnostic, DialectError, Where, in_order, nearest
from iocurve.units import MIB, SECOND_NS

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


@dataclass(frozen=True)
class Options:
    """A command line with elbencho's defaults."""

    paths: tuple[str, ...] = ()
    phases: frozenset[str] = frozenset()
    """Options of the phases that run."""
    threads: int = 1
    """Threads of each host."""
    hosts: int = 0
    """Load clients; 0 runs on this machine."""
    cluster: str | None = None
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


SHORT = {
    "b": "block",
    "c": "configfile",
    "D": "deldirs",
    "d": "mkdirs",
    "F": "delfiles",
    "i": "iterations",
    "N": "files",
    "n": "dirs",
    "r": "read",
    "s": "size",
    "t": "threads",
    "w": "write",
}
FLAGS: Mapping[str, tuple[str, bool]] = {
    "allelapsed": ("shows_elapsed", True),
    "direct": ("direct", True),
    "dropcache": ("drops_caches", True),
    "dryrun": ("only_counts", True),
    "infloop": ("repeats", True),
    "lat": ("shows_latency", True),
    "lathisto": ("shows_histogram", True),
    "latpercent": ("shows_percentiles", True),
    "nocsvlabels": ("csv_labels", False),
    "nodelerr": ("ignores_missing", True),
    "norandalign": ("aligned", False),
    "nosvcshare": ("share_paths", False),
    "rand": ("random", True),
    "sync": ("syncs", True),
    "trunctosize": ("extends", True),
}
NUMBERS: Mapping[str, tuple[str, int, int]] = {
    "blockvarpct": ("refill_percent", 0, 100),
    "dirs": ("directories", 0, 1_000_000),
    "files": ("files", 0, 1_000_000_000),
    "iodepth": ("depth", 1, 65_536),
    "iterations": ("iterations", 1, 1_000_000),
    "latpercent9s": ("nines", 0, 5),
    "numhosts": ("hosts", 1, CLIENTS_MAX),
    "phasedelay": ("pause_s", 0, 86_400),
    "rwmixpct": ("read_percent", 0, 100),
    "threads": ("threads", 1, WORKERS_MAX),
    "timelimit": ("runtime_ns", 0, 10_000_000),
}
"""Fields with the smallest and the largest value."""
SIZES = {
    "block": "block",
    "limitread": "read_limit",
    "limitwrite": "write_limit",
    "randamount": "random_bytes",
    "size": "size",
}
PLACES = {"csvfile": "csv_path", "jsonfile": "json_path", "out": "out", "resfile": "results_path"}
TEXTS = {"label": "label", "on": "cluster"}
IGNORED_FLAGS = ("live1", "live1n", "no0usecerr", "nodiocheck", "nofdsharing", "nolive", "opsloglock")
"""Flags that change nothing here: there are no live statistics, and each thread opens its files."""
IGNORED_VALUES = ("blockvaralgo", "liveint", "log", "port", "randalgo", "svcupint", "svcwait")
REFUSED_FLAGS = {
    "backward": "for sequential reads backwards: iocurve fio --rw=read:-8k --bs=4k",
    "cpu": "--out DIR writes result.json, which has the processor time of each thread",
    "cufile": "there is no GPU engine",
    "cufiledriveropen": "there is no GPU engine",
    "cuhostbufreg": "there is no GPU engine",
    "dirsharing": "-n 0 lets all threads use one directory",
    "dirstats": "leave it out; files are counted",
    "foreground": "hosts need no service: --hosts reaches them over ssh",
    "gds": "there is no GPU engine",
    "gdsbufreg": "there is no GPU engine",
    "gpuperservice": "there is no GPU engine",
    "interrupt": "Ctrl-C ends a run on all hosts",
    "livecsvex": "--metrics PORT serves values while it runs",
    "livejsonex": "--metrics PORT serves values while it runs",
    "mmap": "for mapped files: iocurve fio --ioengine=mmap",
    "netbench": "for a network alone: iperf3",
    "nopathexp": "give files without square brackets",
    "preallocfile": "--trunctosize gives files their size",
    "quit": "hosts need no service: --hosts reaches them over ssh",
    "readinline": "read in another phase: -r",
    "service": "hosts need no service: --hosts reaches them over ssh",
    "statinline": "stat in another phase: --stat",
    "strided": "for strided access: iocurve fio --zonemode=strided",
    "svcelapsed": "--allelapsed shows the time of each thread",
    "svcping": "--metrics PORT serves values while it runs",
    "treerand": "for files of several sizes: iocurve vdbench with fsd= sizes=",
    "trunc": "delete the files first: -F",
    "verifydirect": "for verification: iocurve fio --verify=crc32c --verify_backlog=1",
}
REFUSED_VALUES = {
    "clients": "for a network alone: iperf3",
    "clientsfile": "for a network alone: iperf3",
    "fadv": "for access hints: iocurve fio --fadvise_hint",
    "flock": "leave it out",
    "gpuids": "there is no GPU engine",
    "hostsfile": "give the hosts themselves: --hosts vm[1-12]",
    "livecsv": "--metrics PORT serves values while it runs",
    "livejson": "--metrics PORT serves values while it runs",
    "madv": "for mapped files: iocurve fio --ioengine=mmap",
    "netdevs": "for a network alone: iperf3",
    "opslog": "for a log of each operation: iocurve fio --write_lat_log=PREFIX --log_offset=1",
    "rankoffset": "leave it out",
    "recvbuf": "for a network alone: iperf3",
    "respsize": "for a network alone: iperf3",
    "rotatehosts": "leave it out",
    "rwmixthr": "--rwmixpct mixes reads and writes in each thread",
    "rwmixthrpct": "--rwmixpct mixes reads and writes in each thread",
    "sendbuf": "for a network alone: iperf3",
    "servers": "for a network alone: iperf3",
    "serversfile": "for a network alone: iperf3",
    "sharesize": "for files of several sizes: iocurve vdbench with fsd= sizes=",
    "start": "hosts of one run start together: --hosts",
    "svcpwfile": "hosts need no service: --hosts reaches them over ssh",
    "treefile": "for files of several sizes: iocurve vdbench with fsd= sizes=",
    "treeroundup": "for files of several sizes: iocurve vdbench with fsd= sizes=",
    "treescan": "for files of several sizes: iocurve vdbench with fsd= sizes=",
    "verify": "for verification: iocurve fio --verify=crc32c",
    "zones": "--cores binds threads to processors",
}
_VALUES = {*NUMBERS, *SIZES, *PLACES, *TEXTS, *IGNORED_VALUES, *REFUSED_VALUES, "configfile", "cores"}
_FLAGS = {*PHASES, *FLAGS, *IGNORED_FLAGS, *REFUSED_FLAGS}
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40, "p": 1 << 50}


def parse(arguments: Sequence[str], directory: Path) -> Options:
    """Reads a command line; relative names start from ``directory``. Raises ``DialectError`` with every error."""
    reader = _Reader(directory)
    reader.read(list(arguments))
    options = Options(
        **reader.values,  # type: ignore[arg-type]
        paths=tuple(reader.paths),
        sizes_tree=reader.sizes_tree,
        phases=frozenset(reader.phases),
        arguments=tuple(arguments),
    )
    errors = reader.errors or [Diagnostic(text) for text, holds in CONTRADICTIONS.items() if holds(options)]
    if errors:
        raise DialectError(in_order(errors))
    return replace(options, random_bytes=options.random_bytes if options.random else 0)


@dataclass
class _Reader:
    directory: Path
    values: dict[str, object] = field(default_factory=dict)
    phases: set[str] = field(default_factory=set)
    paths: list[str] = field(default_factory=list)
    sizes_tree: bool = False
    errors: list[Diagnostic] = field(default_factory=list)
    where: Where | None = None

    def read(self, arguments: list[str]) -> None:
        words = enumerate(arguments, 1)
        for number, argument in words:
            self.where = Where(COMMAND_LINE, number, argument=argument)
            for name, value in self._split(argument):
                if name in _VALUES and value is None:
                    value = next(words, (0, None))[1]
                    if value is None:
                        self._error(f"{argument} needs a value")
                        return
                self._set(name, value)

    def _split(self, argument: str) -> Iterator[tuple[str, str | None]]:
        """Options of an argument with their values: ``-wt4`` has two."""
        if argument.startswith("--") and len(argument) > 2:
            name, equals, value = argument[2:].partition("=")
            yield self._full(name), value if equals else None
        elif argument.startswith("-") and len(argument) > 1:
            letters = argument[1:]
            while letters:
                name = SHORT.get(letters[0], "")
                if not name:
                    self._error(f"elbencho has no option -{letters[0]}", "iocurve elbencho --help")
                    return
                if name in _VALUES:
                    yield name, letters[1:].removeprefix("=") or None
                    return
                yield name, None
                letters = letters[1:]
        else:
            yield "path", argument

    def _full(self, name: str) -> str:
        """The name of an option; elbencho accepts an unambiguous start."""
        known = _VALUES | _FLAGS
        longer = [each for each in known if each.startswith(name)]
        return longer[0] if name not in known and len(longer) == 1 else name

    def _set(self, name: str, value: str | None) -> None:
        setters = (
            (_FLAGS, self._flag),
            (NUMBERS, self._number),
            (SIZES, self._size),
            (("path",), self._add_path),
            (PLACES, self._place),
            (TEXTS, self._text),
            (("cores",), self._cores),
            (("configfile",), self._config),
            (IGNORED_VALUES, lambda *_: None),
        )
        setter = next((found for names, found in setters if name in names), self._refuse)
        setter(name, value or "")

    def _refuse(self, name: str, _value: str) -> None:
        if name in REFUSED_VALUES:
            self._error(f"--{name} is not supported", REFUSED_VALUES[name])
        elif name.startswith("s3"):
            self._error(f"--{name}: object storage is not supported", "files, directories and devices are")
        else:
            close = nearest(name[:40], _VALUES | _FLAGS)
            hint = f"did you mean --{close}?" if close else "iocurve elbencho --help"
            self._error(f"elbencho has no option --{name[:40]}", hint)

    def _place(self, name: str, value: str) -> None:
        self.values[PLACES[name]] = self.directory / value

    def _text(self, name: str, value: str) -> None:
        self.values[TEXTS[name]] = value

    def _flag(self, name: str, value: str) -> None:
        if value and value.lower() not in ("1", "true", "yes", "on"):
            if value.lower() not in ("0", "false", "no", "off"):
                self._error(f"--{name} takes no value")
        elif name in PHASES:
            self.phases.add(name)
        elif name in FLAGS:
            self.values[FLAGS[name][0]] = FLAGS[name][1]
        elif name in REFUSED_FLAGS:
            self._error(f"--{name} is not supported", REFUSED_FLAGS[name])

    def _number(self, name: str, text: str) -> None:
        where, low, high = NUMBERS[name]
        if not re.fullmatch(r"\d{1,12}", text, re.ASCII) or not low <= int(text) <= high:
            self._error(f"--{name}: '{text[:40]}' is not a number from {low:,} to {high:,}")
            return
        if name == "numhosts" and self.values.get(where, int(text)) != int(text):
            self._error(
                f"--numhosts {text} and {self.values[where]} hosts of --hosts", "list the hosts to use in --hosts"
            )
        self.values[where] = int(text) * (SECOND_NS if name == "timelimit" else 1)
        self.sizes_tree |= name in ("dirs", "files")

    def _size(self, name: str, text: str) -> None:
        found = re.fullmatch(r"(\d{1,15})([kmgtp]?)(?:i?b)?", text.lower(), re.ASCII)
        size = int(found[1]) * _UNITS[found[2]] if found else -1
        if not 0 <= size < 1 << 62 or (name == "block" and not 1 <= size <= 1 << 30):
            self._error(f"--{name}: '{text[:40]}' is not a size", "such as 4k, 1m or 20g")
            return
        self.values[SIZES[name]] = size

    def _cores(self, _name: str, text: str) -> None:
        """``0,2,4`` or ``0-3``; ``all`` binds nothing."""
        cpus: list[int] = []
        for part in text.split(",") if text != "all" else ():
            found = re.fullmatch(r"(\d{1,5})(?:-(\d{1,5}))?", part)
            if not found:
                self._error(f"--cores: '{text[:40]}' is not a list of processors", "such as 0,2 or 0-3")
                return
            cpus += range(int(found[1]), int(found[2] or found[1]) + 1)
        self.values["cpus"] = tuple(cpus)

    def _config(self, _name: str, name: str) -> None:
        """A file with ``option=value`` on each line."""
        try:
            text = read_job_file(self.directory / name, "utf-8", "replace")
        except (OSError, ValueError) as error:
            self._error(f"--configfile {name[:80]} cannot be read: {getattr(error, 'strerror', None) or error}")
            return
        for number, line in enumerate(text.splitlines(), 1):
            option, _, value = line.strip().partition("=")
            if option and not option.startswith("#"):
                self.where = Where(name, number)
                full = self._full(option.strip())
                if full in ("configfile", "hosts"):
                    self._error(f"{full} belongs on the command line")
                else:
                    self._set(full, value.strip())

    def _add_path(self, _name: str, text: str) -> None:
        try:
            self.paths += [text] if text.startswith("nfs:") else [str(self.directory / path) for path in expanded(text)]
        except ValueError as error:
            self._error(str(error))

    def _error(self, text: str, hint: str | None = None) -> None:
        self.errors.append(Diagnostic(text, self.where, hint))


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


CONTRADICTIONS: Mapping[str, Callable[[Options], bool]] = {
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
