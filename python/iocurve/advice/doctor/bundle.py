"""Makes a bundle of the files that doctor read, without names and addresses.

A bundle gives the same rows as its machine. Mount points, servers, exports and addresses have stand-ins; private
addresses stay private, public ones public, and a name of Azure Files keeps its domain. Tables keep only the lines that
doctor reads.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from pathlib import PurePath

import msgspec

from iocurve.advice.doctor.host import NETWORK_FILE_SYSTEMS, Bundle, ClientMount, HostFiles, mounts
from iocurve.advice.doctor.nfs import AZURE_FILES, TUNNELS
from iocurve.machine.mounts import nearest, unescaped
from iocurve.machine.processes import tcp_address

SYSTEM_POINTS = ("/", "/boot", "/home", "/mnt", "/opt", "/srv", "/tmp", "/usr", "/var", "/var/lib")
"""Mount points that tell nothing of their owner."""
KEYS = re.compile(r"^\s*(net\.|sunrpc\.|vm\.|options\s+(sunrpc|nfs))")
"""Lines of sysctl and modprobe files that doctor's settings are in."""
_RULES = re.compile(r".*read_ahead_kb}")
KEPT_LINES = {
    "etc/sysctl": KEYS, "etc/modprobe": KEYS, "etc/udev": _RULES, "run/udev": _RULES, "usr/lib/udev": _RULES,
    "lib/udev": _RULES, "proc/net/bonding": re.compile(r"(Bonding Mode|Transmit Hash Policy|Slave Interface|Speed):"),
}  # fmt: skip
"""The lines that are kept of files, by the starts of their paths."""


class _StandIns(msgspec.Struct):
    """Stand-ins by the words that they replace."""

    words: dict[str, str] = msgspec.field(default_factory=dict)
    counts: dict[str, int] = msgspec.field(default_factory=dict)

    def address(self, text: str) -> str:
        """The stand-in of an IP address."""
        found = ipaddress.ip_address(text)
        if found.is_loopback or found.is_unspecified:
            return text
        kind = ("private" if found.is_private else "public") + str(found.version)
        forms = {
            "private4": lambda number: f"10.0.{number // 250}.{number % 250 + 1}",
            "public4": lambda number: f"203.0.113.{number % 250 + 1}",
            "private6": lambda number: f"fd00::{number + 1:x}",
            "public6": lambda number: f"2001:db8::{number + 1:x}",
        }
        return self._named(text, kind, forms[kind])

    def server(self, text: str) -> str:
        """The stand-in of a server: an address, or a name that may be one of Azure Files."""
        try:
            return self.address(text)
        except ValueError:
            domain = next((domain for domain in AZURE_FILES if text.endswith(domain)), "")
            return self._named(text, "server", lambda number: f"server{number + 1}{domain}")

    def export(self, text: str) -> str:
        """The stand-in of an export."""
        return self._named(text, "export", lambda number: f"/export{number + 1}")

    def point(self, text: str) -> str:
        """The stand-in of a mount point."""
        return text if text in SYSTEM_POINTS else self._named(text, "mount", lambda number: f"/mnt/m{number + 1}")

    def _named(self, text: str, kind: str, form: Callable[[int], str]) -> str:
        if text not in self.words:
            number = self.counts.get(kind, 0)
            self.counts[kind] = number + 1
            self.words[text] = form(number)
        return self.words[text]


def bundle(host: HostFiles, subject: str | None, about: str = "") -> Bundle:
    """The bundle of everything that ``host`` has read."""
    names = _StandIns()
    known = mounts(host)
    servers = {mount.address for mount in known if isinstance(mount, ClientMount)}
    rewrites: dict[str, Callable[[str], str]] = {
        "proc/self/mountinfo": lambda text: _lines(text, lambda line: _mountinfo(line, names)),
        "proc/self/mountstats": lambda text: _mountstats(text, names),
        "proc/net/tcp": lambda text: _connections(text, servers, names),
        "proc/net/tcp6": lambda text: _connections(text, servers, names),
        "etc/fstab": lambda text: _lines(text, lambda line: _fstab(line, names)),
        "proc/sys/kernel/osrelease": lambda text: (match[0] if (match := re.match(r"[\d.]+", text)) else "") + "\n",
    }
    texts = {}
    for path, text in sorted(host.texts.items()):
        if path.endswith("/comm") and text.strip() not in TUNNELS:
            continue
        if path in rewrites:
            texts[path] = rewrites[path](text)
        elif kept := next((lines for start, lines in KEPT_LINES.items() if path.startswith(start)), None):
            texts[path] = _lines(text, lambda line: line if kept.match(line) else None)
        else:
            texts[path] = text
    point = _subject(host, subject, names)
    return Bundle(about=about, subject=point, texts=texts, directories=dict(host.directories), instance=host.instance)


def _subject(host: HostFiles, subject: str | None, names: _StandIns) -> str | None:
    """The stand-in of the subject: that of its mount point for a path below it."""
    if subject is None or not subject.startswith("/") or subject.startswith("/dev/"):
        return None if subject and subject.startswith("nfs://") else subject
    mount = nearest(PurePath(subject), mounts(host))
    return names.point(mount.point) if mount else subject


def _lines(text: str, rewrite: Callable[[str], str | None]) -> str:
    kept = (rewrite(line) for line in text.splitlines())
    return "".join(f"{line}\n" for line in kept if line is not None)


def _source(kind: str, source: str, names: _StandIns) -> str:
    server, colon, export = source.rpartition(":/")
    if kind in NETWORK_FILE_SYSTEMS and colon:
        bare = names.server(server.strip("[]"))
        return f"[{bare}]:{names.export(export)}" if ":" in bare else f"{bare}:{names.export(export)}"
    return source if re.fullmatch(r"/dev/[a-z]+[\dnp]*|[a-z]+", source) else "none"


def _options(text: str, names: _StandIns) -> str:
    """Options that hold addresses or names get stand-ins; those of other file systems may hold paths."""

    def rewritten(option: str) -> str:
        name, equals, value = option.partition("=")
        if name in ("addr", "mountaddr", "clientaddr"):
            return f"{name}={names.server(value)}"
        return option if not equals or re.fullmatch(r"[\w.:+-]*", value) else name

    return ",".join(map(rewritten, text.split(",")))


def _mountinfo(line: str, names: _StandIns) -> str | None:
    before, dash, after = line.partition(" - ")
    fields, rest = before.split(), after.split(maxsplit=2)
    if not dash or len(fields) < 6 or len(rest) < 3:
        return None
    if fields[2].startswith("0:") and rest[0] not in (*NETWORK_FILE_SYSTEMS, "btrfs", "overlay", "tmpfs"):
        return None
    fields[3], fields[4] = "/", _escaped(names.point(unescaped(fields[4])))
    source = _escaped(_source(rest[0], unescaped(rest[1]), names))
    return f"{' '.join(fields[:6])} - {rest[0]} {source} {_options(rest[2], names)}"


def _mountstats(text: str, names: _StandIns) -> str:
    parts = re.split(r"^(?=device )", text, flags=re.MULTILINE)
    return "".join(_statistics(part, names) for part in parts if re.match(r"device .* with fstype nfs4? ", part))


def _statistics(part: str, names: _StandIns) -> str:
    head, _, rest = part.partition("\n")
    match = re.match(r"device (\S+) mounted on (\S+) with fstype (nfs4?) (.*)", head)
    if match is None:
        return ""
    source = _escaped(_source(match[3], unescaped(match[1]), names))
    point = _escaped(names.point(unescaped(match[2])))
    rest = re.sub(r"^(\s*opts:\s*)(\S+)", lambda found: found[1] + _options(found[2], names), rest, flags=re.MULTILINE)
    # impl_id and sec lines name the server's software and its domain.
    rest = re.sub(r"^\s*(impl_id|nfsv4):.*\n", "", rest, flags=re.MULTILINE)
    return f"device {source} mounted on {point} with fstype {match[3]} {match[4]}\n{rest}"


def _connections(text: str, servers: set[str], names: _StandIns) -> str:
    """Only the connections to the servers of mounts; the local end is dropped."""
    lines = text.splitlines()
    kept = lines[:1]
    for line in lines[1:]:
        words = line.split()
        end = tcp_address(words[2]) if len(words) > 3 else None
        if end is not None and end[0] in servers:
            kept.append(f"   0: 00000000:0000 {_hex(names.address(end[0]))}:{end[1]:04X} {words[3]}")
    return "".join(f"{line}\n" for line in kept)


def _hex(address: str) -> str:
    """The form of /proc/net/tcp: words of four bytes, little-endian."""
    raw = ipaddress.ip_address(address).packed
    return b"".join(raw[place : place + 4][::-1] for place in range(0, len(raw), 4)).hex().upper()


def _fstab(line: str, names: _StandIns) -> str | None:
    words = line.split()
    if len(words) < 4 or line.lstrip().startswith("#") or words[2] not in NETWORK_FILE_SYSTEMS:
        return None
    source = _escaped(_source(words[2], unescaped(words[0]), names))
    return f"{source} {_escaped(names.point(unescaped(words[1])))} {words[2]} {_options(words[3], names)} 0 0"


def _escaped(text: str) -> str:
    return re.sub(r"[ \t\n\\]", lambda match: f"\\{ord(match[0]):03o}", text)
