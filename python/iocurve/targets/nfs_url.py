"""``nfs://host[:port]/export?vers=4.1&nconnect=4``: all settings of a user-space NFS mount."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

import msgspec

from iocurve.engine.plan import NfsMount, NfsTls
from iocurve.foundation.errors import nearest

NUMBERS = {
    "nconnect": (1, 16),
    "shared_mount": (0, 1),
    "slots": (1, 1024),
    "rsize": (1024, 1024**2),
    "wsize": (1024, 1024**2),
    "nfsport": (1, 65535),
    "mountport": (1, 65535),
    "uid": (0, 2**32 - 1),
    "gid": (0, 2**32 - 1),
    "timeo": (100, 36_000),
    "retrans": (0, 100),
}
TLS = ("tls", "insecure", "ca", "certificate")
"""Encryption (RFC 9289): the first two have no value, the others name PEM files."""
VERSIONS = {"3": 3, "4": 4, "4.1": 4}
"""By what people write. Version 4 is always 4.1."""
SLOTS_DEFAULT = 64
"""``max_session_slots`` of the Linux client."""
DECISECOND_NS = 100_000_000
TIMEO_DEFAULT = 600
"""In tenths of a second; used if only retrans is given."""


DEFAULT_TIMEOUT_NS = 600 * DECISECOND_NS
"""Time after which a silent server fails the run."""
ADDRESSES_MAX = 64
"""Addresses of one server."""
_SEVERAL = re.compile(r"(nfs://[^/?#\[\]]+)\[(\d{1,3}(?:-\d{1,3})?(?:,\d{1,3}(?:-\d{1,3})?)*)\]")


class NfsUrl(msgspec.Struct, frozen=True):
    """A parsed URL; None means not given."""

    host: str
    export: str
    """Begins with a slash."""
    port: int | None = None
    mount_port: int | None = None
    version: Literal[3, 4] = 3
    """3, or 4 for 4.1."""
    slots: int = SLOTS_DEFAULT
    """NFSv4.1: slots to ask the server for."""
    rsize: int | None = None
    """Most bytes of one READ, as in nfs(5), also where the server takes more."""
    wsize: int | None = None
    """Most bytes of one WRITE."""
    nconnect: int | None = None
    shared_mount: bool | None = None
    """The jobs of a client share the connections, as on a kernel mount. Default: those of other tools' lines."""
    uid: int | None = None
    gid: int | None = None
    timeout_ns: int | None = None
    """Time limit for the reply to a call: ``timeo`` × (1 + ``retrans``), with ``timeo`` in tenths of a second as in
    libnfs and nfs(5). Calls are sent only once, since TCP retransmits lost segments."""
    tls: NfsTls | None = None
    """Encryption of the connections; None: nothing is encrypted."""

    def mount(self, user: tuple[int, int], nconnect: int | None, timeout_ns: int | None) -> NfsMount:
        """The mount for a plan, with connections and a time limit other than the URL's where they are given.

        Calls are those of ``user`` unless the URL names another. READ payload may be discarded: nothing verifies it.
        """
        return NfsMount(
            host=self.host,
            port=self.port,
            mount_port=self.mount_port,
            export=self.export,
            version=self.version,
            nconnect=nconnect or self.nconnect or 1,
            session_slots=self.slots,
            rsize=self.rsize,
            wsize=self.wsize,
            tls=self.tls,
            uid=user[0] if self.uid is None else self.uid,
            gid=user[1] if self.gid is None else self.gid,
            durability="none",
            timeout_ns=next(ns for ns in (timeout_ns, self.timeout_ns, DEFAULT_TIMEOUT_NS) if ns is not None),
            keep_payload=False,
        )


def parse_nfs_url(text: str) -> NfsUrl:
    """Parses libnfs's URLs, and ``:port`` after the host for servers with NFS and MOUNT on one port.

    Raises ``ValueError`` with a message for the user.
    """
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        parts, port = None, None
    if parts is None or parts.scheme != "nfs" or not parts.hostname:
        raise ValueError(f"'{text}' is not an NFS URL; write nfs://host/export or nfs://host:port/export?nconnect=8")
    if not parts.path:
        raise ValueError(f"'{text}' names no export; write nfs://{parts.netloc}/export")
    if parts.fragment or parts.username is not None:
        raise ValueError(f"'{text}': only a host, a port, an export and ?name=value belong in an NFS URL")
    query = parse_qsl(parts.query, keep_blank_values=True)
    said = _parameters(text, [(name, value) for name, value in query if name not in TLS])
    return NfsUrl(
        host=parts.hostname,
        export=unquote(parts.path),
        port=said.get("nfsport", port),
        mount_port=said.get("mountport", port),
        version=4 if said.get("vers") == 4 else 3,
        slots=said.get("slots", SLOTS_DEFAULT),
        rsize=said.get("rsize"),
        wsize=said.get("wsize"),
        nconnect=said.get("nconnect"),
        shared_mount=None if (shared := said.get("shared_mount")) is None else bool(shared),
        uid=said.get("uid"),
        gid=said.get("gid"),
        timeout_ns=_timeout_ns(said),
        tls=_tls(text, {name: value for name, value in query if name in TLS}),
    )


def parse_nfs_urls(text: str) -> tuple[NfsUrl, ...]:
    """Parses a URL whose host may stand for several addresses of one server: ``nfs://10.0.0.[1-8]/export``.

    Raises ``ValueError`` as ``parse_nfs_url``.
    """
    found = _SEVERAL.match(text)
    if found is None:
        return (parse_nfs_url(text),)
    numbers: list[int] = []
    for part in found[2].split(","):
        first, _, last = part.partition("-")
        numbers += range(int(first), int(last or first) + 1)
    if not 1 <= len(numbers) <= ADDRESSES_MAX:
        raise ValueError(f"'{text}' has {len(numbers)} addresses; 1 to {ADDRESSES_MAX} are possible")
    return tuple(parse_nfs_url(f"{found[1]}{number}{text[found.end() :]}") for number in numbers)


def with_parameters(text: str, changes: Mapping[str, object]) -> str:
    """The URL with some of its parameters changed or added."""
    parts = urlsplit(text)
    said = {
        "vers" if name == "version" else name: value for name, value in parse_qsl(parts.query, keep_blank_values=True)
    }
    return parts._replace(query=urlencode(said | {name: str(value) for name, value in changes.items()})).geturl()


def nfs_address(mount: NfsMount) -> str:
    """The URL of the export that a plan mounts."""
    host = f"[{mount.host}]" if ":" in mount.host else mount.host
    port = f":{mount.port}" if mount.port else ""
    version = "vers=4.1&" if mount.version == 4 else ""
    mount_port = f"mountport={mount.mount_port}&" if mount.mount_port not in (None, mount.port) else ""
    tls = "".join(f"{part}&" for part in _told(mount.tls)) if mount.tls else ""
    return f"nfs://{host}{port}{quote(mount.export)}?{version}{mount_port}{tls}nconnect={mount.nconnect}"


def _told(tls: NfsTls) -> list[str]:
    """The parameters of a URL that say so."""
    files = {"ca": tls.ca, "certificate": tls.certificate}
    return ["tls", *["insecure"] * tls.insecure, *(f"{name}={quote(path)}" for name, path in files.items() if path)]


def _tls(text: str, said: Mapping[str, str]) -> NfsTls | None:
    for name, value in said.items():
        if bool(value) != (name in ("ca", "certificate")):
            raise ValueError(f"'{text}': {name} {'takes no value' if value else 'names a file: ' + name + '=FILE'}")
    if "tls" not in said:
        if said:
            raise ValueError(f"'{text}': {next(iter(said))} goes with tls; add tls or leave it out")
        return None
    if "insecure" in said and "ca" in said:
        raise ValueError(f"'{text}': with insecure no certificate is checked; leave out ca or insecure")
    files = {name: str(Path(said[name]).absolute()) for name in ("ca", "certificate") if name in said}
    return NfsTls(insecure="insecure" in said, **files)


def _timeout_ns(said: dict[str, int]) -> int | None:
    if not said.keys() & {"timeo", "retrans"}:
        return None
    return said.get("timeo", TIMEO_DEFAULT) * (1 + said.get("retrans", 0)) * DECISECOND_NS


def _parameters(text: str, query: Sequence[tuple[str, str]]) -> dict[str, int]:
    said = {}
    for name, value in query:
        if name in {"vers", "version"}:
            if value not in VERSIONS:
                raise ValueError(f"'{text}': {name} must be 3 or 4.1, not '{value}'")
            said["vers"] = VERSIONS[value]
            continue
        if name not in NUMBERS:
            close = nearest(name, ["vers", *NUMBERS, *TLS])
            hint = f"did you mean {close}?" if close else f"there are vers=3, vers=4.1, {', '.join((*NUMBERS, *TLS))}"
            raise ValueError(f"'{text}': '{name}={value}' is not supported; {hint}")
        low, high = NUMBERS[name]
        if not (value.isascii() and value.isdigit() and len(value) < 11 and low <= int(value) <= high):
            raise ValueError(f"'{text}': {name} must be from {low} to {high}, not '{value}'")
        said[name] = int(value)
    if "slots" in said and said.get("vers") != 4:
        raise ValueError(f"'{text}': slots are those of an NFSv4.1 session; add vers=4.1 or leave slots out")
    return said
