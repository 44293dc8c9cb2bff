"""``python -m bench.peers``: what has an aim of speed, next to its peer or limit, as one table, in ten minutes.

Both sides of a row take turns in the same run. The ratio is the median over the rounds, with the lowest and highest
one; CPU time is that of client and server together. A row without the program that it needs is left out with a
message.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench import metadata, socket_limit
from bench.comparisons import (
    IOCURVE_FIO,
    ONE_CORE,
    OUR_CLIENT_V41,
    VOLUME_LOADS,
    Settings,
    fill,
    fio_path,
    load_sides,
    volume_limits,
    write_file,
)
from bench.instructions import MEMORY
from bench.machine import environment, save
from bench.measure import Duration, Reported, Side, compare, run_to_end
from bench.servers import IOCURVE, volume

RESULTS = Path(__file__).parent / "results"
T_IO_URING = "IOCURVE_PEER_T_IO_URING"
"""Variable: path of fio's ``t/io_uring``, which Debian does not package; without it its row is left out."""
FIO_JOB = "--name=job --size=1m --ioengine=psync --rw=write"
START_UPS = 5
START_UP_SECONDS = 60


@dataclass(frozen=True)
class Round:
    """Rates and CPU times of both sides in one round; a row of CPU times has no rates."""

    ours_cpu_us: float
    peer_cpu_us: float
    ours_rate: float = 0.0
    peer_rate: float = 0.0

    @property
    def ratio(self) -> float:
        """Our rate divided by the peer's; or the CPU times."""
        return self.ours_rate / self.peer_rate if self.peer_rate else self.ours_cpu_us / self.peer_cpu_us


@dataclass(frozen=True)
class Row:
    """A comparison. Its aim is the lowest ratio of rates, or the highest of CPU times; 0 is none."""

    name: str
    peer: str
    aim: float
    rounds: Sequence[Round] = field(repr=False)

    @property
    def line(self) -> str:
        """The row of the table."""
        is_rate = self.rounds[0].peer_rate > 0
        ratios = sorted(one.ratio for one in self.rounds)
        met = sum(ratio >= self.aim if is_rate else ratio <= self.aim for ratio in ratios)
        rates = [
            statistics.median(values) for values in zip(*((r.ours_rate, r.peer_rate) for r in self.rounds), strict=True)
        ]
        cpu = [statistics.median(v) for v in zip(*((r.ours_cpu_us, r.peer_cpu_us) for r in self.rounds), strict=True)]
        cells = (
            *(self.name, self.peer),
            *((f"{value:,.0f}" for value in rates) if is_rate else ("", "")),
            f"{statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})",
            f"{'≥' if is_rate else '≤'} {self.aim:g}" if self.aim else "",
            f"{met} of {len(ratios)}" if self.aim else "",
            *(_microseconds(value) for value in cpu),
        )
        return f"| {' | '.join(cells)} |"


HEAD = (
    "| row | peer | iocurve, op/s | peer, op/s | ratio (lowest to highest) | aim | met | CPU µs | peer's |\n"
    "| --- | --- | --- | --- | --- | --- | --- | --- | --- |"
)


class RingLoop(Side):
    """fio's ``t/io_uring``."""

    def command_for(self, seconds: float) -> list[str]:
        """Runs for whole seconds, of which the first has no line."""
        return [*self.command[:-1], f"-r{max(2, round(2 * seconds))}", self.command[-1]]

    def parse(self, output: str) -> Reported:
        """A line a second says how many thousands of operations it had."""
        lines = [line for line in output.splitlines() if line.startswith("IOPS=")]
        rates = [_thousands(line.partition("=")[2].partition(",")[0]) for line in lines]
        if not rates:
            raise RuntimeError(f"t/io_uring told no rate: {output.strip()[-500:]}")
        return Reported(round(sum(rates)), statistics.median(rates), 0.0, None, None)


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    document: dict[str, Any] = {**environment(), "cores": options.cores, "rows": []}
    print(HEAD, flush=True)
    try:
        with tempfile.TemporaryDirectory(prefix="iocurve-peers-", dir=options.directory) as directory:
            duration = Duration(options.seconds / 4, options.seconds)
            settings = Settings(options.rounds, duration, options.file_mib, Path(directory), options.cores)
            for name in GROUPS if "all" in options.groups else options.groups:
                for row in GROUPS[name](settings):
                    print(row.line, flush=True)
                    rounds = [vars(one) for one in row.rounds]
                    document["rows"].append({"row": row.name, "peer": row.peer, "aim": row.aim, "rounds": rounds})
    except (RuntimeError, OSError, subprocess.SubprocessError) as error:
        print(f"bench.peers: {error}", file=sys.stderr)
        return 1
    print(f"\nSaved as {save(document, options.out, 'peers-')}")
    return 0


def _compared(
    sides: Sequence[Side], rows: Sequence[tuple[str, str, str, float]], settings: Settings, rounds: int | None = None
) -> Iterator[Row]:
    """Measures sides in turn. A row is its name, the side, its peer's side, and the aim."""
    measured = compare(sides, rounds or settings.rounds, settings.duration)
    found = {one["name"]: one["rounds"] for one in measured}
    for name, ours, peer, aim in rows:
        pairs = zip(found[ours], found[peer], strict=True)
        yield Row(name, peer, aim, [Round(_cpu(a), _cpu(b), a["iops"], b["iops"]) for a, b in pairs])


def _cpu(side: dict[str, Any]) -> float:
    return float(side["client_cpu_us_per_io"] + (side["server_cpu_us_per_io"] or 0))


def nfs(settings: Settings) -> Iterator[Row]:
    """Reads and writes next to sockets alone, and NFSv4.1 next to NFSv3."""
    socket_limit.build()
    with volume("--profile=unlimited", prefix=settings.pinned) as target:
        fill(target, settings)
        sides = load_sides("volume", target, VOLUME_LOADS, settings)
        sides += load_sides("volume, v4.1", target, VOLUME_LOADS[:1], settings, OUR_CLIENT_V41)
        rows = [
            (
                f"NFS {access} {block}",
                f"{access} {block} → volume",
                socket_limit.limit_name(access, block),
                0.8 if access.endswith("write") else 0.9,
            )
            for access, block, _ in VOLUME_LOADS
        ]
        rows += [
            (f"NFS {access} {block}", f"{access} {block} → volume", f"{access} {block}, sockets alone", 0.0)
            for access, block, _ in VOLUME_LOADS
            if access.endswith("write")
        ]
        rows.append(("NFSv4.1 randread 4k", "randread 4k → volume, v4.1", "randread 4k → volume", 0.9))
        yield from _compared([*sides, *volume_limits(settings)], rows, settings)


def creates(settings: Settings) -> Iterator[Row]:
    """Creates over NFSv4.1 next to sockets alone."""
    socket_limit.build()
    rounds = []
    for _ in range(settings.rounds):
        with volume("--profile=unlimited", prefix=settings.pinned) as target:
            one = next(metadata.measured("", target, "4.1", metadata.parser().parse_args([])))
        rounds.append(Round(one.client_us + one.server_us, 0.0, one.rate, one.sockets))
    yield Row("NFSv4.1 creates, depth 32", "sockets alone", 0.6, rounds)


def null(settings: Settings) -> Iterator[Row]:
    """The loop itself."""
    job = ("--name=null", "--ioengine=null", "--rw=randread", "--bs=4k", "--iodepth=32", "--size=256m")
    sides = [Side("fio", (*ONE_CORE, fio_path(), *job)), Side("iocurve", (*ONE_CORE, *IOCURVE_FIO, *job))]
    yield from _compared(sides, [("null loop, depth 32", "iocurve", "fio", 15)], settings)


def uring(settings: Settings) -> Iterator[Row]:
    """A file by ``io_uring``, next to fio and to its loop without accounting."""
    file = _file(settings)
    job = ("--name=uring", "--ioengine=io_uring", "--rw=randread", "--bs=4k", "--iodepth=64", "--direct=1")
    sides = _both((*job, f"--filename={file}", f"--size={settings.file_mib}m"))
    rows = [("io_uring, depth 64", "iocurve", "fio", 1.0)]
    if ring := os.environ.get(T_IO_URING):
        sides.append(RingLoop("t/io_uring", (ring, "-d64", "-s8", "-c8", "-b4096", "-p0", "-n1", str(file))))
        rows.append(("io_uring, depth 64", "iocurve", "t/io_uring", 1.0))
    else:
        print(f"t/io_uring is left out: name its path in {T_IO_URING}.", file=sys.stderr)
    yield from _compared(sides, rows, settings, 10)


def libaio(settings: Settings) -> Iterator[Row]:
    """A file by native AIO."""
    file = _file(settings)
    for depth in (1, 4, 32, 256):
        job = ("--name=aio", "--ioengine=libaio", "--rw=randread", "--bs=4k", f"--iodepth={depth}", "--direct=1")
        sides = _both((*job, f"--filename={file}", f"--size={settings.file_mib}m"))
        yield from _compared(sides, [(f"libaio, depth {depth}", "iocurve", "fio", 1.0)], settings, 6)


def verification(settings: Settings) -> Iterator[Row]:
    """A file in memory, written and read back; the rate is that of the reads, with a backlog that of the writes."""
    variants = {
        **{method: (f"--verify={method}",) for method in ("crc32c", "md5", "sha512", "meta")},
        **{f"crc32c, backlog {n}": ("--verify=crc32c", f"--verify_backlog={n}") for n in (2, 1024)},
    }
    with tempfile.TemporaryDirectory(dir=_memory(settings)) as directory:
        for name, words in variants.items():
            job = (
                "--name=verify",
                "--ioengine=libaio",
                "--rw=randwrite",
                "--bs=4k",
                "--iodepth=8",
                "--verify_state_save=0",
            )
            counted = "write" if "backlog" in name else "read"
            sides = _both((*job, f"--filename={directory}/file", *words), mib_per_second=128, counted=counted)
            yield from _compared(sides, [(f"verify={name}", "iocurve", "fio", 1.0)], settings)


def logs(settings: Settings) -> Iterator[Row]:
    """Logs of every operation, on a file in memory: CPU time."""
    with tempfile.TemporaryDirectory(dir=_memory(settings)) as directory:
        job = (
            *("--name=logs", "--ioengine=psync", "--rw=randread", "--bs=4k", "--size=64m"),
            *(f"--filename={directory}/file", f"--write_lat_log={directory}/log", f"--write_bw_log={directory}/log"),
        )
        for row in _compared(_both(job), [("logs of every operation, CPU", "iocurve", "fio", 1.0)], settings):
            yield Row(row.name, row.peer, row.aim, [Round(one.ours_cpu_us, one.peer_cpu_us) for one in row.rounds])


def start_up(settings: Settings) -> Iterator[Row]:
    """CPU time from start to end of commands, next to fio's or to the most that there may be."""
    job = (*FIO_JOB.split(), f"--directory={settings.directory}")
    commands: dict[str, tuple[Sequence[str], float | None]] = {
        "fio job of 1 MiB": (("fio", *job), None),
        "explain fio …": (("explain", "fio", *job), 0.5),
        "doctor": (("doctor",), 0.5),
        "--help": (("--help",), 0.1),
    }
    for name, (words, most_s) in commands.items():
        ours = (str(IOCURVE), *words)
        rounds = [
            Round(_cpu_us(ours), most_s * 1e6 if most_s else _cpu_us((fio_path(), *job))) for _ in range(START_UPS)
        ]
        yield Row(f"start-up, {name}: CPU", f"{most_s} s" if most_s else "fio", 1.0, rounds)


def _cpu_us(command: Sequence[str]) -> float:
    """``doctor`` ends with a status if it has found something."""
    return 1e6 * run_to_end(command, START_UP_SECONDS, may_fail=True).cpu_seconds


def _both(job: Sequence[str], mib_per_second: int | None = None, counted: str | None = None) -> list[Side]:
    """The same line for fio and for iocurve."""
    sides = (("fio", (fio_path(),)), ("iocurve", IOCURVE_FIO))
    return [Side(name, (*program, *job), mib_per_second=mib_per_second, counted=counted) for name, program in sides]


def _file(settings: Settings) -> Path:
    path = settings.directory / "iocurve-peers.data"
    if not path.exists():
        write_file(path, settings.file_mib)
    return path


def _memory(settings: Settings) -> Path:
    return MEMORY if MEMORY.is_dir() else settings.directory


def _microseconds(value: float) -> str:
    """Three digits at least; nothing for a CPU time that is unknown."""
    return (f"{value:,.3g}" if value < 1000 else f"{value:,.0f}") if value else ""


def _thousands(text: str) -> float:
    """``40.7K`` or ``1.2M`` as a number."""
    return float(text.rstrip("KM")) * {"K": 1e3, "M": 1e6}.get(text[-1], 1)


GROUPS: dict[str, Callable[[Settings], Iterator[Row]]] = {
    **{"nfs": nfs, "creates": creates, "null": null, "uring": uring, "libaio": libaio},
    **{"verify": verification, "logs": logs, "start-up": start_up},
}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.peers", description=__doc__)
    parser.add_argument(
        "groups", nargs="*", choices=["all", *GROUPS], default="all", help="rows to measure; default: all"
    )
    parser.add_argument("--rounds", type=int, default=3, help="rounds of each side; uring has 10, libaio 6")
    parser.add_argument("--seconds", type=float, default=1.5, help="length of the long run of a side in a round")
    parser.add_argument("--file-mib", type=int, default=256, help="size of each file")
    parser.add_argument("--cores", type=int, default=2, help="cores that client and server share, from core 0")
    parser.add_argument(
        "--directory", type=Path, default=Path.cwd(), help="directory of the files for io_uring and libaio"
    )
    parser.add_argument("--out", type=Path, default=RESULTS, help="directory of the result")
    return parser


if __name__ == "__main__":
    sys.exit(main())
