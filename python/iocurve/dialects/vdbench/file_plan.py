"""Turns a run of file system workloads into plans: its format, and the run itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from decimal import Decimal
from urllib.parse import urlsplit

import msgspec
from msgspec.structs import replace

from iocurve.dialects.vdbench.file_systems import FORMAT, FORMAT_TRANSFER, FileSystems, Tree, Workload
from iocurve.dialects.vdbench.job import WORDS
from iocurve.dialects.vdbench.output.table import MAXIMUM
from iocurve.dialects.vdbench.planned import Planned, Share, requested_rate, saved_percent, starting, tolerated
from iocurve.dialects.vdbench.read.file_values import Shares
from iocurve.dialects.vdbench.read.keywords import Definition, Definitions
from iocurve.dialects.vdbench.read.values import Opening, opening
from iocurve.dialects.vdbench.runs import Run
from iocurve.dialects.vdbench.validation import Validation
from iocurve.engine import plan as plans
from iocurve.foundation.errors import Diagnostic, PlanError, Where
from iocurve.foundation.units import SECOND_NS
from iocurve.job import model
from iocurve.job.resolve import Machine, plan_here
from iocurve.job.resolve.engines import checked_nfs_url

FORMAT_THREADS = 8
"""vdbench's threads of a format; fwd=format overrides them."""
WORKERS_MAX = 4096
SLOWEST_PER_S = 1e-3
"""Rate of a workload whose share of the requested rate is less."""
_ENDLESS = frozenset({"transfer", "getattr", "setattr", "access", "open"})
"""Tasks that run until the time is over; the others end when nothing is left to do."""
_UNCHECKED = plans.Tolerance(kinds=("getattr", "access"))
"""Operations whose result vdbench ignores."""


class FilePlans(msgspec.Struct, frozen=True):
    """Plans the runs of a parameter file."""

    definitions: Definitions
    file_systems: FileSystems
    hosts: tuple[str, ...]
    machine: Machine
    cleans: bool
    """-c: delete the files and directories of an anchor before the first run that uses it."""
    validation: Validation | None = None
    """Data validation; None if it is off."""

    def operations(self, runs: Iterable[Run]) -> frozenset[str]:
        """All operations of all runs; a format adds its own."""
        found = set[str]()
        for run in {id(run.rd): run for run in runs}.values():
            for workload in self.file_systems.of_run(run):
                found |= _requested(workload)
            if run.formats or self.cleans:
                found |= {"mkdir", "rmdir", "create", "delete", "write"}
        return frozenset(found)

    def has_format(self, run: Run, *, already: bool, used: Collection[str]) -> bool:
        """True if there is a format before a run; the arguments are those of ``formats``."""
        words = _words(run, already=already)
        return any(_format_tasks(words, cleans=self.cleans and anchor not in used) for anchor in self.anchors(run))

    def anchors(self, run: Run) -> set[str]:
        """The anchors that a run uses."""
        return {tree.anchor for tree in self._trees(run)}

    def counted(self, run: Run) -> frozenset[str]:
        """Operations that the rate of a run counts."""
        return frozenset(kind for workload in self.file_systems.of_run(run) for kind in _requested(workload))

    def formats(self, run: Run, *, already: bool, used: Collection[str] = ()) -> Planned:
        """The format before a run that has one.

        ``already``: an earlier run of the definition was formatted. ``used`` has the anchors of earlier runs.
        """
        words = _words(run, already=already)
        default = next((fwd for fwd in self.definitions.by_kind["fwd"] if fwd.name.lower() == FORMAT), None)
        threads = default.get("threads", FORMAT_THREADS) if default else FORMAT_THREADS
        sizes = default.get("xfersizes") if default else None
        blocks = model.PerKind.same(_blocks(sizes or Shares.same(FORMAT_TRANSFER)))
        sections, shares = [], []
        runtime_ns = run.timing.total_ns if "limited" in words else 0
        for tree, hosts in self._formatted(run):
            tasks = _format_tasks(words, cleans=self.cleans and tree.anchor not in used)
            if not tasks:
                continue
            # A host would find removed what another has removed.
            for host in hosts[:1] if tasks == ("remove",) else hosts:
                work = plans.TreeWork(
                    tree=self._part(tree, tree.total_bytes, host, len(hosts)),
                    tasks=tasks,
                    select=plans.SequentialSelect(),
                )
                section = self._section(run, None, tree, f"format_{tree.name}", threads)
                load, ending = model.Load(tasks=work, blocks=blocks), section.ending
                sections.append(section.replace(load=load, ending=ending.replace(runtime_ns=runtime_ns)))
                shares += [Share("format", tree.name, host)] * section.numjobs
        planned = self._planned(run, f"format_for_{run.name}", None, sections, shares, frozenset({"write"}))
        return replace(planned, trees=tuple(self._trees(run)))

    def _formatted(self, run: Run) -> Iterator[tuple[Tree, list[str]]]:
        """The tree of each anchor of a run, and the hosts that format it: all its users if it is shared."""
        hosts: dict[str, dict[str, None]] = {}
        for workload in self.file_systems.of_run(run):
            for tree in workload.trees:
                hosts.setdefault(tree.anchor, {}).update(dict.fromkeys(workload.hosts))
        for tree in {tree.anchor: tree for tree in self._trees(run)}.values():
            yield tree, list(hosts[tree.anchor])[: None if tree.shared else 1]

    def _part(self, tree: Tree, used_bytes: int | None, host: str, users: int) -> plans.Tree:
        """The tree for a host of a workload on ``users`` hosts: of a shared tree every n-th file for n hosts."""
        planned = _tree(tree, used_bytes, creates_parents=self._creates_anchors)
        if not tree.shared or len(self.hosts) == 1:
            return planned
        part = plans.TreePart(number=self.hosts.index(host), of=len(self.hosts))
        return planned.replace(part=part, used_bytes=used_bytes and used_bytes // users)

    def _trees(self, run: Run) -> list[Tree]:
        return [tree for workload in self.file_systems.of_run(run) for tree in workload.trees]

    def run(self, run: Run, rate: float | None) -> Planned:
        """The run itself. ``rate`` is the rate of a point of a curve."""
        workloads = self.file_systems.of_run(run)
        per_second = float(run.rate.per_second) if rate is None and run.rate.kind == "number" else rate
        sections: list[model.Section] = []
        shares: list[Share] = []
        for workload, skew in zip(workloads, _skews(workloads), strict=True):
            places = [(tree, host) for tree in workload.trees for host in workload.hosts]
            threads = max(1, workload.threads // len(places) // self._divided(run, workload))
            for tree, host in places:
                section = self._of_workload(run, workload, tree, host, threads)
                if per_second is not None:
                    section = _paced(section, per_second * skew / len(places), run, number=len(sections))
                sections.append(section)
                shares += [Share(workload.name, tree.name, host)] * section.numjobs
        planned = self._planned(run, run.name, rate, sections, shares, self.counted(run))
        return replace(planned, trees=tuple(self._trees(run)))

    def recovery(self, runs: Sequence[Run]) -> plans.Plan | None:
        """Compares names and sizes with the journals, and reads every file; None without a journal."""
        assert self.validation
        blocks = model.PerKind[plans.Blocks].same(plans.FixedBlocks(bytes=FORMAT_TRANSFER))
        sections = []
        for tree in self.file_systems.trees.values():
            if not all(path.is_file() for path in self.validation.tree_paths(tree)):
                continue
            whole = _tree(tree, None, creates_parents=self._creates_anchors)
            work = plans.TreeWork(tree=whole, tasks=("transfer",), select=plans.SequentialSelect(), select_once=True)
            section = self._section(runs[0], None, tree, f"journal_recovery {tree.name}", FORMAT_THREADS)
            verify = self.validation.of_tree(tree, take_over=True)
            sections.append(
                section.replace(
                    load=model.Load(tasks=work, task_shares={"read": 1}, blocks=blocks),
                    ending=section.ending.replace(tolerates=()),
                    data=section.data.replace(verify=verify),
                )
            )
        if not sections:
            return None
        return plan_here(_job("journal_recovery", sections), SECOND_NS, self.machine)

    def notes(self, runs: Iterable[Run]) -> Iterator[model.PlanNote]:
        """Notes on what differs from vdbench."""
        for run in {id(run.rd): run for run in runs}.values():
            workloads = self.file_systems.of_run(run)
            if run.rate.kind == "max" and any(workload.skew is not None for workload in workloads):
                text = (
                    f"rd={run.rd.name}: skew= applies to a fwdrate; at fwdrate=max each workload is as fast as it can"
                )
                yield model.PlanNote("skew_at_maximum", text, run.rd.where, "warning")

    def obstacles(self, runs: Iterable[Run]) -> Iterator[Diagnostic]:
        """Reasons why a run cannot be planned, by name."""
        for run in {id(run.rd): run for run in runs}.values():
            if run.rate.kind == "variable":
                yield Diagnostic(
                    f"rd={run.rd.name}: fwdrate= with distribution=variable is not supported", run.rd.where
                )
            for workload in self.file_systems.of_run(run):
                if workload.operation in ("copy", "move"):
                    ends = {"copy": "zero pattern length", "move": "xxx"}[workload.operation]
                    text = f"fwd={workload.name}: operation={workload.operation} is not supported"
                    hint = f"vdbench 5.04.07 itself ends it with '{ends}'; use operation=read and operation=write"
                    yield Diagnostic(text, self._position(workload.name), hint)
                elif _task(workload) == "transfer" and _writes(workload) and 0 in _sizes(workload):
                    text = f"fwd={workload.name}: nothing can be written to files of sizes=0"
                    hint = "vdbench ends it with 'zero xfersize'; give the files a size"
                    yield Diagnostic(text, self._position(workload.name), hint)
        yield from self._obstacles_to_cleaning(runs) if self.cleans else ()
        yield from self._obstacles_to_validation(runs) if self.validation else ()
        for tree in self.file_systems.trees.values():
            if tree.anchor[1:2] == ":" or tree.anchor.startswith("\\\\"):
                text = f"{tree.anchor} is a Windows path"
                yield Diagnostic(text, None, f"map it to a directory: --map-lun '{tree.anchor}=/data'")

    def _obstacles_to_cleaning(self, runs: Iterable[Run]) -> Iterator[Diagnostic]:
        cleaned = set[str]()
        for run in runs:
            for tree, hosts in self._formatted(run):
                makes = "make_directories" in _format_tasks(_words(run, already=False), cleans=True)
                if len(hosts) > 1 and makes and tree.anchor not in cleaned:
                    text = f"-c: rd={run.rd.name} deletes and creates a shared fsd={tree.name} on several hosts"
                    yield Diagnostic(text, run.rd.where, "put a run with format=(clean,only) before it")
                cleaned.add(tree.anchor)

    def _obstacles_to_validation(self, runs: Iterable[Run]) -> Iterator[Diagnostic]:
        assert self.validation
        anchors = Counter(tree.anchor for tree in self.file_systems.trees.values())
        for anchor in (anchor for anchor, count in anchors.items() if count > 1):
            yield Diagnostic(f"{anchor} is the anchor of several FSDs; data validation needs separate anchors")
        request = self.validation.request
        if request.recover and self.cleans:
            text = "-c would delete the tree that the journal verifies"
            yield Diagnostic(text, None, "leave out -c, or recover with -jro first")
        for tree in self.file_systems.trees.values() if request.journal and len(self.hosts) > 1 else ():
            if tree.shared:
                text = f"fsd={tree.name}: journals of an FSD with shared=yes on several hosts are not supported"
                yield Diagnostic(text, None, "run it on one host, or verify it with -v")
        for run in {id(run.rd): run for run in runs}.values():
            if request.recover and run.formats:
                text = f"rd={run.rd.name}: format= and journal recovery are mutually exclusive"
                yield Diagnostic(text, run.rd.where, "recover with format=no, as vdbench requires it, too")
            loops = run.loops
            if loops.depth or loops.width or loops.files or loops.sizes:
                text = f"rd={run.rd.name}: data validation needs the same directories, files and sizes in all runs"
                yield Diagnostic(text, run.rd.where, "leave out depth=, width=, files= and sizes= of the RD, or -v")
            for workload in self.file_systems.of_run(run):
                if workload.io.shared:
                    text = f"fwd={workload.name}: fileio=(random,shared) is not supported with data validation"
                    yield Diagnostic(text, self._position(workload.name))

    def check(self, run: Run) -> None:
        """Plans a run to find errors. Raises ``PlanError``."""
        if self.has_format(run, already=False, used=()):
            self.formats(run, already=False)
        if run.is_measured:
            self.run(run, None)

    # -- workers -------------------------------------------------------------------------------------------------------

    @property
    def _creates_anchors(self) -> bool:
        return bool(self.definitions.general.get("createanchors"))

    def _position(self, name: str) -> Where | None:
        found = self._named("fwd", name)
        return found.where if found else None

    def _of_workload(self, run: Run, workload: Workload, tree: Tree, host: str, threads: int) -> model.Section:
        section = self._section(run, workload.name, tree, f"{workload.name}_{tree.name}", threads)
        task = _task(workload)
        work = plans.TreeWork(
            tree=self._part(tree, tree.working_set_bytes or tree.total_bytes, host, len(workload.hosts)),
            tasks=(task,),
            select=_select(workload),
            select_once=workload.select.once,
            delete_first=workload.io.delete and task == "transfer",
            flush_before_close=task == "transfer" and self._opened(run, workload.name, tree).flushed,
            files_shared=workload.io.shared,
            stop_after=_stop_after(workload.stop_after),
        )
        ends = task not in _ENDLESS or workload.select.once
        # A load that may end at any time counts from its start.
        ramp_ns = (run.timing.warmup_ns or 0) if ends else run.timing.ramp_ns
        return section.replace(
            load=_load(workload, work),
            ending=section.ending.replace(ramp_ns=ramp_ns, runtime_ns=run.timing.total_ns - ramp_ns),
        )

    def _section(self, run: Run, workload: str | None, tree: Tree, name: str, threads: int) -> model.Section:
        """The section of a tree, whose load and end are still to be set.

        Over NFS, operations of many threads are in flight on the connection of one worker; on local files, each waits
        in a system call.
        """
        target, root = _target(tree, self._opened(run, workload, tree))
        over_nfs, general = target.engine == "nfs", self.definitions.general
        region = plans.FilePlan(path=root, offset_bytes=0, bytes=1, layout="nothing", keep=True)
        return model.Section(
            name=name,
            numjobs=1 if over_nfs else threads,
            target=target,
            files=model.Files(regions=((region,),)),
            pace=model.Pace(depth=threads if over_nfs else 1),
            ending=model.Ending(
                tolerates=(tolerated(general), _UNCHECKED), whole_transfers=True, ends_others="on_error"
            ),
            data=model.Data(
                repeatable=False,
                payload_compress_percent=saved_percent(run.loops.compratio or general.get("compratio")),
                payload_dedupe_percent=saved_percent(general.get("dedupratio")),
                verify=self.validation.of_tree(tree) if self.validation else None,
            ),
            report=model.Reporting(report_as_one=True),
        )

    def _planned(
        self,
        run: Run,
        name: str,
        rate: float | None,
        sections: Sequence[model.Section],
        shares: Sequence[Share],
        counted: frozenset[str],
    ) -> Planned:
        if len(shares) > WORKERS_MAX:
            text = f"rd={run.rd.name}: {len(shares)} threads are more than the limit of {WORKERS_MAX}"
            raise PlanError([Diagnostic(text, run.rd.where)])
        return Planned(
            run=run,
            name=name,
            start=starting(run, rate) if name == run.name else f"Starting RD={name}",
            plan=plan_here(_job(name, sections), run.timing.interval_ns or SECOND_NS, self.machine),
            shares=tuple(shares),
            counted=counted,
            # A format is as fast as it can, whatever the rate of its run.
            constants={"reqrate": requested_rate(run, rate) if name == run.name else MAXIMUM, "version": "iocurve"},
        )

    def _opened(self, run: Run, workload: str | None, tree: Tree) -> Opening:
        """Open flags: those of the run, else of the workload, else of the FSD. Raises ``PlanError``."""
        definitions = [run.rd, self._named("fwd", workload), self._fsd(tree.name)]
        flags = next((one.values["openflags"] for one in definitions if one and "openflags" in one.values), ())
        errors: list[Diagnostic] = []
        opened = opening(flags, run.rd.where, errors, [])
        if errors:
            raise PlanError(errors)
        return opened

    def _named(self, kind: str, name: str | None) -> Definition | None:
        return next((one for one in self.definitions.by_kind[kind] if one.name == name), None)

    def _fsd(self, tree: str) -> Definition | None:
        counted = (
            one for one in self.definitions.by_kind["fsd"] if "count" in one.values and tree.startswith(one.name)
        )
        return self._named("fsd", tree) or next(counted, None)

    def _divided(self, run: Run, workload: Workload) -> int:
        """vdbench divides the threads of a workload among the operations= of the run."""
        if run.loops.operations:
            return 1
        same = [other for other in self.file_systems.of_run(run) if other.name == workload.name]
        return len(same)


def _target(tree: Tree, opened: Opening) -> tuple[model.Target, str]:
    """The target, and the root of the tree on it."""
    if not tree.anchor.startswith("nfs:"):
        return model.Target(engine="sync", direct=opened.direct, durability=opened.durability), tree.anchor
    url, root = split_anchor(tree.anchor)
    url = checked_nfs_url(url)
    return model.Target(engine="nfs", nfs_url=url, durability=opened.durability, keep_payload=True), root


def _job(name: str, sections: Sequence[model.Section]) -> model.Job:
    return model.Job(name=name, words=WORDS, sections=tuple(sections), defaults=model.Said())


def split_anchor(anchor: str) -> tuple[str, str]:
    """Splits ``nfs://host/export/directory`` into the URL of the export and the directory in it, which may be empty."""
    parts = urlsplit(anchor)
    export, _, root = parts.path.strip("/").rpartition("/")
    if not export:
        export, root = root, ""
    return parts._replace(path=f"/{export}").geturl(), root


def _tree(tree: Tree, used_bytes: int | None, *, creates_parents: bool) -> plans.Tree:
    # vdbench truncates percentages, and ends with an error where the rest is drawn; here the rest is the last size's.
    weights = [int(percent) for _, percent in tree.sizes.parts]
    weights[-1] += 100 - sum(weights)
    sizes = tuple(
        plans.SizeShare(bytes=size, weight=weight) for (size, _), weight in zip(tree.sizes.parts, weights, strict=True)
    )
    return plans.Tree(
        depth=tree.depth,
        width=tree.width,
        files=tree.files,
        files_on_all_levels=tree.everywhere,
        sizes=sizes,
        sizes_spread=tree.sizes.is_average,
        used_bytes=used_bytes,
        creates_parents=creates_parents,
    )


def _words(run: Run, *, already: bool) -> set[str]:
    """The words of format= that apply; ``already``: an earlier run of the definition was formatted."""
    words = set(run.formats) - {"complete"}
    return set() if "once" in words and already else words


def _format_tasks(words: set[str], *, cleans: bool) -> tuple[plans.TreeTask, ...]:
    """The tasks of a format, or of no format if ``words`` is empty; ``cleans`` removes the tree first."""
    if not words or "clean" in words:
        return ("remove",) if words or cleans else ()
    removes: tuple[plans.TreeTask, ...] = () if "restart" in words and not cleans else ("remove",)
    if "directories" in words:
        return (*removes, "make_directories")
    return (*removes, "make_directories", "fill")


def _task(workload: Workload) -> plans.TreeTask:
    if workload.read_percent is not None:
        return "transfer"
    tasks: dict[str, plans.TreeTask] = {
        "read": "transfer",
        "write": "transfer",
        "close": "open",
        "open": "open",
        "create": "create",
        "delete": "delete",
        "getattr": "getattr",
        "setattr": "setattr",
        "access": "access",
        "mkdir": "mkdir",
        "rmdir": "rmdir",
    }
    return tasks.get(workload.operation, "transfer")


def _writes(workload: Workload) -> bool:
    return workload.operation == "write" if workload.read_percent is None else workload.read_percent < 100


def _sizes(workload: Workload) -> set[int]:
    return {size for tree in workload.trees for size, _ in tree.sizes.parts}


def _requested(workload: Workload) -> set[str]:
    return {workload.operation} if workload.read_percent is None else {"read", "write"}


def _load(workload: Workload, work: plans.TreeWork) -> model.Load:
    if "transfer" not in work.tasks:
        return model.Load(tasks=work, blocks=model.PerKind.same(plans.FixedBlocks(bytes=1)))
    reads = workload.read_percent
    if reads is None:
        reads = Decimal(100 if workload.operation == "read" else 0)
    percents: dict[plans.OperationKind, Decimal] = {"read": reads, "write": 100 - reads}
    shares = {kind: int(percent * 100) for kind, percent in percents.items() if percent > 0}
    return model.Load(
        tasks=work,
        task_shares=shares,
        blocks=model.PerKind.same(_blocks(workload.transfers)),
        random=workload.io.access == "random",
    )


def _blocks(transfers: Shares) -> plans.Blocks:
    if transfers.is_fixed:
        return plans.FixedBlocks(bytes=transfers.parts[0][0])
    parts = tuple(plans.BlockShare(bytes=size, weight=int(percent * 100)) for size, percent in transfers.parts)
    return plans.BlockSplit(parts=parts)


def _select(workload: Workload) -> plans.SequentialSelect | plans.RandomSelect | plans.SkewedSelect:
    if workload.select.midpoint is not None:
        return plans.SkewedSelect(half_within_ppm=max(1, int(workload.select.midpoint * 10_000)))
    return plans.RandomSelect() if workload.select.order == "random" else plans.SequentialSelect()


def _stop_after(text: str | None) -> plans.AfterTransfers | plans.AfterPercent | None:
    if text is None:
        return None
    if text.endswith("%"):
        return plans.AfterPercent(percent=max(1, int(Decimal(text[:-1]))))
    return plans.AfterTransfers(count=int(text))


def _skews(workloads: Sequence[Workload]) -> list[float]:
    """Share of each workload in the rate: workloads without skew= divide what the others leave."""
    skews = [float(workload.skew) if workload.skew is not None else None for workload in workloads]
    free = sum(1 for skew in skews if skew is None)
    rest = max(0.0, 100 - sum(skew for skew in skews if skew is not None))
    return [(rest / free if skew is None else skew) / 100 for skew in skews]


def _paced(section: model.Section, per_second: float, run: Run, *, number: int) -> model.Section:
    """The section with a rate of all its threads together, which is the rate group ``number``."""
    rate = max(per_second, SLOWEST_PER_S)
    work = section.load.tasks
    assert work, "a file workload has tasks"
    return section.replace(
        load=section.load.replace(tasks=work.replace(rate_group=number)),
        pace=section.pace.replace(rate_total_operations=rate, arrivals=run.arrivals_at),
    )
