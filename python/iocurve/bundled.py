"""TOML files that come with the package: scenarios, service levels, disks, published figures."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def names(folder: Path) -> list[str]:
    """Files of a folder, without their ending."""
    return sorted(path.stem for path in folder.glob("*.toml"))


def read(folder: Path, name: str, parse_float: Any = float) -> dict[str, Any]:
    """A file of a folder."""
    # A parser of TOML is for commands that need one of these files.
    import tomllib

    return tomllib.loads((folder / f"{name}.toml").read_text(encoding="utf-8"), parse_float=parse_float)
