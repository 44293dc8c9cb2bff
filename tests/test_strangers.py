"""The list of other people's jobs, and the page that counts them."""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]


def texts() -> list[dict[str, str]]:
    with (ROOT / "tests" / "data" / "strangers.tsv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))


def test_the_page_counts_the_texts_of_the_list() -> None:
    page = (ROOT / "docs" / "strangers.md").read_text(encoding="utf-8").splitlines()
    for dialect, title in {"vdbench": "vdbench", "diskspd": "DiskSpd"}.items():
        found = [text for text in texts() if text["dialect"] == dialect]
        verdicts = Counter(text["verdict"] for text in found)
        repositories = len({text["repository"] for text in found})
        counts = [verdicts[verdict] for verdict in ("runs", "explained, does not run yet", "refused")]
        assert f"| {title} | {len(found)} | {repositories} | {' | '.join(map(str, counts))} |" in page
        assert sum(counts) == len(found)


def test_each_text_that_does_not_run_has_a_reason() -> None:
    assert all(bool(text["reason"]) == (text["verdict"] != "runs") for text in texts())
