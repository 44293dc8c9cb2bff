"""``python -m bench.faults``: breaks one thing after the other, prints the table, and writes ``docs/faults.md``.

Rows can be run one by one: the page keeps the lines of the others.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from bench.faults.rows import Row, rows
from bench.faults.seen import CannotRunError, Seen

PAGE = Path(__file__).parents[2] / "docs" / "faults.md"
KILLS = 40

HEAD = """# When something breaks

What a run does when the server, the network, the client or the storage fails. `make faults` breaks one thing after the
other on this machine and writes this page: each row says how the run is to end, and how it ended. The volume serves a
directory; client and volume are processes of their own, with a relay between them where the network breaks. A load is
4 KiB random reads and writes over four connections for six seconds; it is disturbed after 2.5 s. *Files left* are files
on the target that the run made for itself; a data file that a job names belongs to the user. Operations are counted to
show that a load went on: other work may have run on the machine, so they say nothing about speed.

"""
COLUMNS = ("row", "what is broken", "expected end", "seen end", "files left", "data lost", "as expected")

TAIL = """
The faults that a volume injects are described in [volume.md](volume.md#faults). `tests/test_verify_faults.py` compares
each injected fault with what verification names: file, offset, and number of the write.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the rows. Returns 1 if one did not end as expected."""
    parser = argparse.ArgumentParser(prog="python -m bench.faults", description=__doc__)
    parser.add_argument("rows", nargs="*", help="names of rows (default: all); the page keeps the lines of other rows")
    parser.add_argument(
        "--kills", type=int, default=KILLS, help="kills while a journal is written (default: %(default)s)"
    )
    parser.add_argument("--out", type=Path, default=PAGE, help="page to write (default: %(default)s)")
    options = parser.parse_args(arguments)
    known = rows(options.kills)
    if unknown := set(options.rows) - {row.name for row in known}:
        parser.error(f"there is no row {', '.join(unknown)}; choose from {', '.join(row.name for row in known)}")
    # A program that a shell starts in the background ignores these, and so would the clients that are to get them.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    lines, is_done = _written(options.out), True
    for row in known:
        if not options.rows or row.name in options.rows:
            seen = _run(row)
            is_done = is_done and not seen.faults
            lines[row.name] = _line(row, seen)
            print(lines[row.name], flush=True)
    table = [_cells(COLUMNS), _cells("---" for _ in COLUMNS), *(lines[row.name] for row in known if row.name in lines)]
    written = f"\nWritten on {datetime.now(UTC):%Y-%m-%d}; rows may have run one by one.\n"
    options.out.write_text(HEAD + "\n".join(table) + "\n" + written + TAIL, encoding="utf-8")
    return int(not is_done)


def _written(page: Path) -> dict[str, str]:
    """The lines of a page, by the names of their rows."""
    text = page.read_text(encoding="utf-8") if page.exists() else ""
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return {line.split(" | ")[0].removeprefix("| "): line for line in lines}


def _run(row: Row) -> Seen:
    with tempfile.TemporaryDirectory(prefix="iocurve-faults-") as folder:
        try:
            return row.run(Path(folder))
        except CannotRunError as error:
            return Seen("not run", not_run=str(error))
        except (OSError, RuntimeError, subprocess.SubprocessError) as error:
            return Seen("not run", faults=[f"the row itself failed: {error}"])


def _line(row: Row, seen: Seen) -> str:
    verdict = f"not run: {seen.not_run}" if seen.not_run else "yes"
    if seen.faults:
        verdict = "no: " + "; ".join(seen.faults)
    return _cells((row.name, row.broken, row.expected, seen.end, seen.files_left, seen.data_lost, verdict))


def _cells(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"


if __name__ == "__main__":
    sys.exit(main())
