"""Reads the TOML files bundled with the package: scenarios, service levels, disks, published figures."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def names(folder: Path) -> list[str]:
    """The names of the TOML files in a folder, without suffix."""
    return sorted(path.stem for path in folder.glob("*.toml"))


def read(folder: Path, name: str, parse_float: Any = float) -> dict[str, Any]:
    """Parses one TOML file of a folder."""
    # Imported here because few commands need a TOML parser.
    import tomllib

    return tomllib.loads((folder / f"{name}.toml").read_text(encoding="utf-8"), parse_float=parse_float)
