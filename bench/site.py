"""Hooks of ``make docs``: MkDocs gets the pages as GitHub shows them."""

from __future__ import annotations

import re
from typing import Any

FENCE = re.compile(r"^```(\w+) [\w-]+$", re.MULTILINE)
"""A block with a second word, which is for tests: MkDocs knows one word."""
FILE = re.compile(r"\]\((?P<path>(?:\.\./)*(?:tests|crates|python|\.ci)/[^)]*|LICENSE)\)")
"""A link to a file that is no page."""


def on_page_markdown(markdown: str, **_: Any) -> str:
    """The page with blocks and links that MkDocs reads."""
    return FILE.sub("]", FENCE.sub(r"```\1", markdown))
