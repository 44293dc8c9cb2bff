"""What a fio command line may ask instead of running: the version, the engines, and what an option does here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from iocurve.dialects.fio.output.figures import FIO_VERSION
from iocurve.dialects.fio.read.draft import Option
from iocurve.dialects.fio.read.effects import ENGINES
from iocurve.dialects.fio.read.options import BY_NAME, OPTIONS
from iocurve.dialects.fio.read.parse import closest, commands
from iocurve.dialects.fio.read.values import either
from iocurve.errors import DialectError, Mistake

HELP = """\
Usage: iocurve fio [fio's options] [job files]

Runs fio's job files and command lines as they are; fio's manual describes the options. On top of them there are
  --nconnect=N        connections of each job to its NFS server (ioengine=nfs)
  --nfs_url=URL       also nfs://host:port/export?nconnect=8, NFS and MOUNT on one port
  --disk=MOUNT=DISK   files below the directory MOUNT lie on an emulated disk, as in
                      --disk '/mnt/data=disk:premium-ssd-p30?stripe=3&vm=Standard_D8ds_v4&path=DIR' (iocurve disk list)
  --nfs_timeout=TIME  give up when the server has not answered for so long (60 s)
  --out=DIR           result.json, report.html and points.csv go there

--output-format=normal,terse,json,json+ answers as fio does; --enghelp[=ENGINE] and --cmdhelp[=OPTION] say what runs.
What a job would do, and which traps are in it: iocurve explain fio ...
"""


def answer(arguments: Sequence[str]) -> str | None:
    """The answer to the first question of a command line; None where it asks none.

    Scripts look in it for a version, an engine or an option, so engines and options stand as in fio, one a line.
    Raises ``DialectError`` where nothing is known by the name that was asked for.
    """
    if tuple(arguments) in (("--help",), ("-h",)):
        return HELP
    asked = next((command for command in commands(arguments) if command.name in _ANSWERS), None)
    if asked is None:
        return None
    try:
        return _ANSWERS[asked.name](asked.value or "")
    except ValueError as error:
        raise DialectError([Mistake(str(error), asked.where)]) from None


def _version(_asked: str) -> str:
    return FIO_VERSION


def _engines(asked: str) -> str:
    if not asked:
        return "\n".join(["Available IO engines:", *(f"\t{name}" for name in ENGINES)])
    name, _, option = asked.partition(",")
    if name not in ENGINES:
        raise ValueError(f"there is no ioengine '{name}' here; these are supported: {either(ENGINES)}")
    own = [known for known in OPTIONS if name in known.engines]
    if option:
        own = [known for known in own if option in (known.name, *known.aliases)]
        if not own:
            raise ValueError(f"ioengine={name} has no option '{option}'")
    return _table(own) or f"IO engine {name} has no options"


def _options(asked: str) -> str:
    if asked in ("", "all"):
        return _table(OPTIONS)
    if asked not in BY_NAME:
        raise ValueError(" ".join(filter(None, (f"there is no option '{asked}'.", closest(asked, BY_NAME)))))
    option = BY_NAME[asked]
    lines = [f"{option.name:>20}: {option.fate}"]
    lines += [f"{'alias':>20}: {', '.join(option.aliases)}"] if option.aliases else []
    lines += [f"{'ioengine':>20}: {', '.join(option.engines)}"] if option.engines else []
    return "\n".join(lines)


def _table(options: Iterable[Option]) -> str:
    return "\n".join(f"{option.name:<24}: {option.fate}" for option in options)


_ANSWERS: dict[str, Callable[[str], str]] = {"version": _version, "enghelp": _engines, "cmdhelp": _options}
