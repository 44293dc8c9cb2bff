"""Lists all points of a scenario before anything runs: the job, files and axes of each.

The points that are compared with each other are grouped before anything is measured.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from ipaddress import IPv4Address

import msgspec
from msgspec.structs import replace

from iocurve.analysis.load_names import COMPARED_AXES, axis_text
from iocurve.dialects.native.kinds import DEFAULTS, KINDS, TRUTH, WORDS
from iocurve.engine.plan import Blocks, FixedBlocks
from iocurve.foundation.errors import Diagnostic, PlanError
from iocurve.foundation.units import MIB, SECOND_NS
from iocurve.job.model import Job, PerKind, Said, TreeLoad
from iocurve.job.resolve.checks import MAX_WORKERS
from iocurve.measure.data_set import PROCESSORS_MAX, DataSet, axes_of, pinned, processors, target_fields
from iocurve.measure.scenario.document import (
    FIELD_AXES,
    TARGETS_OWN,
    URL_AXES,
    Family,
    FamilyForm,
    FamilyJob,
    Form,
    Scenario,
)
from iocurve.result.document import Axis, FamilyComparison
from iocurve.targets.nfs_url import with_parameters
from iocurve.targets.opened_target import UNOPENED, OpenedTarget
from iocurve.targets.target import DiskTarget

READ_ONCE_BLOCK_BYTES = MIB
FIRST_CLIENT = IPv4Address("127.0.1.1")
"""Local address of the first of several clients; the others have the next addresses."""
NCONNECT_COMPARED = 8
"""Connections of the axis value "target" if the target's URL has at most one."""


class Case(msgspec.Struct, frozen=True):
    """A point before it is measured."""

    family: Family
    name: str
    axes: dict[str, Axis]
    varied: Mapping[str, Axis]
    """The axes on which the points of its family differ."""
    job: Job
    on: tuple[str, ...]
    """Names of the targets that it loads."""
    clients: tuple[int, ...]
    """The client of each section of the job, from 0."""

    @property
    def reads(self) -> bool:
        """True if any of its workers reads."""
        return any(section.load.reads for section in self.job.sections)

    @property
    def writes(self) -> bool:
        """True if any of its workers writes."""
        return any(section.load.writes for section in self.job.sections)


class Cases(msgspec.Struct, frozen=True):
    """The points of a scenario on opened targets."""

    scenario: Scenario
    form: Form
    opened: Mapping[str, OpenedTarget]
    tag: str
    nfs_timeout_ns: int | None = None
    machines: int = 0
    """Agents of a cluster; 0 where clients are emulated on this machine."""

    @classmethod
    def unopened(cls, scenario: Scenario, form: Form, machines: int = 0) -> Cases:
        """Points that are counted and shown, and do not run."""
        return cls(scenario, form, {need.name: UNOPENED for need in scenario.targets}, "", machines=machines)

    def all(self) -> list[Case]:
        """All points, in the order of measurement. Raises ``PlanError`` for an impossible point."""
        return [case for family in self.scenario.families for case in self._family(family)]

    def form_of(self, case: Case) -> FamilyForm:
        """The times of a point."""
        return self.form.families[case.family.name]

    def unrelated(self, target: str) -> Job:
        """A job that reads another data set once, to evict the first from caches."""
        return self._read_once("unrelated", self._data(target, self.form.unrelated_bytes, "unrelated"))

    def whole(self, target: str) -> Job:
        """A job that reads the data set once from start to end."""
        return self._read_once("fill", self._data(target, self.form.size_bytes, "data"))

    def _read_once(self, name: str, data: DataSet) -> Job:
        blocks = _one_size(READ_ONCE_BLOCK_BYTES)
        # One connection may be far slower than the target.
        connections = NCONNECT_COMPARED if data.opened.nconnect is not None else None
        load = Said.of(name=name, random=False, blocks=blocks, depth=8, time_based=False, nconnect=connections)
        return self._job(name, [load.over(data.section(range(data.count)))])

    def _family(self, family: Family) -> Iterable[Case]:
        axes = self._axes(family)
        for values in itertools.product(*axes.values()):
            yield self._case(family, dict(zip(axes, values, strict=True)))

    def _axes(self, family: Family) -> dict[str, tuple[Axis, ...]]:
        """The axes of a family on its targets; only NFS exports have the axis of connections."""
        axes = dict(self.form.families[family.name].axes)
        if self.machines and "clients" in axes:
            axes["clients"] = tuple(value for value in axes["clients"] if int(value) <= self.machines)
        said = axes.pop("nconnect", ())
        connections = [self.opened[job.on].nconnect for job in family.jobs]
        nconnect = max((one for one in connections if one is not None), default=None)
        if nconnect is None:
            # Parameters of a URL are those of exports.
            return {axis: values for axis, values in axes.items() if axis not in URL_AXES}
        if not said:
            return axes
        of_target = nconnect if nconnect > 1 else NCONNECT_COMPARED
        values = tuple(dict.fromkeys(of_target if value == TARGETS_OWN else value for value in said))
        return {axis: values if axis == "nconnect" else axes[axis] for axis in self.form.families[family.name].axes}

    def _case(self, family: Family, axes: dict[str, Axis]) -> Case:
        clients = int(axes.get("clients", self.machines or family.clients))
        if self.machines and family.clients == 1 and "depth" in axes:
            # The depth is of one client; the axis has all clients together.
            axes = axes | {"depth": int(axes["depth"]) * clients}
        jobs = [_at(job, axes) for job in family.jobs]
        workers = sum(clients * _numjobs(job) for job in jobs)
        if workers > MAX_WORKERS:
            text = f"{family.name}: {workers:,} workers are too many; {MAX_WORKERS} can run at once"
            raise PlanError([Diagnostic(text)])
        sections = [section for job in jobs for section in self._sections(family, job, clients, workers, axes)]
        name = " ".join([family.name, *(_axis_text(axis, value) for axis, value in axes.items())])
        job = self._job(name, sections)
        described = self._described(job, jobs[0].on, clients, axes) if len(jobs) == 1 else {}
        on = tuple({job.on: None for job in jobs})
        if any(job.load.get("tree") for job in jobs):
            _require_directory(family, [self.opened[target] for target in on])
        placed = tuple(worker // _numjobs(job) for job in jobs for worker in range(clients * _numjobs(job)))
        return Case(family, name, described | axes, axes, job, on, placed)

    def _sections(
        self, family: Family, job: FamilyJob, clients: int, workers: int, axes: dict[str, Axis]
    ) -> Iterable[Said]:
        data, form = self._data(job.on, self.form.size_bytes, "data"), self.form.families[family.name]
        tree: TreeLoad | None = job.load.get("tree")
        if tree is not None:
            tree = tree.replace(width=self.form.width, files=int(axes.get("files", tree.files)))
        own = clients * _numjobs(job)
        depth = int(axes.get("depth", 0))
        if depth % workers:
            raise PlanError([Diagnostic(f"{family.name}: a depth of {depth} cannot be shared by {workers} workers")])
        has_own_address = clients > 1 and not self.machines and data.opened.allows_many_clients
        for worker in range(own):
            fields = Said.of(
                name=job.name,
                numjobs=1,
                depth=depth // workers if depth else None,
                ramp_ns=form.ramp_ns,
                runtime_ns=form.runtime_ns,
                overwrite=True,
                repeatable=family.cache == "cached",
                report_as_group=True,
                nfs_source=str(FIRST_CLIENT + (worker // _numjobs(job))) if has_own_address else None,
                nfs_timeout_ns=self.nfs_timeout_ns,
            )
            # The processors of a cluster's machines are their own affair.
            bound = Said() if self.machines else pinned(data.opened, worker)
            if changed := {axis: value for axis, value in axes.items() if axis in URL_AXES}:
                url = target_fields(data.opened).get("nfs_url")
                fields = fields.but(nfs_url=with_parameters(url, changed) if url else None)
            if tree is not None:
                yield fields.but(tree=tree).over(job.load).over(data.tree(tree, worker // _numjobs(job))).over(bound)
            else:
                yield fields.over(job.load).over(data.share(worker, own)).over(bound)

    def _data(self, target: str, size_bytes: int, what: str) -> DataSet:
        stem = f"iocurve-{self.scenario.name}-{self.tag}-{what}"
        return DataSet.of(self.opened[target], stem, self.scenario.files, size_bytes)

    def _job(self, name: str, sections: Sequence[Said]) -> Job:
        return Job.of(name, WORDS, sections, DEFAULTS)

    def _described(self, job: Job, target: str, clients: int, varied: Mapping[str, Axis]) -> dict[str, Axis]:
        """Axes to show with a figure, whether they vary or not."""
        first = job.sections[0]
        axes = axes_of(first.load)
        if "kind" in varied and "read_percent" in axes:
            # The kind implies the percentage.
            del axes["read_percent"]
        axes["depth"] = sum(section.pace.depth for section in job.sections)
        nconnect = first.target.nconnect or self.opened[target].nconnect
        if nconnect is not None:
            axes["nconnect"] = nconnect
        if clients > 1:
            axes["clients"] = clients
        return axes


def _require_directory(family: Family, opened: Sequence[OpenedTarget]) -> None:
    """Raises ``PlanError`` for a target that has no directories."""
    for target in opened:
        if target.path is not None or isinstance(target.target, DiskTarget):
            text = f"{family.name}: works on many files, and needs a directory or an NFS export"
            raise PlanError([Diagnostic(text)])


def scaled(full: Form, factor: float, at_least_bytes: int) -> Form:
    """Scales data sizes and times of a form; a point is never shorter than a second."""
    size = max(at_least_bytes, int(full.size_bytes * factor))
    families = {
        name: replace(
            family,
            ramp_ns=int(family.ramp_ns * factor),
            runtime_ns=max(SECOND_NS, int(family.runtime_ns * factor)),
            settle_ns=family.settle_ns and int(family.settle_ns * factor),
        )
        for name, family in full.families.items()
    }
    return replace(
        full,
        families=families,
        size_bytes=size,
        unrelated_bytes=max(2 * size, int(full.unrelated_bytes * factor)),
        ramp_ns=int(full.ramp_ns * factor),
        runtime_ns=max(SECOND_NS, int(full.runtime_ns * factor)),
        interval_ns=min(full.interval_ns, max(SECOND_NS // 10, int(full.runtime_ns * factor) // 10)),
    )


def _at(job: FamilyJob, axes: dict[str, Axis]) -> FamilyJob:
    """The job with one combination of axis values."""
    fields: dict[str, object] = {}
    if "read_percent" in axes:
        percent = float(axes["read_percent"])
        fields |= {"reads": percent > 0, "writes": percent < 100, "read_percent": percent}
    if "kind" in axes:
        fields |= {"reads": axes["kind"] == "read", "writes": axes["kind"] == "write"}
    if "order" in axes:
        fields["random"] = axes["order"] == "random"
    if "block_bytes" in axes:
        fields["blocks"] = _one_size(int(axes["block_bytes"]))
    if "nconnect" in axes:
        fields["nconnect"] = int(axes["nconnect"])
    for field in FIELD_AXES.values():
        if field in axes:
            fields[field] = axes[field] == "true" if KINDS[field] is TRUTH else axes[field]
    return replace(job, on=str(axes.get("target", job.on)), load=job.load.but(**fields))


def _numjobs(job: FamilyJob) -> int:
    """The number of workers of one client."""
    return min(len(processors()), PROCESSORS_MAX) if job.per_processor else job.load.get("numjobs") or 1


def _axis_text(axis: str, value: Axis) -> str:
    if axis == "read_percent":
        return f"{value:g}:{100 - float(value):g}"
    return axis_text(axis, value)


def _one_size(size_bytes: int) -> PerKind[Blocks]:
    blocks: Blocks = FixedBlocks(bytes=size_bytes)
    return PerKind.same(blocks)


class CaseGroup(msgspec.Struct, frozen=True):
    """Points that take turns, or a single point that is compared with none."""

    cases: tuple[Case, ...]
    rounds: int
    """Turns of each point; 1 if there is nothing to compare."""
    turn_ns: int
    """Measured time of each turn."""
    ramp_ns: int

    bases: Mapping[str, str]
    """By point: the point that its gain is over, by their names."""

    def compared(self, case: Case) -> tuple[str, ...]:
        """The names of all points that take turns, first the one that the gain of ``case`` is over."""
        base = self.bases[case.name]
        return (base, *(one.name for one in self.cases if one.name != base))

    @property
    def measured_ns(self) -> int:
        """Time of all turns with their ramps."""
        return len(self.cases) * self.rounds * (self.ramp_ns + self.turn_ns)


def groups_of(cases: Sequence[Case], comparisons: Sequence[FamilyComparison], form: Form) -> list[CaseGroup]:
    """The groups in the order of their first points; their points differ only in a compared axis or family."""
    by_key: dict[object, list[Case]] = {}
    for case in cases:
        keys = list(_keys(case, comparisons))
        known = list({id(by_key[key]): by_key[key] for key in keys if key in by_key}.values())
        merged = [*(one for group in known for one in group), case]
        by_key |= {key: merged for one in merged for key in _keys(one, comparisons)}
    groups = list({id(group): group for group in by_key.values()}.values())
    ordered = sorted((sorted(group, key=cases.index) for group in groups), key=lambda group: cases.index(group[0]))
    return [_group(group, comparisons, form) for group in ordered]


def _keys(case: Case, comparisons: Sequence[FamilyComparison]) -> Iterator[object]:
    """Points with a key in common are compared."""
    if any(case.varied.get(axis, values[0]) not in values for axis, values in case.family.turns.items()):
        yield case.name
        return
    yield case.family.name, tuple((axis, value) for axis, value in case.varied.items() if axis not in COMPARED_AXES)
    for comparison in comparisons:
        if case.family.name in comparison.families:
            yield comparison.title, tuple(case.varied.items())


def _group(cases: Sequence[Case], comparisons: Sequence[FamilyComparison], form: Form) -> CaseGroup:
    rounds = form.rounds if len(cases) > 1 else 1
    forms = [form.families[case.family.name] for case in cases]
    turn_ns = max(one.turn_ns(rounds) for one in forms)
    ramp_ns = max(one.ramp_ns for one in forms)
    bases = {case.name: _base(case, cases, comparisons).name for case in cases}
    return CaseGroup(tuple(_lasting(case, turn_ns) for case in cases), rounds, turn_ns, ramp_ns, bases)


def _base(case: Case, cases: Sequence[Case], comparisons: Sequence[FamilyComparison]) -> Case:
    """The first value of the compared axis; of that one the same point of the first family that it is compared with."""
    first = next(one for one in cases if one.family is case.family)
    if first is not case:
        return first
    bases = [one.families[0] for one in comparisons if case.family.name in one.families[1:]]
    found = [one for one in cases if one.family.name in bases[:1] and one.varied == case.varied]
    return found[0] if found else case


def _lasting(case: Case, runtime_ns: int) -> Case:
    return replace(case, job=case.job.changed(lambda said: said.but(runtime_ns=runtime_ns)))
