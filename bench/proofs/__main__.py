"""``python -m bench.proofs ROWS.json``: proves good volumes, and volumes that break one SLO each.

Each case serves the embedded volume with a profile and proves the contract on it. A case is right if exactly the broken
SLOs fail. The rows that the file has are kept, so a run can go on where the last one ended. ``docs/proofs.md`` has
the table.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
import time
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path

from bench.machine import machine_facts

Figures = dict[str, dict[str, int]]
CONTRACT: Figures = {
    "throughput_mib_per_s": {"base": 64},
    "throughput_write_mib_per_s": {"base": 48},
    "iops": {"base": 2000},
    "iops_write": {"base": 1500},
    "burst_iops": {"base": 5000, "credits_for_s": 5},
    "latency_us": {"value": 2000},
}
LATENCY = "6ms"
"""The contract's mean latency at depth 1; a volume that keeps it adds 2 ms."""


CASE_S = 60.0
"""Time for a case, until one has taken longer."""


@dataclass(frozen=True)
class Case:
    """A volume: the figures that differ from the contract, and the words of the SLOs that it breaks."""

    name: str
    changes: Figures
    breaks: tuple[str, ...] = ()

    def is_right(self, failed: list[str]) -> bool:
        """True if exactly the broken SLOs fail: each word in some failed SLO, each failed one has a word."""
        found = all(any(word in name for name in failed) for word in self.breaks)
        return found and all(any(word in name for word in self.breaks) for name in failed)

    def is_false(self, failed: list[str]) -> bool:
        """True if an SLO that is kept failed."""
        return any(not any(word in name for word in self.breaks) for name in failed)


def cases() -> list[Case]:
    """Good volumes, and each SLO broken by 20 % and by 10 %."""
    broken = [
        case
        for part in (0.8, 0.9)
        for case in (
            Case("throughput", {"throughput_mib_per_s": {"base": round(64 * part)}}, ("throughput, reads",)),
            Case(
                "write throughput", {"throughput_write_mib_per_s": {"base": round(48 * part)}}, ("throughput, writes",)
            ),
            Case("IOPS", {"iops": {"base": round(2000 * part)}}, ("IOPS, random reads",)),
            Case("write IOPS", {"iops_write": {"base": round(1500 * part)}}, ("IOPS, random writes",)),
            Case("burst IOPS", {"burst_iops": {"base": round(5000 * part), "credits_for_s": 8}}, ("burst, IOPS",)),
            Case("burst length", {"burst_iops": {"base": 5000, "credits_for_s": 4 if part > 0.85 else 3}}, ("length",)),
        )
    ]
    slow = [Case("latency", {"latency_us": {"value": value}}, ("mean latency",)) for value in (8000, 12000)]
    better = [
        Case("as agreed", {}),
        Case("as agreed", {}),
        Case("as agreed", {}),
        Case("more than agreed", {"throughput_mib_per_s": {"base": 80}, "throughput_write_mib_per_s": {"base": 60}}),
        Case("more IOPS than agreed", {"iops": {"base": 2150}, "iops_write": {"base": 1640}}),
        Case("faster than agreed", {"latency_us": {"value": 500}}),
    ]
    return [*broken, *slow, *better]


def profile(figures: Figures) -> str:
    """A profile as TOML."""
    lines = ['title = "contract of a test"', "[sources.annex]", 'page = "Annex B"']
    for name, figure in figures.items():
        lines += [f"[{name}]", *(f"{key} = {value}" for key, value in figure.items()), 'source = "annex"']
    return "\n".join(lines) + "\n"


def proved(case: Case) -> dict[str, object]:
    """Proves one case; gives the row of the table."""
    with tempfile.TemporaryDirectory() as directory:
        return _proved(case, Path(directory))


def _proved(case: Case, directory: Path) -> dict[str, object]:
    began = time.monotonic()
    contract, served = directory / "contract.toml", directory / "served.toml"
    contract.write_text(profile(CONTRACT), encoding="utf-8")
    served.write_text(profile(CONTRACT | case.changes), encoding="utf-8")
    command = [sys.executable, "-m", "iocurve", "prove", f"volume:{served}?quota=1TiB", "--profile", str(contract)]
    command += ["--quota", "1TiB", "--mean", LATENCY, "--size", "64MiB", "--out", str(directory / "out"), "--json"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if ran.returncode not in (0, 4, 5):
        raise RuntimeError(ran.stderr)
    judged = json.loads(ran.stdout)["judged"]
    by_verdict = {
        verdict: [one["slo"]["name"] for one in judged if one["verdict"] == verdict]
        for verdict in ("failed", "inconclusive", "passed")
    }
    failed = by_verdict["failed"]
    return {
        "case": case.name,
        "changes": case.changes,
        **by_verdict,
        "status": ran.returncode,
        "seconds": round(time.monotonic() - began, 1),
        "is_right": case.is_right(failed),
        "is_false": case.is_false(failed),
        "why": {one["slo"]["name"]: one["why"] for one in judged if one["verdict"] != "passed"},
    }


def main() -> None:
    """Proves the cases that the file has not yet, and appends their rows to it."""
    parser = argparse.ArgumentParser(description="Proves good volumes, and volumes that break one SLO each.")
    parser.add_argument("rows", type=Path, help="file of rows (JSON); cases that it has are not proved again")
    parser.add_argument("--seconds", type=float, default=math.inf, help="start no case that may end later than this")
    parser.add_argument("--at-once", type=int, default=1, help="cases that run at the same time")
    options = parser.parse_args()
    kept = json.loads(options.rows.read_text()) if options.rows.exists() else {"machine": machine_facts(), "rows": {}}
    rows: dict[str, dict[str, object]] = kept["rows"]
    start, longest_s = time.monotonic(), CASE_S
    waiting = iter([(str(number), case) for number, case in enumerate(cases()) if str(number) not in rows])
    running: dict[Future[dict[str, object]], tuple[str, float]] = {}
    with ThreadPoolExecutor(options.at_once) as threads:
        while True:
            while len(running) < options.at_once and time.monotonic() - start + longest_s < options.seconds:
                number, case = next(waiting, ("", None))
                if case is None:
                    break
                running[threads.submit(proved, case)] = number, time.monotonic()
            if not running:
                break
            for one in wait(running, return_when=FIRST_COMPLETED).done:
                number, began = running.pop(one)
                longest_s = max(longest_s, time.monotonic() - began)
                rows[number] = row = one.result()
                options.rows.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
                told = "right" if row["is_right"] else "WRONG"
                print(number, told, row["case"], row["changes"], row["why"], flush=True)
    right, false = (sum(bool(row[key]) for row in rows.values()) for key in ("is_right", "is_false"))
    print(f"{right} of {len(rows)} right ({len(cases())} cases), {false} with an SLO that failed falsely")


if __name__ == "__main__":
    main()
