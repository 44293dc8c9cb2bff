"""``python -m bench.proofs [CASES.json]``: proves good volumes, and volumes that break one promise each.

Each case serves the embedded volume with a profile and proves the contract on it. A case is right if exactly the broken
promises fail. ``docs/proofs.md`` has the table.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

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


@dataclass(frozen=True)
class Case:
    """A volume: the figures that differ from the contract, and the words of the promises that it breaks."""

    name: str
    changes: Figures
    breaks: tuple[str, ...] = ()

    def is_right(self, failed: list[str]) -> bool:
        """True if exactly the broken promises fail: each word in some failed promise, each failed one has a word."""
        found = all(any(word in name for name in failed) for word in self.breaks)
        return found and all(any(word in name for word in self.breaks) for name in failed)

    def is_false(self, failed: list[str]) -> bool:
        """True if a promise that is kept failed."""
        return any(not any(word in name for word in self.breaks) for name in failed)


def cases() -> list[Case]:
    """Good volumes, and each promise broken by 20 % and by 10 %."""
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
        Case("as promised", {}),
        Case("as promised", {}),
        Case("as promised", {}),
        Case("more than promised", {"throughput_mib_per_s": {"base": 80}, "throughput_write_mib_per_s": {"base": 60}}),
        Case("more IOPS than promised", {"iops": {"base": 2150}, "iops_write": {"base": 1640}}),
        Case("faster than promised", {"latency_us": {"value": 500}}),
    ]
    return [*broken, *slow, *better]


def profile(figures: Figures) -> str:
    """A profile as TOML."""
    lines = ['title = "contract of a test"', "[sources.annex]", 'page = "Annex B"']
    for name, figure in figures.items():
        lines += [f"[{name}]", *(f"{key} = {value}" for key, value in figure.items()), 'source = "annex"']
    return "\n".join(lines) + "\n"


def proved(case: Case, directory: Path) -> dict[str, object]:
    """Proves one case; gives the row of the table."""
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
        verdict: [one["promise"]["name"] for one in judged if one["verdict"] == verdict]
        for verdict in ("failed", "cannot_tell", "passed")
    }
    failed = by_verdict["failed"]
    return {
        "case": case.name,
        "changes": case.changes,
        **by_verdict,
        "status": ran.returncode,
        "is_right": case.is_right(failed),
        "is_false": case.is_false(failed),
        "why": {one["promise"]["name"]: one["why"] for one in judged if one["verdict"] != "passed"},
    }


def main() -> None:
    """Proves every case, or those whose numbers are given as FROM:TO; appends the rows to the file."""
    path = Path(sys.argv[1])
    first, _, last = (sys.argv[2] if len(sys.argv) > 2 else ":").partition(":")
    chosen = cases()[int(first or 0) : int(last) if last else None]
    rows = json.loads(path.read_text()) if path.exists() else []
    for case in chosen:
        with tempfile.TemporaryDirectory() as directory:
            rows.append(proved(case, Path(directory)))
        row = rows[-1]
        print("right" if row["is_right"] else "WRONG", row["case"], row["changes"], row["why"], flush=True)
        path.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    right, false = (sum(bool(row[key]) for row in rows) for key in ("is_right", "is_false"))
    print(f"{right} of {len(rows)} right, {false} with a promise that failed falsely")


if __name__ == "__main__":
    main()
