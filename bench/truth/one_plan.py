"""``python -m bench.truth.one_plan POINT``: runs the plan on standard input and writes the point as JSON."""

from __future__ import annotations

import sys
from pathlib import Path

from iocurve.engine.plan import Plan
from iocurve.measure import local

Path(sys.argv[1]).write_text(local.measure(Plan.from_json(sys.stdin.read()))[0].to_json())
