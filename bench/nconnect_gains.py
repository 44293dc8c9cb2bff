"""``python -m bench.nconnect_gains RESULT…``: gains of nconnect of the embedded volume and published ones.

Each result is that of a scenario with one connection and with several, as ``iocurve run NAME --out DIRECTORY`` leaves
it. Measured gains have 95 % intervals over the rounds of the run; published gains have none. The third column is what
the fitted limits of a connection promise (``bench.nconnect_fit``), to tell faults of the fit from those of the volume.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from bench.nconnect_fit import SERVICES, Load, Published, Service, in_profiles
from iocurve.analysis import gains, reading
from iocurve.analysis.gains import Pair
from iocurve.foundation.errors import IocurveError
from iocurve.foundation.units import KIB
from iocurve.result.document import Result


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints a table for each result."""
    parser = argparse.ArgumentParser(prog="python -m bench.nconnect_gains", description=__doc__)
    parser.add_argument("results", nargs="+", type=Path, help="result.json, or its directory")
    options = parser.parse_args(arguments)
    for path in options.results:
        try:
            result = Result.read(path / "result.json" if path.is_dir() else path)
        except IocurveError as error:
            parser.error(str(error))
        found = service_of(result)
        if found is None:
            parser.error(f"{path}: {result.name}: no gains of nconnect are published for {result.target.address}.")
        print("\n".join(table(result, *found)), end="\n\n")
    return 0


def service_of(result: Result) -> tuple[Service, tuple[Published, ...]] | None:
    """The service that the result's volume emulates, with its published gains; None without any."""
    for service, published in SERVICES:
        if any(f"volume:{name}" in result.target.address for name in service.profiles):
            return in_profiles(service, published), tuple(one for one in published if one.unit == "×")
    return None


def table(result: Result, service: Service, published: Sequence[Published]) -> Iterator[str]:
    """The lines of the table in Markdown: a row for each load measured with one connection and with several."""
    yield f"### {result.name}: {service.title}\n"
    yield "| load | published gain | fitted model | measured gain | limit with several connections |"
    yield "| --- | --- | --- | --- | --- |"
    families = [family for family in reading.read(result).families if family.varies("nconnect")]
    pairs = {load_of(pair): pair for family in families for pair in gains.pairs(family.members)}
    for load, pair in pairs.items():
        figures = (
            f"{load.block_kib} KiB {load.kind}s, depth {load.depth}, nconnect={load.nconnect}",
            _published_text(published_for(load, published, pairs)),
            f"{service.gain(load):.1f} ×",
            pair.gain.full_text,
            pair.many.limit.short_name if pair.many.limit else "",
        )
        yield f"| {' | '.join(figures)} |"


def load_of(pair: Pair) -> Load:
    """The load of a pair with the larger number of connections."""
    axes = pair.many.axes
    kind = axes.get("kind") or {100: "read", 0: "write"}[int(axes["read_percent"])]
    return Load(str(kind), int(axes["block_bytes"]) // KIB, int(axes["depth"]), int(axes["nconnect"]))


def published_for(load: Load, published: Sequence[Published], measured: Collection[Load]) -> Published | None:
    """The published gain for a load; None without one.

    Pages do not state each depth. A gain that they state counts for its depth, or for the largest measured one down to
    a quarter of it; that nothing is gained counts for its depth and smaller ones.
    """
    alike = [one for one in published if (one.load.kind, one.load.block_kib) == (load.kind, load.block_kib)]
    deepest = max(one.depth for one in measured if (one.kind, one.block_kib) == (load.kind, load.block_kib))
    for one in alike:
        least = max(deepest, one.load.depth // 4) if one.value != 1 or one.load.depth >= deepest else 1
        if least <= load.depth <= one.load.depth:
            return one
    return None


def _published_text(one: Published | None) -> str:
    return f"{one.value:.2g} ×" if one else ""


if __name__ == "__main__":
    sys.exit(main())
