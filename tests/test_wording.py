"""The words of comments, messages and documentation: those that CONTRIBUTING.md replaces do not come back."""

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TEXTS = (
    "*.md",
    "Makefile",
    "docs/**/*.md",
    "bench/**/*.md",
    "python/**/*.py",
    "bench/**/*.py",
    "tests/**/*.py",
    "crates/**/*.rs",
)
OPENING = r'(?:^\s*(?://[/!]|#)|""") ?'

AT_MOST = {
    r"\bmistakes?\b": 0,
    r"\bfolders?\b": 0,
    r"\b(?:no|some)body\b": 35,
    r"\ba person\b": 1,
    r"\basked for\b": 13,
    r"\bof (?:its|their) own\b": 13,
    r"\bhanded over\b": 0,
    r"\bbesides?\b": 26,
    OPENING + r"(?:What|Whether|How|Which|Who|Whoever|Of the) ": 24,
}
"""Lines with each pattern. The numbers only fall; the replacements are in CONTRIBUTING.md, under Style."""


@cache
def lines() -> list[str]:
    paths = {path for pattern in TEXTS for path in ROOT.glob(pattern)} - {Path(__file__), ROOT / "CONTRIBUTING.md"}
    named = {str(path.relative_to(ROOT)): path.read_text("utf-8") for path in sorted(paths)}
    return [f"{name}: {line}" for name, text in named.items() for line in text.splitlines()]


@pytest.mark.parametrize(("pattern", "at_most"), list(AT_MOST.items()))
def test_words_that_were_replaced_do_not_come_back(pattern: str, at_most: int) -> None:
    words = re.compile(pattern, re.IGNORECASE)
    found = [line for line in lines() if words.search(line.partition(": ")[2])]
    assert len(found) <= at_most, "\n".join(found)
