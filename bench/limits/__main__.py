"""``make truth-limits``: counts how often iocurve finds the limit of servers that it knows nothing of.

Each run draws a server and a load from a kind by a seed, measures a second, lets ``iocurve why --confirm`` look for the
limit, and compares the name with the account of the server, which says which limit held the requests back. Runs take
some ten seconds, most of them asleep, so that several go on at once. Simulated ones take a third of a second of a
processor: all kinds in ``make truth``.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from functools import partial
from multiprocessing import active_children, get_context
from pathlib import Path
from typing import Any

from bench.limits import held_out, kinds, own, pages, simulated, tables
from bench.limits.case import HELD_OUT, KINDS
from bench.limits.examine import examined, hogs
from bench.truth.instruments import program
from iocurve.measure.scenario import runner

assert kinds
assert held_out  # their definition registers them
TARGETS: dict[str, tuple[Sequence[str], Callable[[str, int], dict[str, Any]]]] = {
    "stub": (tuple(KINDS), examined),
    "held-out": (tuple(HELD_OUT), examined),
    "known": (own.NAMES, own.known),
    "hidden": (own.HIDDEN_NAMES, own.hidden),
    **{f"simulated-{name}": (tuple(KINDS), examine) for name, examine in simulated.EXAMINERS.items()},
    "pages": (tuple(pages.FAMILIES), pages.examined),
    **{name: (tuple(pages.FAMILIES), examine) for name, examine in pages.LIVE.items()},
    "simulated-page-short": (tuple(KINDS), partial(simulated.probed, runner.PROBE_SHORT_S)),
    "simulated-page-long": (tuple(KINDS), partial(simulated.probed, runner.PROBE_PATIENCE_S)),
    **{f"simulated-held-out-{name}": (tuple(HELD_OUT), simulated.EXAMINERS[name]) for name in ("hidden", "hogs")},
}
"""The stub server, iocurve's own volume and disks that state their limits or hide them, the stub server's limits in
simulated time, and the probes of a first page on them: kinds, and how one is examined."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Examines kinds, and prints and writes the table."""
    options = _parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    known = tables.kept(options.out)
    with hogs(options.hogs):
        for record in _examined(options, {(one["kind"], one["seed"]) for one in known}):
            known.append(record)
            print(_said(record), flush=True)
            tables.keep(options.out, record)
    table = tables.pages_table if "pages" in options.target else tables.table
    text = f"{tables.machine(known)} {_setting(options)}\n\n{table(known)}"
    print("\n" + text)
    if options.section:
        tables.write(options.section, text)
        if options.target == "stub":
            tables.write("kinds", tables.kinds_table(KINDS))
            tables.write("kinds-held-out", tables.kinds_table(HELD_OUT))
    return 0


def _examined(options: argparse.Namespace, known: set[tuple[str, int]]) -> Iterator[dict[str, Any]]:
    """The records of the runs, as they end; no run begins after the time that was given."""
    names, examine = TARGETS[options.target]
    if unknown := set(options.kinds) - set(names):
        raise SystemExit(f"{', '.join(unknown)}: no such kind; kinds of {options.target}: {', '.join(names)}")
    chosen = options.kinds or names
    todo = [(name, options.seed + run) for run in range(options.runs) for name in chosen]
    todo = [one for one in todo if one not in known]
    # Within a round in random order, so that runs at the same time and a part of the rounds are a random draw.
    order = random.Random(options.seed)
    todo.sort(key=lambda one: (one[1], order.random()))
    ends = time.monotonic() + (options.seconds or float("inf"))
    for instrument in ("simulated_load", "stub_server"):
        program(instrument)
    under_way: set[Future[dict[str, Any]]] = set()
    with ProcessPoolExecutor(options.parallel, get_context("fork")) as pool:
        try:
            while under_way or (todo and time.monotonic() < ends):
                while todo and len(under_way) < options.parallel and time.monotonic() < ends:
                    under_way.add(pool.submit(examine, *todo.pop(0)))
                done, under_way = wait(under_way, return_when=FIRST_COMPLETED)
                yield from (one.result() for one in done)
        except BaseException:
            _end(pool)
            raise


def _end(pool: ProcessPoolExecutor) -> None:
    """Ends all examiners at once; one that was interrupted may hold a lock for which the others wait."""
    pool.shutdown(wait=False, cancel_futures=True)
    for each in active_children():
        each.terminate()
        each.join(5)
        each.kill()


def _said(record: dict[str, Any]) -> str:
    name = record["final"] or "inconclusive"
    return f"{record['judged']:9} {record['kind']} {record['seed']}: {name} ({record['seconds']} s)"


def _setting(options: argparse.Namespace) -> str:
    beside = f", next to {options.hogs} processes that never sleep" if options.hogs else ""
    return f"{options.parallel} runs at once{beside}; seeds from {options.seed}."


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.limits", description=__doc__)
    parser.add_argument("kinds", nargs="*", help="default: all")
    parser.add_argument("--target", choices=TARGETS, default="stub", help="the server that is examined")
    parser.add_argument("--runs", type=int, default=20, help="of each kind")
    parser.add_argument("--seed", type=int, default=1, help="of the first run; the next has the next seed")
    parser.add_argument("--seconds", type=float, help="begin no run after this time")
    parser.add_argument("--parallel", type=int, default=2 * (os.cpu_count() or 1), help="runs at once")
    parser.add_argument("--hogs", type=int, default=0, help="other processes that keep processors busy")
    parser.add_argument("--out", type=Path, help="add the records to this file, and repeat no run that it has")
    parser.add_argument("--section", help="write the table into this section of the page")
    return parser


if __name__ == "__main__":
    sys.exit(main())
