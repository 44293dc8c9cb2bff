"""A proof for people: a table, a page for the supplier, and a JSON document."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

from iocurve._native import VERSION
from iocurve.advice.prove import DEPTHS, JudgedSlo, Proof
from iocurve.foundation.units import capitalised, counted, format_bytes
from iocurve.foundation.units import sentence as as_sentence
from iocurve.report.page import PROOF_NAME, rendered
from iocurve.report.table import Table
from iocurve.result.document import Result
from iocurve.result.document_file import write_atomically

COLUMNS = ("verdict", "SLO", "agreed", "measured (95 %)", "worst run", "why", "source")
WORDS = {
    "passed": ("pass", "met"),
    "failed": ("fail", "missed"),
    "not_delivered": ("not delivered to this client",) * 2,
    "inconclusive": ("inconclusive",) * 2,
}
"""Each verdict as the cell of a row, and as a word of a sentence."""


def rows(proof: Proof) -> list[tuple[str, ...]]:
    """A row for each SLO, in the order of ``COLUMNS``."""
    return [
        (
            WORDS[one.verdict][0],
            one.slo.name,
            one.slo.bound_text,
            one.value_text,
            one.worst_text,
            one.why,
            one.slo.source,
        )
        for one in proof.judged
    ]


def sentence(proof: Proof) -> str:
    """``4 SLOs: 3 met, 1 missed``."""
    counts = {word: sum(one.verdict == verdict for one in proof.judged) for verdict, (_, word) in WORDS.items()}
    parts = [f"{count} {word}" for word, count in counts.items() if count]
    return f"{counted(len(proof.judged), 'SLO')}: {', '.join(parts)}"


def finding(proof: Proof) -> str:
    """The sentence at the top of the page: whether the SLOs are kept, and what was measured of those that are not.

    ``1 of 2 SLOs is met. Missed: IOPS: 9k IOPS instead of at least 10k IOPS.``
    """
    kept = sum(one.verdict == "passed" for one in proof.judged)
    told = [f"{kept} of {counted(len(proof.judged), 'SLO')} {'is' if kept == 1 else 'are'} met."]
    for verdict, (_, word) in WORDS.items():
        others = [
            f"{one.slo.name}: {one.value_text} instead of {one.slo.bound_text}"
            for one in proof.judged
            if one.verdict == verdict != "passed"
        ]
        told += [f"{capitalised(word)}: {'; '.join(others)}."] if others else []
    return " ".join(told)


def document(proof: Proof) -> dict[str, object]:
    """The proof with its verdict, for JSON."""
    return {"verdict": proof.verdict, **proof.to_builtins()}


def write(proof: Proof, result: Result, size_bytes: int, directory: Path) -> Path:
    """Writes the page next to the result; gives its path. Raises ``ResultError``."""
    path = directory / PROOF_NAME
    write_atomically(path, page(proof, result, size_bytes).encode())
    return path


def page(proof: Proof, result: Result, size_bytes: int) -> str:
    """The page, which needs nothing but itself."""
    return rendered(
        PROOF_NAME,
        title=f"Proof: {proof.agreement.title}",
        finding=finding(proof),
        version=VERSION,
        agreement=proof.agreement.title,
        target=proof.target,
        subtitle=f"{result.created:%Y-%m-%d %H:%M} UTC, tolerance {100 * proof.tolerance:g} %",
        slos=Table(COLUMNS, rows(proof), sentences=("SLO", "why", "source")),
        not_judged=proof.agreement.not_judged,
        method=list(_method(proof, result, size_bytes)),
        command=shlex.join(["iocurve", *sys.argv[1:]]),
        fio=list(dict.fromkeys(_fio(one, size_bytes) for one in proof.judged)),
    )


def _method(proof: Proof, result: Result, size_bytes: int) -> Iterator[str]:
    host = result.host
    machine = f"{host.hostname}: {host.cpus} processors, {host.cpu_model}, Linux {host.kernel}" if host else "unknown"
    yield f"Client: {machine}."
    yield (
        f"Data: new files of {format_bytes(size_bytes)} together. Each load is a closed loop with {DEPTHS[0]} in "
        f"flight, and with more (up to {DEPTHS[-1]}) where the SLO is not reached; the fastest run counts, and the "
        "table has the worst one, too. Times are from submission to completion."
    )
    yield (
        "An SLO is met if the 95 % interval of the value lies beyond the SLO less the tolerance, and missed if "
        "it lies below and three runs did. It is inconclusive if the interval spans that bound, if more in flight "
        "still gave more, if others disturbed the runs and they do not agree, if the target stalled in a "
        "run that breaks it or an undisturbed run exceeds a latency, or if this client does not deliver 1.1 times the "
        "SLO of the same load on a volume without limits."
    )
    if any(one.verdict == "not_delivered" for one in proof.judged):
        yield (
            "Not delivered to this client says nothing of the supplier: the limit may be one of this client's address, "
            "network or machine. Measure from another client, or state this machine's size with --vm."
        )
    if any(one.slo.measure.startswith("burst") for one in proof.judged):
        yield (
            "Burst: random reads of 4 KiB without a pause, measured before all other loads. Credits are full only if "
            "the volume had no load beyond its baseline before."
        )
    for one in proof.judged:
        if one.limited_by:
            yield as_sentence(f"{one.slo.name}: {one.depth} in flight, {one.limited_by}")


def _fio(one: JudgedSlo, size_bytes: int) -> str:
    """The load as fio runs it."""
    jobs = 2 if (one.depth or 1) > 1 else 1
    depth = max(1, (one.depth or 1) // jobs)
    words = " ".join(f"--{word}" for word in one.slo.workload.split())
    return (
        f"fio --name=slo --directory=MOUNT {words} --direct=1 --ioengine=libaio --iodepth={depth} --numjobs={jobs} "
        f"--size={size_bytes // jobs >> 20}M --norandommap --time_based --ramp_time=1 --runtime=10 --group_reporting"
    )
