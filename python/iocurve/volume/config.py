"""The configuration of a volume, as the native module takes it.

The rules of an export are those of exports(5): which clients may use it, and as whom. Faults are injected on purpose:
``--fault flip-bit=1e-6,torn-write``.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import secrets
import socket
import tempfile
from collections.abc import Iterable
from difflib import get_close_matches
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Literal

from msgspec import field

from iocurve.foundation.structs import Struct, TaggedStruct
from iocurve.machine.files import state_directory
from iocurve.machine.processes import addresses_towards
from iocurve.volume.limits import Limits

FAULT_KINDS = {
    "flip-bit": "of bits read",
    "torn-write": "of WRITEs",
    "lost-write": "of WRITEs",
    "stale-read": "of READs",
    "misdirected-write": "of WRITEs",
    "eio": "of READs and WRITEs",
    "enospc": "of WRITEs",
    "lost-create": "of new files",
    "misdirected-rename": "of RENAMEs",
    "stale-attributes": "of GETATTRs",
}
"""Every kind of fault, and what its rate is a part of."""


class FaultRate(Struct):
    """The rate at which a kind of fault is injected."""

    kind: str
    rate: float
    """Probability, above 0 and at most 1: for each operation, for ``flip-bit`` for each bit that is read."""


class Faults(Struct):
    """The faults that all stores of a volume inject."""

    rates: tuple[FaultRate, ...]
    seed: int = 0
    """The same operations on the same files in the same order are hit again with the same seed."""
    log: str | None = None
    """A new file that gets a line of JSON for each injected fault."""

    def announcement(self) -> str:
        """The line that announces the faults."""
        rates = ", ".join(f"{one.kind} {one.rate:g} {FAULT_KINDS[one.kind]}" for one in self.rates)
        return f"faults: {rates}; seed {self.seed}" + (f"; log: {self.log}" if self.log else "")


def parse_faults(texts: Iterable[str]) -> tuple[FaultRate, ...]:
    """Reads ``flip-bit=1e-6,torn-write`` and several of these. Raises ``ValueError``."""
    words = [word.strip() for text in texts for word in text.split(",")]
    rates = tuple(map(_parse_fault, filter(None, words)))
    kinds = [rate.kind for rate in rates]
    if twice := [kind for kind in FAULT_KINDS if kinds.count(kind) > 1]:
        raise ValueError(f"{twice[0]} is there twice")
    return rates


def _parse_fault(word: str) -> FaultRate:
    kind, equals, text = word.partition("=")
    if kind not in FAULT_KINDS:
        close = get_close_matches(kind, FAULT_KINDS, n=1, cutoff=0.6)
        hint = f"did you mean {close[0]}?" if close else f"choose from {', '.join(FAULT_KINDS)}"
        raise ValueError(f"there is no fault '{kind}'; {hint}")
    try:
        rate = float(text) if equals else _default_rate(kind)
    except ValueError:
        rate = 0
    if not 0 < rate <= 1:
        raise ValueError(
            f"{word}: the rate is a probability above 0 and at most 1, as in {kind}={_default_rate(kind):g}"
        )
    return FaultRate(kind=kind, rate=rate)


def _default_rate(kind: str) -> float:
    return 1e-6 if kind == "flip-bit" else 1e-3


NOBODY = 65534
"""The user and group that NFS servers traditionally squash to."""

Squash = Literal["root", "all", "none"]


class ClientRule(Struct):
    """Clients that may use an export."""

    network: str
    """An address or a network: ``10.1.0.0/16``."""
    read_only: bool = False

    def __str__(self) -> str:
        return f"{self.network} (read-only)" if self.read_only else self.network


class ExportRules(Struct):
    """The rules of an export, as the native module takes them. It checks them for every call."""

    clients: tuple[ClientRule, ...] = ()
    """The longest prefix counts. Empty: every client that can connect."""
    read_only: bool = False
    secure_ports: bool = False
    """Clients must call from a port below 1024."""
    squash: Squash = "root"
    """The users whose calls are executed as the anonymous user's."""
    anonuid: int = NOBODY
    anongid: int = NOBODY
    suid: bool = False
    """Files may be given set-user-ID and set-group-ID; otherwise the bits are ignored."""
    dev: bool = False
    """Root may make devices; otherwise MKNOD refuses them."""

    def who_may(self) -> str:
        """The clients and users in words, for the line that announces an export."""
        clients = ", ".join(map(str, self.clients)) or "any client that can connect"
        whole = ", read-only" if self.read_only else ""
        ports = ", from ports below 1024" if self.secure_ports else ""
        anonymous = f"{self.anonuid}:{self.anongid}"
        users = {
            "root": f"root becomes {anonymous}",
            "all": f"everybody becomes {anonymous}",
            "none": "root is root (no squash)",
        }
        return f"{clients}{whole}{ports}; {users[self.squash]}"


def parse_client(text: str) -> ClientRule:
    """Reads ``10.1.0.0/16``, ``10.1.2.3:ro`` or ``fd00::/8:ro``. Raises ``ValueError``."""
    network, read_only = text.removesuffix(":ro"), text.endswith(":ro")
    try:
        # Bits behind the prefix are ignored, as routers do.
        return ClientRule(network=str(ip_network(network, strict=False)), read_only=read_only)
    except ValueError:
        examples = "10.1.2.3, 10.1.0.0/16:ro or fd00::/8"
        raise ValueError(f"'{text}' is not an address or a network such as {examples}") from None


def anonymous_user() -> tuple[int, int]:
    """The user and group that are squashed to by default.

    A server without root's rights owns every file that it makes: its own user is the only one that has them all.
    """
    return (NOBODY, NOBODY) if os.geteuid() == 0 else (os.geteuid(), os.getegid())


def is_loopback(address: str) -> bool:
    """True if only this machine can connect to an address."""
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return False


def reachable_host(address: str) -> str:
    """The host of URLs and mount commands of a volume that listens on an address; IPv6 addresses are in brackets.

    A volume that listens on all addresses is reached at the one that packets to other machines leave from; without a
    route to any, at this machine's name.
    """
    found = ip_address(address)
    if found.is_unspecified:
        outside = OUTSIDE if found.version == 6 else OUTSIDE[1:]
        routes = list(filter(None, map(addresses_towards, outside)))
        if not routes:
            return socket.gethostname()
        found = ip_address(routes[0][0].partition("%")[0])
    return f"[{found}]" if found.version == 6 else str(found)


OUTSIDE = ("2001:db8::1", "192.0.2.1")
"""Addresses of documentation (RFC 3849, RFC 5737), which are on no local network."""


def certificate_names(address: str) -> set[str]:
    """The names that clients may use for a volume that listens on an address, as a certificate has them."""
    hosts = {"127.0.0.1", "::1", "localhost", socket.gethostname(), reachable_host(address).strip("[]")}
    return {f"IP:{host}" if _is_address(host) else f"DNS:{host}" for host in hosts}


def _is_address(host: str) -> bool:
    try:
        return bool(ip_address(host))
    except ValueError:
        return False


CONNECTIONS_MAX = 8192
CONNECTION_MEMORY_BYTES = 128 << 20


class MemoryStore(TaggedStruct, tag="memory"):
    """Keeps the data in memory, for as long as the volume serves."""

    limit_bytes: int


class DirectoryStore(TaggedStruct, tag="directory", omit_defaults=True):
    """Keeps the data in the files of a directory."""

    path: str
    is_async: bool = False
    """Changes of names and attributes are answered before they are on stable storage."""


class ExportConfig(Struct):
    """A directory tree that clients mount."""

    path: str = "/vol"
    store: MemoryStore | DirectoryStore
    quota_bytes: int
    limits: Limits = Limits()
    rules: ExportRules = ExportRules()


class TlsFiles(Struct):
    """PEM files of a server's TLS."""

    certificate: str
    key: str
    """May be the file of the certificate."""
    clients: str | None = None
    """Authorities of the certificates that clients must have; None: clients need none."""


class VolumeConfig(Struct):
    """The exports of a volume, and the address it listens on."""

    address: str = "127.0.0.1"
    port: int = 0
    """TCP port of NFS and MOUNT; 0 takes a free port."""
    exports: tuple[ExportConfig, ...]
    connections_max: int = CONNECTIONS_MAX
    """Further connections are closed at once."""
    connection_memory_bytes: int = CONNECTION_MEMORY_BYTES
    """For records in part, replies not taken and calls that wait, over all connections."""
    handle_key: str = field(default_factory=lambda: secrets.token_hex(16))
    """32 hexadecimal digits. With the same key, handles of directories outlive a restart."""
    faults: Faults | None = None
    """Faults that all stores inject."""
    tls: TlsFiles | None = None
    """Keys of TLS, which every connection must use."""


# ---- the key and the certificate of TLS


def tls_files(names: Iterable[str]) -> TlsFiles:
    """This user's key and certificate for names such as ``IP:10.0.0.1``, made at first use.

    Clients that trust the certificate do so over restarts. Raises ``RunError``.
    """
    # Jobs load this module, and none of them serves anything.
    from iocurve.foundation.serving import make_certificate

    found = sorted(names)
    directory = state_directory() / "volume-tls" / hashlib.sha256(",".join(found).encode()).hexdigest()[:16]
    if not directory.exists():
        directory.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(dir=directory.parent))
        # One that signs for others is refused as the certificate of a server.
        make_certificate(draft / "key.pem", draft / "certificate.pem", found, "basicConstraints=critical,CA:FALSE")
        # A volume that starts at once may have made them meanwhile.
        with contextlib.suppress(OSError):
            draft.rename(directory)
    return TlsFiles(certificate=str(directory / "certificate.pem"), key=str(directory / "key.pem"))


# ---- the key that proves file handles of directories

KEY_DIGITS = 32


def handle_key() -> str:
    """This user's key, made at first use, so that clients stay mounted over a restart of the volume.

    Where it cannot be kept it is another one at each start: then clients of directories must mount again.
    """
    path = state_directory() / "handle-key"
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _make_key(path)
        key = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return secrets.token_hex(KEY_DIGITS // 2)
    return key if re.fullmatch(rf"[0-9a-f]{{{KEY_DIGITS}}}", key) else secrets.token_hex(KEY_DIGITS // 2)


def _make_key(path: Path) -> None:
    """Makes the key in one step, so that two volumes that start at once have the same one."""
    if path.exists():
        return
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
            file.write(secrets.token_hex(KEY_DIGITS // 2) + "\n")
        os.link(draft, path)
    except FileExistsError:
        pass
    finally:
        draft.unlink(missing_ok=True)
