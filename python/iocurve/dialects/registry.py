"""All dialects by name. A dialect is imported when it is used, which keeps the start-up short."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from iocurve.dialects.base import Dialect


class Entry(msgspec.Struct, frozen=True):
    """A dialect that is not imported yet."""

    module: str
    """Module that defines ``DIALECT``."""
    runs: str
    """Arguments that the command takes, for the list of commands: ``fio job files and fio command lines``."""
    converts: bool = True
    """True if job files can express what its command lines run."""


REGISTRY = {
    "fio": Entry("iocurve.dialects.fio.command", "fio job files and fio command lines"),
    "vdbench": Entry("iocurve.dialects.vdbench.command", "vdbench parameter files and vdbench command lines"),
    "mdtest": Entry("iocurve.dialects.mdtest.command", "mdtest command lines", converts=False),
    "elbencho": Entry("iocurve.dialects.elbencho.command", "elbencho command lines", converts=False),
    "diskspd": Entry("iocurve.dialects.diskspd.command", "DiskSpd command lines and XML profiles"),
}
"""The dialects of other tools. To add one, add a directory and a line here."""

SHARED_FLAGS = ("--tls", "--allow-missing")
SHARED_SYNONYMS = {"--hostsfile": "--hosts"}
"""elbencho's option: --hosts takes the name of a file, too."""
SHARED_OPTIONS = (
    "--fail-if",
    "--junit",
    "--markdown",
    "--metrics",
    "--hosts",
    "--ssh",
    "--remote-dir",
    "--on-loss",
    *SHARED_FLAGS,
)
"""Options of iocurve that every dialect takes, anywhere on its command line; flags take no value."""


def load(name: str) -> Dialect:
    """Imports the dialect ``name``. Raises ``KeyError``."""
    dialect: Dialect = import_module(REGISTRY[name].module).DIALECT
    return dialect
