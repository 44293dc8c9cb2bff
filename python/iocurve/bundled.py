"""Reads the TOML files bundled with the package: scenarios, service levels, disks, published figures."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def names(directory: Path) -> list[str]:
    """The names of the TOML files in a directory, without suffix."""
    return sorted(path.stem for path in directory.glob("*.toml"))


def read(directory: Path, name: str, parse_float: Any = float) -> dict[str, Any]:
    """Parses one TOML file of a directory."""
    # Imported here because few commands need a TOML parser.
    import tomllib

    return tomllib.loads((directory / f"{name}.toml").read_text(encoding="utf-8"), parse_float=parse_float)
