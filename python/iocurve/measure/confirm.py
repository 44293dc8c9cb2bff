"""Repeats the load of a kept result with the one change that would refute the verdict on it."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import msgspec
from msgspec.structs import replace

from iocurve.analysis.fingerprints import Response
from iocurve.analysis.limit_kinds import UNKNOWN, Experiment, Limit, kind_of
from iocurve.analysis.limits import verdict_of
from iocurve.engine.derived import on_existing_files
from iocurve.engine.plan import FilePlan, FixedBlocks, NfsEngine, Plan, Worker
from iocurve.foundation.errors import TargetError, option
from iocurve.foundation.units import MIB, SECOND_NS
from iocurve.measure import local, variations
from iocurve.measure.run_files import RunFiles
from iocurve.measure.variations import Variation
from iocurve.measure.why import PATIENCE_S, UNDECIDED, Probes, Run, diagnose
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
"""``found``: no limit was known before, and the probes name one."""


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
        return tested(plan, facts, _measured, point.limit or verdict_of(point, facts))


def tested(plan: Plan, facts: TargetFacts, run: Run, before: Limit | None) -> Confirmation:
    """Tests a verdict on a load by the change that would refute it, or looks for the limit by all probes."""
    experiment = kind_of(before.code).experiment if before else None
    if before is None or experiment is None:
        return _diagnosed(plan, facts, run, before)
    return run_experiment(Probes(plan, facts, run, run(plan)), before, experiment)


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
    if outcome == "inconclusive" and without and response is not None:
        # A limit of the load without its rate or pauses does not refute them.
        verdict = verdict_of(probes.base, probes.target)
        return Confirmation(outcome, verdict, (told,), _next_limit(probes, without))
    if outcome != "confirmed":
        plan = without.apply(probes.plan) if without else None
        found = _diagnosed(plan or probes.plan, probes.target, probes.run, before, outcome)
        return replace(found, evidence=(told, *found.evidence))
    verdict = verdict_of(probes.base, probes.target)
    if without is None or response is None:
        return Confirmation(outcome, verdict, (told,))
    if without is not change and response.doubles:
        return Confirmation(outcome, verdict, (told, "no other limit up to there"))
    return Confirmation(outcome, verdict, (told,), _next_limit(probes, without))


def _next_limit(probes: Probes, without: Variation) -> Limit | None:
    """The limit of the load without the rate or the think time that was requested."""
    plan = without.apply(probes.plan)
    return diagnose(plan, probes.target, probes.run, NEXT_S)[0] if plan else None


def _diagnosed(
    plan: Plan, facts: TargetFacts, run: Run, before: Limit | None, outcome: Outcome = "inconclusive"
) -> Confirmation:
    """The limit that all probes find, and what that says of the verdict before."""
    verdict, _ = diagnose(plan, facts, run, PATIENCE_S)
    if verdict.code != UNKNOWN and outcome == "inconclusive":
        is_known = before is not None and before.code != UNKNOWN
        agrees = before is not None and (before.code in UNDECIDED or before.code == verdict.code)
        outcome = "found" if not is_known else "confirmed" if agrees else "refuted"
    return Confirmation(outcome, verdict, verdict.evidence)


def _measured(plan: Plan) -> Point:
    return local.measure(plan).point("why", {})


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
