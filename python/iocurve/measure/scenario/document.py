"""Reads scenarios: TOML whose loads have the keys of a job file. ``docs/scenarios.md`` describes the format."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, get_args

from iocurve.analysis.answers import FAMILIES, FEWEST_CLIENTS
from iocurve.analysis.load_names import COMPARED_AXES
from iocurve.dialects.native.read import kinds
from iocurve.dialects.native.read.keys import FIELD_OF
from iocurve.dialects.native.read.kinds import TEXT, TRUTH, Kind, Pattern, Plain, Several, Size, Time, Word, whole
from iocurve.dialects.native.read.reader import KeyPath, Reader, begin
from iocurve.engine.plan import METADATA_KINDS
from iocurve.engine.structs import bundled_names
from iocurve.errors import DialectError, unknown
from iocurve.job.model import Said, TreeLoad
from iocurve.result import reference
from iocurve.result.document import Axis, CachePolicy, Comparison
from iocurve.result.paired import MARGIN
from iocurve.units import GIB, MILLISECOND_NS, SECOND_NS

Table = dict[str, Any]
"""A table of a TOML document."""


class BlockSize(Size):
    """A block size in bytes."""

    def read(self, value: Any) -> Any:
        """Reads a size from 1 byte to 1 GiB."""
        size = super().read(value)
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


class Connections(Plain):
    """A number of connections, or ``target``."""

    def read(self, value: Any) -> Any:
        """Reads a number from 1 to 16, or ``target``."""
        return value if value == TARGETS_OWN else super().read(value)


AXES: dict[str, Kind] = {
    "read_percent": whole(0, 100),
    "depth": whole(1, 2**20),
    "nconnect": Connections(int, 'a whole number or "target"', 1, 16),
    "blocks": BlockSize(),
    "clients": whole(1, 4096),
    "order": Word(("random", "sequential")),
    "kind": Word(("read", "write")),
    "target": TEXT,
    "files": whole(1, 2**20),
}
"""The possible axes of a family, with the type of their values."""
AXIS_NAMES = {"blocks": "block_bytes"}
"""Names of axes in results, if they differ from the keys."""
DIRECTORY = Path(__file__).parent.parent / "scenarios"


@dataclass(frozen=True)
class TargetNeed:
    """A target that a scenario needs."""

    name: str
    about: str
    """Description of the target that the user must name."""
    standard: str
    """The embedded target to use if the user names none."""


@dataclass(frozen=True)
class FamilyJob:
    """One load of a family's points; several run together."""

    name: str
    on: str
    """Name of its target."""
    load: Said
    per_processor: bool = False
    """Each client has a worker for each processor (at most four) instead of the load's numjobs."""


@dataclass(frozen=True)
class Family:
    """Points that differ only in their axes."""

    name: str
    title: str
    cache: CachePolicy
    clients: int
    jobs: tuple[FamilyJob, ...]
    turns: dict[str, tuple[Axis, ...]] = field(default_factory=dict)
    """The axis values at which points that are compared take turns; other points are measured once. Empty: all."""


@dataclass(frozen=True)
class FamilyForm:
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


@dataclass(frozen=True)
class Form:
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
    families: dict[str, FamilyForm] = field(default_factory=dict)
    """Forms of the families, by name."""


@dataclass(frozen=True)
class Scenario:
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
    comparisons: tuple[Comparison, ...]
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
    return "family" in begin(path)[1]


_KEYS = (
    "title",
    "question",
    "answer",
    "why",
    "reference",
    "target",
    "data",
    "timing",
    "load",
    "clients",
    "cache",
    "family",
    "compare",
    "margin",
    "probe",
    "short",
)
_FAMILY_KEYS = (
    "name",
    "title",
    "cache",
    "clients",
    "workers",
    "axes",
    "turns",
    "ramp",
    "runtime",
    "settle",
    "load",
    "tree",
    "job",
    "short",
)
_POLICY = Word(get_args(CachePolicy))
_CLIENTS = whole(1, 4096)
_ROUNDS = whole(1, 100)
_MARGIN = Plain(float, "a number such as 0.1", 0.001, 1)
_WORKERS = Word(("processors",))
_TREE = kinds.Table(TreeLoad)
MIXED_KINDS = tuple(kind for kind in METADATA_KINDS if kind != "close")
_NAME = Pattern(r"[\w.\-]+", "a name of letters, digits, dots and dashes")


def _read(path: Path) -> Scenario:
    reader, document = begin(path)
    scenario = _Scenario(reader, document).read(path.stem)
    reader.require_faultless()
    return scenario


@dataclass
class _Scenario:
    reader: Reader
    document: Table
    common: Said = field(init=False)
    """Load of all families."""
    cache: CachePolicy = field(init=False)
    clients: int = field(init=False)

    def read(self, name: str) -> Scenario:
        document = self.document
        self.reader.check_keys(document, _KEYS, ())
        targets = self._targets()
        self.common = self.reader.section(self._table(document, (), "load"), ("load",))
        self.cache = self._value(document, (), "cache", _POLICY, "uncached")
        self.clients = self._value(document, (), "clients", _CLIENTS, 1)
        families = [self._family(table, number, targets) for number, table in enumerate(self._families())]
        names = [family.name for family in families]
        if not families:
            self.reader.error((), "there is no family of points: begin one with [[family]]")
        for number, name_of_one in enumerate(names):
            if name_of_one in names[:number]:
                self.reader.error((*_place(number), "name"), f"there is a family '{name_of_one}' already")
        full = self._form(document, (), None)
        short_table = self._table(document, (), "short")
        self.reader.check_keys(short_table, ("data", "timing"), ("short",))
        short = self._form(short_table, ("short",), full)
        for number, table in enumerate(self._families()):
            family, place = families[number].name, _place(number)
            full.families[family] = self._family_form(table, place, full, targets)
            shortened = self._table(table, place, "short")
            self.reader.check_keys(shortened, ("axes", "ramp", "runtime", "settle"), (*place, "short"))
            said = self._family_form(shortened, (*place, "short"), short, targets)
            axes = full.families[family].axes | said.axes
            settle = said.settle_ns if "settle" in shortened else full.families[family].settle_ns and short.runtime_ns
            short.families[family] = replace(said, axes=axes, settle_ns=settle)
        return Scenario(
            name=name,
            title=self._value(document, (), "title", TEXT, name),
            why=self._value(document, (), "why", TEXT, ""),
            question=self._value(document, (), "question", TEXT, ""),
            answer=self._value(document, (), "answer", Word((*COMPARED_AXES, FAMILIES, FEWEST_CLIENTS)), ""),
            targets=targets,
            files=self._value(self._table(document, (), "data"), ("data",), "files", whole(1, 4096), 1),
            full=full,
            short=short,
            families=tuple(families),
            comparisons=self._comparisons(names),
            references=self._references(),
            margin=self._value(document, (), "margin", _MARGIN, MARGIN),
            probe=self._value(document, (), "probe", TRUTH, True),
        )

    def _comparisons(self, families: list[str]) -> tuple[Comparison, ...]:
        found = []
        for number, table in enumerate(self.reader.tables(self.document, (), "compare")):
            place: KeyPath = ("compare", number)
            self.reader.check_keys(table, ("title", "families"), place)
            title = self._value(table, place, "title", TEXT, "side by side")
            compared = self._value(table, place, "families", Several(Word(tuple(families))), ())
            found.append(Comparison(title=title, families=compared))
        return tuple(found)

    def _families(self) -> list[Table]:
        return self.reader.tables(self.document, (), "family")

    def _targets(self) -> tuple[TargetNeed, ...]:
        tables = self.reader.tables(self.document, (), "target")
        found = []
        for number, table in enumerate(tables):
            place: KeyPath = ("target", number)
            self.reader.check_keys(table, ("name", "about", "standard"), place)
            for key in ("name", "standard"):
                if key not in table:
                    self.reader.error(place, f"{key} is missing")
            name = self._value(table, place, "name", _NAME, f"target-{number + 1}")
            about, standard = (self._value(table, place, key, TEXT, "") for key in ("about", "standard"))
            found.append(TargetNeed(name, about, standard))
        if not found:
            self.reader.error((), "there is no target: begin one with [[target]]")
        return tuple(found) or (TargetNeed("volume", "", "volume:"),)

    def _family(self, table: Table, number: int, targets: tuple[TargetNeed, ...]) -> Family:
        place = _place(number)
        self.reader.check_keys(table, _FAMILY_KEYS, place)
        name = self._value(table, place, "name", _NAME, f"family-{number + 1}")
        own = self.reader.section(self._table(table, place, "load"), (*place, "load")).over(self.common)
        own = self._tree(table, place).over(own)
        return Family(
            name=name,
            title=self._value(table, place, "title", TEXT, name),
            cache=self._value(table, place, "cache", _POLICY, self.cache),
            clients=self._value(table, place, "clients", _CLIENTS, self.clients),
            jobs=self._jobs(table, place, own, targets),
            turns=self._axes(table, place, targets, "turns"),
        )

    def _family_form(self, table: Table, place: KeyPath, form: Form, targets: tuple[TargetNeed, ...]) -> FamilyForm:
        return FamilyForm(
            axes=self._axes(table, place, targets),
            ramp_ns=self._value(table, place, "ramp", Time(), form.ramp_ns),
            runtime_ns=self._value(table, place, "runtime", Time(), form.runtime_ns),
            settle_ns=self._value(table, place, "settle", Time(), None),
        )

    def _jobs(self, table: Table, place: KeyPath, load: Said, targets: tuple[TargetNeed, ...]) -> tuple[FamilyJob, ...]:
        known = [target.name for target in targets]
        per_processor = self._value(table, place, "workers", _WORKERS, None) is not None
        jobs = []
        for number, job in enumerate(self.reader.tables(table, place, "job") or [{}]):
            where: KeyPath = (*place, "job", number)
            self.reader.check_keys(job, ("name", "on", "tree", *FIELD_OF), where)
            on = self._value(job, where, "on", Word(tuple(known)), known[0])
            name = self._value(job, where, "name", TEXT, "load")
            own = {key: value for key, value in job.items() if key not in ("name", "on", "tree")}
            said = self._tree(job, where).over(self.reader.section(own, where)).over(load)
            jobs.append(FamilyJob(name, on, said, per_processor))
        return tuple(jobs)

    def _tree(self, table: Table, place: KeyPath) -> Said:
        """The tree of a family or of one of its jobs; its width is that of the form."""
        mix = self._table(self._table(table, place, "tree"), (*place, "tree"), "mix")
        self.reader.check_keys(mix, MIXED_KINDS, (*place, "tree", "mix"))
        if mix.keys() - set(MIXED_KINDS):
            return Said()
        tree: TreeLoad | None = self._value(table, place, "tree", _TREE, None)
        if tree is not None and not (tree.mix and all(share > 0 for share in tree.mix.values())):
            self.reader.error((*place, "tree"), "tree: mix needs at least one kind of operation, each with a share")
        return Said.of(tree=tree)

    def _axes(
        self, table: Table, place: KeyPath, targets: tuple[TargetNeed, ...], name: str = "axes"
    ) -> dict[str, tuple[Axis, ...]]:
        said = self._table(table, place, name)
        self.reader.check_keys(said, AXES, (*place, name))
        known = [target.name for target in targets]
        axes: dict[str, tuple[Axis, ...]] = {}
        for key in said:
            if key in AXES:
                kind = Word(tuple(known)) if key == "target" else AXES[key]
                values = self._value(said, (*place, "axes"), key, Several(kind), (0,))
                axes[AXIS_NAMES.get(key, key)] = tuple(dict.fromkeys(values))
                if not values:
                    self.reader.error((*place, name, key), f"{key}: name at least one value")
        return axes

    def _form(self, table: Table, place: KeyPath, full: Form | None) -> Form:
        data, timing = self._table(table, place, "data"), self._table(table, place, "timing")
        self.reader.check_keys(data, ("size", "unrelated", "width", *(() if full else ("files",))), (*place, "data"))
        self.reader.check_keys(timing, ("ramp", "runtime", "interval", "rounds"), (*place, "timing"))
        size = self._value(data, (*place, "data"), "size", Size(), full.size_bytes if full else 2**30)
        return Form(
            size_bytes=size,
            unrelated_bytes=self._value(data, (*place, "data"), "unrelated", Size(), 2 * size),
            ramp_ns=self._value(timing, (*place, "timing"), "ramp", Time(), full.ramp_ns if full else 0),
            runtime_ns=self._value(
                timing, (*place, "timing"), "runtime", Time(), full.runtime_ns if full else 60 * SECOND_NS
            ),
            interval_ns=max(
                MILLISECOND_NS,
                self._value(timing, (*place, "timing"), "interval", Time(), full.interval_ns if full else SECOND_NS),
            ),
            width=self._value(data, (*place, "data"), "width", whole(1, 4096), full.width if full else 1),
            rounds=self._value(timing, (*place, "timing"), "rounds", _ROUNDS, full.rounds if full else ROUNDS),
        )

    def _references(self) -> tuple[str, ...]:
        said = self._value(self.document, (), "reference", Several(TEXT), ())
        for name in said:
            if name not in reference.names():
                self.reader.error(("reference",), f"there is no reference '{name}'")
        return tuple(said)

    def _table(self, table: Table, place: KeyPath, key: str) -> Table:
        value = table.get(key, {})
        if isinstance(value, dict):
            return value
        self.reader.error((*place, key), f"{key} is a table: [{key}]")
        return {}

    def _value(self, table: Table, place: KeyPath, key: str, kind: Kind, otherwise: Any) -> Any:
        if key not in table:
            return otherwise
        try:
            return kind.read(table[key])
        except (ValueError, OverflowError) as error:
            self.reader.error((*place, key), f"{key}: {error}")
            return otherwise


def _place(family: int) -> KeyPath:
    return ("family", family)
