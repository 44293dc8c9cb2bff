"""README.md shows what the commands print today: its outputs are those of results that ``make readme`` kept."""

import re
import shlex
from pathlib import Path

import pytest

from bench.readme import BLOCKS, FENCE, PAGE, Block, bodies, printed
from iocurve.cli.commands import app
from iocurve.dialects.registry import REGISTRY, load

WORDS_MAX = 1_000
"""The limit for the page without its outputs."""
SHOWN = bodies(PAGE.read_text(encoding="utf-8"))


def test_the_page_has_every_block_and_is_short() -> None:
    assert set(SHOWN) == {block.name for block in BLOCKS}
    assert len(FENCE.sub("", PAGE.read_text(encoding="utf-8")).split()) <= WORDS_MAX


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.name)
def test_a_block_has_its_command_and_the_lines_that_it_shows(block: Block) -> None:
    first, *lines = SHOWN[block.name].splitlines()
    assert first == f"$ {block.command}"
    assert lines
    for line in lines:
        assert line == "…" or any(re.search(pattern, line) for pattern in block.shows), line


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.name)
def test_the_command_of_a_block_parses(block: Block, tmp_path: Path) -> None:
    _, command, *words = shlex.split(block.command)
    if command in REGISTRY:
        words = [word for word in words if not word.startswith("--clients")]
        load(command).prepare([word.replace("/mnt/data", str(tmp_path)) for word in words if word != "2"], cwd=tmp_path)
    else:
        app.parse_args([command, *words], print_error=False, exit_on_error=False)


@pytest.mark.parametrize("block", [block for block in BLOCKS if block.kept], ids=lambda block: block.name)
def test_a_kept_result_is_printed_as_the_page_shows_it(block: Block) -> None:
    """``python -m bench.readme --kept`` writes the blocks again."""
    expected = [line for line in SHOWN[block.name].splitlines() if "://" not in line]
    assert [line for line in block.excerpt(printed(block)).splitlines() if "://" not in line] == expected
