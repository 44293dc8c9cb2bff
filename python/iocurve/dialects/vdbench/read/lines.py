"""A parameter file's text becomes statements: comments, blanks, quotes, includes, variables, one line per host.

What a keyword means is no matter here; ``keywords`` knows that.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from iocurve.errors import COMMAND_LINE, Mistake, Where

DEFINITIONS = ("hd", "rg", "sd", "fsd", "wd", "fwd", "rd")
"""Words that begin a definition where they begin a line."""
INCLUDES_MAX = 64
LINES_MAX = 1_000_000
"""Of all files together, lines that are repeated for each host counted once a host."""
_HOST = re.compile(r"[$!#]host(?![A-Za-z0-9])", re.IGNORECASE)
_VARIABLE = re.compile(r"[$!]([A-Za-z_]\w*)")
_WITHIN = {
    "sd": ("hd",),
    "wd": ("sd", "hd"),
    "rd": ("wd", "sd", "fwd"),
    "fsd": ("hd",),
    "fwd": ("fsd", "hd"),
}
"""Definitions that others name: they do not begin one where a line goes on."""
_COMMANDS = ("dataerrors", "startcmd", "endcmd", "timeout")
"""Parameters whose values have variables of their own ($output)."""


@dataclass(frozen=True)
class Parameter:
    """``keyword=value`` or ``keyword=(value,value)``."""

    keyword: str
    """As written."""
    values: tuple[str, ...]
    is_list: bool
    where: Where

    @property
    def text(self) -> str:
        """The only value. Raises ``ValueError`` where there are several."""
        if len(self.values) != 1:
            raise ValueError(f"{self.keyword}= takes one value, not {len(self.values)}")
        return self.values[0]


@dataclass(frozen=True)
class Statement:
    """Parameters that belong together: a definition, or a general parameter."""

    parameters: tuple[Parameter, ...]

    @property
    def kind(self) -> str:
        """``sd``, ``rd``, …; ``general`` where no definition begins."""
        word = self.parameters[0].keyword.lower()
        if word == "host":
            return "hd"
        return word if word in DEFINITIONS else "general"


@dataclass
class Text:
    """What was read."""

    statements: list[Statement] = field(default_factory=list)
    mistakes: list[Mistake] = field(default_factory=list)
    lines: list[tuple[Where, str]] = field(default_factory=list)
    """Every line as written, for ``parmfile.html``."""
    is_whole: bool = True
    """Whether all files could be read, so that what is missing is missing indeed."""


def read(files: Sequence[tuple[Path, Where]], variables: Mapping[str, str]) -> Text:
    """Reads parameter files one after another, with the places that name them."""
    reader = _Reader({name.lower(): value for name, value in variables.items()})
    for path, where in files:
        reader.read_file(path, str(path), where, 0)
    return reader.finish()


def read_text(text: str, source: str, variables: Mapping[str, str] | None = None, directory: Path = Path()) -> Text:
    """As ``read``, from a text; includes are looked for in ``directory``."""
    reader = _Reader({name.lower(): value for name, value in (variables or {}).items()})
    reader.read_lines(text, source, directory, 0)
    return reader.finish()


class _Reader:
    def __init__(self, variables: Mapping[str, str]) -> None:
        self._variables = variables
        self._unused = set(variables)
        self._names = re.compile(
            "[$!](" + "|".join(sorted(map(re.escape, variables), key=len, reverse=True)) + ")", re.IGNORECASE
        )
        self._hosts: list[str] = []
        self._collected: list[Parameter] = []
        self._goes_on = False
        self._includes = 0
        self._text = Text()

    def finish(self) -> Text:
        self._close()
        for name in sorted(self._unused):
            text = f"the command line sets {name}, and no parameter file has ${name} or !{name}"
            self._text.mistakes.append(Mistake(text, Where(COMMAND_LINE, 1, option=name)))
        return self._text

    def read_file(self, path: Path, source: str, named: Where, depth: int) -> None:
        self._includes += 1
        if depth > INCLUDES_MAX or self._includes > 1000:
            self._mistake("files include one another without end", named)
            return
        try:
            text = path.read_text(encoding="utf-8-sig", errors="replace")
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else "this is no file name"
            self._mistake(f"{source} cannot be read: {reason}", named)
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
                self._mistake(f"more than {LINES_MAX} lines are too many", where)
                return
            for repeated in self._repeated(self._substituted(line, where), where):
                self._line(repeated, where, directory, depth)

    def _line(self, line: str, where: Where, directory: Path, depth: int) -> None:
        found, goes_on = parse_line(line, where, self._text.mistakes)
        if not found:
            return
        if len(found[0].keyword) > 3 and "include".startswith(found[0].keyword.lower()):
            self._close()
            for parameter in found:
                self._include(parameter, directory, depth)
            return
        if self._begins(found[0].keyword.lower()):
            self._close()
        self._collected += found
        self._goes_on = goes_on

    def _begins(self, word: str) -> bool:
        """Whether a line that starts with this keyword begins a statement."""
        if not self._collected:
            return True
        kind = self._collected[0].keyword.lower()
        if self._goes_on:
            # People leave commas at the end of a definition.
            return word in DEFINITIONS and word not in _WITHIN.get(kind, ())
        return word in DEFINITIONS or kind not in (*DEFINITIONS, "host") or (word == kind == "host")

    def _include(self, parameter: Parameter, directory: Path, depth: int) -> None:
        name = parameter.values[0]
        if "\0" in name:
            self._mistake("this is no file name", parameter.where)
            return
        path = directory / name
        self.read_file(path, str(path), parameter.where, depth + 1)

    def _close(self) -> None:
        self._goes_on = False
        if not self._collected:
            return
        statement = Statement(tuple(self._collected))
        self._collected = []
        self._text.statements.append(statement)
        if statement.kind == "hd":
            self._hosts += [name for name in host_labels(statement) if name not in self._hosts]

    def _substituted(self, line: str, where: Where) -> str:
        def value(match: re.Match[str]) -> str:
            name = match[1].lower()
            self._unused.discard(name)
            return self._variables[name]

        line = self._names.sub(value, line) if self._variables else line
        if not any(word in line.lower().replace("_", "") for word in _COMMANDS):
            for match in _VARIABLE.finditer(_without_comment(line)):
                if match[1].lower() != "host" and not _HOST.match(match[0]):
                    place = Where(where.source, where.line, match.start() + 1)
                    hint = f"give it on the command line: {match[1]}=value"
                    self._text.mistakes.append(Mistake(f"variable {match[0]} has no value", place, hint))
        return line

    def _repeated(self, line: str, where: Where) -> Iterator[str]:
        """The line once for each host where it speaks of the host."""
        if not _HOST.search(_without_comment(line)):
            yield line
            return
        # The last host's definition may still be open.
        self._close()
        if not self._hosts:
            self._mistake("$host needs hosts", where, "define them before: hd=name,system=…")
            return
        for number, host in enumerate(self._hosts):

            def name(match: re.Match[str], number: int = number, host: str = host) -> str:
                return str(number) if match[0][0] == "#" else host

            yield _HOST.sub(name, line)

    def _mistake(self, text: str, where: Where, hint: str | None = None) -> None:
        self._text.mistakes.append(Mistake(text, where, hint))


def host_labels(statement: Statement) -> list[str]:
    """Labels that one ``hd=`` defines: as many as it has clients."""
    head = statement.parameters[0]
    # host=(system,label) is how hosts were written before hd= was there.
    values = head.values[1:] if len(head.values) == 2 else head.values
    labels = [name for name in values if name.lower() != "default"]
    clients = next((found for found in statement.parameters if found.keyword.lower() == "clients"), None)
    number = clients.values[0] if clients else "1"
    if not number.isdecimal() or not 1 < int(number[:6]) <= 10_000:
        return labels
    return [f"{label}-{client}" for label in labels for client in range(int(number))]


def parse_line(line: str, where: Where, mistakes: list[Mistake]) -> tuple[list[Parameter], bool]:
    """Parameters of one line, and whether it goes on in the next."""
    text = _without_comment(line)
    start = len(text) - len(text.lstrip())
    text = text.rstrip()
    goes_on = text.endswith(",")
    parameters: list[Parameter] = []
    position = start
    end = len(text) - 1 if goes_on else len(text)
    while position < end:
        place = Where(where.source, where.line, position + 1)
        try:
            parameter, position = _parameter(text, position, end, place)
        except ValueError as error:
            mistakes.append(Mistake(str(error), place))
            return parameters, goes_on
        parameters.append(parameter)
    return parameters, goes_on


def _without_comment(line: str) -> str:
    """Up to the first blank that is not quoted; blanks before the first word do not count."""
    quoted = False
    start = len(line) - len(line.lstrip())
    for position in range(start, len(line)):
        letter = line[position]
        if letter == '"':
            quoted = not quoted
        elif letter.isspace() and not quoted:
            return line[:position]
    return line


def _parameter(text: str, start: int, end: int, where: Where) -> tuple[Parameter, int]:
    """One parameter and where the next begins. Raises ``ValueError``."""
    equals = text.find("=", start, end)
    comma = text.find(",", start, end)
    if equals < 0 or 0 <= comma < equals:
        word = text[start : comma if comma >= 0 else end]
        raise ValueError(f"'{_short(word)}' is no parameter: write keyword=value, several values in (…)")
    keyword = text[start:equals]
    if not re.fullmatch(r"\w+", keyword, re.ASCII):
        raise ValueError(f"'{_short(keyword)}' is no keyword")
    if text.startswith("(", equals + 1):
        values, position = _list(text, equals + 2, end)
        is_list = True
    else:
        value, position = _value(text, equals + 1, end, ",")
        values, is_list = [value], False
    if not all(values):
        raise ValueError(f"{keyword}= has an empty value")
    if any("\0" in value for value in values):
        raise ValueError(f"{keyword}= has a zero byte")
    if position < end and text[position] != ",":
        raise ValueError(f"a comma belongs after {keyword}=(…)")
    option = Where(where.source, where.line, where.column, keyword)
    return Parameter(keyword, tuple(values), is_list, option), position + 1


def _list(text: str, position: int, end: int) -> tuple[list[str], int]:
    values = []
    while True:
        value, position = _value(text, position, end, ",)")
        values.append(value.strip())
        if position >= end:
            raise ValueError("a bracket is not closed: a blank outside of quotes ends the line, so write (a,b)")
        if text[position] == ")":
            return values, position + 1
        position += 1


def _value(text: str, position: int, end: int, stops: str) -> tuple[str, int]:
    """A value without its quotes, and where it ends."""
    letters = []
    quoted = False
    while position < end and (quoted or text[position] not in stops):
        if text[position] == '"':
            quoted = not quoted
        else:
            letters.append(text[position])
        position += 1
    if quoted:
        raise ValueError("a quote is not closed")
    return "".join(letters), position


def _short(word: str) -> str:
    return word if len(word) <= 40 else word[:37] + "…"
