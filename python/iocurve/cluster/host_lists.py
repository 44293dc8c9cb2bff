"""Lists of hosts as people and schedulers write them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from iocurve.errors import Diagnostic, PlanError

HOSTS_MAX = 10_000
_RANGE = re.compile(r"\[([^\[\]]*)\]")
_HOST = re.compile(r"(?:(?P<user>[\w.+-]+)@)?(?P<name>\[[0-9A-Fa-f:.%\w]+\]|[\w.-]+)(?::(?P<port>\d+))?", re.ASCII)
# Between the brackets of a range a comma divides numbers, elsewhere hosts.
_ITEM = re.compile(r"(?:\[[^\]]*\]|[^,\s\[])+")


@dataclass(frozen=True)
class Host:
    """A machine that ssh reaches."""

    name: str
    """Hostname, address, or an alias of the ssh configuration."""
    user: str | None = None
    port: int | None = None

    def __str__(self) -> str:
        return self.name


def parse_hosts(text: str) -> tuple[Host, ...]:
    """The hosts of ``vm1,root@vm2:2222``, of ``vm[1-12]`` as Slurm writes it, or of a file with such lists.

    A line of a file may end in ``slots=4``, ``max_slots=4`` (Open MPI) or a comment that starts with ``#``; a hostname
    with ``:4`` as MPICH writes it would be a port, so its number is refused below 22.
    Raises ``PlanError`` for a list that is none, for an empty one, and for a host that is listed twice.
    """
    path = Path(text.removeprefix("@"))
    try:
        # Not is_file(): a shell gives the output of a command as /dev/fd/63.
        is_file = text.startswith("@") or (path.exists() and not path.is_dir())
        lines = path.read_text(encoding="utf-8").splitlines() if is_file else [text]
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise PlanError([Diagnostic(f"--hosts {text}: the file cannot be read: {error}")]) from None
    hosts: list[Host] = []
    for number, line in enumerate(lines, 1):
        where = f"--hosts {path}, line {number}" if is_file else "--hosts"
        hosts += _hosts_of(line.partition("#")[0] if is_file else line, where)
    if not hosts:
        raise PlanError([Diagnostic(f"--hosts {text}: no host is listed", hint="such as --hosts vm1,vm2 or vm[1-12]")])
    if twice := sorted({host.name for host in hosts if sum(other.name == host.name for other in hosts) > 1}):
        raise PlanError([Diagnostic(f"--hosts: {', '.join(twice)}: listed twice", hint="one load client runs on each")])
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
