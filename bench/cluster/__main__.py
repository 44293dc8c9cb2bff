"""``python -m bench.cluster``: breaks hosts, links and clocks of a cluster, and writes
``docs/evidence/failures-cluster.md``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.cluster.rows import RUN_SECONDS, rows
from bench.faults import network
from bench.faults.page import COLUMNS, Page, add_options, run_rows, verdict

HEAD = f"""# When a machine breaks

This page shows how a run on many machines ends when a host, a link, an agent or the head fails. `make
faults-cluster` breaks one thing after the other and writes it: each row says how the run is to end, and how it
ended. The hosts are namespaces of one machine: a head, three agents and an embedded volume, each with a link
of 1 Gbit/s, processes, an own hostname and home; a cluster is started by the lines that `iocurve cluster
commands ssh` prints. The load is 4 KiB random reads and writes for {RUN_SECONDS} s in intervals of half a second; it is
disturbed after about 3 s.

"""
TAIL = """
A wrong clock is a library (`LD_PRELOAD`) that moves the time of day of all processes of a host; the monotonic clock
stays right. Another version of iocurve is a file that tells another number; the program itself is the same.

All hosts and the volume share two processors. Where other programs keep them busy, the volume itself is late, and
clients that nothing was done to wait for it, too: their waits are in the rows.

[failures.md](failures.md) shows faults between one client and its volume.
"""
PAGE = Page(
    Path(__file__).parents[2] / "docs" / "evidence" / "failures-cluster.md",
    HEAD,
    {**COLUMNS, "as expected": verdict},
    TAIL,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the rows. Returns 1 if one did not end as expected."""
    parser = argparse.ArgumentParser(prog="python -m bench.cluster", description=__doc__)
    add_options(parser, PAGE)
    options = parser.parse_args(arguments)
    if not network.is_possible():
        parser.error("namespaces need root")
    return run_rows(parser, options, rows(), PAGE)


if __name__ == "__main__":
    sys.exit(main())
