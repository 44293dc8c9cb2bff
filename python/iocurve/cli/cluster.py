"""``iocurve cluster``: check a cluster, print how to start one, try one on this machine."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import Annotated, Literal

from cyclopts import App, Parameter
from rich.table import Table

from iocurve.cli.common import example, records, show, show_json
from iocurve.cli.quantities import AtLeast1, Flag

app = App(
    name="cluster",
    help="Use many machines at once: check a cluster, print how to start one, try one on this machine.",
    help_epilogue=example("iocurve cluster commands ssh --head 10.0.0.4 --node vm1 --node vm2"),
)


@app.command(name="check")
def check_cluster(
    path: Path | None = None, /, *, on: str = "auto", clients: AtLeast1 | None = None, json: Flag = False
) -> int:
    """List the load clients of a cluster and what is wrong with them; each problem comes with its remedy.

    Parameters
    ----------
    path
        A directory of the volume: its mount must be the same on every client.
    on
        The cluster: auto for the one that this machine belongs to, or HOST:PORT of its head.
    clients
        Number of load clients that the cluster must have. Default: any number.
    json
        Print JSON.
    """
    from iocurve.cluster import check

    checked, problems = check.check(on, clients, PurePosixPath(path) if path else None)
    rows = [check.row(one) for one in checked]
    if json:
        show_json({"clients": records(check.COLUMNS, rows), "problems": [str(problem) for problem in problems]})
        return 1 if problems else 0
    table = Table(*check.COLUMNS, box=None)
    for row in rows:
        table.add_row(*row)
    show(table)
    for problem in problems:
        print(f"problem: {problem}")
    return 1 if problems else 0


@app.command(name="commands")
def print_commands(
    place: Literal["ssh", "cloud-init", "slurm", "kuberay"] = "ssh",
    /,
    *,
    head: str = "HEAD",
    node: Annotated[tuple[str, ...], Parameter(negative=())] = (),
    nodes: AtLeast1 = 12,
) -> int:
    """Print what to paste to start a cluster, with token authentication.

    Parameters
    ----------
    place
        Where the machines are: reached over ssh, a VM scale set (cloud-init), a Slurm cluster, Kubernetes (KubeRay).
    head
        Address of the head that all machines reach.
    node
        A machine that generates load; repeat it for each.
    nodes
        Number of machines where they are not named.
    """
    from iocurve.cluster.commands import commands

    print(commands(place, head, node or tuple(f"NODE{number}" for number in range(1, nodes + 1))), end="")
    return 0


@app.command
def up(*, local: AtLeast1) -> int:
    """Start a cluster on this machine to try it. Its nodes have loopback addresses; a token protects its ports.

    Parameters
    ----------
    local
        Number of nodes.
    """
    from iocurve.cluster import local as clusters

    address = clusters.up(local)
    print(f"{local} load clients are up: add --on {address} to a command; iocurve cluster down ends them")
    return 0


@app.command
def down() -> int:
    """End the cluster that `iocurve cluster up` started."""
    from iocurve.cluster import local as clusters

    ended = clusters.down()
    print("the local cluster has ended" if ended else "there was no local cluster")
    return 0
