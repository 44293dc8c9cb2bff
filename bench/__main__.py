"""``python -m bench``: measures, prints the tables, and saves the result as JSON."""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from bench.comparisons import COMPARISONS, PEER_FIO_NFS, Comparison, Settings, peer_fio_nfs
from bench.machine import environment, save
from bench.measure import Duration

TABLE_COLUMNS = 140
RESULTS = Path(__file__).parent / "results"


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    console = Console(width=TABLE_COLUMNS)
    try:
        if peer_fio_nfs() is None:
            console.print(f"fio's nfs engine is left out: set {PEER_FIO_NFS} to a fio that has it.")
        document = measure(options, console)
    except (RuntimeError, OSError, subprocess.SubprocessError) as error:
        console.print(f"bench: {error}", style="red", markup=False)
        return 1
    console.print(f"Saved as {save(document, options.out)}")
    return 0


def measure(options: argparse.Namespace, console: Console) -> dict[str, Any]:
    """Runs the requested comparisons, printing each table as it is complete."""
    document: dict[str, Any] = {
        **environment(peer_fio_nfs()),
        "cores": options.cores,
        "comparisons": [],
    }
    with tempfile.TemporaryDirectory(prefix="iocurve-bench-", dir=options.directory) as directory:
        settings = Settings(
            rounds=options.rounds,
            duration=Duration(short_seconds=options.seconds / 4, long_seconds=options.seconds),
            file_mib=options.file_mib,
            directory=Path(directory),
            cores=options.cores,
        )
        for comparison in options.comparisons or COMPARISONS.values():
            sides = comparison.measure(settings)
            document["comparisons"].append({"name": comparison.name, "about": comparison.about, "sides": sides})
            console.print(_table(comparison.about, sides))
    return document


def _table(about: str, sides: Sequence[dict[str, Any]]) -> Table:
    table = Table(title=about, title_justify="left", box=SIMPLE)
    table.add_column("")
    for heading in (
        "IOPS",
        "min to max",
        "MiB/s",
        "p50, p99 µs",
        "CPU µs/IO",
        "+ server",
        "IOPS ×",
        "CPU ×",
        "server ×",
        "of limit",
    ):
        table.add_column(heading, justify="right")
    for side in sides:
        median, ratio = side["median"], side["ratio_to_first"]
        table.add_row(
            side["name"],
            _thousands(median["iops"]),
            f"{_thousands(side['min']['iops'])} to {_thousands(side['max']['iops'])}",
            f"{median['mib_per_s']:,.0f}",
            ", ".join(f"{median[name]:.4g}" for name in ("latency_us_p50", "latency_us_p99") if name in median),
            *(_figure(median.get(figure)) for figure in ("client_cpu_us_per_io", "server_cpu_us_per_io")),
            *(_figure(ratio.get(figure)) for figure in ("iops", "client_cpu_us_per_io", "server_cpu_us_per_io")),
            _figure(side.get("ratio_to_limit", {}).get("iops")),
        )
    return table


def _thousands(value: float) -> str:
    return f"{value / 1000:,.0f} k"


def _figure(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("comparisons", nargs="*", type=_comparison, help=f"of {', '.join(COMPARISONS)}; default: all")
    parser.add_argument("--rounds", type=_at_least_one, default=5, help="rounds of each side; the table shows medians")
    parser.add_argument("--seconds", type=float, default=4.0, help="length of the long run of a side in a round")
    parser.add_argument("--file-mib", type=int, default=256, help="size of each file")
    parser.add_argument(
        "--cores", type=_at_least_one, default=2, help="cores that client and server share, from core 0"
    )
    parser.add_argument("--directory", type=Path, default=Path.cwd(), help="directory of the file for io_uring")
    parser.add_argument("--out", type=Path, default=RESULTS, help="directory of the result")
    return parser


def _comparison(name: str) -> Comparison:
    if name not in COMPARISONS:
        raise argparse.ArgumentTypeError(f"there is no comparison '{name}'; choose one of: {', '.join(COMPARISONS)}")
    return COMPARISONS[name]


def _at_least_one(text: str) -> int:
    if (value := int(text)) < 1:
        raise ValueError(text)
    return value


if __name__ == "__main__":
    sys.exit(main())
