"""All dialects by name. A dialect is imported when it is used, which keeps the start-up short."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from iocurve.dialects.base import Dialect


class Entry(NamedTuple):
    """A dialect that is not imported yet; a tuple, which loads nothing."""

    module: str
    """Module that defines ``DIALECT``."""
    runs: str
    """Arguments that the command takes, for the list of commands: ``fio job files and fio command lines``."""
    information: str | None = None
    """Module whose ``information`` answers ``--help`` and ``--version`` without loading the dialect."""
    converts: bool = True
    """True if job files can express what its command lines run."""
    refusal: int = 2
    """Exit status of a command line with which nothing was run; fio's own, where scripts of fio read it."""


REGISTRY = {
    "fio": Entry(
        "iocurve.dialects.fio.command",
        "fio job files and fio command lines",
        "iocurve.dialects.fio.information",
        refusal=1,
    ),
    "vdbench": Entry("iocurve.dialects.vdbench.command", "vdbench parameter files and vdbench command lines"),
    "mdtest": Entry("iocurve.dialects.mdtest.command", "mdtest command lines", converts=False),
    "elbencho": Entry("iocurve.dialects.elbencho.command", "elbencho command lines", converts=False),
    "diskspd": Entry("iocurve.dialects.diskspd.command", "DiskSpd command lines and XML profiles"),
}
"""The dialects of other tools. To add one, add a directory and a line here."""

SHARED_FLAGS = ("--tls", "--allow-missing", "--live", "--no-live")
SHARED_SYNONYMS = {"--hostsfile": "--hosts"}
"""elbencho's option: --hosts takes the name of a file, too."""
SHARED_OPTIONS = (
    "--fail-if",
    "--junit",
    "--markdown",
    "--metrics",
    "--serve",
    "--hosts",
    "--ssh",
    "--remote-dir",
    "--on-loss",
    "--profile",
    "--quota",
    *SHARED_FLAGS,
)
"""Options of iocurve that every dialect takes, anywhere on its command line; flags take no value."""


SHARED_HELP = (
    ("--out", "DIR", "write result.json, report.html and points.csv to DIR"),
    ("--fail-if", "EXPR", "exit with status 4 if it holds ('p99 > 2ms'), 5 if that is inconclusive;"),
    ("", "", "--junit{0}FILE and --markdown{0}FILE write the checks: docs/howto-pipeline.md"),
    ("--metrics", "PORT", "serve OpenMetrics while it runs; HOST:PORT serves other machines"),
    ("--serve", "PORT", "serve a page of the run at http://127.0.0.1:PORT; 0 takes a free port;"),
    ("", "", "--live fills the terminal with charts, the default above 10 s; --no-live does not"),
    ("--profile", "NAME", "predict the run on stderr before it starts; --quota{0}SIZE: docs/predict.md"),
    ("--hosts", "LIST", "run on these hosts, over ssh: vm1,vm2 or vm[1-12] or a file;"),
    ("", "", "--ssh{0}PROGRAM, --tls and --allow-missing: docs/howto-many-machines.md"),
)
"""Options of iocurve that every dialect has: name, value, description."""


def help_text(dialect: str, column: int, mark: str = " ") -> str:
    """The help of a dialect, the file ``help.txt`` of its directory, with the options of all dialects in ``{shared}``.

    Their descriptions start in ``column``, ``mark`` is before a value.
    """
    lines = ((f"  {name}{mark if name else ''}{value}", text.format(mark)) for name, value, text in SHARED_HELP)
    shared = "\n".join(f"{option:<{column}}{text}" for option, text in lines)
    directory = __file__.rpartition("/")[0]
    with open(f"{directory}/{dialect}/help.txt", encoding="utf-8") as file:  # noqa: PTH123 - pathlib takes long to load
        return file.read().replace("{shared}", shared)


def quick_information(words: Sequence[str]) -> str | None:
    """The answer of a dialect to a single word that asks for help or a version, if it needs no more than that."""
    name, *arguments = words
    module = REGISTRY[name].information if name in REGISTRY else None
    if module is None or len(arguments) != 1 or arguments[0] not in ("--help", "-h", "--version"):
        return None
    answer: str | None = import_module(module).information(arguments)
    return answer


def refusal_status(words: Sequence[str]) -> int:
    """The exit status of a command line with which nothing was run."""
    return REGISTRY[words[0]].refusal if words and words[0] in REGISTRY else Entry._field_defaults["refusal"]


def load(name: str) -> Dialect:
    """Imports the dialect ``name``. Raises ``KeyError``."""
    dialect: Dialect = import_module(REGISTRY[name].module).DIALECT
    return dialect


def as_printed(words: Sequence[str]) -> list[str]:
    """The words of a printed command line, without ``iocurve`` or ``sudo``, the program's path and ``.exe``."""
    kept = [*words][1 if words[:1] and words[0] in ("iocurve", "sudo") else 0 :]
    return [*(word.rpartition("/")[2].lower().removesuffix(".exe") for word in kept[:1]), *kept[1:]]
