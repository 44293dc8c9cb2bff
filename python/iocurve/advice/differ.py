"""``iocurve differ``: in which fields two command lines differ, and what each is worth on a target.

One field after another is switched from its value in A to its value in B. Which share a field has depends on what was
switched before it, so shares are means over the orders in which fields can be switched (L. S. Shapley, "A value for
n-person games", 1953), of the logarithms of rates: they multiply to the whole gap. All combinations that the orders
need take turns in each round, and an interval is that of the rounds' values.
"""

from __future__ import annotations

import math
import random
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, combinations, pairwise, permutations
from pathlib import Path
from statistics import fmean, median

import msgspec

from iocurve.dialects.base import printable
from iocurve.dialects.native.kinds import KINDS, own_key
from iocurve.dialects.native.reader import read
from iocurve.engine.plan import Plan
from iocurve.foundation.errors import Diagnostic, DialectError, ResultError, TargetError
from iocurve.foundation.structs import Struct
from iocurve.foundation.units import SECOND_NS, counted
from iocurve.job.explain import unpredictable
from iocurve.job.model import FIELDS, Files, Job, Section
from iocurve.job.resolve import Machine, plan_here, resolve
from iocurve.measure import ab, local
from iocurve.measure import campaign as campaigns
from iocurve.measure.campaign import Campaign, Keep, Measure, Measurement
from iocurve.measure.data_set import target_fields
from iocurve.measure.run_files import RunFiles, tell_leftovers
from iocurve.measure.variations import shortened
from iocurve.model.forward import ModelledTarget, Prediction, forward
from iocurve.report.progress import View
from iocurve.result.document import Result, Turn
from iocurve.result.paired import RatePair, RateRatio, counting_resolution, rate_ratio
from iocurve.result.stats import CONFIDENCE
from iocurve.result.summary import Summary
from iocurve.targets import opened_target
from iocurve.targets.nfs_url import parse_nfs_url
from iocurve.targets.opened_target import OpenedTarget
from iocurve.targets.target import LocalTarget, NfsTarget, Target

LABELS = ab.LABELS
GROUPS: Mapping[str, tuple[str, ...]] = {
    "ioengine": ("engine", "space_call", "submission_latency"),
    "direct": ("direct",),
    "sync": ("durability",),
    "rw": ("reads", "writes", "trims", "read_percent"),
    "random": (
        *("random", "random_percent", "distribution", "cover", "align_bytes", "run_length", "gap_bytes"),
        *("gap_spread_bytes", "start_bytes", "start_increment_bytes", "position", "at_end", "short_last_block"),
        *("zone_bytes", "zone_range_bytes", "zone_skip_bytes"),
    ),
    "bs": ("blocks",),
    "iodepth": ("depth", "depth_low", "batch_submit", "batch_complete_min", "batch_complete_max"),
    "numjobs": ("numjobs", "cpus", "cpus_split"),
    "nconnect": ("nconnect",),
    "files": (
        *("paths", "file_count", "file_bytes", "path_bytes", "size", "offset", "offset_increment", "offset_align"),
        *("file_select", "file_run"),
    ),
    "rate": ("rate_operations", "rate_bytes", "rate_total_operations", "rate_total_bytes", "arrivals"),
    "thinktime": (
        *("think_ns", "think_spin_ns", "think_every", "think_counts", "think_every_ns", "think_drains"),
        "think_moves_schedule",
    ),
    "fsync": ("fsync_every", "fdatasync_every", "sync_file_range_every", "sync_at_end"),
    "buffers": (
        *("payload_zero", "payload_refill", "payload_scramble", "payload_pattern", "payload_pool_bytes"),
        *("payload_pool_path", "payload_compress_percent", "payload_compress_chunk_bytes"),
        *("payload_dedupe_percent", "payload_dedupe_set_percent"),
    ),
    "verify": ("verify",),
    "randrepeat": ("repeatable", "seed"),
    "invalidate": ("invalidate",),
}
"""Fields that are switched together, by fio's option for them."""
NAMES = frozenset(
    {
        *("name", "description", "first_jobnum", "file_name_pattern", "engine_asked", "directories", "nfs_url"),
        *("clients", "report_as_one", "report_as_group", "intervals_singly"),
    }
)
"""Fields that name something and change no load on one machine, or that the target decides."""
WHOLE_MAX = 4
"""Most fields of which all orders are taken: 16 combinations."""
ORDERS = 2
"""Orders that are drawn where there are more fields; each is taken backwards, too."""


class FieldDifference(Struct):
    """Fields in which two command lines differ."""

    name: str
    """fio's option, or the field itself where nothing switches it."""
    texts: tuple[str, str]
    """The values in the words of each dialect: ``iodepth=16``, ``-o64``."""
    defaults: tuple[bool, bool]
    """True where the text of a command does not say it."""
    is_switched: bool
    """False for fields that belong to the rest."""


class Side(msgspec.Struct, frozen=True):
    """One of the command lines: its only step."""

    text: str
    job: Job
    measured: Summary | None = None
    """The figures of a result."""

    @classmethod
    def of(cls, text: str) -> Side:
        """Reads a command line, or the job of a result.

        Raises ``DialectError``, ``PlanError``, ``ResultError`` and ``TargetError``.
        """
        if _is_there(text):
            return cls._of_result(text, Result.read(Path(text)))
        command = ab.parsed(text, overwrite=True)
        jobs = [step.job() for step in command.steps if step.job]
        if command.no_job_file and not jobs:
            raise DialectError(
                [Diagnostic(f"'{text}': its phases are no jobs", None, "iocurve ab compares their rates")]
            )
        if len(command.steps) != 1 or len(jobs) != 1:
            raise DialectError([Diagnostic(f"'{text}' runs {len(command.steps)} loads; name one load at a time")])
        return cls(text, jobs[0].replace(sections=_placed_threads(text, jobs[0].sections)))

    @classmethod
    def _of_result(cls, text: str, result: Result) -> Side:
        command = result.points[0].imported.command if result.points and result.points[0].imported else None
        jobs = [cls.of(command).job] if command else read(Path(text), result.job) if result.job else []
        if not jobs:
            raise ResultError(f"{text} does not keep its job; name the command that was measured")
        if len(jobs) != 1 or len(result.points) != 1:
            raise ResultError(f"{text} has {counted(len(result.points), 'load')}; name a result of one load")
        return cls(text, jobs[0], result.points[0].summary())


def _is_there(text: str) -> bool:
    """True of a path; a command line may be too long for one."""
    try:
        return Path(text).exists()
    except OSError:
        return False


def _on_names(text: str, section: Section) -> Section:
    """The section with the name and the part of its file, where its tool computes them."""
    regions = section.files.regions
    if not regions:
        return section
    if len(regions) != 1 or len(regions[0]) != 1:
        raise DialectError(
            [Diagnostic(f"'{text}': a thread uses several files; differ compares loads on one file each")]
        )
    ((one,),) = regions
    return section.replace(files=Files(paths=(one.path,), offset=one.offset_bytes, size=one.bytes))


def _placed_threads(text: str, threads: tuple[Section, ...]) -> tuple[Section, ...]:
    """The sections on names; one for all threads of a tool that computes their parts, where these follow evenly."""
    sections = tuple(_on_names(text, one) for one in threads)
    offsets = [one.files.offset for one in sections]
    steps = {later - one for one, later in pairwise(offsets) if isinstance(one, int) and isinstance(later, int)}
    first, fields = sections[0], [field for field in FIELDS if field not in {*NAMES, "offset"}]
    is_alike = all(one.value(field) == first.value(field) for one in sections for field in fields)
    if len(steps) != 1 or not is_alike or not all(one.files.regions for one in threads):
        return sections
    merged = {"numjobs": len(sections), "offset_increment": steps.pop(), "clients": ()}
    return (with_fields(first, merged).replace(given=first.given),)


def sides(texts: Sequence[str]) -> tuple[Side, Side]:
    """Both command lines, with as many jobs each. Raises as ``Side.of``."""
    first, second = map(Side.of, texts)
    counts = [len(side.job.sections) for side in (first, second)]
    if counts[0] != counts[1]:
        raise DialectError(
            [Diagnostic(f"A has {counted(counts[0], 'job')} and B {counts[1]}; differ compares commands with as many")]
        )
    return first, second


def differences(first: Side, second: Side) -> list[FieldDifference]:
    """The fields whose values differ, defaults included; those of one option together."""
    pairs = [*zip(first.job.sections, second.job.sections, strict=True)]
    found = []
    grouped = {field: name for name, fields in GROUPS.items() for field in fields}
    names = dict.fromkeys([*GROUPS, *(field for field in FIELDS if field not in grouped and field not in NAMES)])
    for name in names:
        fields = GROUPS.get(name, (name,))
        changed = [field for field in fields if any(one.value(field) != other.value(field) for one, other in pairs)]
        if changed:
            texts = _texts(first, changed), _texts(second, changed)
            defaults = _is_default(first, changed), _is_default(second, changed)
            shown = name if name in GROUPS else own_key(name)
            found.append(FieldDifference(name=shown, texts=texts, defaults=defaults, is_switched=name in GROUPS))
    return found


TEXT_LENGTH = 40
"""Most characters of a value."""


def _texts(side: Side, fields: Sequence[str]) -> str:
    """The values of fields in the words of the dialect; those of several jobs with a slash between them."""
    found, words = [], side.job.words
    for field in fields:
        values = dict.fromkeys(_value_text(field, section.value(field)) for section in side.job.sections)
        text = printable(" / ".join(values), TEXT_LENGTH)
        found.append(
            words.option(field, text)
            if words.names.get(field, "rw") not in ("rw", "the target")
            else f"{own_key(field)}={text}"
        )
    return ", ".join(found)


def _value_text(field: str, value: object) -> str:
    if value is None:
        return "none"
    written = KINDS[field].write(value) if field in KINDS else value
    if isinstance(written, bool | float):
        return f"{written:g}"
    if isinstance(written, list):
        return "+".join(map(str, written)) or "none"
    return printable(str(written), TEXT_LENGTH)


def _is_default(side: Side, fields: Sequence[str]) -> bool:
    # A tool that computes its loads does not say which options it was given.
    given = {field for section in side.job.sections for field in section.given}
    return bool(given) and given.isdisjoint(fields)


class MeasuredRates(Struct):
    """The rates of two results."""

    unit: str
    """``MiB/s``, or ``IOPS`` where nothing is transferred."""
    rates: tuple[float, float]
    """Bytes or operations per second."""

    @classmethod
    def of(cls, both: tuple[Side, Side]) -> MeasuredRates | None:
        """None where a side is a command line."""
        loads = [side.measured for side in both if side.measured is not None]
        if len(loads) < len(both):
            return None
        unit = _unit(loads)
        first, second = (_rate(load, unit) for load in loads)
        return cls(unit=unit, rates=(first, second))


def _unit(loads: Iterable[Summary | Prediction]) -> str:
    """``MiB/s`` where all loads transfer some, or else ``IOPS``."""
    return "MiB/s" if all(load.bytes_per_s > 0 for load in loads) else "IOPS"


def _rate(load: Summary | Prediction | Turn, unit: str) -> float:
    """Bytes or operations per second, as the unit says."""
    return load.bytes_per_s if unit == "MiB/s" else load.iops


# ---- combinations

Switched = frozenset[str]
"""The fields that have B's values; all others have A's."""


class Design(msgspec.Struct, frozen=True):
    """The orders in which fields are switched, and the combinations that these need."""

    fields: tuple[str, ...]
    orders: tuple[tuple[str, ...], ...]
    is_whole: bool
    """True if these are all orders."""

    @classmethod
    def of(cls, fields: Sequence[str], seed: str) -> Design:
        """All orders of up to ``WHOLE_MAX`` fields; of more, some that the seed draws and the same backwards."""
        if len(fields) <= WHOLE_MAX:
            return cls(tuple(fields), tuple(permutations(fields)), is_whole=True)
        drawn = random.Random(seed)
        found = []
        for _ in range(ORDERS):
            order = drawn.sample(list(fields), len(fields))
            found += [tuple(order), tuple(reversed(order))]
        return cls(tuple(fields), tuple(found), is_whole=False)

    @property
    def combinations(self) -> list[Switched]:
        """Each once, A's own first, and all switched last."""
        every = {frozenset(order[:number]) for order in self.orders for number in range(len(order) + 1)}
        return sorted(every, key=lambda one: (len(one), sorted(map(self.fields.index, one))))


Rates = Mapping[Switched, float]
"""Rates of one round, by combination."""


def share(design: Design, field: str, rates: Rates) -> float:
    """The logarithm of a field's factor in one round: the mean over the orders."""
    steps = []
    for order in design.orders:
        before = frozenset(order[: order.index(field)])
        steps.append(math.log(rates[before | {field}] / rates[before]))
    return math.fsum(steps) / len(steps)


def interaction(design: Design, pair: tuple[str, str], rates: Rates) -> float:
    """By how much one field's factor grows with the other one, as a logarithm: the mean over all other combinations."""
    others = [one for one in design.fields if one not in pair]
    rests = chain.from_iterable(combinations(others, number) for number in range(len(others) + 1))
    first, second = frozenset(pair[:1]), frozenset(pair[1:])
    found = [
        math.log(rates[rest | first | second] * rates[rest] / (rates[rest | first] * rates[rest | second]))
        for rest in map(frozenset, rests)
    ]
    return math.fsum(found) / len(found)


# ---- a service level


def expected(first: Side, second: Side, service: ModelledTarget) -> dict[str, float]:
    """The factor of each field on a service level by the model, of what no field explains, and of B.

    Rates are those of bytes where both transfer some. Raises ``DialectError`` for loads that are not predicted.
    """
    placed = _Placed(first.job.sections, second.job.sections, first.job)
    names = [one.name for one in differences(first, second) if one.is_switched]
    design = Design.of(names, "expected")
    loads = {one: _predicted(placed.words, placed.sections(one), service) for one in design.combinations}
    last = _predicted(second.job, placed.second, service)
    unit = _unit([*loads.values(), last])
    rates = {key: _rate(one, unit) for key, one in loads.items()}
    shares = {name: math.exp(share(design, name, rates)) for name in names}
    final = _rate(last, unit)
    return {**shares, "rest": final / rates[frozenset(names)], "B / A": final / rates[frozenset()]}


def _predicted(words: Job, sections: Sequence[Section], service: ModelledTarget) -> Prediction:
    """The figures of a job, whether or not its files are there."""
    plan = resolve(words.replace(sections=tuple(sections)), Machine(), Path.cwd()).plan
    reasons = dict.fromkeys(
        f"{words.words.option(field)}: {reason}"
        for group in plan.groups
        for worker in group.workers
        for field, reason in unpredictable(worker)
    )
    if len(plan.groups) > 1:
        reasons["its jobs run one after another"] = None
    figures = None if reasons else forward(plan.groups[0], service)
    if figures is None or not 0 < figures.iops < math.inf:
        reasons |= {} if reasons else {f"{service.name} states no limit and no latency for it: --latency": None}
        raise DialectError([Diagnostic(f"cannot be predicted: {reason}") for reason in reasons])
    return figures


# ---- a target


class RunLength(Struct):
    """The length and number of the runs of each combination."""

    runtime_ns: int
    ramp_ns: int
    rounds: int
    margin: float
    repeats: int


class _Placed(msgspec.Struct, frozen=True):
    """Both jobs on files of the run on a target."""

    first: tuple[Section, ...]
    second: tuple[Section, ...]
    words: Job
    """The job whose words messages use."""

    def sections(self, switched: Switched) -> tuple[Section, ...]:
        """A's sections with the switched fields of B."""
        fields = [field for name in switched for field in GROUPS[name]]
        return tuple(
            with_fields(one, {field: other.value(field) for field in fields})
            for one, other in zip(self.first, self.second, strict=True)
        )

    def plan(self, name: str, sections: Sequence[Section], run: RunLength) -> Plan:
        """A plan of these sections with the length of the runs. Raises ``PlanError``."""
        job = self.words.replace(name=name, sections=tuple(sections))
        plan = shortened(plan_here(job, SECOND_NS), run.runtime_ns, run.ramp_ns)
        if len(plan.groups) > 1:
            raise DialectError(
                [Diagnostic(f"{name} runs its jobs one after another; differ compares jobs that run at once")]
            )
        return plan


def with_fields(section: Section, values: Mapping[str, object]) -> Section:
    """The section with other values in fields of its parts."""
    parts: dict[str, dict[str, object]] = {}
    for field, value in values.items():
        parts.setdefault(FIELDS[field], {})[field] = value
    own = parts.pop("", {})
    changed = {part: getattr(section, part).replace(**fields) for part, fields in parts.items()}
    return section.replace(**own, **changed, given=section.given | set(values))


def _placed(section: Section, opened: OpenedTarget, stem: str) -> Section:
    """The load of a section on files of the run: as many, and shared by the same jobs."""
    target = opened.target
    files = section.files
    values: dict[str, object] = {
        "name": stem,
        "file_name_pattern": f"{stem}.{{jobnum}}.{{file}}",
        "directories": (),
        "paths": tuple(f"{stem}-{number}" for number in range(len(files.paths))),
        "create": True,
        "recreate": False,
        "read_only": False,
        "unlink": False,
        "overwrite": True,
        "append": False,
        "nfs_url": None,
        "disk": None,
    }
    if isinstance(target, NfsTarget):
        mount = parse_nfs_url(section.target.nfs_url) if section.target.nfs_url else None
        values["nconnect"] = section.target.nconnect or (mount.nconnect if mount else None)
    values |= target_fields(opened).fields
    if not isinstance(target, NfsTarget) and section.target.engine == "nfs":
        values |= {"engine": "uring", "nconnect": None}
    return with_fields(section, values)


class FieldShare(Struct):
    """The factor of one field, or of the rest, on the target."""

    name: str
    ratio: RateRatio


class Interaction(Struct):
    """Two fields whose factors depend on each other."""

    names: tuple[str, str]
    ratio: RateRatio


class Factors(Struct):
    """The gap between two command lines, shared among their fields."""

    total: RateRatio
    """B divided by A."""
    shares: tuple[FieldShare, ...]
    rest: RateRatio
    """B divided by A with all fields switched: what no field explains."""
    interactions: tuple[Interaction, ...]


class Attribution(Struct):
    """The result of a measurement on a target."""

    factors: Factors
    without_effect: tuple[str, ...]
    """Fields that change nothing of the load on this target."""
    orders: int
    is_whole: bool
    """True if all orders were taken."""
    unit: str
    """``MiB/s``, or ``IOPS`` where nothing is transferred."""
    rates: tuple[float, float]
    """Of A and B, means of their turns."""
    outliers: tuple[str, ...]
    """Rounds in which the target was faster or slower than in the others, in words."""


class FieldExperiment(msgspec.Struct):
    """The measurement of two command lines on a target."""

    design: Design
    without_effect: tuple[str, ...]
    titles: dict[Switched, str]
    """Names of the points of the combinations."""
    plans: dict[str, Plan]
    """By the names of all points; B has its own values in all fields."""
    run: RunLength

    def seconds(self) -> float:
        """The time that all runs take, without the layout of files."""
        return len(self.plans) * self.run.rounds * (self.run.runtime_ns + self.run.ramp_ns + 2 * 10**8) / 1e9


def prepared(first: Side, second: Side, opened: OpenedTarget, run: RunLength, stem: str) -> FieldExperiment:
    """Plans every combination, so that nothing runs that cannot. Raises ``DialectError`` and ``PlanError``."""
    placed = _Placed(
        tuple(_placed(section, opened, stem) for section in first.job.sections),
        tuple(_placed(section, opened, stem) for section in second.job.sections),
        first.job,
    )
    own = placed.plan("A", placed.first, run)
    named = [one.name for one in differences(first, second) if one.is_switched]
    acting: list[str] = []
    idle: list[str] = []
    for name in named:
        is_idle = placed.plan("A", placed.sections(frozenset({name})), run) == own
        (idle if is_idle else acting).append(name)
    if not acting:
        raise DialectError(
            [Diagnostic(f"on {opened.facts.address} both commands are the same load; nothing is measured")]
        )
    design = Design.of(acting, stem)
    titles = {one: _title(one, design) for one in design.combinations}
    plans = {title: placed.plan(title, placed.sections(one), run) for one, title in titles.items()}
    plans["B"] = placed.plan("B", placed.second, run)
    return FieldExperiment(design, tuple(idle), titles, plans, run)


def _title(switched: Switched, design: Design) -> str:
    if not switched:
        return "A"
    return f"A with B's {', '.join(name for name in design.fields if name in switched)}"


def measurement(
    both: tuple[Side, Side], target: Target, run: RunLength, told: Callable[[FieldExperiment], None]
) -> Measure:
    """The function that measures; ``told`` is called with what will run before it does.

    Raises ``TargetError``; the function that, ``DialectError`` and ``PlanError``, and ``RunError`` when nothing could
    be measured.
    """
    if isinstance(target, LocalTarget) and target.kind != "directory":
        raise TargetError(
            f"{target.path}: differ measures in a directory or on an NFS export, not in a file or on a device"
        )

    def measure(view: View, keep: Keep) -> Result:
        with opened_target.opened(target) as found:
            tell_leftovers([found], view)
            stem = f"iocurve-differ-{secrets.token_hex(4)}"
            experiment = prepared(*both, found, run, stem)
            told(experiment)
            name = " and ".join(side.text for side in both)
            campaign = Campaign(campaigns.started("differ", name, found.facts), view, keep)
            files = RunFiles(stem, [found])

            def body(_: Campaign) -> None:
                points = [*_measurements(experiment, files)]
                campaign.take_turns(points, run.rounds)

            return campaigns.carry_out(campaign, body, files.remove)

    return measure


def measured(
    both: tuple[Side, Side],
    target: Target,
    run: RunLength,
    directory: Path,
    told: Callable[[FieldExperiment], None] = lambda _: None,
    *,
    quiet: bool = False,
) -> tuple[Result, Attribution | None]:
    """Measures, and writes result and report; an incomplete result has no attribution. Raises as ``measurement``."""
    found: list[FieldExperiment] = []

    def keep(experiment: FieldExperiment) -> None:
        found.append(experiment)
        told(experiment)

    result = campaigns.into_directory(directory, measurement(both, target, run, keep), quiet=quiet)
    return result, attribution(found[0], result) if result.state == "finished" else None


def _measurements(experiment: FieldExperiment, files: RunFiles) -> Iterator[Measurement]:
    run = experiment.run
    for title, plan in experiment.plans.items():
        files.announce(plan)
        enough = files.identifying(local.run_to_the_end)
        yield Measurement(plan, "load", name=title, enough=enough, repeats_max=run.repeats, margin=run.margin)


def attribution(experiment: FieldExperiment, result: Result) -> Attribution:
    """Shares the gap among the fields, by the turns of a finished result.

    Raises ``TargetError`` where nothing completed in a turn.
    """
    if idle := [point.name for point in result.points if not all(turn.operations for turn in point.runs)]:
        raise TargetError(f"{', '.join(idle)}: no operation completed in a turn; use a longer runtime")
    unit = _unit(point.summary() for point in result.points)
    rates = {point.name: [_rate(turn, unit) for turn in point.runs] for point in result.points}
    numbers = range(experiment.run.rounds)
    rounds = [{one: rates[title][number] for one, title in experiment.titles.items()} for number in numbers]
    resolution = fmean(counting_resolution(turn.operations) for point in result.points for turn in point.runs)
    return Attribution(
        factors=factors(experiment.design, rounds, rates["B"], experiment.run.margin, 2 * resolution),
        without_effect=experiment.without_effect,
        orders=len(experiment.design.orders),
        is_whole=experiment.design.is_whole,
        unit=unit,
        rates=(fmean(rates["A"]), fmean(rates["B"])),
        outliers=tuple(_outliers(rounds, experiment.run.margin)),
    )


def factors(
    design: Design, rounds: Sequence[Rates], last: Sequence[float], margin: float, resolution: float = 0.0
) -> Factors:
    """The factors by the rates of the combinations in each round, and those of B.

    ``resolution`` is the relative error of a ratio that counting leaves.
    """

    def ratio(values: Iterable[float], confidence: float = CONFIDENCE) -> RateRatio:
        pairs = [
            RatePair(math.exp(value), 1.0, 2 * number + 2, 2 * number + 1, resolution)
            for number, value in enumerate(values)
        ]
        found = rate_ratio(pairs, margin, confidence)
        assert found is not None, "the base is one"
        return found

    pairs = [*combinations(design.fields, 2)] if design.is_whole else []
    level = 1 - (1 - CONFIDENCE) / max(1, len(pairs))
    found = [
        Interaction(names=pair, ratio=ratio((interaction(design, pair, one) for one in rounds), level))
        for pair in pairs
    ]
    every = [*zip(rounds, last, strict=True)]
    shares = [FieldShare(name=name, ratio=ratio(share(design, name, one) for one in rounds)) for name in design.fields]
    return Factors(
        total=ratio(math.log(rate / one[frozenset()]) for one, rate in every),
        shares=tuple(shares),
        rest=ratio(math.log(rate / one[frozenset(design.fields)]) for one, rate in every),
        interactions=tuple(one for one in found if one.ratio.verdict in ("faster", "slower")),
    )


def _outliers(rounds: Sequence[Rates], margin: float) -> Iterator[str]:
    """Rounds whose rates all lie off those of the other rounds by more than the margin."""
    levels = [fmean(math.log(rate) for rate in one.values()) for one in rounds]
    middle = median(levels)
    for number, (level, one) in enumerate(zip(levels, rounds, strict=True), 1):
        if abs(level - middle) > math.log1p(margin):
            yield f"round {number}: {math.exp(level - middle):.2f} × the rates of the others, {len(one)} loads together"
