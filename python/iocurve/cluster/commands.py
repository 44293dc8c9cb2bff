"""Prints what to paste to start a cluster: over ssh, by cloud-init, on Slurm, on Kubernetes."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Sequence
from importlib.resources import files
from textwrap import indent
from typing import Literal

from iocurve._native import VERSION
from iocurve.cluster import ray_options
from iocurve.cluster.packages import wheel
from iocurve.cluster.ray_options import made_user_token

Place = Literal["ssh", "cloud-init", "slurm", "kuberay"]
TOKEN_ON_NODE = "~/.iocurve-token"
RUN = "iocurve run anf-large-scale-out --target /mnt/volume --on auto"


def commands(place: Place, head: str, nodes: Sequence[str]) -> str:
    """The text to paste. ``head`` is an address that all nodes reach; ``nodes`` are the machines that generate load.

    All but ``slurm`` and ``kuberay`` use the token of this user, which is made if there is none.
    """
    if place == "ssh":
        return _ssh(head, nodes)
    if place == "cloud-init":
        return _cloud_init(head)
    return _slurm(len(nodes)) if place == "slurm" else _kuberay(len(nodes))


def _start(options: Sequence[str], head_only: bool, token: str) -> str:
    """``ray start`` with its environment, bound to the first processor; ``token`` is a path as a shell reads it."""
    environment = ray_options.ENVIRONMENT | (ray_options.HEAD_ENVIRONMENT if head_only else {})
    environment |= {"RAY_AUTH_MODE": "token"}
    ports = ray_options.HEAD_PORTS if head_only else ray_options.PORTS
    words = " ".join(f"{name}={value}" for name, value in environment.items())
    started = shlex.join([*ray_options.bound(), "ray", "start", *options, *ray_options.common(ports)])
    return f"{words} RAY_AUTH_TOKEN_PATH={token} {started}"


def _wheel() -> str:
    return wheel(VERSION, os.uname().machine)


def _ssh(head: str, nodes: Sequence[str]) -> str:
    address = f"{head}:{ray_options.HEAD_PORT}"
    path = made_user_token()
    start = shlex.quote(_start(ray_options.node(address), False, TOKEN_ON_NODE))
    lines = [
        f"# On every machine, the same Python, and the file that make wheel builds: pip install './{_wheel()}[scale]'",
        f"# The head, {head}: run this here.",
        _start([*ray_options.head(), f"--node-ip-address={head}"], True, shlex.quote(str(path))),
        "# The machines that generate load; each gets the token, and no other user may read it.",
    ]
    for node in nodes:
        where = shlex.quote(node)
        lines.append(f"ssh {where} 'umask 077; cat > {TOKEN_ON_NODE}' < {shlex.quote(str(path))}")
        lines.append(f"ssh {where} {start}")
    lines += ["iocurve cluster check", RUN, "# At the end, on every machine:"]
    lines += [f"ssh {shlex.quote(node)} ray stop" for node in nodes]
    return "\n".join([*lines, "ray stop", ""])


def _cloud_init(head: str) -> str:
    address = f"{head}:{ray_options.HEAD_PORT}"
    path = made_user_token()
    on_node = "/root/.iocurve-token"
    # A JSON string is a YAML string, whatever is in it. The head may come up after the machine.
    join = json.dumps(
        f"export PATH=/opt/iocurve/bin:$PATH; "
        f"until {_start(ray_options.node(address), False, on_node)}; do sleep 10; done"
    )
    start_head = _start([*ray_options.head(), f"--node-ip-address={head}"], True, shlex.quote(str(path)))
    token = path.read_text()
    return _filled(
        "cloud-init.yaml", on_node=on_node, token=token, wheel=_wheel(), join=join, head=head, start=start_head
    )


def _slurm(nodes: int) -> str:
    common = shlex.join([*ray_options.common(), f"--resources={ray_options.LOAD_CLIENT}"])
    environment = ray_options.ENVIRONMENT | ray_options.HEAD_ENVIRONMENT
    exports = "\n".join(f"export {name}={value}" for name, value in environment.items())
    return _filled("slurm.sh", nodes=nodes, exports=exports, port=ray_options.HEAD_PORT, common=common, run=RUN)


def _kuberay(nodes: int) -> str:
    port = ray_options.PORTS["node-manager-port"]
    started = (
        f'include-log-monitor: "false", object-store-memory: "{ray_options.OBJECT_STORE_BYTES}", '
        f'node-manager-port: "{port}"'
    )
    head = _pod("ray-head", ray_options.HEAD_PORT, ray_options.ENVIRONMENT | ray_options.HEAD_ENVIRONMENT)
    worker = _pod("ray-worker", port, ray_options.ENVIRONMENT)
    pods = {"head": indent(head, " " * 8), "worker": indent(worker, " " * 10)}
    return _filled("kuberay.yaml", nodes=nodes, wheel=_wheel(), started=started, run=RUN, **pods)


def _pod(container: str, port: int, environment: dict[str, str]) -> str:
    """The containers and volumes of a pod.

    It has probes of its own: those that KubeRay adds run a program every few seconds, which asks a dashboard that plain
    ``ray`` does not have.
    """
    variables = "".join(
        f'\n      - {{name: {name}, value: "{value}"}}'
        for name, value in (environment | {"RAY_AUTH_MODE": "token"}).items()
    )
    return _filled("pod.yaml", container=container, variables=variables, port=port).rstrip()


def _filled(name: str, **values: object) -> str:
    """A text of ``templates/`` in which each ``@NAME@`` is replaced; ``$`` is for the shells that read it."""
    text = (files(__package__) / "templates" / name).read_text(encoding="utf-8")
    for key, value in values.items():
        text = text.replace(f"@{key.upper()}@", str(value))
    return text
