"""The rules of an export, as exports(5) has them: which clients may use it, and as whom."""

from __future__ import annotations

import os
from ipaddress import ip_address, ip_network
from typing import Literal

from iocurve.foundation.structs import Struct

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
