"""fio's command line and job files as settings in order: what was written, and where.

Only fio's grammar is interpreted here: sections, globals, comments, includes, ``${VARIABLES}`` and ``$keywords``.
Rules were checked against fio 3.33; where its manual differs, the program is right.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from iocurve.dialects.fio.read.options import BY_NAME
from iocurve.errors import COMMAND_LINE, Mistake, Where, nearest
from iocurve.job.model import PlanNote

COMMANDS = {
    "alloc-size": True, "aux-path": True, "bandwidth-log": None, "client": True, "cmdhelp": None,
    "cpuclock-test": False, "crctest": None, "daemonize": True, "debug": True, "disk": True, "enghelp": None,
    "eta": True, "eta-interval": True, "eta-newline": True, "help": False, "idle-prof": True, "inflate-log": True,
    "latency-log": True, "max-jobs": True, "memcpytest": None, "merge-blktrace-only": False, "minimal": False,
    "out": True, "output": True, "output-format": True, "append-terse": None, "parse-only": False, "profile": True,
    "readonly": False, "remote-config": True, "section": True, "server": None, "showcmd": False,
    "status-interval": True, "terse-version": True, "trigger": True, "trigger-file": True, "trigger-remote": True,
    "trigger-timeout": True, "version": False, "warnings-fatal": False,
}  # fmt: skip
"""Options of the command line that belong to no job; ``disk`` and ``out`` are iocurve's own.

Whether they take a value: yes, no, or (None) after ``=`` only.
"""

_LETTERS = {"h": "help", "v": "version"}

MAX_INCLUDES = 1000
"""Of one job file, directly and indirectly."""
MAX_INCLUDE_DEPTH = 16


@dataclass(frozen=True)
class Setting:
    """One option as it was written."""

    name: str
    value: str | None
    where: Where


@dataclass(frozen=True)
class RawSection:
    """A job with the globals that were in force when it began."""

    name: str
    where: Where
    global_settings: tuple[Setting, ...]
    settings: tuple[Setting, ...]
    begins_file: bool = False
    """First of a job file that follows another: starts when all before it has ended."""
    implicit: bool = False
    """From a command line that names no job."""


@dataclass
class Parsed:
    """What was written, with everything that is wrong in it."""

    sections: list[RawSection] = field(default_factory=list)
    commands: list[Setting] = field(default_factory=list)
    mistakes: list[Mistake] = field(default_factory=list)
    unknown: list[Mistake] = field(default_factory=list)
    """Options of the command line that fio does not know; they may belong to an engine that it loads."""
    notes: list[PlanNote] = field(default_factory=list)
    command_lines: list[str] = field(default_factory=list)
    """For each job file the command line that does the same (--showcmd)."""
    only_globals: Where | None = None
    """The last [global] of a job file, while there is no job."""


@dataclass(frozen=True)
class Surroundings:
    """What a job file may ask of the machine it is read on."""

    directory: Path
    """What relative names start from."""
    environment: Mapping[str, str]
    page_bytes: int
    memory_bytes: int
    cpus: int


def parse(arguments: Iterable[str], surroundings: Surroundings) -> Parsed:
    """Reads a command line and the job files it names. Mistakes are collected, never raised."""
    parsed = Parsed()
    files, global_settings = _parse_command_line(list(arguments), parsed)
    wanted = [command.value for command in parsed.commands if command.name == "section"]
    before = global_settings
    for number, (name, where) in enumerate(files):
        if number and before:
            text = f"fio takes no globals over into '{name}': those before it hold for the first job file alone"
            parsed.notes.append(PlanNote("globals_dropped", text, where, "warning"))
        reader = _FileReader(parsed, surroundings, wanted, [] if number else global_settings)
        before = reader.read(name, where, follows=number > 0)
    if not files and not parsed.sections and global_settings and not _only_reports(parsed.commands):
        first = global_settings[0].where
        parsed.sections.append(RawSection("fio", first, (), tuple(global_settings), implicit=True))
    return parsed


def commands(arguments: Iterable[str]) -> list[Setting]:
    """The options of a command line that belong to no job. No file is opened; mistakes are for ``parse`` to find."""
    parsed = Parsed()
    _parse_command_line(list(arguments), parsed)
    return parsed.commands


def closest(name: str, choices: Iterable[str]) -> str | None:
    """``Did you mean numjobs?``, where something is close."""
    found = nearest(name.lower(), choices)
    return f"Did you mean {found}?" if found else None


_READ_FIRST = frozenset({"kb_base", "unit_base", "cpus_allowed_policy"})
_READ_LAST = frozenset({"filename", "filename_format"})


def in_reading_order(settings: Iterable[Setting]) -> list[Setting]:
    """The order in which fio reads the options of a section of a job file: kb_base changes what all others mean."""
    return sorted(settings, key=lambda setting: (setting.name not in _READ_FIRST, setting.name in _READ_LAST))


# -- command line ------------------------------------------------------------------------------------------------------


def _parse_command_line(arguments: list[str], parsed: Parsed) -> tuple[list[tuple[str, Where]], list[Setting]]:
    """Jobs given on the command line go to ``parsed``; returns the job files and the settings before the first job."""
    global_settings: list[Setting] = []
    files: list[tuple[str, Where]] = []
    current = global_settings
    jobs: list[tuple[Setting, tuple[Setting, ...], list[Setting]]] = []
    for item in _arguments(arguments, parsed):
        if isinstance(item, tuple):
            files.append(item)
        elif item.name in COMMANDS:
            parsed.commands.append(item)
        elif item.name == "name" and (item.value or "").startswith("global"):
            current = global_settings
        elif item.name == "name":
            current = [item]
            jobs.append((item, tuple(global_settings), current))
        else:
            current.append(item)
    wanted = [command.value for command in parsed.commands if command.name == "section"]
    for named, inherited, own in jobs:
        if not wanted or named.value in wanted:
            parsed.sections.append(RawSection(named.value or "", named.where, inherited, tuple(own)))
    return files, global_settings


def _arguments(arguments: list[str], parsed: Parsed) -> Iterator[Setting | tuple[str, Where]]:
    """Options as settings, everything else as names of job files; as getopt_long_only takes them."""
    rest = iter(enumerate(arguments, start=1))
    for number, argument in rest:
        where = Where(COMMAND_LINE, number)
        if argument == "--":
            yield from ((name, Where(COMMAND_LINE, place)) for place, name in rest)
        elif not argument.startswith("-") or argument == "-":
            yield argument, where
        else:
            setting = _option_argument(argument, where, rest, parsed)
            if setting is not None:
                yield setting


def _option_argument(argument: str, where: Where, rest: Iterator[tuple[int, str]], parsed: Parsed) -> Setting | None:
    name, equals, value = argument.removeprefix("-").removeprefix("-").partition("=")
    where = replace(where, option=name)
    name = _in_full(name)
    if name not in COMMANDS and name not in BY_NAME:
        hint = closest(name, [*BY_NAME, *COMMANDS])
        parsed.unknown.append(Mistake(f"unknown option '{argument}'", where, hint))
        return None
    takes_value = COMMANDS[name] if name in COMMANDS else None if BY_NAME[name].bare else True
    if equals:
        if takes_value is False:
            parsed.mistakes.append(Mistake(f"--{name} takes no value", where, f"write --{name}"))
        return Setting(name, value, where)
    if takes_value is not True:
        return Setting(name, None, where)
    following = next(rest, None)
    if following is None or following[1].startswith("--"):
        example = "1" if following is not None else "…"
        parsed.mistakes.append(Mistake(f"--{name} needs a value", where, f"write --{name}={example}"))
        return None
    return Setting(name, following[1], where)


def _in_full(name: str) -> str:
    """On a command line, and there alone, an option may be cut short as long as it stays the only one."""
    if name in COMMANDS or name in BY_NAME or not name:
        return name
    if name in _LETTERS:
        return _LETTERS[name]
    longer = [option for option in (*COMMANDS, *BY_NAME) if option.startswith(name)]
    return longer[0] if len(longer) == 1 else name


def _only_reports(commands: Iterable[Setting]) -> bool:
    return any(command.name in {"help", "server"} for command in commands)


# -- job files ---------------------------------------------------------------------------------------------------------


class _FileReader:
    """Reads one job file into ``parsed``."""

    def __init__(
        self, parsed: Parsed, surroundings: Surroundings, wanted: list[str | None], global_settings: list[Setting]
    ) -> None:
        self._parsed = parsed
        self._surroundings = surroundings
        self._wanted = wanted
        self._globals = global_settings
        self._current: list[Setting] | None = None
        self._skips = False
        self._open: RawSection | None = None
        self._includes = 0

    def read(self, name: str, where: Where, follows: bool) -> list[Setting]:
        """Returns the global settings in force at its end."""
        self._begins_file = follows
        self._shown = ["fio", *map(_as_argument, self._globals)]
        self._to_show: list[Setting] = []
        for place, line in self._lines(name, where, ()):
            if line.startswith("["):
                self._begin_section(place, line)
            elif self._current is None and not self._skips:
                text = f"'{line}' stands before the first [section]"
                self._mistake(text, place, "put it below [global] or the name of a job")
            elif self._current is not None:
                setting = _setting(self._substitute(line, place), place)
                self._current.append(setting)
                self._to_show.append(setting)
        self._end_section()
        self._parsed.command_lines.append(" ".join(self._shown) + " ")
        return self._globals

    def _begin_section(self, where: Where, line: str) -> None:
        self._end_section()
        name = line[1:].partition("]")[0]
        self._current, self._skips = None, False
        if "]" not in line:
            self._mistake(f"'{line}' opens a section but has no ']'", where, f"write {line}]")
            self._skips = True
        elif not name.strip():
            self._mistake("a section without a name", where, "give it one: [job1]")
            self._skips = True
        elif name.startswith("global"):
            self._parsed.only_globals = where
            self._globals = list(self._globals)
            self._current = self._globals
        elif self._wanted and name not in self._wanted:
            self._skips = True
        else:
            self._current = []
            self._shown.append(f"--name={name}")
            self._open = RawSection(name, where, tuple(self._globals), (), self._begins_file)
            self._begins_file = False

    def _end_section(self) -> None:
        self._shown += map(_as_argument, in_reading_order(self._to_show))
        self._to_show = []
        if self._open is not None and self._current is not None:
            self._parsed.sections.append(replace(self._open, settings=tuple(self._current)))
        self._open = None

    def _lines(self, name: str, where: Where, including: tuple[str, ...]) -> Iterator[tuple[Where, str]]:
        """Lines without comments and blanks around them, those of included files in their place."""
        for number, line in enumerate(self._text(name, where).split("\n"), start=1):
            code = re.split("[;#]", line, maxsplit=1)[0]
            stripped = code.strip()
            place = Where(name, number, len(code) - len(code.lstrip()) + 1)
            if stripped.startswith("include") and not stripped.startswith("["):
                yield from self._included(stripped, (*including, name), place)
            elif stripped:
                yield place, stripped

    def _included(self, line: str, including: tuple[str, ...], where: Where) -> Iterator[tuple[Where, str]]:
        name = self._beside(line.removeprefix("include").strip(), including[-1])
        self._includes += 1
        if not name:
            self._mistake("include names no file", where, "write: include other.fio")
        elif name in including:
            self._mistake(f"'{name}' includes itself", where, None)
        elif self._includes > MAX_INCLUDES or len(including) > MAX_INCLUDE_DEPTH:
            self._mistake(f"too many files include one another ('{name}')", where, None)
        else:
            yield from self._without_sections(self._lines(name, where, including))

    def _without_sections(self, lines: Iterator[tuple[Where, str]]) -> Iterator[tuple[Where, str]]:
        for place, line in lines:
            if line.startswith("["):
                self._mistake(f"'{line}': an included file cannot begin a section", place, None)
            else:
                yield place, line

    def _beside(self, name: str, including: str) -> str:
        """As written where that exists, else beside the including file."""
        if not name or (self._surroundings.directory / name).exists():
            return name
        return str(Path(including).parent / name)

    def _text(self, name: str, where: Where) -> str:
        try:
            path = Path("/dev/stdin") if name == "-" else self._surroundings.directory / name
            return path.read_text(encoding="utf-8", errors="surrogateescape")
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            self._mistake(f"job file '{name}' cannot be read: {reason}", where, None)
            return ""

    def _substitute(self, line: str, where: Where) -> str:
        """``${NAME}`` from the environment, then fio's keywords and, with one of those, arithmetic."""
        environment = self._surroundings.environment

        def value(found: re.Match[str]) -> str:
            if found[1] not in environment:
                text = f"${{{found[1]}}} is not set; fio puts nothing in its place, and so does iocurve"
                self._parsed.notes.append(PlanNote("variable_not_set", text, where, "warning"))
            return environment.get(found[1], "")

        line = re.sub(r"\$\{([^}]*)\}", value, line)
        keywords = {
            "$pagesize": self._surroundings.page_bytes,
            "$mb_memory": self._surroundings.memory_bytes >> 20,
            "$ncpus": self._surroundings.cpus,
        }
        replaced = line
        for keyword, number in keywords.items():
            replaced = replaced.replace(keyword, str(number))
        return replaced if replaced == line else self._calculated(replaced, where)

    def _calculated(self, line: str, where: Where) -> str:
        name, equals, value = line.partition("=")
        if not equals or not re.search(r"[-+*/]", value):
            return line
        try:
            return f"{name}={_calculate(value)}"
        except (ValueError, ZeroDivisionError):
            self._mistake(f"'{value}' cannot be calculated", where, "whole numbers with + - * / and ( )")
            return line

    def _mistake(self, text: str, where: Where, hint: str | None) -> None:
        self._parsed.mistakes.append(Mistake(text, where, hint))


def _setting(line: str, where: Where) -> Setting:
    name, equals, value = line.partition("=")
    name = name.strip()
    return Setting(name, value if equals else None, replace(where, option=name))


def _as_argument(setting: Setting) -> str:
    """As fio shows it: under its own name, and with quotes around a description alone."""
    option = BY_NAME.get(setting.name)
    name = option.name if option else setting.name
    if setting.value is None:
        return f"--{name}"
    value = setting.value.strip()
    return f'--{name}="{value}"' if name == "description" else f"--{name}={value}"


def _calculate(text: str) -> int:
    """Whole-number arithmetic with the usual precedence; division drops the rest, as ``bc`` does."""
    tokens = re.findall(r"\d{1,18}|\S", text, re.ASCII)
    if len(tokens) > 100:
        raise ValueError(text)
    value = _sum(tokens)
    if tokens or abs(value) >= 2**63:
        raise ValueError(text)
    return value


def _sum(tokens: list[str]) -> int:
    value = _product(tokens)
    while tokens and tokens[0] in "+-":
        value = value + _product(tokens) if tokens.pop(0) == "+" else value - _product(tokens)
    return value


def _product(tokens: list[str]) -> int:
    value = _factor(tokens)
    while tokens and tokens[0] in "*/":
        value = value * _factor(tokens) if tokens.pop(0) == "*" else int(value / _factor(tokens))
    return value


def _factor(tokens: list[str]) -> int:
    if not tokens:
        raise ValueError("a number is missing")
    token = tokens.pop(0)
    if token == "-":
        return -_factor(tokens)
    if token != "(":
        return int(token)
    value = _sum(tokens)
    if not tokens or tokens.pop(0) != ")":
        raise ValueError("a ')' is missing")
    return value
