"""``python -m bench.faults``: breaks one thing after the other, prints the table, and writes ``docs/faults.md``."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from bench.faults.rows import Row, Seen, rows

PAGE = Path(__file__).parents[2] / "docs" / "faults.md"
KILLS = 200

HEAD = """# When something breaks

What a run does when the server, the network, the client or the storage fails. `make faults` breaks one thing after the
other on this machine and writes this page: each row says how the run is to end, and how it ended. The volume serves a
directory; client and volume are processes of their own, with a relay between them where the network breaks. A load is
4 KiB random reads and writes over four connections for six seconds; it is disturbed after 2.5 s. *Files left* are files
on the target that the run made for itself; a data file that a job names belongs to the user.

"""
COLUMNS = ("row", "what is broken", "expected end", "seen end", "files left", "data lost", "as expected")

TAIL = """
The faults that a volume injects are described in [volume.md](volume.md#faults). `tests/test_verify_faults.py` compares
each injected fault with what verification names: file, offset, and number of the write.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the rows. Returns 1 if one did not end as expected."""
    parser = argparse.ArgumentParser(prog="python -m bench.faults", description=__doc__)
    parser.add_argument("rows", nargs="*", help="names of rows; all if none is named, and then the page is written")
    parser.add_argument(
        "--kills", type=int, default=KILLS, help="kills while a journal is written (default: %(default)s)"
    )
    parser.add_argument("--out", type=Path, default=PAGE, help="page to write (default: %(default)s)")
    options = parser.parse_args(arguments)
    known = rows(options.kills)
    if unknown := set(options.rows) - {row.name for row in known}:
        parser.error(f"there is no row {', '.join(unknown)}; choose from {', '.join(row.name for row in known)}")
    lines = []
    for row in known:
        if not options.rows or row.name in options.rows:
            lines.append(_line(row, _run(row)))
            print(lines[-1], flush=True)
    if not options.rows:
        ran = f"\nRun on {datetime.now(UTC):%Y-%m-%d}.\n"
        table = [_cells(COLUMNS), _cells("---" for _ in COLUMNS), *lines]
        options.out.write_text(HEAD + "\n".join(table) + "\n" + ran + TAIL, encoding="utf-8")
    return int(any(not line.endswith("| yes |") for line in lines))


def _run(row: Row) -> Seen:
    with tempfile.TemporaryDirectory(prefix="iocurve-faults-") as folder:
        return row.run(Path(folder))


def _line(row: Row, seen: Seen) -> str:
    verdict = "yes" if not seen.faults else "no: " + "; ".join(seen.faults)
    return _cells((row.name, row.broken, row.expected, seen.end, seen.files_left, seen.data_lost, verdict))


def _cells(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"


if __name__ == "__main__":
    sys.exit(main())
