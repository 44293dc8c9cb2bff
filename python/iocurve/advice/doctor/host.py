"""The files of a machine that doctor reads: a live machine, a directory with its files, or a saved bundle.

On Azure its instance metadata service describes the virtual machine:
https://learn.microsoft.com/azure/virtual-machines/instance-metadata-service
"""

from __future__ import annotations

import itertools
import json
import urllib.error
import urllib.request
from functools import partial
from http.client import HTTPException
from pathlib import Path
from typing import Literal

import msgspec

from iocurve.foundation.errors import ResultError
from iocurve.foundation.structs import Struct, refusal
from iocurve.machine.processes import ALL, STAT, ticks

FORMAT: Literal["iocurve-host-1"] = "iocurve-host-1"
READ_BYTES = 64 << 10
TEXT_BYTES_MAX = 4 << 20
"""Longer files are cut: no file that doctor reads is as long."""


class Bundle(Struct):
    """The files of a machine as doctor read them, with names and addresses replaced."""

    format: Literal["iocurve-host-1"] = FORMAT
    about: str = ""
    """The origin of the files, for people."""
    subject: str | None = None
    """The mount or device that doctor examined."""
    texts: dict[str, str]
    """Contents by path, without the leading slash."""
    directories: dict[str, tuple[str, ...]]
    """Names in each directory that was listed."""
    instance: Instance | None = None
    """The virtual machine, where its cloud told."""

    def pretty(self) -> bytes:
        """JSON with a line for each file, for people and for comparisons."""
        return msgspec.json.format(msgspec.json.encode(self), indent=1) + b"\n"

    @classmethod
    def load(cls, path: Path) -> Bundle:
        """Reads a bundle. Raises ``ResultError``."""
        try:
            return cls.from_json(path.read_bytes())
        except OSError as error:
            raise ResultError(f"{path}: {error.strerror}") from None
        except ValueError as error:
            raise ResultError(f"{path} is not a bundle (iocurve doctor --bundle FILE): {refusal(error)}") from None


class HostFiles(msgspec.Struct):
    """Reads files below a root, and keeps what it read. Paths have no leading slash.

    Without a root only what is kept exists.
    """

    root: Path | None = Path("/")
    texts: dict[str, str] = msgspec.field(default_factory=dict)
    directories: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    instance: Instance | None = None

    @classmethod
    def of_bundle(cls, bundle: Bundle) -> HostFiles:
        """The machine of a bundle."""
        return cls(None, dict(bundle.texts), dict(bundle.directories), bundle.instance)

    @property
    def is_live(self) -> bool:
        """True for the machine that this process runs on."""
        return self.root == Path("/")

    def text(self, path: str) -> str:
        """The content of a file; empty if it is not there or cannot be read."""
        if path not in self.texts and self.root is not None:
            try:
                # Linux refuses to read 4 MiB or more of /proc/sys at once (ENOMEM, proc_sys_call_handler).
                with (self.root / path).open("rb", buffering=0) as file:
                    parts = itertools.islice(iter(partial(file.read, READ_BYTES), b""), TEXT_BYTES_MAX // READ_BYTES)
                    self.texts[path] = b"".join(filter(None, parts)).decode("utf-8", errors="replace")
            except OSError:
                return ""
        return self.texts.get(path, "")

    def word(self, path: str) -> str:
        """The content of a file of one line, stripped."""
        return self.text(path).strip()

    def number(self, path: str) -> int | None:
        """The number that a file holds; None if it is not there or holds none."""
        word = self.word(path)
        return int(word) if word.lstrip("-").isdigit() and word.isascii() else None

    def names(self, directory: str) -> tuple[str, ...]:
        """The names in a directory, sorted; none if it is not there."""
        if directory not in self.directories and self.root is not None:
            try:
                self.directories[directory] = tuple(sorted(path.name for path in (self.root / directory).iterdir()))
            except OSError:
                return ()
        return self.directories.get(directory, ())

    @property
    def kernel(self) -> tuple[int, int]:
        """Version of the kernel; (0, 0) if it is not known."""
        parts = self.word("proc/sys/kernel/osrelease").split(".")[:2]
        numbers = [int(digits) for part in parts if (digits := part[: _digits(part)])]
        return (numbers[0], numbers[1]) if len(numbers) == 2 else (0, 0)

    @property
    def cpus(self) -> int:
        """Number of processors; 0 if it is not known."""
        return sum(name != ALL for name in ticks(self.text(STAT)))


def _digits(text: str) -> int:
    return next((place for place, letter in enumerate(text) if not letter.isdigit()), len(text))


URL = "http://169.254.169.254/metadata/instance/compute?api-version=2021-02-01"
TIMEOUT_S = 1.0
"""The service is on the same host: it replies within milliseconds, or there is none."""


class DataDisk(Struct):
    """A data disk of a virtual machine."""

    lun: int
    caching: str
    """None, ReadOnly or ReadWrite."""
    size_gib: int


class Instance(Struct):
    """The size and the disks of a virtual machine; no name, no subscription."""

    vm_size: str
    location: str = ""
    os_disk_caching: str = ""
    data_disks: tuple[DataDisk, ...] = ()


def parse_instance(text: str | bytes) -> Instance | None:
    """Reads the service's reply; None if it is not one."""
    try:
        said = json.loads(text)
        storage = said.get("storageProfile") or {}
        return Instance(
            vm_size=str(said["vmSize"]),
            location=str(said.get("location", "")),
            os_disk_caching=str((storage.get("osDisk") or {}).get("caching", "")),
            data_disks=tuple(
                DataDisk(lun=int(one["lun"]), caching=str(one["caching"]), size_gib=int(one["diskSizeGB"] or 0))
                for one in storage.get("dataDisks", ())
            ),
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def azure_instance(url: str = URL, timeout_s: float = TIMEOUT_S) -> Instance | None:
    """Asks the metadata service; None if there is none. Takes at most about ``timeout_s``."""
    request = urllib.request.Request(url, headers={"Metadata": "true"})
    # The service must be asked directly: a proxy would reply for its own machine.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=timeout_s) as reply:
            return parse_instance(reply.read(1 << 20))
    except (OSError, HTTPException):
        return None
