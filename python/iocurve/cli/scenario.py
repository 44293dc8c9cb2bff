"""Commands of scenarios."""

from __future__ import annotations

from cyclopts import App
from rich.console import Console
from rich.table import Table

from iocurve.cli.measure import run
from iocurve.measure.scenario import command, document

app = App(name="scenario", help="List, show and run scenarios: published methodologies.")
app.command(run, name="run")


@app.command(name="list")
def list_scenarios() -> int:
    """List the scenarios: published methodologies, ready to run."""
    table = Table(box=None, pad_edge=False, show_header=False)
    for name in document.names():
        table.add_row(name, document.load(name).title)
    Console().print(table)
    return 0


@app.command(name="show")
def show_scenario(name: str, /) -> int:
    """Print why a scenario is, what it measures, and how long it takes.

    Parameters
    ----------
    name
        One of iocurve scenario list, or a file that ends in .toml.
    """
    print(command.shown(document.load(name)))
    return 0
