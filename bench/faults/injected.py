"""Loads on a volume that injects faults, and journals that survive kills."""

from __future__ import annotations

from pathlib import Path

from bench.faults import journals
from bench.faults.loads import arguments
from bench.faults.seen import Seen, fault_log, job_of
from bench.faults.victims import Client, volume_process


def fails(fault: str, message: str, directory: Path) -> Seen:
    """Operations that fail."""
    with volume_process(directory, _faults(fault, directory)) as volume:
        ended = Client(directory, arguments(volume.url(), "--rw=write")).wait()
        seen = Seen.of(ended, volume.files)
        offsets = [record["offset"] for record in fault_log(directory)]
        seen.expect_error(ended, *(f"of 4096 bytes at offset {offset} of data: {message}" for offset in offsets))
        return seen


def verified(fault: str, kind: str, directory: Path) -> Seen:
    """Faults that only verification finds."""
    with volume_process(directory, _faults(fault, directory)) as volume:
        job = ["--rw=write", "--verify=crc32c", "--iodepth=1", "--nconnect=1"]
        untimed = [word for word in arguments(volume.url()) if not word.startswith(("--time_based", "--runtime"))]
        ended = Client(directory, [*untimed, *job]).wait()
        seen = Seen.of(ended, volume.files)
        injected = {record["offset"] // 4096 * 4096 for record in fault_log(directory)}
        found = job_of(directory) or {}
        named = {one["offset"] for one in found["iocurve"]["differences"] if one["kind"] == kind} if found else set()
        others = len(found["iocurve"]["differences"]) - len(named) if found else 0
        seen.end += f"; {len(injected)} injected, {len(named & injected)} named"
        seen.expect(len(injected) > 0, "nothing was injected")
        seen.expect(named == injected, f"{len(injected - named)} not found, {len(named - injected)} reported falsely")
        seen.expect(kind == "lost_write" or not others, f"{others} of another kind")
        seen.data_lost = "by the fault alone"
        return seen


def journals_survive(count: int, directory: Path) -> Seen:
    """Kills of client and volume while a journal is written."""
    with volume_process(directory) as volume:
        done = list(journals.kills(volume, directory, count))
    faults = [f"{kill.victim} killed after {kill.after_seconds:.2f} s: {kill.fault}" for kill in done if kill.fault]
    disturbed = sum(kill.status != 0 for kill in done)
    return Seen(f"{disturbed} of {count} runs cut short; {len(faults)} recoveries failed", faults=faults[:3])


def _faults(fault: str, directory: Path) -> tuple[str, ...]:
    return "--fault", fault, "--fault-log", str(directory / "log")
