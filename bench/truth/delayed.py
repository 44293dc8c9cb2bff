"""iocurve's sync engine over a library that delays pread and pwrite and logs what it did."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from bench.truth import measured
from bench.truth.instruments import Logged, Service, run_delayed, undisturbed
from bench.truth.measured import Times
from bench.truth.served import SHAPES
from bench.truth.table import Row
from iocurve.engine import plan as planned
from iocurve.result.document import Point

OPERATIONS = 2000
NO_DELAY = Times((0.0,) * len(measured.FIGURES))
"""Nothing has to be woken up between the library and the engine."""


def calls(scale: float) -> Iterator[Row]:
    """Closed loops and open loops of one thread."""
    with tempfile.TemporaryDirectory(prefix="iocurve-truth-") as directory:
        path = Path(directory) / "data"
        path.write_bytes(bytes(measured.FILE_BYTES))
        run = partial(_run, path, round(OPERATIONS * scale))
        for shape in (*SHAPES, "constant:20"):
            point, log = run(shape)
            yield measured.compared(f"closed loop, {shape}", point, measured.held(log), NO_DELAY)
        point, log = run("constant:1000", is_write=True)
        yield measured.compared("closed loop, constant:1000, writes", point, measured.held(log), NO_DELAY)
        for shape, per_s in (("constant:500", 1000), ("exponential:500", 1000), ("bimodal:200:5200:0.1", 1000)):
            point, log = run(shape, rate=measured.paced(per_s))
            yield measured.compared(f"{per_s:,}/s evenly, {shape}", point, measured.due_evenly(log, per_s), NO_DELAY)


def _run(path: Path, operations: int, shape: str, **changes: object) -> tuple[Point, list[Logged]]:
    how = planned.FileOpen(direct=False, durability="none", invalidate=False)
    plan = measured.load(planned.SyncEngine(open=how), str(path), operations, 1, **changes)
    return undisturbed(lambda: run_delayed(Service(shape), plan))
