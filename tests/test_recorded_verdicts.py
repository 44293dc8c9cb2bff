"""Verdicts on runs that were recorded with one limit switched on (``python -m bench.limits.own --record``)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from iocurve.analysis.limits import verdict_of
from iocurve.engine.plan import Plan
from iocurve.measure.why import diagnose
from iocurve.result.document import Point, TargetFacts

RECORDS = sorted((Path(__file__).parent / "data" / "limits").glob("*.json"))


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_the_limit_of_a_recorded_run_is_named(path: Path) -> None:
    document = json.loads(path.read_text(encoding="utf-8"))
    target = TargetFacts.from_builtins(document["target"])
    points = [Point.from_builtins(point) for point in document["points"]]
    if path.stem.startswith("known"):
        verdict = verdict_of(points[0], target)
    else:
        replayed = iter(points)

        def run(_: Plan) -> Point:
            return next(replayed)

        verdict, _ = diagnose(points[0].plan, target, run)
    assert verdict is not None
    assert verdict.code in document["right"]
    assert verdict.evidence
