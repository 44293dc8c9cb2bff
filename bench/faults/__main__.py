"""``python -m bench.faults``: breaks one thing after the other, prints the table, and writes
``docs/evidence/failures.md``.

Rows can be run one by one: the page keeps the lines of the others.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.faults import network
from bench.faults.page import COLUMNS, Page, add_options, run_rows, verdict
from bench.faults.rows import rows

KILLS = 40

HEAD = """# When something breaks

A run when the server, the network, the client or the storage fails. `make faults` breaks one thing after the
other on this machine and writes this page: each row says how the run is to end, and how it ended. The volume serves a
directory; client and volume are separate processes, with a relay between them where the network breaks. A load is
4 KiB random reads and writes over four connections for six seconds; it is disturbed after 2.5 s. *Files left* are files
on the target that the run made for itself; a data file that a job names belongs to the user. Operations are counted to
show that a load went on: other work may have run on the machine, so they say nothing about speed.

"""
TAIL = """
The faults that a volume injects are described in [volume.md](../volume.md#faults). `tests/test_verify_faults.py`
compares each injected fault with what verification names: file, offset, and number of the write.

[failures-cluster.md](failures-cluster.md) shows faults between many machines.
"""
PAGE = Page(
    Path(__file__).parents[2] / "docs" / "evidence" / "failures.md",
    HEAD,
    {
        **COLUMNS,
        "files left": lambda _, seen: seen.files_left,
        "data lost": lambda _, seen: seen.data_lost,
        "as expected": verdict,
    },
    TAIL,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the rows. Returns 1 if one did not end as expected."""
    parser = argparse.ArgumentParser(prog="python -m bench.faults", description=__doc__)
    add_options(parser, PAGE)
    parser.add_argument(
        "--kills", type=int, default=KILLS, help="kills while a journal is written (default: %(default)s)"
    )
    parser.add_argument(
        "--hosts",
        nargs="*",
        type=int,
        help="break this number of hosts of --hosts instead (default: 3 12)",
    )
    options = parser.parse_args(arguments)
    if options.hosts is not None:
        from bench.cluster import over_ssh

        if not network.is_possible():
            parser.error("namespaces need root")
        options.out = over_ssh.PAGE.path if options.out == PAGE.path else options.out
        return run_rows(parser, options, over_ssh.rows(options.hosts or over_ssh.HOSTS), over_ssh.PAGE)
    return run_rows(parser, options, rows(options.kills), PAGE)


if __name__ == "__main__":
    sys.exit(main())
