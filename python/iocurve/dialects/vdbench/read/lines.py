"""Splits parameter files into statements: comments, blanks, quotes, includes, variables, one line per host.

The meaning of keywords is in ``keywords``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from iocurve.dialects.base import read_job_file
from iocurve.foundation.errors import COMMAND_LINE, Diagnostic, Where

DEFINITIONS = ("hd", "rg", "sd", "fsd", "wd", "fwd", "rd")
"""Keywords that start a definition at the start of a line."""
INCLUDES_MAX = 64
LINES_MAX = 1_000_000
"""Limit over all files; a line with $host counts once per host."""
_HOST = re.compile(r"[$!#]host(?![A-Za-z0-9])", re.IGNORECASE)
_CODE = re.compile(r'\s*(?:[^\s"]|"[^"]*(?:"|$))*')
"""A line without its comment; a quote that is not closed reaches to the end."""
_VALUES = {stops: re.compile(rf'(?:[^"{re.escape(stops)}]|"[^"]*")*') for stops in (",", ",)")}
"""A value with its quotes, by the letters that end it."""
_VARIABLE = re.compile(r"(?<==)[$!]([A-Za-z_]\w*)")
"""A variable without a value. vdbench looks for one only after an equals sign: ``anchor=/x/!dir`` is a name."""
_WITHIN = {"sd": ("hd",), "wd": ("sd", "hd"), "rd": ("wd", "sd", "fwd", "fsd"), "fsd": ("hd",), "fwd": ("fsd", "hd")}
"""Keywords that refer to a definition: on a continuation line they do not start one."""
_COMMANDS = ("dataerrors", "startcmd", "endcmd", "timeout")
"""Parameters whose values may contain variables of vdbench ($output)."""


class Parameter(msgspec.Struct, frozen=True):
    """``keyword=value`` or ``keyword=(value,value)``."""

    keyword: str
    """Keyword as written."""
    values: tuple[str, ...]
    where: Where

    @property
    def text(self) -> str:
        """The only value. Raises ``ValueError`` if there are several."""
        if len(self.values) != 1:
            raise ValueError(f"{self.keyword}= takes one value, not {len(self.values)}")
        return self.values[0]


Statement = Sequence[Parameter]
"""A definition with its parameters, or general parameters."""


def kind_of(statement: Statement) -> str:
    """``sd``, ``rd``, …, or ``general`` if it is not a definition."""
    word = statement[0].keyword.lower()
    if word == "host":
        return "hd"
    return word if word in DEFINITIONS else "general"


class ParsedText(msgspec.Struct):
    """Statements, lines and errors of the parameter files."""

    statements: list[Statement] = msgspec.field(default_factory=list)
    errors: list[Diagnostic] = msgspec.field(default_factory=list)
    lines: list[tuple[Where, str]] = msgspec.field(default_factory=list)
    """Every line with its position, for ``parmfile.html``."""
    is_whole: bool = True
    """False if a file could not be read: definitions that seem to be missing may be in that file."""


def read(files: Sequence[tuple[Path, Where]], variables: Mapping[str, str]) -> ParsedText:
    """Reads parameter files in order, each with the position that names it."""
    reader = _ParameterReader({name.lower(): value for name, value in variables.items()})
    for path, where in files:
        reader.read_file(path, str(path), where, 0)
    return reader.finish()


def read_text(
    text: str, source: str, variables: Mapping[str, str] | None = None, directory: Path = Path()
) -> ParsedText:
    """Reads parameters from a text; includes are relative to ``directory``."""
    reader = _ParameterReader({name.lower(): value for name, value in (variables or {}).items()})
    reader.read_lines(text, source, directory, 0)
    return reader.finish()


class _ParameterReader:
    def __init__(self, variables: Mapping[str, str]) -> None:
        self._variables = variables
        self._unused = set(variables)
        self._names = re.compile(
            "[$!](" + "|".join(sorted(map(re.escape, variables), key=len, reverse=True)) + ")", re.IGNORECASE
        )
        self._hosts: list[str] = []
        self._collected: list[Parameter] = []
        self._continues = False
        self._includes = 0
        self._text = ParsedText()

    def finish(self) -> ParsedText:
        self._close()
        for name in sorted(self._unused):
            text = f"the command line sets {name}, but no parameter file uses ${name} or !{name}"
            self._text.errors.append(Diagnostic(text, Where(COMMAND_LINE, 1, option=name)))
        return self._text

    def read_file(self, path: Path, source: str, named: Where, depth: int) -> None:
        self._includes += 1
        if depth > INCLUDES_MAX or self._includes > 1000:
            self._error("files include each other in a loop", named)
            return
        try:
            text = read_job_file(path, "utf-8-sig", "replace")
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            self._error(f"{source} cannot be read: {reason}", named)
            self._text.is_whole = False
            return
        self.read_lines(text, source, path.parent, depth)

    def read_lines(self, text: str, source: str, directory: Path, depth: int) -> None:
        for number, line in enumerate(text.splitlines(), start=1):
            where = Where(source, number)
            stripped = line.strip()
            if stripped.lower().startswith("eof"):
                return
            self._text.lines.append((where, line))
            if not stripped or stripped[0] in "/#*":
                continue
            if len(self._text.lines) > LINES_MAX:
                self._error(f"the limit of {LINES_MAX} lines is exceeded", where)
                return
            for repeated in self._expand_hosts(self._substituted(line, where), where):
                self._line(repeated, where, directory, depth)

    def _line(self, line: str, where: Where, directory: Path, depth: int) -> None:
        found, continues = parse_line(line, where, self._text.errors)
        if not found:
            return
        if len(found[0].keyword) > 3 and "include".startswith(found[0].keyword.lower()):
            self._close()
            for parameter in found:
                self._include(parameter, directory, depth)
            return
        if self._starts_statement(found[0].keyword.lower()):
            self._close()
        self._collected += found
        self._continues = continues

    def _starts_statement(self, word: str) -> bool:
        """True if a line that starts with this keyword starts a statement."""
        if not self._collected:
            return True
        kind = self._collected[0].keyword.lower()
        if self._continues:
            # A definition may end with a superfluous comma.
            return word in DEFINITIONS and word not in _WITHIN.get(kind, ())
        return word in DEFINITIONS or kind not in (*DEFINITIONS, "host") or (word == kind == "host")

    def _include(self, parameter: Parameter, directory: Path, depth: int) -> None:
        name = parameter.values[0]
        if "\0" in name:
            self._error("this is not a file name", parameter.where)
            return
        path = directory / name
        self.read_file(path, str(path), parameter.where, depth + 1)

    def _close(self) -> None:
        self._continues = False
        if not self._collected:
            return
        statement, self._collected = self._collected, []
        self._text.statements.append(statement)
        if kind_of(statement) == "hd":
            self._hosts += [name for name in host_labels(statement) if name not in self._hosts]

    def _substituted(self, line: str, where: Where) -> str:
        def value(match: re.Match[str]) -> str:
            name = match[1].lower()
            self._unused.discard(name)
            return self._variables[name]

        line = self._names.sub(value, line) if self._variables else line
        has_variables = "$" in line or "!" in line
        if has_variables and not any(word in line.lower().replace("_", "") for word in _COMMANDS):
            for match in _VARIABLE.finditer(_without_comment(line)):
                if match[1].lower() != "host" and not _HOST.match(match[0]):
                    position = Where(where.source, where.line, match.start() + 1)
                    hint = f"set it on the command line: {match[1]}=value"
                    self._text.errors.append(Diagnostic(f"variable {match[0]} has no value", position, hint))
        return line

    def _expand_hosts(self, line: str, where: Where) -> Iterator[str]:
        """Yields the line, or with $host the line for each host."""
        if "host" not in line.lower() or not _HOST.search(_without_comment(line)):
            yield line
            return
        # The definition of the last host may not be closed yet.
        self._close()
        if not self._hosts:
            self._error("$host needs hosts", where, "define hosts before this line: hd=name,system=…")
            return
        for number, host in enumerate(self._hosts):

            def name(match: re.Match[str], number: int = number, host: str = host) -> str:
                return str(number) if match[0][0] == "#" else host

            yield _HOST.sub(name, line)

    def _error(self, text: str, where: Where, hint: str | None = None) -> None:
        self._text.errors.append(Diagnostic(text, where, hint))


def host_labels(statement: Statement) -> list[str]:
    """Labels of an ``hd=``, one per client."""
    head = statement[0]
    # host=(system,label) is the older form of hd=.
    values = head.values[1:] if len(head.values) == 2 else head.values
    labels = [name for name in values if name.lower() != "default"]
    clients = next((found for found in statement if found.keyword.lower() == "clients"), None)
    number = clients.values[0] if clients else "1"
    if not number.isdecimal() or not 1 < int(number[:6]) <= 10_000:
        return labels
    return [f"{label}-{client}" for label in labels for client in range(int(number))]


def parse_line(line: str, where: Where, errors: list[Diagnostic]) -> tuple[list[Parameter], bool]:
    """Parameters of a line; True if the statement continues on the next line."""
    text = _without_comment(line)
    start = len(text) - len(text.lstrip())
    text = text.rstrip()
    continues = text.endswith(",")
    parameters: list[Parameter] = []
    position = start
    end = len(text) - 1 if continues else len(text)
    while position < end:
        at = Where(where.source, where.line, position + 1)
        try:
            parameter, position = _parameter(text, position, end, at)
        except ValueError as error:
            errors.append(Diagnostic(str(error), at))
            return parameters, continues
        parameters.append(parameter)
    return parameters, continues


def _without_comment(line: str) -> str:
    """The text up to the first unquoted blank after the first word; the rest is a comment."""
    found = _CODE.match(line)
    return found[0] if found else line


def _parameter(text: str, start: int, end: int, where: Where) -> tuple[Parameter, int]:
    """Returns a parameter and the position of the next one. Raises ``ValueError``."""
    equals = text.find("=", start, end)
    comma = text.find(",", start, end)
    if equals < 0 or 0 <= comma < equals:
        word = text[start : comma if comma >= 0 else end]
        raise ValueError(f"'{_shortened(word)}' is not a parameter: write keyword=value, or keyword=(value,value)")
    keyword = text[start:equals]
    if not re.fullmatch(r"\w+", keyword, re.ASCII):
        raise ValueError(f"'{_shortened(keyword)}' is not a keyword")
    if text.startswith("(", equals + 1):
        values, position = _list(text, equals + 2, end)
    else:
        value, position = _value(text, equals + 1, end, ",")
        values = [value]
    if not all(values):
        raise ValueError(f"{keyword}= has an empty value")
    if any("\0" in value for value in values):
        raise ValueError(f"{keyword}= has a zero byte")
    if position < end and text[position] != ",":
        raise ValueError(f"a comma is missing after {keyword}=(…)")
    option = Where(where.source, where.line, where.column, keyword)
    return Parameter(keyword, tuple(values), option), position + 1


def _list(text: str, position: int, end: int) -> tuple[list[str], int]:
    values = []
    while True:
        value, position = _value(text, position, end, ",)")
        values.append(value.strip())
        if position >= end:
            raise ValueError("')' is missing: a blank outside quotes ends the line, so write (a,b) without blanks")
        if text[position] == ")":
            return values, position + 1
        position += 1


def _value(text: str, position: int, end: int, stops: str) -> tuple[str, int]:
    """Returns a value without its quotes, and its end position."""
    found = _VALUES[stops].match(text, position, end)
    if found is None or text.startswith('"', found.end(), end):
        raise ValueError("a closing quote is missing")
    return found[0].replace('"', ""), found.end()


def _shortened(word: str) -> str:
    return word if len(word) <= 40 else word[:37] + "…"
