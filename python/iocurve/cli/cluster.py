"""``iocurve cluster``: start a cluster, check it, end it, and print how to start one without ssh."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Annotated, Literal

from cyclopts import App, Parameter

from iocurve.cli.common import AtLeast1, JsonFlag, example, records, refuse, show, show_json, usage
from iocurve.cli.machines import SSH_OPTIONS, SshOptions, report_host
from iocurve.foundation.errors import Diagnostic, DialectError
from iocurve.foundation.units import counted
from iocurve.report.table import Table

NODES = 12
"""Machines of a printed cluster whose number was not given."""

app = App(
    name="cluster",
    help="Use many machines for several runs: start a cluster over ssh, check it, end it.",
    help_epilogue=example("iocurve cluster up --hosts vm[1-12]"),
)


@app.command(
    name="check", usage=usage("cluster check", "[PATH]"), help_epilogue=example("iocurve cluster check /mnt/volume")
)
def check_cluster(
    path: Path | None = None, /, *, on: str = "auto", clients: AtLeast1 | None = None, json: JsonFlag = False
) -> int:
    """List the agents of a cluster and what is wrong with them; each problem comes with its remedy.

    Parameters
    ----------
    path
        A directory of the volume: its mount must be the same on every client.
    on
        The cluster: auto (of this machine), or HOST:PORT of its head.
    clients
        Number of agents that the cluster must have. Default: those that iocurve cluster up started, otherwise
        any number.
    """
    from iocurve.cluster import check

    checked, problems = check.check(on, clients, PurePosixPath(path) if path else None)
    rows = [check.row(one) for one in checked]
    if json:
        show_json({"clients": records(check.COLUMNS, rows), "problems": [str(problem) for problem in problems]})
        return 1 if problems else 0
    show(Table(check.COLUMNS, rows))
    for problem in problems:
        print(f"problem: {problem}")
    return 1 if problems else 0


@app.command(
    name="commands",
    usage=usage("cluster commands", "[PLACE]"),
    help_epilogue=example("iocurve cluster commands slurm --nodes 8"),
)
def print_commands(
    place: Literal["ssh", "cloud-init", "slurm", "kuberay"] = "ssh",
    /,
    *,
    head: str | None = None,
    node: Annotated[tuple[str, ...], Parameter(negative=())] = (),
    nodes: AtLeast1 | None = None,
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
        Number of machines where they are not named. Default: 12.
    """
    from iocurve.cluster.commands import commands

    if node:
        refuse("the machines are named by --node; leave out one of them", nodes=nodes)
    if place in ("slurm", "kuberay"):
        refuse(f"{place} chooses the head", head=head)
    if place == "cloud-init":
        refuse("every machine of the scale set runs the same lines", node=node, nodes=nodes)
    names = node or tuple(f"NODE{number}" for number in range(1, (nodes or NODES) + 1))
    print(commands(place, head or "HEAD", names), end="")
    return 0


@app.command(help_epilogue=example("iocurve cluster up --hosts vm[1-12]"))
def up(*, local: AtLeast1 | None = None, reach: SshOptions = SSH_OPTIONS) -> int:
    """Start a cluster of several runs: on hosts that ssh reaches, or on this machine to try it.

    Parameters
    ----------
    local
        Number of nodes on this machine. They have loopback addresses; a token protects their ports.
    """
    from iocurve.cluster import hosts as over_ssh
    from iocurve.cluster import started
    from iocurve.cluster.host_lists import parse_hosts

    if (local is None) == (reach.hosts is None):
        raise DialectError([Diagnostic("cluster up: say where: --hosts vm1,vm2 or --local N")])
    if reach.hosts is not None:
        cluster, _, took = over_ssh.up(
            parse_hosts(reach.hosts),
            reach.ssh,
            report_host,
            allow_missing=reach.allow_missing,
            tls=reach.tls,
            remote_dir=reach.remote_dir,
        )
        address, number = cluster.address, len(cluster.hosts)
        print(", ".join(f"{step} {seconds:.1f} s" for step, seconds in took.items()), file=sys.stderr)
    else:
        assert local is not None
        refuse("this is for --hosts", replace(reach, tls=False))
        address, number = started.up(local, tls=reach.tls), local
    print(f"{counted(number, 'agent')}: add --on {address} to a command; iocurve cluster down ends them")
    return 0


@app.command(help_epilogue=example("iocurve cluster down"))
def down() -> int:
    """End the cluster that `iocurve cluster up` started."""
    from iocurve.cluster import started

    ended = started.down()
    print("the cluster has ended" if ended else "there was no cluster")
    return 0
