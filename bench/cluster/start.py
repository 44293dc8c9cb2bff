"""Starts a Ray cluster on hosts with the very lines that ``iocurve cluster commands ssh`` prints."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path

from bench.cluster.hosts import Host
from bench.servers import IOCURVE

_SSH = """#!/bin/sh
# Stands in for ssh: the hosts are namespaces of this machine.
host=$1; shift
exec $(cat {directory}/"$host") sh -c "$*"
"""
_START_S = 180


def start_cluster(head: Host, nodes: Sequence[Host], directory: Path) -> None:
    """Returns once every line has been run; nodes may still be joining. Raises ``RuntimeError``."""
    ssh = _ssh(nodes, directory / "ssh")
    named = [f"--node={node.name}" for node in nodes]
    printed = head.run([str(IOCURVE), "cluster", "commands", "ssh", "--head", head.address, *named])
    if printed.returncode:
        raise RuntimeError(printed.stderr)
    begin, _, _ = printed.stdout.partition("iocurve cluster check")
    for line in begin.splitlines():
        if line.startswith("#"):
            continue
        words = ["sh", "-c", line] if line.startswith("ssh ") else [*head.prefix, "sh", "-c", line]
        environment = {**os.environ, "PATH": f"{ssh.parent}:{os.environ['PATH']}"}
        ran = subprocess.run(
            words,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=_START_S,
            stdin=subprocess.DEVNULL,
        )
        if ran.returncode:
            raise RuntimeError(f"{line}\n{ran.stdout[-1000:]}{ran.stderr[-1000:]}")


def _ssh(nodes: Sequence[Host], directory: Path) -> Path:
    """A program ``ssh`` that runs commands on the hosts."""
    directory.mkdir()
    for node in nodes:
        (directory / node.name).write_text(shlex.join(node.prefix))
    program = directory / "bin" / "ssh"
    program.parent.mkdir()
    program.write_text(_SSH.format(directory=shlex.quote(str(directory))))
    program.chmod(0o755)
    return program
