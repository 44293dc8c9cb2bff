"""Reads mdtest's command line."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec
from msgspec.structs import replace

from iocurve.dialects.base import CLIENTS_MAX, ClusterRequest, typed
from iocurve.dialects.option_table import OptionReader, TableOption, adds, flag, ignored, refused, sets
from iocurve.foundation.errors import Diagnostic, DialectError, in_order
from iocurve.foundation.structs import read_bundled
from iocurve.foundation.units import SECOND_NS

Table = Literal["rate", "time"]
RANKS_MAX = 1024
BYTES_MAX = 64 << 20
"""Most bytes of a file (-w): each file in flight has them in memory."""
ITEMS_MAX = 2_000_000
"""Most files or directories of all ranks: each is a name in the plan."""


class MdtestOptions(msgspec.Struct, frozen=True):
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
    verifies_reads: bool = False
    """-X was given, which has no effect here."""
    in_random_order: bool = False
    """Items are looked up and read in random order (-R)."""
    random_seed: int = 1
    pause_s: int = 0
    """Pause before the phases of directories, and before those of files (-p)."""
    status_file: Path | None = None
    """The items of each task that a stonewall let through are written to it and read from it (-x)."""
    tables: tuple[Table, ...] = ("rate",)
    verbose: int = 0
    clients: int = 1
    """Agents; tasks are divided among them in blocks."""
    cluster: ClusterRequest | None = None
    out: Path | None = None
    arguments: tuple[str, ...] = ()

    def does(self, phase: str) -> bool:
        """True if the phase (create, stat, read, remove or rename) runs; rename does so only where all do."""
        return phase in self.only if self.only else True

    def client_of(self, rank: int) -> int:
        """The agent of a task."""
        return rank * self.clients // self.ranks

    @property
    def tests_directories(self) -> bool:
        """True without -F, or with -D and -F."""
        return self.directories_only or not self.files_only

    @property
    def tests_files(self) -> bool:
        """True without -D, or with -D and -F."""
        return self.files_only or not self.directories_only


_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def _number(text: str) -> int:
    number = re.fullmatch(r"(\d{1,12})([kmg]?)", text.lower())
    if not number:
        raise ValueError(f"'{text[:40]}' is not a number", "whole numbers, or 4k, 1m")
    return int(number[1]) * _UNITS[number[2]]


def _more_verbose(reader: OptionReader, _: str) -> None:
    before = reader.values.get("verbose")
    reader.values["verbose"] = 1 + (before if isinstance(before, int) else 0)


def _check_api(_reader: OptionReader, name: str) -> None:
    if name.upper() != "POSIX":
        raise ValueError(f"-a {name[:40]}: the only API is POSIX", "leave out -a; -d takes nfs://host/export, too")


TABLE = read_bundled(Path(__file__).parent, "options")
OPTIONS: Mapping[str, TableOption] = {
    **{name: flag(target) for name, target in TABLE["flags"].items()},
    **{name: adds("only", phase) for name, phase in TABLE["phases"].items()},
    **{name: sets(target, _number) for name, target in TABLE["numbers"].items()},
    **{name: ignored(takes_value=kind == "values") for kind, names in TABLE["ignored"].items() for name in names},
    **{
        name: refused(text, f"leave out {name}", takes_value=kind == "values")
        for kind, rows in TABLE["refused"].items()
        for name, text in rows.items()
    },
    "-a": TableOption(_check_api),
    "-x": sets("status_file", Path),
    "-P": flag("tables", value=("rate", "time")),
    "-Z": flag("tables", value=("time",)),
    "-d": sets("paths", lambda text: tuple(text.split("@"))),
    "-v": TableOption(_more_verbose, takes_value=False),
    "-W": sets("stonewall_ns", lambda text: _number(text) * SECOND_NS),
    "--on": sets("address", str),
    "--out": sets("out", Path),
}


def parse(arguments: Sequence[str]) -> MdtestOptions:
    """Reads a command line. Raises ``DialectError`` with every error in it."""
    reader = OptionReader("mdtest", OPTIONS, joins_values=False)
    reader.read(arguments)
    values = reader.values
    is_on_cluster = not values.keys().isdisjoint(("clients", "address"))
    address = values.pop("address", None)
    options = MdtestOptions(**values, arguments=typed(arguments))  # type: ignore[arg-type]
    if is_on_cluster:
        # mdtest shifts by the tasks of a node, so that the phases of a file are on different nodes.
        shift = (
            options.shift * max(1, options.ranks // max(1, options.clients)) if options.clients > 1 else options.shift
        )
        cluster = ClusterRequest(str(address) if address else None, count=options.clients)
        options = replace(options, cluster=cluster, shift=shift)
    errors = reader.errors or _contradictions(options)
    if errors:
        raise DialectError(in_order(errors))
    return options


def _contradictions(options: MdtestOptions) -> list[Diagnostic]:
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
        "the tasks (--np) must be a multiple of the agents": lambda: options.ranks % max(1, options.clients) != 0,
        "-Y with agents: sync(2) would run on this machine alone": lambda: (
            options.syncs and options.cluster is not None
        ),
        "-W needs the creation phase": lambda: options.stonewall_ns > 0 and not options.does("create"),
    }
    return [Diagnostic(text) for text, holds in rules.items() if holds()]
