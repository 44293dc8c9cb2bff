"""The machines that generate a load: ``--hosts``, ``--on`` and ``--clients`` follow the same rules in every command."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal

from cyclopts import Parameter

from iocurve.cli.common import AtLeast1, Flag
from iocurve.foundation.errors import Diagnostic, DialectError
from iocurve.measure.data_set import require_on_network
from iocurve.measure.machines import THIS_MACHINE, Machines
from iocurve.targets.target import Target

if TYPE_CHECKING:
    from iocurve.measure.group import ClientGroup

SSH = "ssh"
OnLoss = Literal["continue", "stop"]


OpenClients = Callable[[Sequence[str]], AbstractContextManager["ClientGroup"]]
"""Opens agents on the machines of these names, or on all. Raises ``RunError`` and ``PlanError``."""


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class SshOptions:
    """Hosts that ssh reaches."""

    hosts: str | None = None
    """Hosts of the agents: vm1,root@vm2:2222, or vm[1-12], or a file with such lists or an inventory (JSON of az, aws,
    ansible-inventory, kubectl). A host needs sshd, and this minor version of Python or uv."""
    ssh: str = SSH
    """The program that reaches the hosts, with options, such as 'ssh -F vms.conf'."""
    remote_dir: str = ""
    """Directory of the hosts for iocurve's packages and the files of a run, at most 16 characters. Default:
    ~/.cache/iocurve and /tmp."""
    tls: Flag = False
    """Encrypt the connections between the machines."""
    allow_missing: Flag = False
    """Go on with the agents that are there; results say which are missing. Default: a missing one is an
    error."""


SSH_OPTIONS = SshOptions()


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ClusterOptions(SshOptions):
    """Agents on a cluster."""

    clients: AtLeast1 | None = None
    """Generate the load by this many agents at the same instant: machines of a Ray cluster or, without one, processes
    here. Files, workers and queue depth are for each. Default: this process; with --on every node."""
    on: str | None = None
    """The cluster: auto (of this machine), or HOST:PORT of its head. Default with --clients:
    auto, if there is one."""
    on_loss: OnLoss = "continue"
    """When an agent is lost or fails during a run: continue with the others, or stop."""

    @contextmanager
    def machines(self, *on: Target) -> Iterator[Machines]:
        """The machines, for a load on these targets, while the context lasts.

        Raises ``RunError``, ``PlanError``, and ``TargetError`` before a host is started that does not reach a target.
        """
        self.require_sense(names_cluster=self.on is not None or self.clients is not None)
        if self.hosts is None and self.on is None and self.clients is None:
            yield THIS_MACHINE
            return
        if self.hosts is not None:
            for target in on:
                require_on_network(target)
        with self.agents() as group:
            yield group

    @contextmanager
    def agents(self) -> Iterator[ClientGroup]:
        """The agents of the cluster that the options name, while the context lasts. Raises as ``machines``."""
        with self.reached(self.on, self.clients) as (names, opened), opened(names) as group:
            yield group

    def require_sense(self, *, names_cluster: bool) -> None:
        """Raises ``DialectError`` for options that contradict each other or need another one.

        ``names_cluster`` says that the command line has --on or --clients, or a tool's words for them.
        """
        if self.hosts is not None:
            if names_cluster:
                text = "--hosts starts a cluster of these hosts: --on and --clients do not go with it"
                raise DialectError([Diagnostic(text)])
            return
        alone = {
            "--ssh": self.ssh != SSH,
            "--remote-dir": bool(self.remote_dir),
            "--tls": self.tls,
            "--allow-missing": self.allow_missing and not names_cluster,
            "--on-loss": self.on_loss != "continue" and not names_cluster,
        }
        if found := [option for option, is_there in alone.items() if is_there]:
            raise DialectError(
                [Diagnostic(f"{option} goes with --hosts, such as --hosts vm[1-12]") for option in found]
            )

    def listed(self) -> list[str]:
        """The machines of ``--hosts``, before any of them is started. Raises ``RunError`` and ``PlanError``."""
        from iocurve.cluster import session
        from iocurve.cluster.host_lists import parse_hosts, running_cluster

        assert self.hosts is not None
        if running := running_cluster(self.hosts):
            return session.load_client_addresses(*running, allow_missing=self.allow_missing)
        return [host.name for host in parse_hosts(self.hosts)]

    @contextmanager
    def reached(self, on: str | None = None, clients: int | None = None) -> Iterator[tuple[Sequence[str], OpenClients]]:
        """The cluster while the context lasts: --hosts are started.

        Gives the names of the machines, none where only the head knows them. Raises ``RunError`` and ``PlanError``.
        """
        from iocurve.cluster import hosts, session, started
        from iocurve.cluster.host_lists import parse_hosts, running_cluster

        opened = partial(session.opened, tell=report_client, stops_on_loss=self.on_loss == "stop")
        if self.hosts is None and on is None and clients is not None and not session.is_there():
            with started.running_here(clients) as address:
                yield (), partial(opened, address, clients)
        elif self.hosts is None:
            yield (), partial(opened, on, clients, allow_missing=self.allow_missing)
        elif running := running_cluster(self.hosts):
            yield (), partial(opened, *running, allow_missing=self.allow_missing)
        else:
            found = parse_hosts(self.hosts)
            over_ssh = partial(
                hosts.started, allow_missing=self.allow_missing, tls=self.tls, remote_dir=self.remote_dir
            )
            with over_ssh(found, self.ssh, report_host) as (cluster, missing):
                yield list(cluster.hosts), partial(opened, cluster.address, None, missing=missing)


CLUSTER = ClusterOptions()


def report_client(line: str) -> None:
    """Prints at once what has become of an agent to stderr."""
    print(f"iocurve: {line}", file=sys.stderr, flush=True)


def report_host(host: object, text: str) -> None:
    """Prints a step of a host that joins a cluster to stderr."""
    print(f"{host}: {text}", file=sys.stderr)
