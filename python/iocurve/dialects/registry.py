"""All dialects by name. One is loaded when it is used: each costs its share of the start-up."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from iocurve.dialects.base import Dialect


@dataclass(frozen=True)
class Entry:
    """A dialect that is not loaded yet."""

    module: str
    """Has a ``DIALECT``."""
    runs: str
    """For lists of commands: ``fio job files and fio command lines``."""


REGISTRY = {
    "fio": Entry("iocurve.dialects.fio.command", "fio job files and fio command lines"),
    "vdbench": Entry("iocurve.dialects.vdbench.command", "vdbench parameter files and vdbench command lines"),
    "diskspd": Entry("iocurve.dialects.diskspd.command", "DiskSpd command lines and XML profiles"),
}
"""Other tools' dialects; a new one is a folder and a line here."""


def load(name: str) -> Dialect:
    """The dialect of another tool. Raises ``KeyError``."""
    dialect: Dialect = import_module(REGISTRY[name].module).DIALECT
    return dialect
