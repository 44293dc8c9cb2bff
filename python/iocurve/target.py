"""What is to be measured, as people name it: a directory, a file, a device, or ``nfs://host[:port]/export?nconnect=8``."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from iocurve.errors import TargetError
from iocurve.plan import Durability, NfsMount
from iocurve.units import SECOND_NS

NFS_PORT = 2049
NCONNECT_MAX = 16
DEFAULT_TIMEOUT_NS = 60 * SECOND_NS
"""How long a server may be silent before a run gives up."""


@dataclass(frozen=True)
class NfsUrl:
    """``nfs://host[:port]/export[?nfsport=N&mountport=N&nconnect=N&version=3]``.

    The words behind the question mark are libnfs's, with ``nconnect`` as the kernel's mount option has it.
    A port in the address is that of NFS and MOUNT both, as the embedded volume serves them; without any port the
    server's portmapper is asked.
    """

    host: str
    export: str
    port: int | None = None
    mount_port: int | None = None
    nconnect: int = 1
    version: int = 3

    @classmethod
    def parse(cls, text: str) -> NfsUrl:
        """Reads a URL. Raises ``TargetError``."""
        try:
            parts = urlsplit(text)
            port = parts.port
        except ValueError as error:
            raise TargetError(f"{text}: not a URL ({error}); write nfs://host[:port]/export") from None
        if parts.scheme != "nfs" or not parts.hostname:
            raise TargetError(f"{text}: not an NFS URL; write nfs://host[:port]/export")
        words = _words(text, parts.query)
        nfs_port = words.pop("nfsport", port)
        url = cls(
            host=parts.hostname,
            export=unquote(parts.path).rstrip("/") or "/",
            port=nfs_port,
            mount_port=words.pop("mountport", nfs_port),
            nconnect=words.pop("nconnect", 1),
            version=words.pop("version", 3),
        )
        if not 1 <= url.nconnect <= NCONNECT_MAX:
            raise TargetError(f"{text}: nconnect={url.nconnect} is not between 1 and {NCONNECT_MAX}")
        if url.version != 3:
            raise TargetError(f"{text}: version={url.version} is not spoken yet; NFSv3 (version=3) is")
        return url

    def mount(
        self,
        *,
        nconnect: int | None = None,
        durability: Durability = "none",
        timeout_ns: int = DEFAULT_TIMEOUT_NS,
        keep_payload: bool = False,
    ) -> NfsMount:
        """The mount of a plan, as the user that runs iocurve."""
        return NfsMount(
            host=self.host,
            port=self.port,
            mount_port=self.mount_port,
            export=self.export,
            version=3,
            nconnect=nconnect or self.nconnect,
            uid=os.getuid(),
            gid=os.getgid(),
            durability=durability,
            timeout_ns=timeout_ns,
            keep_payload=keep_payload,
        )

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = f":{self.port}" if self.port else ""
        words = [f"mountport={self.mount_port}"] if self.mount_port != self.port else []
        words += [f"nconnect={self.nconnect}"] if self.nconnect != 1 else []
        query = f"?{'&'.join(words)}" if words else ""
        return f"nfs://{host}{port}{self.export}{query}"


_IGNORED_WORDS = ("timeo", "retrans", "readahead", "auto-traverse-mounts", "dircache", "uid", "gid", "debug")
"""Words of libnfs that change nothing in what is measured here."""


def _words(url: str, query: str) -> dict[str, int]:
    known = ("nfsport", "mountport", "nconnect", "version")
    words = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name in _IGNORED_WORDS:
            continue
        if name not in known:
            raise TargetError(f"{url}: {name} is not known; known are {', '.join(known)}")
        if not value.isdigit() or int(value) > 65535:
            raise TargetError(f"{url}: {name}={value} is not a number from 0 to 65535")
        words[name] = int(value)
    return words


@dataclass(frozen=True)
class LocalTarget:
    """A directory, a file or a device of this machine."""

    path: Path
    kind: str
    """``directory``, ``file`` (there or not yet) or ``device``."""
    bytes: int
    """Size of a file that is there or of a device; else 0."""

    @classmethod
    def of(cls, text: str) -> LocalTarget:
        """Looks at a path. Raises ``TargetError``."""
        path = Path(text)
        try:
            status = path.stat()
        except FileNotFoundError:
            if not path.parent.is_dir():
                raise TargetError(f"{text}: there is no directory {path.parent}; create it or check the path") from None
            return cls(path, "file", 0)
        except OSError as error:
            raise TargetError(f"{text}: {error.strerror}") from None
        if stat.S_ISDIR(status.st_mode):
            return cls(path, "directory", 0)
        if stat.S_ISBLK(status.st_mode):
            return cls(path, "device", _device_bytes(path))
        if stat.S_ISREG(status.st_mode):
            return cls(path, "file", status.st_size)
        raise TargetError(f"{text}: neither a file nor a directory nor a block device")


def _device_bytes(path: Path) -> int:
    try:
        with path.open("rb") as device:
            return device.seek(0, os.SEEK_END)
    except OSError as error:
        raise TargetError(f"{path}: {error.strerror}; run as a user who may read the device") from None


def parse(text: str) -> NfsUrl | LocalTarget:
    """What a person means by a target. Raises ``TargetError``."""
    if text.startswith("nfs://"):
        return NfsUrl.parse(text)
    if "://" in text:
        raise TargetError(f"{text}: only nfs:// URLs, directories, files and block devices can be measured")
    return LocalTarget.of(text)
