"""The tables of ``docs/evidence/bottlenecks.md``, from the records of the runs."""

from __future__ import annotations

import json
import math
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from bench.limits.case import HELD_OUT, KINDS, Kind, drawn
from bench.limits.examine import HELD_UP

PAGE = Path(__file__).parents[2] / "docs" / "evidence" / "bottlenecks.md"
COLUMNS = (
    "kind",
    "runs",
    "right",
    "inconclusive",
    "CPU contention",
    "false",
    "right, 95 % interval",
    "false, 95 % interval",
    "false as",
    "false before a probe",
)
NORMAL_95 = 1.959964


def wilson(count: int, runs: int) -> tuple[float, float]:
    """The 95 % interval of a share (E. B. Wilson, J. Am. Stat. Assoc. 22, 1927)."""
    if not runs:
        return 0.0, 1.0
    share, square = count / runs, NORMAL_95**2
    centre = (share + square / 2 / runs) / (1 + square / runs)
    half = NORMAL_95 * math.sqrt(share * (1 - share) / runs + square / 4 / runs**2) / (1 + square / runs)
    return max(0.0, centre - half), min(1.0, centre + half)


def table(records: Sequence[Mapping[str, Any]]) -> str:
    """Counts by kind; runs in which another limit was binding count apart."""
    by_kind: dict[str, list[Mapping[str, Any]]] = {}
    for record in records:
        by_kind.setdefault(record["kind"], []).append(record)
    order = [*KINDS, *HELD_OUT, *(name for name in by_kind if name not in {**KINDS, **HELD_OUT})]
    rows = [_row(name, by_kind[name]) for name in order if name in by_kind]
    lines = [line(COLUMNS), line(["---", *["---:"] * (len(COLUMNS) - 1)]), *rows, _row("all", records)]
    void = sum(record["judged"] == "void" for record in records)
    note = f"\n\nIn {void} further runs the server's account said that another limit was binding." if void else ""
    probes = sorted(record["probe_s"] for record in records if record.get("probe_s"))
    if probes:
        note += (
            f"\n\nProbes of {len(probes):,} runs took {median(probes):.1f} s in the median, {probes[-1]:.1f} s at most."
        )
    return "\n".join(lines) + note


def kinds_table(kinds: Mapping[str, Kind]) -> str:
    """Describes each kind, and lists the names that are right."""
    lines = [line(("kind", "what it is", "right")), line(("---", "---", "---"))]
    for kind in kinds.values():
        right = sorted({name for seed in range(50) for name in drawn(kind.name, seed).right})
        lines.append(line((kind.name, kind.note, ", ".join(f"`{name}`" for name in right))))
    return "\n".join(lines)


PAGE_COLUMNS = (
    "family",
    "pages",
    "right, inconclusive, false",
    "... without probes",
    "... after why --confirm",
    "names of points",
    "false ones",
)


def pages_table(records: Sequence[Mapping[str, Any]]) -> str:
    """Counts first pages by family, those that rules were set on before those that are only scored."""
    lines = [line(PAGE_COLUMNS), line(["---", *["---:"] * (len(PAGE_COLUMNS) - 1)])]
    for scored in (False, True):
        of_group = [record for record in records if record["scored"] == scored]
        names = sorted({record["kind"] for record in of_group})
        lines += [_page_row(name, [record for record in of_group if record["kind"] == name]) for name in names]
        lines.append(_page_row("**only scored**" if scored else "**set on**", of_group))
    return "\n".join([*lines, "", *_reliability(records), "", *_worst(records)])


WORST = 10


def _worst(records: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """The pages with most false names, then those with fewest names: what was said of points, and what is true."""
    pages = [record for record in records if record["judged"] != "void" and record.get("named")]
    worst = sorted(pages, key=lambda one: (-one["names"].count(False), one["judged"] == "right", len(one["names"])))
    yield line(("worst pages", "seed", "first page", "said of points", "true of them"))
    yield line(["---", "---:", *["---"] * 3])
    for one in worst[:WORST]:
        pairs = zip(one["named"], one["right"], strict=True)
        said = Counter(f"{named[0]} ({named[1]})" if named else "nothing" for named, true in pairs if true)
        true = Counter(" or ".join(_in_short(names)) for names in one["right"] if names)
        counts = (", ".join(f"{name} {count}" for name, count in found.most_common(3)) for found in (said, true))
        yield line((one["kind"], one["seed"], one["judged"], *counts))


def _in_short(names: Sequence[str]) -> list[str]:
    """The names, with one for all of this machine."""
    is_held_up = set(HELD_UP) <= set(names)
    return [name for name in names if name not in HELD_UP] + ["this machine"] * is_held_up


RELIABILITY_COLUMNS = (
    "weight of a name",
    "points, set on",
    "mean weight",
    "right",
    "points, only scored",
    "mean weight",
    "right",
    "right",
)
WEIGHTS = (0.0, 0.5, 0.75, 0.9, 0.95, 0.99, 1.0)
"""Bounds of the weights of names that are counted together."""
BAR = 20
"""Characters of a diagram's bar for all."""


def _reliability(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """The share of names that are right, by the weight that profiles give them: a diagram, by families."""
    lines = [line(RELIABILITY_COLUMNS), line(["---", *["---:"] * 6, "---"])]
    for low, high in pairwise(WEIGHTS):
        cells: list[object] = []
        share = 0.0
        for scored in (False, True):
            found = [
                (weight, is_right)
                for record in records
                if record["scored"] == scored
                for weight, is_right in record.get("weights", ())
                if low < weight <= high
            ]
            share = sum(is_right for _, is_right in found) / len(found) if found else 0.0
            mean = sum(weight for weight, _ in found) / len(found) if found else 0.0
            cells += [len(found), f"{mean:.1%}", f"{share:.1%}"]
        lines.append(line((f"{low:.0%} to {high:.0%}", *cells, f"`{'#' * round(BAR * share):{BAR}}`")))
    return lines


def _page_row(name: str, records: Sequence[Mapping[str, Any]]) -> str:
    names = [is_right for record in records for is_right in record["names"]]
    shares = [_shares(Counter(record[key] for record in records)) for key in ("judged", "bare", "confirmed")]
    return line((name, len(records), *shares, len(names), names.count(False)))


def _shares(counts: Counter[str]) -> str:
    """``75, 23, 2 %`` of the runs whose truth was clear."""
    total = sum(counts.values()) - counts["void"]
    parts = (counts["right"], counts["undecided"] + counts["held up"], counts["false"])
    return f"{', '.join(f'{100 * part / total:.0f}' for part in parts)} %" if total else "–"


def _row(name: str, records: Iterable[Mapping[str, Any]]) -> str:
    judged = [record for record in records if record["judged"] != "void"]
    counts = Counter(record["judged"] for record in judged)
    wrong = Counter(str(record["final"]) for record in judged if record["judged"] == "false")
    runs, first = len(judged), sum(record.get("judged_first") == "false" for record in judged)
    said = ", ".join(f"{code} {count}" for code, count in sorted(wrong.items()))
    return line(
        (
            name,
            runs,
            counts["right"],
            counts["undecided"],
            counts["held up"],
            counts["false"],
            _interval(counts["right"], runs),
            _interval(counts["false"], runs),
            said,
            first,
        )
    )


def _interval(count: int, runs: int) -> str:
    low, high = wilson(count, runs)
    return f"{low:.0%} to {high:.0%}" if runs < 200 else f"{low:.1%} to {high:.1%}"


def line(cells: Iterable[object]) -> str:
    """A line of a table."""
    return f"| {' | '.join(map(str, cells))} |"


def machine(records: Sequence[Mapping[str, Any]]) -> str:
    """The machine and its load during the runs, in a sentence."""
    loads = sorted(record["load_average"] for record in records if "load_average" in record)
    stolen = max((record.get("steal_share", 0.0) for record in records), default=0.0)
    if not loads:
        return f"A machine with {os.cpu_count()} processors."
    spread = f"load average {loads[0]:.1f} to {loads[-1]:.1f}, median {median(loads):.1f}"
    minutes = sum(record["seconds"] for record in records) / 60
    machine = f"A machine with {os.cpu_count()} processors, {spread}, steal up to {stolen:.1%}."
    commits = ", ".join(sorted({record["commit"] for record in records if record.get("commit")}))
    measured = f" Measured at {commits}." if commits else ""
    return f"{machine} {len(records):,} runs, {minutes:.0f} minutes together.{measured}"


def kept(path: Path | None) -> list[dict[str, Any]]:
    """The records that earlier runs have kept."""
    if path is None or not path.exists():
        return []
    return [json.loads(text) for text in path.read_text(encoding="utf-8").splitlines()]


def keep(path: Path | None, record: Mapping[str, Any]) -> None:
    """Adds a record to a file."""
    if path:
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")


def rows(name: str) -> list[str]:
    """The lines of a section's table, without its columns."""
    text = PAGE.read_text(encoding="utf-8").partition(f"<!-- table: {name} -->\n")[2]
    section = text.partition(f"<!-- end: {name} -->\n")[0]
    return [line for line in section.splitlines() if line.startswith("|")][2:]


def write(name: str, text: str) -> None:
    """Puts a text between the marks of a section of the page."""
    page = PAGE.read_text(encoding="utf-8")
    before, opening, rest = page.partition(f"<!-- table: {name} -->\n")
    _, closing, after = rest.partition(f"<!-- end: {name} -->\n")
    if not (opening and closing):
        raise SystemExit(f"{PAGE} has no marks for a table named {name}")
    PAGE.write_text(f"{before}{opening}\n{text}\n\n{closing}{after}", encoding="utf-8")
