"""LUNs: local files, devices, and files on NFS servers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import urlsplit

from iocurve.dialects.vdbench.read.openflags import Opening
from iocurve.errors import Diagnostic, Where


def target(names: Sequence[str], opened: Opening, where: Where, errors: list[Diagnostic]) -> dict[str, Any]:
    """Fields of a section for its LUNs: engine, paths and open flags."""
    remote = [name for name in names if name.startswith("nfs:")]
    if not remote:
        return {"direct": opened.direct, "durability": opened.durability}
    parts = [_nfs(name) for name in remote]
    urls = {url for url, _ in parts}
    if len(remote) < len(names) or len(urls) > 1:
        errors.append(Diagnostic("only SDs in the same NFS export can be concatenated", where))
    if any(not file for _, file in parts):
        errors.append(Diagnostic(f"{remote[0]} names no file", where, "write nfs://host/export/file"))
    files = tuple(file for _, file in parts)
    return {"engine": "nfs", "nfs_url": urls.pop(), "paths": files, "durability": opened.durability}


def is_device(name: str) -> bool:
    """True if the name is that of a device; vdbench, too, decides by name."""
    return name.startswith(("/dev/", "\\"))


def windows_names(names: Sequence[str], where: Where) -> Iterator[Diagnostic]:
    """Yields an obstacle for each LUN with a Windows name."""
    for name in names:
        if name.startswith("\\\\") or re.match(r"[A-Za-z]:\\", name):
            hint = f"map it to a path on Linux: --map-lun '{name}=/dev/…'"
            yield Diagnostic(f"{name} is a Windows path", where, hint)


def _nfs(name: str) -> tuple[str, str]:
    """Splits the URL of a file into the URL of its directory, which is mounted, and the file name."""
    try:
        parts = urlsplit(name)
    except ValueError:
        return name, ""
    directory, _, file = parts.path.rpartition("/")
    return parts._replace(path=directory or "/").geturl(), file
