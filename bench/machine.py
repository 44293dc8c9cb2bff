"""The environment of a result: the machine, and the versions of the compared programs."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
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


def environment(fio_nfs: str | None = None) -> dict[str, Any]:
    """The first entries of a result: date, machine and versions."""
    date = datetime.now(UTC).isoformat(timespec="seconds")
    return {"date": date, "machine": machine_facts(), "versions": versions(fio_nfs)}


def save(document: dict[str, Any], directory: Path, prefix: str = "") -> Path:
    """Writes a result to a file that is named after the time, and returns its path."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{prefix}{datetime.now(UTC):%Y-%m-%dT%H%M%SZ}.json"
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
    return path


def _first_line(command: Sequence[str]) -> str:
    said = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return (said.stdout or said.stderr).strip().partition("\n")[0]
