"""Reads vdbench's command line, with the options that iocurve adds.

Data validation and journals are read by one rule: ``-v``, ``-j``, ``validate=``, ``journal=``.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

import msgspec
from msgspec.structs import replace

from iocurve.dialects.base import DASHES, PathMapping, typographic_dash
from iocurve.dialects.vdbench.read import values
from iocurve.foundation.errors import COMMAND_LINE, Diagnostic, Where
from iocurve.foundation.structs import read_bundled
from iocurve.foundation.units import SECOND_NS
from iocurve.job.model import PlanNote

TEXTS = read_bundled(Path(__file__).parent, "options")
"""Letters and words with their meanings, reasons of options without an effect, and samples."""


class ValidationRequest(msgspec.Struct, frozen=True):
    """Data validation requested by the command line and the general parameters."""

    active: bool = False
    preread: bool = True
    """True if a block is read and verified before it is overwritten."""
    read_after_write: bool = False
    journal: bool = False
    recover: bool = False
    recover_only: bool = False
    notes: tuple[PlanNote, ...] = msgspec.field(default=())


def read_letters(
    request: ValidationRequest, option: str, letters: str, where: Where, errors: list[Diagnostic]
) -> ValidationRequest:
    """Adds ``-vrw``, ``-jr`` to a request; adds letters that are unknown or unsupported to ``errors``."""
    table = TEXTS["letters"][option]
    request = replace(request, active=True, journal=request.journal or option == "j")
    for letter in letters:
        try:
            if letter not in table:
                raise ValueError(f"'{letter}' is not one of {', '.join(table)}")
            request = _with_word(request, f"-{option}{letter}", table[letter], where)
        except ValueError as error:
            errors.append(Diagnostic(f"-{option}: {error}", where))
    return request


def read_words(
    request: ValidationRequest, keyword: str, words: Sequence[str], where: Where, errors: list[Diagnostic]
) -> ValidationRequest:
    """Adds ``validate=(yes,no_preread)``, ``journal=recover`` to a request; adds words that are wrong to ``errors``."""
    is_journal = keyword == "journal"
    table = TEXTS["words"][keyword]
    for word in words:
        lower = word.lower().replace("_", "")
        if lower == "no":
            return replace(request, journal=False, recover=False) if is_journal else replace(request, active=False)
        found = [name for name in table if name.startswith(lower.partition("=")[0])]
        exact = [name for name in found if name == lower]
        try:
            if len(exact or found) != 1:
                raise ValueError(f"'{word[:40]}' is not one of no, {', '.join(table)}")
            request = replace(request, active=True, journal=request.journal or is_journal)
            request = _with_word(request, f"{keyword}={word}", (exact or found)[0], where)
        except ValueError as error:
            errors.append(Diagnostic(f"{keyword}: {error}", where))
    return request


def _with_word(request: ValidationRequest, written: str, meaning: str, where: Where) -> ValidationRequest:
    """Adds the meaning of a letter or word. Raises ``ValueError`` for unsupported ones."""
    noted, refused = TEXTS["meanings"]["noted"], TEXTS["meanings"]["refused"]
    if meaning in refused:
        raise ValueError(f"{written} is not supported: {refused[meaning]}")
    if meaning in noted:
        note = PlanNote("no_effect", f"{written} has no effect: {noted[meaning]}", where)
        return replace(request, notes=(*request.notes, note))
    return replace(
        request,
        preread=request.preread and meaning != "nopreread",
        read_after_write=request.read_after_write or meaning == "readafterwrite",
        recover=request.recover or meaning == "recover",
        recover_only=request.recover_only or meaning == "only",
    )


UTILITIES = ("compare", "csim", "dsim", "edit", "jstack", "parse", "parseflat", "print", "rsh", "sds", "showlba")
_VARIABLE = re.compile(r"([A-Za-z_]\w*)=(.*)\Z", re.DOTALL)


FormatOverride = Literal["only", "yes", "no"]


class Loop(msgspec.Struct, frozen=True):
    """Repetition of all runs."""

    times: int | None = 1
    """None: repeat for ``seconds``."""
    seconds: float | None = None
    """None: no time limit."""


class Options(msgspec.Struct):
    """The options of a command line."""

    files: list[tuple[Path, Where]] = msgspec.field(default_factory=list)
    text: str | None = None
    """Parameters of the sample (-t, -tf), in place of files."""
    sample: str = ""
    """Option that requested the sample."""
    variables: dict[str, str] = msgspec.field(default_factory=dict)
    output: str = "output"
    elapsed_ns: int | None = None
    """Overrides elapsed= of run definitions (-e)."""
    interval_ns: int | None = None
    """-i"""
    warmup_ns: int | None = None
    """-w"""
    format: FormatOverride | None = None
    """-co, -cy, -cn"""
    cleans: bool = False
    """-c: delete the files and directories of an anchor before the first run that uses it."""
    simulate: bool = False
    loop: Loop | None = None
    validation: ValidationRequest = msgspec.field(default_factory=ValidationRequest)
    first_run: str | None = None
    """Name of the run definition to start with (-r)."""
    host_maps: list[PathMapping] = msgspec.field(default_factory=list)
    lun_maps: list[PathMapping] = msgspec.field(default_factory=list)
    size: int | None = None
    """Size of every SD; overrides size=."""
    cluster: str | None = None
    """The cluster whose agents are the hosts; None: the hosts are workers on this machine."""
    out: Path | None = None
    notes: list[PlanNote] = msgspec.field(default_factory=list)
    errors: list[Diagnostic] = msgspec.field(default_factory=list)


def parse(arguments: Sequence[str], directory: Path) -> Options:
    """Reads a command line; file names are relative to ``directory``."""
    return _Parser(arguments, directory).parse()


class _Parser:
    def __init__(self, arguments: Sequence[str], directory: Path) -> None:
        self._arguments = list(arguments)
        self._directory = directory
        self._position = 0
        self._options = Options()

    def parse(self) -> Options:
        if self._arguments and self._arguments[0].lower() in UTILITIES:
            text = f"vdbench's utility '{self._arguments[0]}' is not supported"
            return Options(errors=[Diagnostic(text, Where(COMMAND_LINE, 1))])
        while self._position < len(self._arguments):
            word = self._arguments[self._position]
            self._position += 1
            if "\0" in word or not word.isprintable():
                self._error(f"{word[:40]!r} has unprintable characters")
            elif word.startswith("--"):
                self._long(word)
            elif word.startswith("-") and len(word) > 1:
                self._short(word)
            elif wrong := typographic_dash(word):
                self._error(wrong, f"write -{word.lstrip(DASHES)[:40]}")
            elif found := _VARIABLE.match(word):
                self._options.variables[found[1]] = found[2]
            else:
                self._error(f"'{word[:40]}' is not an option or variable=value", "write -f file")
        if not self._options.files and self._options.text is None and not self._options.errors:
            self._options.errors.append(Diagnostic("no parameter file is given", None, "write -f file"))
        return self._options

    def _long(self, word: str) -> None:
        name, equals, value = word.partition("=")
        if name not in ("--map-host", "--map-lun", "--on", "--out", "--size"):
            self._error(f"unknown option '{word[:40]}'", "see iocurve vdbench --help")
            return
        value = value if equals else self._next(name)
        if name in _MAP_EXAMPLES:
            self._map(name, value, self._options.host_maps if name == "--map-host" else self._options.lun_maps)
        elif name == "--size":
            try:
                self._options.size = values.whole(value, 512)
            except ValueError as error:
                self._error(f"--size: {error}")
        elif name == "--on":
            self._options.cluster = value or self._options.cluster
        else:
            self._options.out = Path(value) if value else self._options.out

    def _map(self, option: str, value: str, maps: list[PathMapping]) -> None:
        mapping = PathMapping.of(value, Where(COMMAND_LINE, self._position, option=option))
        if mapping:
            maps.append(mapping)
        else:
            self._error(f"{option} takes FROM=TO", f"such as {option} {_MAP_EXAMPLES[option]}")

    def _short(self, word: str) -> None:
        letter, value = word[1], word[2:]
        noted, refused = TEXTS["options"]["noted"], TEXTS["options"]["refused"]
        if word in TEXTS["samples"]:
            self._options.sample = word
            self._options.text = TEXTS["samples"][word].format(directory=tempfile.gettempdir())
        elif word == "-mb":
            text = "-mb has no effect: MB/sec is 1024*1024 bytes per second in every report"
            self._options.notes.append(PlanNote("no_effect", text, Where(COMMAND_LINE, self._position), "warning"))
        elif letter in "vj":
            self._validation(letter, value)
        elif letter in refused:
            self._error(f"{word[:40]} is not supported: {refused[letter]}")
        elif letter in noted:
            where = Where(COMMAND_LINE, self._position)
            if letter in _WITH_VALUE and not value:
                self._next(word)
            self._options.notes.append(PlanNote("no_effect", f"-{letter} has no effect: {noted[letter]}", where))
        elif letter in _EFFECTS:
            try:
                _EFFECTS[letter](self, value)
            except ValueError as error:
                self._error(f"-{letter}: {error}")
        else:
            self._error(f"unknown option '{word[:40]}'", "see iocurve vdbench --help")

    def _files(self, value: str) -> None:
        names = [value] if value else []
        while self._position < len(self._arguments):
            word = self._arguments[self._position]
            is_file = (self._directory / word).is_file() if "\0" not in word else False
            if word.startswith("-") or ("=" in word and not is_file):
                break
            names.append(word)
            self._position += 1
        if not names:
            self._error("-f needs a parameter file")
        where = Where(COMMAND_LINE, self._position)
        self._options.files += [(self._directory / name, where) for name in names]

    def _validation(self, letter: str, value: str) -> None:
        where = Where(COMMAND_LINE, self._position)
        made = self._options
        made.validation = read_letters(made.validation, letter, value, where, made.errors)

    def _clean(self, value: str) -> None:
        if not value:
            self._options.cleans = True
        elif value in _FORMATS:
            self._options.format = _FORMATS[value]
        else:
            raise ValueError(f"'{value[:40]}' is not one of {', '.join(_FORMATS)}")

    def _loop(self, value: str) -> None:
        following = self._arguments[self._position] if self._position < len(self._arguments) else ""
        if not value and re.fullmatch(r"\d+[smh]?", following):
            value = self._next("-l")
        # A number without a unit is seconds here, but a count in loop=.
        self._options.loop = Loop(times=None, seconds=values.duration_ns(value) / SECOND_NS if value else None)

    def _next(self, option: str) -> str:
        if self._position >= len(self._arguments):
            self._error(f"{option} needs a value")
            return "0"
        self._position += 1
        return self._arguments[self._position - 1]

    def _error(self, text: str, hint: str | None = None) -> None:
        self._options.errors.append(Diagnostic(text, Where(COMMAND_LINE, self._position), hint))


def loop(word: str) -> Loop:
    """Reads ``loop=``: ``3`` times, or for ``24h``."""
    if word.isdecimal():
        return Loop(times=values.whole(word, 1, 1_000_000))
    return Loop(times=None, seconds=values.duration_ns(word) / SECOND_NS)


_FORMATS: dict[str, FormatOverride] = {"o": "only", "y": "yes", "n": "no"}


def _duration(option: str) -> Callable[[_Parser, str], int]:
    return lambda parser, value: values.duration_ns(value or parser._next(option))


def _sets(name: str, read: Callable[[_Parser, str], object]) -> Callable[[_Parser, str], None]:
    return lambda parser, value: setattr(parser._options, name, read(parser, value))


_EFFECTS: dict[str, Callable[[_Parser, str], None]] = {
    "f": _Parser._files,
    "o": _sets("output", lambda parser, value: value or parser._next("-o") or parser._options.output),
    "e": _sets("elapsed_ns", _duration("-e")),
    "i": _sets("interval_ns", _duration("-i")),
    "I": _sets("interval_ns", _duration("-i")),
    "w": _sets("warmup_ns", _duration("-w")),
    "c": _Parser._clean,
    "s": _sets("simulate", lambda _parser, _value: True),
    "r": _sets("first_run", lambda parser, value: value or parser._next("-r")),
    "l": _Parser._loop,
}
_WITH_VALUE = ("m", "p")
_MAP_EXAMPLES = {"--map-host": "vm1=localhost", "--map-lun": "/dev/rdsk/c0=/data/c0"}
