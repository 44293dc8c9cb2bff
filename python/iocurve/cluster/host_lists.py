"""Lists of hosts as people, schedulers and clouds write them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from iocurve.foundation.errors import Diagnostic, PlanError

_Json = dict[str, Any]
HOSTS_MAX = 10_000
_ANSIBLE_RANGE = re.compile(r"\[(\d+):(\d+)\]")
_RANGE = re.compile(r"\[([^\[\]]*)\]")
_HOST = re.compile(r"(?:(?P<user>[\w.+-]+)@)?(?P<name>\[[0-9A-Fa-f:.%\w]+\]|[\w.-]+)(?::(?P<port>\d+))?", re.ASCII)
# Between the brackets of a range a comma divides numbers, elsewhere hosts.
_ITEM = re.compile(r"(?:\[[^\]]*\]|[^,\s\[])+")


# [fd00::1] is a host.
_GROUP = re.compile(r"^\[(?P<name>[A-Za-z_][\w.-]*)(?::(?P<part>vars|children|hosts))?\]\s*$", re.MULTILINE)


class Host(msgspec.Struct, frozen=True):
    """A machine that ssh reaches."""

    name: str
    """Hostname, address, or an alias of the ssh configuration."""
    user: str | None = None
    port: int | None = None

    def __str__(self) -> str:
        return self.name


def running_cluster(text: str) -> tuple[str, int] | None:
    """HOST:PORT of the head, and the number of agents that the cluster is to have.

    The text is a file with the JSON of ``kubectl get raycluster NAME`` (KubeRay); None if it is anything else.

    Raises ``PlanError`` for a cluster without a head.
    """
    try:
        found = msgspec.json.decode(Path(text.removeprefix("@")).read_bytes())
    except (OSError, ValueError):
        return None
    if not isinstance(found, dict) or found.get("kind") != "RayCluster":
        return None
    status = found.get("status") or {}
    head = _head_of(status.get("head") or {})
    if not head:
        state = status.get("state") or "unknown"
        raise PlanError([Diagnostic(f"--hosts {text}: the RayCluster has no head yet (state {state})")])
    # The name is that of the port in the head's manifest: both are in KubeRay's own samples.
    ports = status.get("endpoints") or {}
    port = ports.get("gcs-server") or ports.get("gcs") or "6379"
    groups = (found.get("spec") or {}).get("workerGroupSpecs") or []
    wanted = sum(group.get("replicas", 0) * group.get("numOfHosts", 1) for group in groups)
    return f"{head}:{port}", (status.get("desiredWorkerReplicas") or wanted)


def _head_of(head: _Json) -> str | None:
    """The address of the head: of its pod, or of its service where an older KubeRay tells no pod (the service may be
    headless: ``None``, as text)."""
    places = (head.get("podIP"), head.get("serviceIP"))
    return next((str(place) for place in places if place and place != "None"), None)


def parse_hosts(text: str) -> tuple[Host, ...]:
    """The hosts of ``vm1,root@vm2:2222``, of ``vm[1-12]`` as Slurm writes it, or of a file with such lists.

    A file may also have the JSON that a cloud's tool prints (``_inventory``), or be an inventory of Ansible (INI).

    A line of a file may end in ``slots=4``, ``max_slots=4`` (Open MPI) or a comment that starts with ``#``; a hostname
    with ``:4`` as MPICH writes it would be a port, so its number is refused below 22.
    Raises ``PlanError`` for a list that is none, for an empty one, and for a host that is listed twice.
    """
    path = Path(text.removeprefix("@"))
    try:
        # Not is_file(): a shell gives the output of a command as /dev/fd/63.
        is_file = text.startswith("@") or (path.exists() and not path.is_dir())
        content = path.read_text(encoding="utf-8") if is_file else text
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text in UTF-8"
        raise PlanError([Diagnostic(f"--hosts {text}: the file cannot be read: {reason}")]) from None
    hosts: list[Host] = []
    if is_file and _GROUP.search(content):
        hosts += _ansible(_groups(content, f"--hosts {path}"))
    elif is_file and content.lstrip().startswith(("{", "[")):
        hosts += _inventory(content, f"--hosts {path}")
    else:
        for number, line in enumerate(content.splitlines() if is_file else [content], 1):
            where = f"--hosts {path}, line {number}" if is_file else "--hosts"
            hosts += _hosts_of(line.partition("#")[0] if is_file else line, where)
    if not hosts:
        raise PlanError([Diagnostic(f"--hosts {text}: no host is listed", hint="such as --hosts vm1,vm2 or vm[1-12]")])
    if twice := sorted({host.name for host in hosts if sum(other.name == host.name for other in hosts) > 1}):
        raise PlanError([Diagnostic(f"--hosts: {', '.join(twice)}: listed twice", hint="one agent runs on each")])
    return tuple(hosts)


def _hosts_of(line: str, where: str) -> Iterator[Host]:
    for item in _ITEM.findall(line):
        if re.fullmatch(r"(max[_-])?slots=\d+", item):
            continue
        for name in _expanded(item, where):
            found = _HOST.fullmatch(name)
            port = int(found["port"]) if found and found["port"] else None
            if found is None or (port is not None and not 22 <= port <= 65535):
                what = f"'{name}' is no host" if found is None else f"'{name}': {port} is no port of ssh"
                raise PlanError([Diagnostic(f"{where}: {what}", hint="[USER@]HOST[:PORT], from port 22 on")])
            yield Host(found["name"].strip("[]"), found["user"], port)


def _expanded(item: str, where: str) -> list[str]:
    """``vm[08-10,12]`` as vm08, vm09, vm10, vm12; an address of IPv6 in brackets stays."""
    found = _RANGE.search(item)
    if found is None or ":" in found[1]:
        return [item]
    names: list[str] = []
    for part in found[1].split(","):
        first, _, last = part.partition("-")
        last = last or first
        if not (first.isdecimal() and last.isdecimal() and int(first) <= int(last) < int(first) + HOSTS_MAX):
            raise PlanError(
                [Diagnostic(f"{where}: '{item}': '{part}' is no range", hint="such as vm[1-12] or vm[01-03,7]")]
            )
        for number in range(int(first), int(last) + 1):
            name = f"{item[: found.start()]}{number:0{len(first)}}{item[found.end() :]}"
            names += _expanded(name, where)
    return names


def _inventory(content: str, where: str) -> list[Host]:
    """The hosts of ``az vmss list-instances``, ``az vm list -d``, ``aws ec2 describe-instances``, Ansible's inventory.

    Raises ``PlanError`` for anything else, and for a machine that does not run.
    """
    try:
        found = msgspec.json.decode(content)
    except msgspec.DecodeError as error:
        raise PlanError([Diagnostic(f"{where}: neither a list of hosts nor JSON: {error}")]) from None
    if isinstance(found, list):
        return [_azure(one, where) for one in found]
    if "Reservations" in found:
        return [host for reservation in found["Reservations"] for host in _aws(reservation["Instances"], where)]
    if "_meta" in found:
        return _ansible(found)
    raise PlanError(
        [
            Diagnostic(
                f"{where}: JSON of an unknown kind",
                hint="known are az vmss list-instances, az vm list -d, aws ec2 describe-instances, "
                "ansible-inventory --list and kubectl get raycluster NAME, each with -o json",
            )
        ]
    )


_AZURE_RUNS = frozenset({"VM running", "Succeeded", "Updating"})
"""States of a VM that runs; it is updated while its model or an extension changes."""


def _azure(machine: _Json, where: str) -> Host:
    """A VM by its private address, otherwise by the hostname that the network's DNS knows.

    ``az vmss list-instances`` has no addresses, and says if a VM runs only with ``--expand instanceView``.
    """
    name = (machine.get("osProfile") or {}).get("computerName") or machine.get("name", "a machine")
    states = [str(machine.get("provisioningState", "Succeeded"))]
    states += [machine["powerState"]] if machine.get("powerState") else []
    views = (machine.get("instanceView") or {}).get("statuses") or ()
    states += [view["displayStatus"] for view in views if view.get("code", "").startswith("PowerState/")]
    if not {*states} <= _AZURE_RUNS:
        raise _not_running(where, name, ", ".join(states))
    return Host(str(machine.get("privateIps") or name).split(",")[0])


def _aws(machines: Sequence[_Json], where: str) -> Iterator[Host]:
    """The private addresses. A machine that was terminated is listed for an hour; it is left out."""
    for machine in machines:
        state = machine["State"]["Name"]
        if state in ("terminated", "shutting-down"):
            continue
        if state != "running":
            raise _not_running(where, machine["InstanceId"], state)
        yield Host(machine["PrivateIpAddress"])


def _groups(content: str, where: str) -> _Json:
    """An inventory of Ansible in its INI form, as ``ansible-inventory --list`` prints it."""
    found: _Json = {"_meta": {"hostvars": {}}}
    own: dict[str, dict[str, str]] = found["_meta"]["hostvars"]
    of_groups: dict[str, dict[str, str]] = {"all": {}, "ungrouped": {}}
    group, part = "ungrouped", None
    for line in (text.partition("#")[0].partition(";")[0].strip() for text in content.splitlines()):
        if header := _GROUP.fullmatch(line):
            group, part = header["name"], header["part"]
            of_groups.setdefault(group, {})
        elif line and part == "vars":
            name, _, value = line.partition("=")
            of_groups[group][name.strip()] = value.strip()
        elif line and part != "children":
            item, *words = shlex.split(line)
            variables = dict(word.partition("=")[::2] for word in words)
            for name in _expanded(_ANSIBLE_RANGE.sub(r"[\1-\2]", item), where):
                found.setdefault(group, {"hosts": []})["hosts"].append(name)
                own[name] = own.get(name, {}) | variables
    for name, variables in own.items():
        groups = [key for key, value in found.items() if name in value.get("hosts", ())]
        own[name] = (
            of_groups["all"] | {key: value for each in groups for key, value in of_groups[each].items()} | variables
        )
    return found


def _ansible(found: _Json) -> list[Host]:
    """The hosts of all groups, with their variables for connections."""
    variables = found["_meta"].get("hostvars") or {}
    groups = [group.get("hosts", ()) for name, group in found.items() if name != "_meta" and isinstance(group, dict)]
    names = dict.fromkeys([name for hosts in groups for name in hosts] or variables)
    hosts = []
    for name in names:
        own = variables.get(name) or {}
        port = own.get("ansible_port", own.get("ansible_ssh_port"))
        user = own.get("ansible_user", own.get("ansible_ssh_user"))
        address = own.get("ansible_host", own.get("ansible_ssh_host", name))
        hosts.append(Host(address, user, int(port) if port else None))
    return hosts


def _not_running(where: str, name: str, state: str) -> PlanError:
    return PlanError([Diagnostic(f"{where}: {name} does not run ({state})", hint="start it, or list the others")])
