"""Devices that need longer for an operation than a run lasts: loop devices throttled by a cgroup, in fio and here.

A device of r operations per second with n in flight takes i/r for the i-th of the first n and n/r for each after them:
the numbers are known without either tool. Both wait for what is in flight at the end. Needs root.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bench.limits.strangers import io_group
from bench.servers import IOCURVE
from bench.truth.table import Row
from iocurve.foundation.units import MIB, SECOND_NS

COLUMNS = ("device, in flight", "tool", "operations", "IOPS", "run (s)", "mean (s)", "p50 (s)", "max (s)")
DEVICES = ((50, 16), (50, 256), (200, 1024))
"""Reads per second, and reads in flight."""
RUNTIME_S = 4
SIZE_BYTES = 64 * MIB


def slow(scale: float) -> Iterator[Row]:
    """By Little's law, and as fio and iocurve print it."""
    for _ in range(max(1, round(scale))):
        for per_s, in_flight in DEVICES:
            yield _expected(per_s, in_flight)
            for tool, command in (("fio", ["fio"]), ("iocurve", [str(IOCURVE), "fio"])):
                yield f"{per_s}/s, {in_flight}", tool, *_figures(_measured(command, per_s, in_flight))


def _expected(per_s: int, in_flight: int) -> Row:
    started = in_flight + per_s * RUNTIME_S
    took_s = sorted(min(number, in_flight) / per_s for number in range(1, started + 1))
    cells = f"{started / per_s:.1f}", f"{sum(took_s) / started:.2f}", f"{took_s[started // 2]:.2f}", f"{took_s[-1]:.2f}"
    return f"{per_s}/s, {in_flight}", "by Little's law", f"{started:,}", f"{per_s:.1f}", *cells


def _measured(command: Sequence[str], per_s: int, in_flight: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as directory:
        image = Path(directory) / "image"
        # Unwritten blocks would be read without the device.
        subprocess.run(
            ["dd", "if=/dev/urandom", f"of={image}", "bs=1M", f"count={SIZE_BYTES // MIB}", "status=none"], check=True
        )
        device = _losetup("--find", "--show", str(image)).strip()
        try:
            options = ["--name=reads", f"--filename={device}", "--rw=randread", "--bs=4k", "--direct=1", "--eta=never"]
            options += ["--ioengine=libaio", f"--iodepth={in_flight}", f"--size={SIZE_BYTES}", "--output-format=json"]
            options += ["--time_based", f"--runtime={RUNTIME_S}"]
            with io_group(Path(device), {"read_iops": per_s}) as prefix:
                ran = subprocess.run([*prefix, *command, *options], stdout=subprocess.PIPE, check=True, timeout=120)
        finally:
            _losetup("--detach", device)
    found: dict[str, Any] = json.loads(ran.stdout)["jobs"][0]["read"]
    return found


def _losetup(*arguments: str) -> str:
    return subprocess.run(["losetup", *arguments], check=True, stdout=subprocess.PIPE, text=True, timeout=20).stdout


def _figures(read: dict[str, Any]) -> tuple[str, ...]:
    clat = read["clat_ns"]
    times_ns = clat["mean"], clat["percentile"]["50.000000"], clat["max"]
    seconds = (f"{time_ns / SECOND_NS:.2f}" for time_ns in times_ns)
    return f"{read['total_ios']:,}", f"{read['iops']:.1f}", f"{read['runtime'] / 1000:.1f}", *seconds
