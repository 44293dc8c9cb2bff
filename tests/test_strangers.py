"""The list of other people's jobs, and the page that counts them; ``make compatibility`` writes the counts."""

import csv
import os
import re
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]


def texts() -> list[dict[str, str]]:
    with (ROOT / "tests" / "data" / "strangers.tsv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))


def test_the_page_counts_the_texts_of_the_list() -> None:
    path = ROOT / "docs" / "evidence" / "third-party-jobs.md"
    page = path.read_text(encoding="utf-8")
    for dialect, title in {"vdbench": "vdbench", "diskspd": "DiskSpd"}.items():
        found = [text for text in texts() if text["dialect"] == dialect]
        verdicts = Counter(text["verdict"] for text in found)
        repositories = len({text["repository"] for text in found})
        counts = [verdicts[verdict] for verdict in ("runs", "explained, does not run yet", "refused")]
        row = f"| {title} | {len(found)} | {repositories} | {' | '.join(map(str, counts))} |"
        if os.environ.get("IOCURVE_UPDATE_GOLDEN"):
            page = re.sub(rf"^\| {title} \| \d.*$", row, page, count=1, flags=re.MULTILINE)
            path.write_text(page, encoding="utf-8")
        assert row in page.splitlines()
        assert sum(counts) == len(found)


def test_each_text_that_does_not_run_has_a_reason() -> None:
    assert all(bool(text["reason"]) == (text["verdict"] != "runs") for text in texts())
