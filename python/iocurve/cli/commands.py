"""All commands, as data: each is loaded when it is run, none to list them."""

from __future__ import annotations

from cyclopts import App

from iocurve.dialects.registry import REGISTRY
from iocurve.result.version import iocurve_version

app = App(
    name="iocurve",
    help="Measures how much I/O a volume carries, draws the curve, and says what limits it.",
    version=iocurve_version,
)
MEASURE = (
    ("envelope", "measure:envelope", "Measure a target's read and write mixes and its latency under load."),
    ("run", "measure:run", "Run a scenario (iocurve scenario list) or a job file (TOML)."),
    ("knee", "measure:find_knee", "Find the smallest queue depth that reaches full throughput."),
    ("max", "measure:find_max", "Find the highest rate that meets a latency limit (open loop)."),
    ("curve", "measure:draw_curve", "Plot latency against IOPS in even steps up to the target's maximum (open loop)."),
)
"""Name, where it is, and what it does."""
TARGETS = (
    ("scenario", "scenario:app", "List, show and run scenarios: published methodologies."),
    ("volume", "volume:app", "Serve an NFSv3 volume with a service level; change and watch it while it serves."),
    ("profile", "profile:app", "List and show service levels for volumes."),
    ("disk", "disk:app", "List and show disks that can be emulated; restart the virtual machine of one."),
)
FILES = (
    ("report", "report:rewrite_report", "Write the report of a result.json again."),
    ("explain", "words:explain", "Print what a job would run, and its traps, without running it."),
    ("convert", "words:convert", "Write a fio, vdbench or DiskSpd job as a job file (TOML)."),
    ("schema", "words:print_schema", "Print the JSON schema of job files, for editors."),
)

for _name, _path, _help in MEASURE:
    app.command(f"iocurve.cli.{_path}", name=_name, help=_help, group="Measure")
for _name, _entry in REGISTRY.items():
    _help = f"Run {_entry.runs} as they are."
    # Listed here; ``iocurve.cli`` runs them before this module is loaded.
    app.command("iocurve.cli.dialects:run", name=_name, help=_help, group="Other tools' words")
for _name, _path, _help in TARGETS:
    app.command(f"iocurve.cli.{_path}", name=_name, help=_help, group="Scenarios and targets")
for _name, _path, _help in FILES:
    app.command(f"iocurve.cli.{_path}", name=_name, help=_help, group="Jobs and results")
