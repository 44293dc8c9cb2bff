"""Commands of service levels."""

from __future__ import annotations

from cyclopts import App
from rich.console import Console
from rich.table import Table

from iocurve.volume import profile as profiles
from iocurve.volume.profile_text import describe

app = App(name="profile", help="List and show service levels for volumes.")


@app.command(name="list")
def list_profiles() -> int:
    """List the service levels that a volume can have; --profile takes a file of your own as well."""
    table = Table(box=None, pad_edge=False, show_header=False)
    for name in profiles.names():
        table.add_row(name, profiles.load(name).title)
    Console().print(table)
    return 0


@app.command(name="show")
def show_profile(name: str, /) -> int:
    """Print a service level's figures, each with the page it was published on.

    Parameters
    ----------
    name
        One of iocurve profile list, or a file of your own that ends in .toml.
    """
    print(f"{name}: {profiles.load(name).title}")
    table = Table(box=None, pad_edge=False)
    for column in ("figure", "value", "page of learn.microsoft.com" if name in profiles.names() else "source"):
        table.add_column(column, overflow="fold")
    for row in describe(name):
        table.add_row(*row)
    if table.row_count:
        Console().print(table)
    return 0
