"""Reads scenarios: TOML whose loads have the keys of a job file. ``docs/scenarios.md`` describes the format."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import msgspec
from msgspec.structs import replace

from iocurve.analysis.answers import FAMILIES, FEWEST_CLIENTS
from iocurve.analysis.load_names import COMPARED_AXES
from iocurve.dialects.native import kinds
from iocurve.dialects.native.reader import DocumentTable, begin
from iocurve.engine.plan import METADATA_KINDS
from iocurve.foundation.errors import DialectError, unknown
from iocurve.foundation.structs import bundled_names
from iocurve.foundation.units import GIB, MILLISECOND_NS, SECOND_NS
from iocurve.job.model import Said, TreeLoad
from iocurve.result import reference
from iocurve.result.document import Axis, CachePolicy, FamilyComparison
from iocurve.result.paired import MARGIN
from iocurve.targets.nfs_url import NUMBERS, VERSIONS


def _block_size(value: object) -> int:
    size = kinds.SIZE.read(value)
    if not 1 <= size <= GIB:
        raise ValueError(f"{value!r} is not a block size from 1 byte to 1 GiB")
    return size


ROUNDS = 6
"""Turns of a point that is compared with others. Fewer make wide intervals: 4 rounds leave 2 degrees of freedom, for
which Student's factor is 4.3; 6 rounds leave 4, for which it is 2.8."""
TURN_NS_MIN = 500 * MILLISECOND_NS
"""A turn is measured for at least this time, 3 s in 6 rounds. It spans many time slices of the scheduler and periods of
a token bucket; and the kernel's CPU counters, in ticks of 10 ms, tell whether others disturbed it."""
TARGETS_OWN = "target"
"""Axis value: the connections of the target's URL; 8 if it has one."""


_NUMBER = kinds.plain(int, 'a whole number or "target"', 1, 16)
_CONNECTIONS: kinds.Kind[int | str] = kinds.Kind(
    lambda value: TARGETS_OWN if value == TARGETS_OWN else _NUMBER.read(value),
    lambda: {"anyOf": [_NUMBER.schema(), {"const": TARGETS_OWN}]},
)
"""A number of connections, or ``target``."""
URL_AXES = ("vers", "slots", "rsize", "wsize", "timeo", "retrans")
"""Parameters of the URL of an export that can be axes, next to ``nconnect``."""
_DECIDED = frozenset({"name", "overwrite", "runtime_ns", "ramp_ns", "repeatable", "nfs_url", "nfs_source", "disk"})
"""Fields that a scenario decides itself."""


def _is_axis(field: str) -> bool:
    """True of a field with a single number, word or truth value as its value."""
    return field not in _DECIDED and kinds.KINDS[field].is_single


AXES: dict[str, kinds.AnyKind] = {
    "read_percent": kinds.whole(0, 100),
    "iodepth": kinds.whole(1, 2**20),
    "nconnect": _CONNECTIONS,
    "bs": replace(kinds.SIZE, read=_block_size),
    "clients": kinds.whole(1, 4096),
    "order": kinds.word(("random", "sequential")),
    "kind": kinds.word(("read", "write")),
    "target": kinds.TEXT,
    "files": kinds.whole(1, 2**20),
    **{name: kinds.word(tuple(VERSIONS)) if name == "vers" else kinds.whole(*NUMBERS[name]) for name in URL_AXES},
}
FIELD_AXES = {
    kinds.own_key(field): field for field in kinds.FIELDS if kinds.own_key(field) not in AXES and _is_axis(field)
}
"""Fields of a job file that can be axes, too, by their keys."""
AXES |= {key: kinds.KINDS[field] for key, field in FIELD_AXES.items()}
"""The possible axes of a family, with the type of their values."""
AXIS_NAMES = {"iodepth": "depth", "bs": "block_bytes"} | FIELD_AXES
"""Names of axes in results, if they differ from the keys: those of fields have their unit."""
DIRECTORY = Path(__file__).parent.parent / "scenarios"


class TargetNeed(msgspec.Struct, frozen=True):
    """A target that a scenario needs."""

    name: str
    about: str
    """Description of the target that the user must name."""
    standard: str
    """The embedded target to use if the user names none."""


class FamilyJob(msgspec.Struct, frozen=True):
    """One load of a family's points; several run together."""

    name: str
    on: str
    """Name of its target."""
    load: Said
    per_processor: bool = False
    """Each client has a worker for each processor (at most four) instead of the load's numjobs."""


class Family(msgspec.Struct, frozen=True):
    """Points that differ only in their axes."""

    name: str
    title: str
    cache: CachePolicy
    clients: int
    jobs: tuple[FamilyJob, ...]
    turns: dict[str, tuple[Axis, ...]] = msgspec.field(default_factory=dict)
    """The axis values at which points that are compared take turns; other points are measured once. Empty: all."""


class FamilyForm(msgspec.Struct, frozen=True):
    """The axis values and times of a family."""

    axes: dict[str, tuple[Axis, ...]]
    """Values by axis, in nesting order: the last axis changes fastest."""
    ramp_ns: int
    runtime_ns: int
    settle_ns: int | None
    """Most time that the load runs before a point until its latency is level. None: no such load, or with ``warmed``
    caches the default time."""

    @property
    def length_ns(self) -> int:
        """Length of a point that takes no turns, its ramp included."""
        return self.ramp_ns + self.runtime_ns

    def turn_ns(self, rounds: int) -> int:
        """Measured time of a turn, without its ramp."""
        return self.runtime_ns if rounds == 1 else max(TURN_NS_MIN, self.runtime_ns // rounds)


class Form(msgspec.Struct, frozen=True):
    """The times and sizes of a scenario: full, short or scaled."""

    size_bytes: int
    """Size of the data set, all files of a target together."""
    unrelated_bytes: int
    """Size of another data set that is read to evict the first from caches."""
    ramp_ns: int
    runtime_ns: int
    interval_ns: int
    width: int = 1
    """Directories in each directory of a tree."""
    rounds: int = ROUNDS
    """Turns of each point that is compared with others; 1 measures every point once."""
    families: dict[str, FamilyForm] = msgspec.field(default_factory=dict)
    """Forms of the families, by name."""


class Scenario(msgspec.Struct, frozen=True):
    """A scenario: a methodology as data."""

    name: str
    title: str
    why: str
    question: str
    answer: str
    """The form of the answer to the question, see ``ScenarioFacts``."""
    targets: tuple[TargetNeed, ...]
    """The first is the default of loads that name no target."""
    files: int
    """Number of files in a data set."""
    full: Form
    short: Form
    families: tuple[Family, ...]
    comparisons: tuple[FamilyComparison, ...]
    """Families to compare."""
    references: tuple[str, ...]
    margin: float = MARGIN
    """Smallest relative difference between compared points that matters."""
    probe: bool = True
    """Look for limits that the points leave open, after the last of them."""


def names() -> list[str]:
    """All bundled scenarios."""
    return bundled_names(DIRECTORY)


def load(name: str) -> Scenario:
    """Loads a bundled scenario, or a file that ends in .toml. Raises ``DialectError`` with every error."""
    if name.endswith(".toml"):
        return _read(Path(name))
    if name not in names():
        raise DialectError([unknown("scenario", name, names(), "iocurve scenario list")])
    return _read(DIRECTORY / f"{name}.toml")


def is_scenario(path: Path) -> bool:
    """True if a TOML file is a scenario and not a job. Raises ``DialectError`` if it is not TOML."""
    return "series" in begin(path).values


_KEYS = (
    "title", "question", "answer", "why", "reference", "target", "data", "timing", "load", "clients", "cache",
    "series", "compare", "margin", "probe", "short",
)  # fmt: skip
_FAMILY_KEYS = (
    "name", "title", "cache", "clients", "workers", "parameters", "turns", "ramp_time", "runtime", "settle", "load",
    "tree", "job", "short",
)  # fmt: skip
_POLICY: kinds.Kind[CachePolicy] = kinds.word(get_args(CachePolicy))
_ANSWERS = kinds.word((*COMPARED_AXES, FAMILIES, FEWEST_CLIENTS))
_ANSWER = replace(_ANSWERS, read=lambda value: _ANSWERS.read(FAMILIES if value == "families" else value))
_MARGIN = kinds.plain(float, "a number such as 0.1", 0.001, 1)
_TREE: kinds.Kind[TreeLoad] = kinds.plan_part(TreeLoad)
MIXED_KINDS = tuple(kind for kind in METADATA_KINDS if kind != "close")
_NAME = kinds.pattern(r"[\w.\-]+", "a name of letters, digits, dots and dashes")
_STANDARD = Form(size_bytes=GIB, unrelated_bytes=2 * GIB, ramp_ns=0, runtime_ns=60 * SECOND_NS, interval_ns=SECOND_NS)
"""Times and sizes that a scenario leaves out."""


def _read(path: Path) -> Scenario:
    document = begin(path)
    scenario = _Scenario(document).read(path.stem)
    document.require_faultless()
    return scenario


class _Scenario:
    """A scenario while its document is read."""

    def __init__(self, document: DocumentTable) -> None:
        self.document = document
        document.check_keys(_KEYS)
        self.targets = _targets(document)
        self.target = kinds.word(tuple(target.name for target in self.targets))
        self.common = document.table("load").section()
        """Load of all families."""
        self.cache: CachePolicy = document.value("cache", _POLICY, "uncached")
        self.clients = document.value("clients", kinds.whole(1, 4096), 1)

    def read(self, name: str) -> Scenario:
        document, tables = self.document, self.document.tables("series")
        families = [self._family(table, number) for number, table in enumerate(tables, 1)]
        names = [family.name for family in families]
        if not families:
            document.error("there is no series of points: start one with [[series]]")
        for number, (family, table) in enumerate(zip(names, tables, strict=True)):
            if family in names[:number]:
                table.error(f"there is a series '{family}' already", "name")
        shortened = document.table("short")
        shortened.check_keys(("data", "timing"))
        full = _form(document, _STANDARD, "files")
        short = _form(shortened, full)
        for family, table in zip(names, tables, strict=True):
            full.families[family] = self._family_form(table, full)
            short.families[family] = self._short_form(table.table("short"), full.families[family], short)
        return Scenario(
            name=name,
            title=document.value("title", kinds.TEXT, name),
            why=document.value("why", kinds.TEXT, ""),
            question=document.value("question", kinds.TEXT, ""),
            answer=document.value("answer", _ANSWER, ""),
            targets=self.targets,
            files=document.table("data").value("files", kinds.whole(1, 4096), 1),
            full=full,
            short=short,
            families=tuple(families),
            comparisons=_comparisons(document, names),
            references=_references(document),
            margin=document.value("margin", _MARGIN, MARGIN),
            probe=document.value("probe", kinds.TRUTH, True),
        )

    def _family(self, table: DocumentTable, number: int) -> Family:
        table.check_keys(_FAMILY_KEYS)
        name = table.value("name", _NAME, f"series-{number}")
        own = table.table("load").section().over(self.common)
        return Family(
            name=name,
            title=table.value("title", kinds.TEXT, name),
            cache=table.value("cache", _POLICY, self.cache),
            clients=table.value("clients", kinds.whole(1, 4096), self.clients),
            jobs=self._jobs(table, _tree(table).over(own)),
            turns=self._axes(table.table("turns")),
        )

    def _family_form(self, table: DocumentTable, form: Form) -> FamilyForm:
        return FamilyForm(
            axes=self._axes(table.table("parameters")),
            ramp_ns=table.value("ramp_time", kinds.TIME, form.ramp_ns),
            runtime_ns=table.value("runtime", kinds.TIME, form.runtime_ns),
            settle_ns=table.value("settle", kinds.TIME, None),
        )

    def _short_form(self, table: DocumentTable, full: FamilyForm, form: Form) -> FamilyForm:
        table.check_keys(("parameters", "ramp_time", "runtime", "settle"))
        said = self._family_form(table, form)
        settle = said.settle_ns if "settle" in table.values else full.settle_ns and form.runtime_ns
        return replace(said, axes=full.axes | said.axes, settle_ns=settle)

    def _jobs(self, table: DocumentTable, load: Said) -> tuple[FamilyJob, ...]:
        per_processor = table.value("workers", kinds.word(("processors",)), None) is not None
        jobs = []
        for job in table.tables("job") or [table.part({}, "job", 0)]:
            on = job.value("on", self.target, self.targets[0].name)
            name = job.value("name", kinds.TEXT, "load")
            said = _tree(job).over(job.section("name", "on", "tree")).over(load)
            jobs.append(FamilyJob(name, on, said, per_processor))
        return tuple(jobs)

    def _axes(self, table: DocumentTable) -> dict[str, tuple[Axis, ...]]:
        table.check_keys(AXES)
        axes: dict[str, tuple[Axis, ...]] = {}
        for key in table.values:
            if key in AXES:
                kind = self.target if key == "target" else AXES[key]
                values = table.value(key, kinds.several(kind), (0,))
                # An axis has numbers and words: a truth value is a word.
                values = tuple(str(value).lower() if isinstance(value, bool) else value for value in values)
                axes[AXIS_NAMES.get(key, key)] = tuple(dict.fromkeys(values))
                if not values:
                    table.error(f"{key}: name at least one value", key)
        return axes


def _targets(document: DocumentTable) -> tuple[TargetNeed, ...]:
    found = []
    for number, table in enumerate(document.tables("target"), 1):
        table.check_keys(("name", "about", "standard"))
        for key in ("name", "standard"):
            if key not in table.values:
                table.error(f"{key} is missing")
        name = table.value("name", _NAME, f"target-{number}")
        found.append(TargetNeed(name, table.value("about", kinds.TEXT, ""), table.value("standard", kinds.TEXT, "")))
    if not found:
        document.error("there is no target: begin one with [[target]]")
    return tuple(found) or (TargetNeed("volume", "", "volume:"),)


def _tree(table: DocumentTable) -> Said:
    """The tree of a family or of one of its jobs; its width is that of the form."""
    mix = table.table("tree").table("mix")
    mix.check_keys(MIXED_KINDS)
    if mix.values.keys() - set(MIXED_KINDS):
        return Said()
    tree = table.value("tree", _TREE, None)
    if tree is not None and not (tree.mix and all(share > 0 for share in tree.mix.values())):
        table.error("tree: mix needs at least one kind of operation, each with a share", "tree")
    return Said.of(tree=tree)


def _form(table: DocumentTable, default: Form, *others: str) -> Form:
    data, timing = table.table("data"), table.table("timing")
    data.check_keys(("size", "unrelated", "width", *others))
    timing.check_keys(("ramp_time", "runtime", "interval", "rounds"))
    size = data.value("size", kinds.SIZE, default.size_bytes)
    return Form(
        size_bytes=size,
        unrelated_bytes=data.value("unrelated", kinds.SIZE, 2 * size),
        ramp_ns=timing.value("ramp_time", kinds.TIME, default.ramp_ns),
        runtime_ns=timing.value("runtime", kinds.TIME, default.runtime_ns),
        interval_ns=max(MILLISECOND_NS, timing.value("interval", kinds.TIME, default.interval_ns)),
        width=data.value("width", kinds.whole(1, 4096), default.width),
        rounds=timing.value("rounds", kinds.whole(1, 100), default.rounds),
    )


def _comparisons(document: DocumentTable, families: list[str]) -> tuple[FamilyComparison, ...]:
    found = []
    for table in document.tables("compare"):
        table.check_keys(("title", "series"))
        compared = table.value("series", kinds.several(kinds.word(tuple(families))), ())
        found.append(FamilyComparison(title=table.value("title", kinds.TEXT, "side by side"), families=compared))
    return tuple(found)


def _references(document: DocumentTable) -> tuple[str, ...]:
    said = document.value("reference", kinds.several(kinds.TEXT), ())
    for name in said:
        if name not in reference.names():
            document.error(f"there is no reference '{name}'", "reference")
    return said
