"""``--map-target FROM=TO``, iocurve's own option: runs command lines with Windows paths on Linux."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase

from iocurve.errors import Where

EXAMPLE = r"--map-target 'H:\*=/data'"


@dataclass(frozen=True)
class TargetMapping:
    """Replaces the path ``origin``, a directory above a path, or every path that the pattern ``origin`` matches."""

    origin: str
    goal: str
    where: Where

    @classmethod
    def of(cls, text: str, where: Where) -> TargetMapping:
        """Reads ``FROM=TO``. Raises ``ValueError``."""
        origin, _, goal = text.partition("=")
        if not origin or not goal:
            raise ValueError(f"--map-target takes FROM=TO, such as {EXAMPLE}")
        return cls(origin, goal, where)

    def mapped(self, path: str) -> str | None:
        """The path on Linux; None if the mapping does not match. As on Windows, case does not matter."""
        origin, name = _comparable(self.origin), _comparable(path)
        prefix = origin.rstrip("*")
        if not re.search(r"[*?]", prefix) and (origin.endswith("*") or name.startswith(prefix.rstrip("/") + "/")):
            return self._below(path[len(prefix) :]) if name.startswith(prefix) and name != prefix else None
        if name == origin or (re.search(r"[*?]", origin) and fnmatchcase(name, origin.replace("[", "[[]"))):
            return self.goal
        return None

    def _below(self, rest: str) -> str:
        return "/".join((self.goal.rstrip("/"), rest.replace("\\", "/").lstrip("/")))


def mapped(path: str, mappings: list[TargetMapping], used: set[TargetMapping]) -> str:
    """The path by the first mapping that matches it, which is added to ``used``; else the path itself."""
    for mapping in mappings:
        goal = mapping.mapped(path)
        if goal is not None:
            used.add(mapping)
            return goal
    return path


def _comparable(path: str) -> str:
    return path.replace("\\", "/").lower()
