"""Parses fio's command line and job files into settings, in order and with their positions.

Only fio's grammar is interpreted here: sections, globals, comments, includes, ``${VARIABLES}`` and ``$keywords``.
The rules were checked against fio 3.33; where fio's manual differs from the program, the program counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import msgspec
from msgspec.structs import replace

from iocurve.dialects.base import DASHES, read_job_file, typographic_dash
from iocurve.dialects.fio.read.options import BY_NAME
from iocurve.foundation.errors import COMMAND_LINE, Diagnostic, Where, nearest
from iocurve.job.model import PlanNote

COMMANDS = {
    "alloc-size": True, "aux-path": True, "bandwidth-log": None, "client": True, "cmdhelp": None,
    "cpuclock-test": False, "crctest": None, "daemonize": True, "debug": True, "disk": True, "enghelp": None,
    "eta": True, "eta-interval": True, "eta-newline": True, "help": False, "idle-prof": True, "inflate-log": True,
    "latency-log": True, "max-jobs": True, "memcpytest": None, "merge-blktrace-only": False, "minimal": False,
    "on": True, "out": True, "output": True, "output-format": True, "append-terse": None, "parse-only": False,
    "profile": True, "readonly": False, "remote-config": True, "section": True, "server": None, "showcmd": False,
    "status-interval": True, "terse-version": True, "trigger": True, "trigger-file": True, "trigger-remote": True,
    "trigger-timeout": True, "version": False, "warnings-fatal": False,
}  # fmt: skip
"""Command-line options that belong to no job; ``disk``, ``on`` and ``out`` are iocurve's own.

True: takes a value. False: takes none. None: takes one only after ``=``.
"""

_LETTERS = {
    "A": "alloc-size", "B": "trigger-timeout", "C": "client", "D": "daemonize", "E": "eta-newline",
    "F": "output-format", "G": "crctest", "H": "trigger", "I": "idle-prof", "J": "trigger-remote", "K": "aux-path",
    "L": "status-interval", "M": "memcpytest", "O": "eta-interval", "P": "parse-only", "R": "remote-config",
    "S": "server", "T": "cpuclock-test", "V": "terse-version", "W": "trigger-file", "b": "bandwidth-log",
    "c": "cmdhelp", "d": "debug", "e": "eta", "f": "append-terse", "h": "help", "i": "enghelp", "j": "max-jobs",
    "l": "latency-log", "m": "minimal", "o": "output", "p": "profile", "r": "readonly", "s": "showcmd",
    "v": "version", "w": "warnings-fatal", "x": "section",
}  # fmt: skip

MAX_INCLUDES = 1000
"""Limit of include lines in one job file, nested ones included."""
MAX_INCLUDE_DEPTH = 16


class Setting(msgspec.Struct, frozen=True):
    """One option as written."""

    name: str
    value: str | None
    where: Where
    value_column: int | None = None
    """Column of the value in a job file."""
    unset: tuple[str, ...] = ()
    """Variables in the line that are not set."""

    @property
    def value_where(self) -> Where:
        """Position of the value."""
        return self.where if self.value_column is None else replace(self.where, column=self.value_column)

    @property
    def unset_hint(self) -> str | None:
        """A hint to set the variables that are not set."""
        names = " and ".join(f"${{{name}}}" for name in self.unset)
        return f"{names} {'is' if len(self.unset) == 1 else 'are'} not set: set {self.unset[0]}=…" if names else None


class RawSection(msgspec.Struct, frozen=True):
    """A job section with the globals in force where it begins."""

    name: str
    where: Where
    global_settings: tuple[Setting, ...]
    settings: tuple[Setting, ...]
    begins_file: bool = False
    """First section of a second or later job file; it starts when all sections before it have ended."""
    implicit: bool = False
    """Made from a command line without --name."""
    clients: tuple[str, ...] = ()
    """Values of the --client that its job file follows; empty: it is for all hosts that have no other."""


class Parsed(msgspec.Struct):
    """The parsed command line and job files, with every error in them."""

    sections: list[RawSection] = msgspec.field(default_factory=list)
    commands: list[Setting] = msgspec.field(default_factory=list)
    errors: list[Diagnostic] = msgspec.field(default_factory=list)
    unknown: list[Diagnostic] = msgspec.field(default_factory=list)
    """Command-line options that fio does not have; they may belong to an external engine."""
    notes: list[PlanNote] = msgspec.field(default_factory=list)
    command_lines: list[str] = msgspec.field(default_factory=list)
    """The equivalent command line of each job file (--showcmd)."""
    only_globals: Where | None = None
    """Position of the last [global]; reported if no job follows."""


class Surroundings(msgspec.Struct, frozen=True):
    """Values of this machine that ``${VARIABLES}``, ``$keywords`` and relative names in a job file refer to."""

    directory: Path
    """Base of relative file names."""
    environment: Mapping[str, str]
    page_bytes: int
    memory_bytes: int
    cpus: int


def parse(arguments: Iterable[str], surroundings: Surroundings) -> Parsed:
    """Parses a command line and the job files it names. Collects errors and never raises them."""
    parsed = Parsed()
    files, global_settings = _parse_command_line(list(arguments), parsed)
    wanted = [command.value for command in parsed.commands if command.name == "section"]
    before = global_settings
    for number, (name, where, clients) in enumerate(files):
        follows = number > 0 and clients == files[number - 1][2]
        if follows and before:
            text = (
                f"'{name}' does not inherit global options from before it: fio applies them to the first job file only"
            )
            parsed.notes.append(PlanNote("globals_dropped", text, where, "warning"))
        reader = _FileReader(parsed, surroundings, wanted, [] if follows else global_settings)
        before = reader.read(name, where, clients, follows=follows)
    only_reports = any(command.name in {"help", "server"} for command in parsed.commands)
    if not files and not parsed.sections and global_settings and not only_reports:
        first = global_settings[0].where
        parsed.sections.append(RawSection("fio", first, (), tuple(global_settings), implicit=True))
    return parsed


def commands(arguments: Iterable[str]) -> list[Setting]:
    """Returns the command-line options that belong to no job. Opens no file; ``parse`` reports the errors."""
    parsed = Parsed()
    _parse_command_line(list(arguments), parsed)
    return parsed.commands


def closest(name: str, choices: Iterable[str]) -> str | None:
    """``Did you mean numjobs?``; None if no name is close."""
    found = nearest(name.lower(), choices)
    return f"Did you mean {found}?" if found else None


_READ_FIRST = frozenset({"kb_base", "unit_base", "cpus_allowed_policy"})
_READ_LAST = frozenset({"filename", "filename_format"})


def in_reading_order(settings: Iterable[Setting]) -> list[Setting]:
    """Sorts a section's settings into fio's reading order: kb_base comes first, as it changes all sizes."""
    return sorted(settings, key=lambda one: 0 if one.name in _READ_FIRST else 2 if one.name in _READ_LAST else 1)


# -- command line ------------------------------------------------------------------------------------------------------


def _parse_command_line(
    arguments: list[str], parsed: Parsed
) -> tuple[list[tuple[str, Where, tuple[str, ...]]], list[Setting]]:
    """Adds the jobs of the command line to ``parsed``.

    Returns the job files, each with the values of the --client that it follows, and the settings before the first job.
    """
    global_settings: list[Setting] = []
    files: list[tuple[str, Where, tuple[str, ...]]] = []
    clients: tuple[str, ...] = ()
    current = global_settings
    jobs: list[tuple[Setting, tuple[Setting, ...], list[Setting]]] = []
    for item in _arguments(arguments, parsed):
        if isinstance(item, tuple):
            files.append((*item, clients))
        elif item.name in COMMANDS:
            if item.name == "client":
                # Several in a row share the files that follow; fio gives them to the last alone, the others have none.
                in_row = not files or files[-1][2] != clients
                clients = (*(clients if in_row else ()), item.value or "")
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
    """Yields options as settings and other arguments as job file names, by the rules of getopt_long_only."""
    rest = iter(enumerate(arguments, start=1))
    for number, argument in rest:
        where = Where(COMMAND_LINE, number, argument=argument)
        if argument == "--":
            yield from ((name, Where(COMMAND_LINE, following)) for following, name in rest)
        elif wrong := typographic_dash(argument, "--"):
            parsed.errors.append(Diagnostic(wrong, where, f"write --{argument.lstrip(DASHES + '-')}"))
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
        parsed.unknown.append(Diagnostic(f"unknown option '{argument}'", where, hint))
        return None
    takes_value = COMMANDS[name] if name in COMMANDS else None if BY_NAME[name].bare else True
    if equals:
        if takes_value is False:
            parsed.errors.append(Diagnostic(f"--{name} takes no value", where, f"write --{name}"))
        return Setting(name, value, where)
    if takes_value is not True:
        return Setting(name, None, where)
    following = next(rest, None)
    if following is None or following[1].startswith("--"):
        example = "1" if following is not None else "…"
        parsed.errors.append(Diagnostic(f"--{name} needs a value", where, f"write --{name}={example}"))
        return None
    return Setting(name, following[1], where)


def _in_full(name: str) -> str:
    """Expands an abbreviated option name if it is unambiguous. Only command lines allow abbreviations."""
    if name in COMMANDS or name in BY_NAME or not name:
        return name
    if name in _LETTERS:
        return _LETTERS[name]
    longer = [option for option in (*COMMANDS, *BY_NAME) if option.startswith(name)]
    return longer[0] if len(longer) == 1 else name


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

    def read(self, name: str, where: Where, clients: tuple[str, ...], *, follows: bool) -> list[Setting]:
        """Reads the file for some hosts. Returns the global settings in force at its end."""
        self._begins_file, self._clients = follows, clients
        self._shown = ["fio", *map(_as_argument, self._globals)]
        self._to_show: list[Setting] = []
        for position, line in self._lines(name, where, ()):
            if line.startswith("["):
                self._begin_section(position, line)
            elif self._current is None and not self._skips:
                text = f"'{line}' comes before the first [section]"
                self._error(text, position, "put it into [global] or a job section")
            elif self._current is not None:
                unset: list[str] = []
                setting = _setting(line, self._substitute(line, position, unset), position, unset)
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
            self._error(f"'{line}' opens a section but has no ']'", where, f"write {line}]")
            self._skips = True
        elif not name.strip():
            self._error("this section has no name", where, "name it, such as [job1]")
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
            self._open = RawSection(name, where, tuple(self._globals), (), self._begins_file, clients=self._clients)
            self._begins_file = False

    def _end_section(self) -> None:
        self._shown += map(_as_argument, in_reading_order(self._to_show))
        self._to_show = []
        if self._open is not None and self._current is not None:
            self._parsed.sections.append(replace(self._open, settings=tuple(self._current)))
        self._open = None

    def _lines(self, name: str, where: Where, including: tuple[str, ...]) -> Iterator[tuple[Where, str]]:
        """Yields lines stripped of comments and blanks; lines of an included file replace its include line."""
        for number, line in enumerate(self._text(name, where).split("\n"), start=1):
            code = line.partition(";")[0].partition("#")[0]
            stripped = code.strip()
            position = Where(name, number, len(code) - len(code.lstrip()) + 1)
            if stripped.startswith("include") and not stripped.startswith("["):
                yield from self._included(stripped, (*including, name), position)
            elif stripped:
                yield position, stripped

    def _included(self, line: str, including: tuple[str, ...], where: Where) -> Iterator[tuple[Where, str]]:
        name = self._resolve_include(line.removeprefix("include").strip(), including[-1])
        self._includes += 1
        if not name:
            self._error("include has no file name", where, "write: include other.fio")
        elif name in including:
            self._error(f"'{name}' includes itself", where, None)
        elif self._includes > MAX_INCLUDES or len(including) > MAX_INCLUDE_DEPTH:
            text = f"'{name}' is not included: at most {MAX_INCLUDES} includes, nested at most {MAX_INCLUDE_DEPTH} deep"
            self._error(text, where, None)
        else:
            yield from self._without_sections(self._lines(name, where, including))

    def _without_sections(self, lines: Iterator[tuple[Where, str]]) -> Iterator[tuple[Where, str]]:
        for position, line in lines:
            if line.startswith("["):
                self._error(f"'{line}': an included file cannot begin a section", position, None)
            else:
                yield position, line

    def _resolve_include(self, name: str, including: str) -> str:
        """The name as written if that file exists, else relative to the including file."""
        if not name or (self._surroundings.directory / name).exists():
            return name
        return str(Path(including).parent / name)

    def _text(self, name: str, where: Where) -> str:
        try:
            path = Path("/dev/stdin") if name == "-" else self._surroundings.directory / name
            return self._without_mark(read_job_file(path, "utf-8", "surrogateescape"), name)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            self._error(f"job file '{name}' cannot be read: {reason}", where, None)
            return ""

    def _without_mark(self, text: str, name: str) -> str:
        if not text.startswith("\ufeff"):
            return text
        note = "the file starts with a byte order mark (BOM), which fio itself does not accept; iocurve ignores it"
        self._parsed.notes.append(PlanNote("byte_order_mark", note, Where(name, 1), "warning"))
        return text[1:]

    def _substitute(self, line: str, where: Where, unset: list[str]) -> str:
        """Replaces ``${NAME}`` and fio's keywords, and adds names that are not set to ``unset``.

        A line with a keyword may contain arithmetic, which is evaluated.
        """
        if "$" not in line:
            return line
        environment = self._surroundings.environment

        def value(found: re.Match[str]) -> str:
            if found[1] not in environment:
                text = f"${{{found[1]}}} is not set; fio puts nothing in its place, and so does iocurve"
                self._parsed.notes.append(PlanNote("variable_not_set", text, where, "warning"))
                unset.append(found[1])
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
            self._error(f"'{value}' cannot be calculated", where, "use whole numbers, + - * / and ( )")
            return line

    def _error(self, text: str, where: Where, hint: str | None) -> None:
        self._parsed.errors.append(Diagnostic(text, where, hint))


def _setting(written: str, line: str, where: Where, unset: list[str]) -> Setting:
    """The setting of a line: ``written`` in the file, ``line`` after its variables are replaced."""
    name, equals, value = line.partition("=")
    name = name.strip()
    before, _, behind = written.partition("=")
    column = where.column + len(before) + 1 + len(behind) - len(behind.lstrip())
    at = Where(where.source, where.line, where.column, name)
    return Setting(name, value if equals else None, at, column, tuple(dict.fromkeys(unset)))


def _as_argument(setting: Setting) -> str:
    """The setting as --showcmd prints it: by fio's main name, with quotes around a description only."""
    option = BY_NAME.get(setting.name)
    name = option.name if option else setting.name
    if setting.value is None:
        return f"--{name}"
    value = setting.value.strip()
    return f'--{name}="{value}"' if name == "description" else f"--{name}={value}"


def _calculate(text: str) -> int:
    """Evaluates integer arithmetic with the usual precedence; division truncates, as in ``bc``."""
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
