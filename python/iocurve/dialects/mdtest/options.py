"""Reads mdtest's command line."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from iocurve.dialects.base import CLIENTS_MAX, ClusterRequest
from iocurve.errors import COMMAND_LINE, Diagnostic, DialectError, Where, in_order
from iocurve.units import SECOND_NS

RANKS_MAX = 1024
BYTES_MAX = 64 << 20
"""Most bytes of a file (-w): each file in flight has them in memory."""
ITEMS_MAX = 2_000_000
"""Most files or directories of all ranks: each is a name in the plan."""


@dataclass(frozen=True)
class Options:
    """A command line, as mdtest's ``mdtest_options_t`` after its checks."""

    ranks: int = 1
    paths: tuple[str, ...] = ("./out",)
    items: int = 0
    """Items of each rank in a tree (-n)."""
    items_per_directory: int = 0
    branch_factor: int = 1
    depth: int = 0
    leaf_only: bool = False
    unique: bool = False
    """Each rank has its own tree (-u)."""
    only: frozenset[str] = frozenset()
    """Phases that -C, -T, -E and -r select; empty selects all."""
    directories_only: bool = False
    files_only: bool = False
    times_unique: bool = False
    stonewall_ns: int = 0
    shift: int = 0
    iterations: int = 1
    write_bytes: int = 0
    """Bytes written to each file that is created (-w)."""
    read_bytes: int = 0
    """Bytes read from each file (-e)."""
    syncs_files: bool = False
    """A file that was written is flushed before it is closed (-y)."""
    syncs: bool = False
    verbose: int = 0
    clients: int = 1
    """Load clients; tasks are divided among them in blocks."""
    cluster: ClusterRequest | None = None
    out: Path | None = None
    arguments: tuple[str, ...] = ()
    errors: list[Diagnostic] = field(default_factory=list)

    def does(self, phase: str) -> bool:
        """True if the phase (create, stat, read, remove or rename) runs; rename does so only where all do."""
        return phase in self.only if self.only else True

    def client_of(self, rank: int) -> int:
        """The load client of a task."""
        return rank * self.clients // self.ranks

    @property
    def tests_directories(self) -> bool:
        """True without -F, or with -D and -F."""
        return self.directories_only or not self.files_only

    @property
    def tests_files(self) -> bool:
        """True without -D, or with -D and -F."""
        return self.files_only or not self.directories_only


FLAGS = {
    "D": "directories_only",
    "F": "files_only",
    "L": "leaf_only",
    "u": "unique",
    "t": "times_unique",
    "y": "syncs_files",
    "Y": "syncs",
}
PHASES = {"C": "create", "T": "stat", "E": "read", "r": "remove"}
NUMBERS = {
    "n": "items",
    "I": "items_per_directory",
    "z": "depth",
    "b": "branch_factor",
    "N": "shift",
    "i": "iterations",
    "W": "stonewall_ns",
    "w": "write_bytes",
    "e": "read_bytes",
}
REFUSED = {
    "a": "another API than POSIX",
    "B": "no barriers between phases",
    "c": "collective creation",
    "f": "a series of numbers of tasks",
    "G": "a data pattern",
    "k": "mknod",
    "l": "a series of numbers of tasks",
    "M": "renaming apart from the other phases",
    "p": "a delay before each phase",
    "P": "rates and times",
    "R": "random order of stat",
    "s": "a series of numbers of tasks",
    "S": "one file for all tasks",
    "U": "renaming apart from the other phases",
    "V": "a verbosity by number",
    "x": "a file with the state of a stonewall",
    "X": "verification of data",
    "Z": "times instead of rates",
}
_WORD = re.compile(r"-([A-Za-z])=?(.*)", re.DOTALL)
_UNITS = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def parse(arguments: Sequence[str]) -> Options:
    """Reads a command line. Raises ``DialectError`` with every error in it."""
    reader = _Reader(arguments)
    reader.read()
    options = replace(
        Options(**reader.values),
        only=frozenset(reader.phases),
        verbose=reader.verbose,
        arguments=tuple(arguments),
    )
    if reader.is_on_cluster:
        # mdtest shifts by the tasks of a node, so that the phases of a file are on different nodes.
        shift = (
            options.shift * max(1, options.ranks // max(1, options.clients)) if options.clients > 1 else options.shift
        )
        cluster = ClusterRequest(reader.address, count=options.clients)
        options = replace(options, cluster=cluster, shift=shift)
    errors = reader.errors or _contradictions(options)
    if errors:
        raise DialectError(in_order(errors))
    return options


class _Reader:
    def __init__(self, arguments: Sequence[str]) -> None:
        self._arguments = arguments
        self._at = 0
        self.values: dict[str, Any] = {}
        self.phases: set[str] = set()
        self.verbose = 0
        self.is_on_cluster = False
        self.address: str | None = None
        self.errors: list[Diagnostic] = []

    def read(self) -> None:
        while self._at < len(self._arguments):
            argument = self._arguments[self._at]
            self._at += 1
            if argument.startswith("--"):
                self._own(argument)
            elif word := _WORD.fullmatch(argument):
                self._letter(argument, word[1], word[2])
            else:
                self._error(argument, f"'{argument}' is not an option of mdtest", "options begin with -")

    def _letter(self, argument: str, letter: str, rest: str) -> None:
        if letter in PHASES or letter in FLAGS or letter == "v":
            self._flags(argument, letter + rest)
        elif letter == "d":
            self.values["paths"] = tuple(self._value(argument, rest).split("@"))
        elif letter in NUMBERS:
            self._number(argument, NUMBERS[letter], self._value(argument, rest))
        elif letter in REFUSED:
            self._error(argument, f"-{letter}: {REFUSED[letter]} is not supported", f"leave out -{letter}")
        else:
            self._error(argument, f"mdtest has no option -{letter}", "iocurve mdtest --help")

    def _flags(self, argument: str, letters: str) -> None:
        for letter in letters:
            if letter in PHASES:
                self.phases.add(PHASES[letter])
            elif letter in FLAGS:
                self.values[FLAGS[letter]] = True
            elif letter == "v":
                self.verbose += 1
            else:
                self._error(argument, f"-{letter} cannot be one of the flags {argument}", "write it apart")

    def _own(self, argument: str) -> None:
        name, equals, value = argument[2:].partition("=")
        if name not in ("np", "out", "clients", "on"):
            self._error(argument, f"{argument.split('=')[0]} is not an option", "iocurve mdtest --help")
        elif not equals:
            value = self._value(argument, "")
        if name in ("np", "clients"):
            self._number(argument, "ranks" if name == "np" else name, value)
            self.is_on_cluster |= name == "clients"
        elif name == "on":
            self.address, self.is_on_cluster = value, True
        elif name == "out":
            self.values["out"] = Path(value)

    def _value(self, argument: str, rest: str) -> str:
        if rest:
            return rest
        if self._at == len(self._arguments):
            self._error(argument, f"{argument} needs a value")
            return "1"
        self._at += 1
        return self._arguments[self._at - 1]

    def _number(self, argument: str, name: str, text: str) -> None:
        number = re.fullmatch(r"(\d{1,12})([kmg]?)", text.lower())
        if not number:
            self._error(argument, f"'{text[:40]}' is not a number", "whole numbers, or 4k, 1m")
            return
        value = int(number[1]) * _UNITS.get(number[2], 1)
        self.values[name] = value * SECOND_NS if name == "stonewall_ns" else value

    def _error(self, argument: str, text: str, hint: str | None = None) -> None:
        where = Where(COMMAND_LINE, self._at, argument=argument)
        self.errors.append(Diagnostic(text, where, hint))


def _contradictions(options: Options) -> list[Diagnostic]:
    """The checks of mdtest, and iocurve's limits."""
    several = len(options.paths) > 1
    rules: Mapping[str, Callable[[], bool]] = {
        "-n or -I must say how many files or directories there are": lambda: (
            not options.items and not options.items_per_directory
        ),
        "-n must be a multiple of -I": lambda: (
            bool(options.items and options.items_per_directory)
            and not options.unique
            and options.items % options.items_per_directory != 0
        ),
        "-u takes -n or -I, not both": lambda: (
            options.unique and bool(options.items) and bool(options.items_per_directory)
        ),
        "-b must be at least 1": lambda: options.branch_factor < 1 and options.depth > 0,
        "-i must be at least 1": lambda: options.iterations < 1,
        f"--np must be 1 to {RANKS_MAX}": lambda: not 1 <= options.ranks <= RANKS_MAX,
        "several directories in -d need -u": lambda: several and not options.unique,
        "several directories in -d and -N exclude each other": lambda: several and options.shift > 0,
        "-d has more directories than there are tasks (--np)": lambda: len(options.paths) > options.ranks,
        "-d has an empty directory": lambda: not all(options.paths),
        "-W needs a branching factor (-b) of 1 and a depth (-z) of 0": lambda: (
            options.stonewall_ns > 0 and (options.branch_factor > 1 or options.depth > 0)
        ),
        "-W needs -F: mdtest would stat directories that it has not created": lambda: (
            options.stonewall_ns > 0 and options.tests_directories
        ),
        "-W and several directories of items (-n with -I) exclude each other": lambda: (
            options.stonewall_ns > 0 and bool(options.items and options.items_per_directory)
        ),
        "-e reads more than -w writes: mdtest refuses it": lambda: (
            options.does("create") and options.does("read") and options.read_bytes > options.write_bytes
        ),
        f"-w and -e take at most {BYTES_MAX} bytes": lambda: max(options.write_bytes, options.read_bytes) > BYTES_MAX,
        f"--clients must be 1 to {CLIENTS_MAX}": lambda: not 1 <= options.clients <= CLIENTS_MAX,
        "the tasks (--np) must be a multiple of the load clients": lambda: options.ranks % max(1, options.clients) != 0,
        "-Y with load clients: sync(2) would run on this machine alone": lambda: (
            options.syncs and options.cluster is not None
        ),
        "-W needs the creation phase": lambda: options.stonewall_ns > 0 and not options.does("create"),
    }
    return [Diagnostic(text) for text, holds in rules.items() if holds()]
