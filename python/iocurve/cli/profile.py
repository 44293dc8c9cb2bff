"""Commands of service levels."""

from __future__ import annotations

from typing import Annotated

from cyclopts import App, Parameter

from iocurve.cli.common import example, records, show, show_json
from iocurve.cli.quantities import Flag
from iocurve.report.table import Table
from iocurve.volume import profile as profiles
from iocurve.volume.profile_text import describe

app = App(name="profile", help="List and show service levels of volumes.")


@app.command(name="list", help_epilogue=example("iocurve profile list"))
def list_profiles(*, json: Flag = False) -> int:
    """List the service levels of volumes. A volume also takes a profile file of your own.

    Parameters
    ----------
    json
        Print a JSON array.
    """
    columns = ("name", "title")
    rows = [(name, profiles.load(name).title) for name in profiles.names()]
    if json:
        show_json(records(columns, rows))
    else:
        show(Table(columns, rows, sentences=["title"], has_header=False))
    return 0


@app.command(name="show", help_epilogue=example("iocurve profile show anf-ultra"))
def show_profile(
    name: Annotated[str, Parameter(completer=lambda _: profiles.names())], /, *, json: Flag = False
) -> int:
    """Print the figures of a service level, each with its source.

    Parameters
    ----------
    name
        A service level (iocurve profile list), or a profile file that ends in .toml.
    json
        Print a JSON object.
    """
    title, rows = profiles.load(name).title, describe(name)
    if json:
        show_json({"name": name, "title": title, "figures": records(("figure", "value", "source"), rows)})
        return 0
    print(f"{name}: {title}")
    if rows:
        source = "page of learn.microsoft.com" if name in profiles.names() else "source"
        show(Table(("figure", "value", source), rows, sentences=["value", source]))
    return 0
