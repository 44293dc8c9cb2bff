"""Repeats the load of a kept result with the changes that would refute the verdict on it."""

from __future__ import annotations

import math
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import Literal

import msgspec
from msgspec.structs import replace

from iocurve.analysis.fingerprints import MATTERS, Response
from iocurve.analysis.limit_kinds import LIMIT_KINDS, Experiment, Limit, is_sure, kind_of
from iocurve.analysis.limits import verdict_of
from iocurve.analysis.load_limits import BUSY
from iocurve.analysis.measured_load import MeasuredLoad
from iocurve.analysis.target_limits import cap_code, caps_of
from iocurve.engine.derived import block_bytes_mean, on_existing_files
from iocurve.engine.plan import FilePlan, FixedBlocks, NfsEngine, Plan, Worker
from iocurve.foundation.errors import TargetError, option
from iocurve.foundation.units import MIB, SECOND_NS
from iocurve.measure import local, variations
from iocurve.measure.run_files import RunFiles
from iocurve.measure.variations import Variation
from iocurve.measure.why import PATIENCE_S, UNDECIDED, Clock, Probes, Run, cause_by_bursts, diagnose
from iocurve.model.fit import LoadRate, TargetPart
from iocurve.result.document import Point, TargetFacts
from iocurve.targets import opened_target
from iocurve.targets.opened_target import OpenedTarget
from iocurve.targets.target import DiskTarget, NfsTarget, Target

FILE_BYTES_MAX = 256 * MIB
"""The files of an experiment are no larger, so that it begins at once."""
RUNTIME_NS = SECOND_NS
NEXT_S = 30.0
"""Time for the probes that look for the limit after the requested load."""

Outcome = Literal["confirmed", "refuted", "found", "inconclusive"]
"""``confirmed``: the experiments exclude every other limit. ``found``: the probes name a limit, and contradict none."""


class Confirmation(msgspec.Struct, frozen=True):
    """The outcome of an experiment."""

    outcome: Outcome
    verdict: Limit | None
    """The verdict on the load as it was repeated."""
    evidence: tuple[str, ...]
    next_limit: Limit | None = None
    """The limit that is next where the requested load is confirmed as the limit."""


def confirm(point: Point, target: Target, facts: TargetFacts) -> Confirmation:
    """Repeats the load of a point, and the load with the change that would refute its verdict.

    The load runs on files of its own; a file or device that was named is only read. Raises ``TargetError`` or
    ``RunError``, and ``TargetError`` for a load that writes to a file or device that was named.
    """
    with opened_target.opened(target) as opened, _load(point.plan, opened) as plan:
        return confirmation_of(
            plan, facts, lambda plan: local.measure(plan)[0], point.limit or verdict_of(point, facts)
        )


def confirmation_of(
    plan: Plan, facts: TargetFacts, run: Run, before: Limit | None, clock: Clock = monotonic
) -> Confirmation:
    """Tests a verdict on a load by the change that would refute it, or looks for the limit by all probes."""
    until_s = clock() + PATIENCE_S
    probes = Probes(plan, facts, run, run(plan), until_s, clock)
    experiment = kind_of(before.code).experiment if before else None
    # A verdict that is only possible has others next to it that its own experiment does not exclude.
    if before is None or experiment is None or (not is_sure(before) and not experiment.without):
        return _diagnosed(probes, plan, before)
    return run_experiment(probes, before, experiment)


def judged(response: Response, experiment: Experiment) -> Outcome:
    """The verdict stands if the rate responds as expected, and falls if it does the contrary.

    A requested load is the limit if the rate grows at all without it: another limit may be just above.
    """
    grows = response.is_more if experiment.without else response.grows
    if experiment.expects == "more":
        return "confirmed" if grows else "refuted" if response.is_same else "inconclusive"
    return "confirmed" if response.is_same else "refuted" if grows else "inconclusive"


def run_experiment(probes: Probes, before: Limit, experiment: Experiment) -> Confirmation:
    """The outcome of the experiment for a verdict. Unless it confirms the verdict, all probes look for the limit."""
    change = variations.NAMED[experiment.change]
    without = variations.NAMED[experiment.without] if experiment.without else None
    response = probes.response(change)
    outcome: Outcome = "inconclusive"
    told = f"{change.text}: not possible with this load"
    if response is not None:
        told = response.evidence
        # Without a requested pause a load may be many times as fast.
        if without or probes.is_consistent:
            outcome = judged(response, experiment)
        if outcome == "inconclusive" and not without and (longer := _longer(probes, change)):
            response, told, outcome = longer, longer.evidence, judged(longer, experiment)
    if outcome == "inconclusive" and without and response is not None:
        # A limit of the load without its rate or pauses does not refute them.
        verdict = verdict_of(probes.base, probes.target)
        return Confirmation(outcome, verdict, (told,), _next_limit(probes, without))
    if outcome != "confirmed":
        plan = without.apply(probes.plan) if without else None
        found = _diagnosed(probes, plan or probes.plan, before, outcome)
        return replace(found, evidence=(told, *found.evidence))
    verdict = verdict_of(probes.base, probes.target)
    if response is None or without is None:
        if response is None or before.confidence == "certain":
            return Confirmation(outcome, verdict, (told, _stated(probes.load, before)))
        return _all_excluded(probes, before, response)
    if without is not change and response.doubles:
        return Confirmation(outcome, verdict, (told, "no other limit up to there"))
    return Confirmation(outcome, verdict, (told,), _next_limit(probes, without))


def _longer(probes: Probes, change: Variation) -> Response | None:
    """The response to a change, of runs that last for several turns of others who come and go."""
    probes.responses.clear()
    probes.base = probes.measured(probes.plan, LONG_NS)
    found = probes.response(change, least_ns=LONG_NS)
    return found if probes.is_consistent else None


def _all_excluded(probes: Probes, before: Limit, response: Response) -> Confirmation:
    """Excludes the other parts of a target that may hold a load down, by what each makes of further changes.

    The next change is the one that is expected to tell most of the parts that are left (D. V. Lindley, "On a measure of
    the information provided by an experiment", Annals of Mathematical Statistics 27, 1956); each takes as long.
    """
    base, named = load_of(probes.plan), _part(before.code)
    left = [part for part in PARTS if part != named and part.value_of(base)]
    if probes.load.summary.cpu_share_max < BUSY:
        left.remove(THREAD)
    told: list[str] = []
    try:
        is_refuted = _narrowed(probes, named, left, told, response)
    except TimeoutError:
        is_refuted = False
    if is_refuted:
        found = _diagnosed(probes, probes.plan, before, "refuted")
        is_named_again = found.verdict is not None and found.verdict.code == before.code
        # A limit of which one kind takes more responds to a mix as two limits do, until each kind runs alone.
        return replace(found, outcome="found" if is_named_again else found.outcome, evidence=(*told, *found.evidence))
    if left:
        told.append(f"not excluded: {', '.join(map(_name, left))}")
    return Confirmation("inconclusive" if left else "confirmed", before, tuple(told))


def _narrowed(
    probes: Probes, named: TargetPart | None, left: list[TargetPart], told: list[str], response: Response
) -> bool:
    """Takes the parts that changes exclude out of a list; true if a change contradicts the named part."""
    base, tried = load_of(probes.plan), {response.text}
    while True:
        excluded = [part for part in left if _contradicts(response, part, base)]
        left[:] = [part for part in left if part not in excluded]
        told.append(f"{response.evidence}{_excluding(excluded)}")
        menu = {change: _telling(change, probes.plan, named, left) for change in MENU if change.text not in tried}
        change = max(menu, key=lambda one: menu[one], default=None)
        if change is None or not menu[change]:
            break
        tried.add(change.text)
        further = probes.response(change)
        if further is not None and further.estimate.half_width >= MATTERS:
            # The rate varies.
            further = probes.response(change, least_ns=LONGER * probes.length_ns)
        if further is None or not probes.is_consistent:
            break
        if named and _contradicts(further, named, base):
            told.append(further.evidence)
            return True
        response = further
    if named and {OPERATIONS, SERVER} <= {named, *left}:
        cause, bursts = cause_by_bursts(probes, probes.load)
        part = {"limit": OPERATIONS, "server": SERVER}.get(cause or "")
        excluded = [other for other in (OPERATIONS, SERVER) if part and other != named]
        told += bursts
        if part not in (None, named):
            return True
        told[-1] += _excluding(excluded)
        left[:] = [other for other in left if other not in excluded]
    return False


def _stated(load: MeasuredLoad, before: Limit) -> str:
    """The other limits that the target states, each excluded by how much of it the load uses."""
    others = [
        f"{cap.text} ({rate / cap.value:.0%} used)" for cap, rate in caps_of(load) if cap_code(cap) != before.code
    ]
    if others:
        return f"the target states its limits, which excludes {', '.join(others)}"
    return "the measured load shows it without a test, which excludes all others"


MENU = (
    variations.DEEPER, variations.HALF_BLOCKS, variations.MORE_CONNECTIONS, variations.MORE_CLIENTS, variations.MIXED,
    variations.MORE_WORKERS,
    *variations.ALONE.values(),
)  # fmt: skip
OPERATIONS, SERVER = TargetPart("iops"), TargetPart("time", block_bytes=math.inf)
"""A limit on operations and a server that takes as long for each differ only by what bursts get."""
THREAD = TargetPart("iops", scope="thread")
"""A saturated thread of the load; one that is not busy is excluded by that."""
NAMES = {
    **{
        TargetPart(*kind.counts): code
        for code, kind in LIMIT_KINDS.items()
        if kind.counts and code.startswith(("volume_", "connection_"))
    },
    TargetPart("bytes_per_s", "read", "client"): "client_read",
    TargetPart("bytes_per_s", "write", "client"): "client_egress",
    TargetPart("iops", scope="client"): "client_iops",
    TargetPart("in_flight"): "depth",
    SERVER: "server_parallelism",
    THREAD: "generator",
}
PARTS = tuple(NAMES)
"""The parts of a target that may hold a load down."""
LONG_NS = 5 * SECOND_NS
"""Length of runs without and with a change where short ones do not tell."""
LONGER = 4
"""A rate that varies is measured for this many times the length of a probe."""
DIFFER = 1.3
"""Predictions that differ by this factor can be distinguished."""


def _part(code: str) -> TargetPart | None:
    return next((part for part, name in NAMES.items() if name == code), None)


def _name(part: TargetPart) -> str:
    return LIMIT_KINDS[NAMES[part]].short_name


def _excluding(parts: Sequence[TargetPart]) -> str:
    return f", which excludes {', '.join(map(_name, parts))}" if parts else ""


def load_of(plan: Plan) -> LoadRate:
    """A load as the model has it, for what parts of a target make of it: at one operation per second."""
    workers = plan.groups[0].workers
    operations = [one for worker in workers for one in worker.operations]
    shares = sum(one.share for one in operations)
    reads = sum(one.share for one in operations if one.kind == "read") / shares
    mounts = [worker.engine.mount for worker in workers if isinstance(worker.engine, NfsEngine)]
    return LoadRate(
        block_bytes=round(sum(one.share * block_bytes_mean(one.blocks) for one in operations) / shares),
        mix=reads,
        read_share=reads,
        order="",
        depth=sum(worker.depth for worker in workers),
        connections=sum(mount.nconnect for mount in mounts),
        iops=1.0,
        error=0.0,
        operations=0,
        clients=len({mount.source for mount in mounts}) or 1,
        workers=len(workers),
    )


def _growth(part: TargetPart, base: LoadRate, changed: LoadRate) -> float:
    """The factor by which a load may grow with a change, where a part holds it down; infinite if it does so no more."""
    value = part.value_of(changed)
    return part.value_of(base) / value if value else math.inf


def _telling(change: Variation, plan: Plan, named: TargetPart | None, left: Sequence[TargetPart]) -> float:
    """The information in bits that a change is expected to give, by the outcomes that the parts predict.

    The named part is as likely as all others together. 0 if none of them predicts another outcome than it.
    """
    changed = change.apply(plan)
    if changed is None:
        return 0.0
    base, after = load_of(plan), load_of(changed)
    # A code without a part in the model is expected to hold any load down.
    expected = _growth(named, base, after) if named else 1.0
    outcomes: dict[int | None, float] = {0: 0.5}
    for part in left:
        ratio = _growth(part, base, after) / expected
        outcome = round(math.log(ratio, DIFFER)) if 0 < ratio < math.inf else None
        outcomes[outcome] = outcomes.get(outcome, 0.0) + 0.5 / len(left)
    return -math.fsum(share * math.log2(share) for share in outcomes.values()) if len(outcomes) > 1 else 0.0


def _contradicts(response: Response, part: TargetPart, base: LoadRate) -> bool:
    """True if a load that a part holds down responds otherwise. Another limit may end its growth soon."""
    changed = load_of(response.changed.point.plan)
    predicted = _growth(part, base, changed)
    if math.isinf(predicted):
        # The kind that is left may be near a limit, but has more than before.
        kept = base.share("read" if changed.read_share else "write") if changed.read_share in (0.0, 1.0) else 1.0
        return response.estimate.high < kept * (1 + MATTERS / 2)
    if predicted > DIFFER:
        return response.estimate.high < 1 + MATTERS
    if predicted > 1 / DIFFER:
        return response.grows or response.is_lower
    return response.estimate.low > predicted * (1 + MATTERS)


def _next_limit(probes: Probes, without: Variation) -> Limit | None:
    """The limit of the load without the rate or the think time that was requested."""
    plan = without.apply(probes.plan)
    return diagnose(plan, probes.target, probes.run, NEXT_S)[0] if plan else None


def _diagnosed(probes: Probes, plan: Plan, before: Limit | None, outcome: Outcome = "inconclusive") -> Confirmation:
    """The limit that all probes find, and what that says of the verdict before."""
    verdict, _ = diagnose(plan, probes.target, probes.run, probes.until_s - probes.clock(), probes.clock)
    if is_sure(verdict) and outcome == "inconclusive":
        agrees = before is None or before.code in UNDECIDED or before.code == verdict.code
        outcome = "found" if agrees else "refuted"
    return Confirmation(outcome, verdict, verdict.evidence)


@contextmanager
def _load(plan: Plan, opened: OpenedTarget) -> Iterator[Plan]:
    """The longest group of a plan on separate files, which are removed at the end."""
    longest = max(plan.groups, key=lambda group: max(worker.end.runtime_ns or 0 for worker in group.workers))
    stem = f"iocurve-why-{secrets.token_hex(4)}"
    workers = tuple(_placed(worker, opened, f"{stem}.{number}") for number, worker in enumerate(longest.workers))
    load = variations.shortened(plan.replace(groups=(longest.replace(workers=workers),)), RUNTIME_NS)
    files = RunFiles(stem, [] if opened.path else [opened])
    files.announce(load)
    try:
        yield load
    finally:
        files.remove()


def _placed(worker: Worker, opened: OpenedTarget, name: str) -> Worker:
    """A worker with its load alone: where the target is reached now, without checks, logs and waits for others."""
    bare = worker.replace(
        verify=None, replay=None, log=None, steady_state=None, latency_target=None, wait_for=(), start_delay_ns=0
    )
    if opened.path is not None:
        return _on_named_file(bare, opened.path)
    size = max(MIB, min(FILE_BYTES_MAX, sum(file.bytes for file in worker.files)) // MIB * MIB)
    largest = max(
        operation.blocks.bytes for operation in worker.operations if isinstance(operation.blocks, FixedBlocks)
    )
    file = FilePlan(path=name, offset_bytes=0, bytes=max(size, largest), layout="fill", keep=True)
    if isinstance(opened.target, NfsTarget):
        mount = worker.engine.mount if isinstance(worker.engine, NfsEngine) else opened.target.mount(1)
        reached = opened.target.mount(mount.nconnect).replace(durability=mount.durability, source=mount.source)
        return bare.replace(files=(file,), engine=NfsEngine(mount=reached), disk=None)
    directory = opened.target.path
    disk = opened.target.plan if isinstance(opened.target, DiskTarget) else None
    return bare.replace(files=(file.replace(path=str(directory / name)),), disk=disk)


def _on_named_file(worker: Worker, path: str) -> Worker:
    if any(operation.kind not in ("read",) for operation in worker.operations):
        raise TargetError(f"{path}: the load writes to what is there; name a directory by {option('target')}")
    known = {str(Path(file.path).resolve()) for file in worker.files}
    if str(Path(path).resolve()) not in known:
        raise TargetError(f"{path} is not what the load of this result reads")
    return on_existing_files(worker)
