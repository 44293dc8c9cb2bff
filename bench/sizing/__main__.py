"""``python -m bench.sizing``: asks every question and writes ``docs/evidence/sizing.md``."""

from __future__ import annotations

import contextlib
import io
import json
import re
import shlex
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from iocurve.cli import commands
from iocurve.foundation.units import format_number

ROOT = Path(__file__).parent.parent.parent
TABLE = ROOT / "docs" / "evidence" / "sizing.md"
QUESTIONS = Path(__file__).with_name("questions.toml")
NEAR_PERCENT = 2.0
_STEP = re.compile(r"([a-z_]+)((?:\[[^\]]+\])*)\Z")
HEAD = """# Sizing questions and the answers of documents

Questions whose answers a document states, asked of `iocurve size`. A to E are the five benchmark documents: A regular
volumes of Azure NetApp Files, B vdbench results of 2019, C NFS shares of Azure Files, D large volumes, E benchmark of a
disk. The others are pages of learn.microsoft.com that they rest on. A question about a measured rate (those of D, and
DiskSpd's in E) is answered by the limits that are published or fitted: its difference shows how near the measurement
came to the limit. `python -m bench.sizing` writes this page; a test holds it.

"""


@dataclass(frozen=True)
class Answer:
    """A question with both answers."""

    document: str
    asks: str
    arguments: tuple[str, ...]
    stated: float
    ours: float
    remark: str

    @property
    def difference_percent(self) -> float:
        return 100 * (self.ours / self.stated - 1)


def answers() -> list[Answer]:
    """Asks every question."""
    questions = tomllib.loads(QUESTIONS.read_text(encoding="utf-8"))["question"]
    return [
        Answer(
            one["document"],
            one["asks"],
            tuple(one["arguments"]),
            one["stated"],
            found(asked(one["arguments"]), one["answer"]),
            one.get("remark", ""),
        )
        for one in questions
    ]


def asked(arguments: list[str]) -> Any:
    """The JSON that ``iocurve size`` prints."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        status = commands.run(["size", *arguments, "--json"])
    if status:
        raise RuntimeError(f"iocurve size {shlex.join(arguments)} ended with status {status}")
    return json.loads(out.getvalue())


def found(document: Any, path: str) -> float:
    """The number at a path: ``alternatives[name=anf-premium].gib/1024``."""
    path, _, divisor = path.partition("/")
    value = document
    for step in re.split(r"\.(?![^\[]*\])", path):
        parsed = _STEP.match(step)
        if parsed is None:
            raise ValueError(f"'{step}' is not a step of a path")
        value = value[parsed[1]]
        for name, wanted in re.findall(r"\[([a-z_]+)=([^\]]+)\]", parsed[2]):
            value = [one for one in value if one[name] == wanted]
        if parsed[2]:
            value = value[0]
    return float(value) / float(divisor or 1)


def table(rows: list[Answer]) -> str:
    """The page."""
    near = sum(abs(row.difference_percent) <= NEAR_PERCENT for row in rows)
    lines = [
        f"{len(rows)} questions; {near} answers within {NEAR_PERCENT:g} %. A remark explains each of the others.",
        "",
        "| document | question | stated | ours | difference | command, remark |",
        "| --- | --- | ---: | ---: | ---: | --- |",
    ]
    for row in rows:
        remark = f"; {row.remark}" if row.remark else ""
        difference = f"{round(row.difference_percent, 1) + 0.0:+.1f} %".replace("-", "−").replace("+0.0", "0.0")
        command = f"`iocurve size {shlex.join(row.arguments)}`"
        cells = (
            row.document,
            row.asks,
            format_number(row.stated),
            format_number(row.ours),
            difference,
            command + remark,
        )
        lines.append(f"| {' | '.join(cells)} |")
    return HEAD + "\n".join(lines) + "\n"


if __name__ == "__main__":
    TABLE.write_text(table(answers()), encoding="utf-8")
    print(f"{TABLE.relative_to(ROOT)} written")
