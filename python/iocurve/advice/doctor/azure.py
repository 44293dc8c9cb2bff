"""The virtual machine as Azure's instance metadata service describes it.

https://learn.microsoft.com/azure/virtual-machines/instance-metadata-service
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from http.client import HTTPException

from iocurve.foundation.structs import Struct

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


def parse(text: str | bytes) -> Instance | None:
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


def ask(url: str = URL, timeout_s: float = TIMEOUT_S) -> Instance | None:
    """Asks the metadata service; None if there is none. Takes at most about ``timeout_s``."""
    request = urllib.request.Request(url, headers={"Metadata": "true"})
    # The service must be asked directly: a proxy would reply for its own machine.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=timeout_s) as reply:
            return parse(reply.read(1 << 20))
    except (OSError, HTTPException):
        return None
