"""The environment of a result: the machine, and the versions of the compared programs."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from typing import Any

from bench.servers import IOCURVE
from iocurve.result import host


def machine_facts() -> dict[str, Any]:
    """Processor, memory, kernel, and settings that change loopback figures; without the machine's name."""
    return {name: value for name, value in host.collect().to_builtins().items() if name != "hostname"}


def versions(fio_nfs: str | None) -> dict[str, str]:
    """Versions of the installed programs."""
    asked = {
        "iocurve": [str(IOCURVE), "--version"],
        "fio": ["fio", "--version"],
        "fio_nfs": [fio_nfs or "", "--version"],
        "nfs_ganesha": ["ganesha.nfsd", "-v"],
    }
    return {name: _first_line(command) for name, command in asked.items() if shutil.which(command[0])}


def _first_line(command: Sequence[str]) -> str:
    said = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return (said.stdout or said.stderr).strip().partition("\n")[0]
