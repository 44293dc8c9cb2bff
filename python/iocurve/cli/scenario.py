"""Commands of scenarios."""

from __future__ import annotations

from cyclopts import App

from iocurve.cli.common import example, records, show, show_json
from iocurve.cli.measure import Scenario, run
from iocurve.cli.quantities import Flag
from iocurve.measure.scenario import command, document
from iocurve.report.table import Table

app = App(name="scenario", help="List, show and run published methodologies.")
app.command(run, name="run", help_epilogue=example("iocurve scenario run anf-vdbench --target nfs://10.0.0.4/vol"))


@app.command(name="list", help_epilogue=example("iocurve scenario list"))
def list_scenarios(*, json: Flag = False) -> int:
    """List the scenarios: published methodologies, ready to run.

    Parameters
    ----------
    json
        Print a JSON array.
    """
    columns = ("name", "title")
    rows = [(name, document.load(name).title) for name in document.names()]
    if json:
        show_json(records(columns, rows))
    else:
        show(Table(columns, rows, sentences=["title"], has_header=False))
    return 0


@app.command(name="show", help_epilogue=example("iocurve scenario show azure-disk"))
def show_scenario(name: Scenario, /, *, json: Flag = False) -> int:
    """Print the purpose of a scenario, its measurements and their duration.

    Parameters
    ----------
    name
        The name of a scenario (iocurve scenario list), or a file that ends in .toml.
    json
        Print a JSON object.
    """
    scenario = document.load(str(name))
    if json:
        show_json(command.described(scenario))
    else:
        print(command.shown(scenario))
    return 0
