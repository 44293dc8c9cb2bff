"""Vdbench's keywords as a table, and the definitions that statements of them make.

A keyword is supported, with the reader of its value, or a row of ``keywords.toml``.

Names are those of vdbench 5.04.06. A keyword may be abbreviated to two or more letters; underscores are ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import msgspec

from iocurve.dialects.vdbench.read import file_values, values
from iocurve.dialects.vdbench.read.lines import DEFINITIONS, Parameter, Statement, host_labels, kind_of
from iocurve.dialects.vdbench.read.values import Reader
from iocurve.foundation.errors import Diagnostic, Where
from iocurve.foundation.structs import read_bundled
from iocurve.job.model import Level, PlanNote


class Keyword(msgspec.Struct, frozen=True):
    """One keyword of one kind of definition."""

    name: str
    read: Reader = values.words
    aliases: tuple[str, ...] = ()
    note: str | None = None
    """Reason why it has no effect; None if it has one."""
    level: Level = "info"
    """Level of the note."""
    refused: str | None = None
    """Reason why it is not supported; None if it is."""
    loop: bool = False
    """True if several values mean several runs (forxx)."""
    first: bool = False
    """True if the first of several numbers applies."""


def _reader(written: str) -> Reader:
    """``series 512 1024``: a function of ``values`` or ``file_values`` reads, or makes a reader of limits or words."""
    name, *arguments = written.split()
    found: Callable[..., Any] = getattr(file_values, name, None) or getattr(values, name)
    return found(*(int(each) if each.isdecimal() else each for each in arguments)) if arguments else found


def _loop(names: str, reader: str) -> Keyword:
    name, *aliases = names.split()
    also = () if name.startswith("for") else (f"for{each}" for each in (name, *aliases))
    return Keyword(name, _reader(reader), (*aliases, *also), loop=True)


def _supported(names: str, reader: str) -> Keyword:
    name, *aliases = names.split()
    return Keyword(name, _reader(reader), tuple(aliases), first=reader.startswith("first "))


def _keywords(kind: str, table: dict[str, dict[str, str]]) -> Iterator[Keyword]:
    """The keywords of a kind of definition; ``table`` is that of ``keywords.toml``."""
    if kind not in ("general", "rg"):
        yield Keyword(kind)
    yield from (_supported(names, reader) for names, reader in table.get("supported", {}).items())
    yield from (_loop(names, reader) for names, reader in table.get("loops", {}).items())
    for way in ("noted", "warned", "refused"):
        for names, reason in table.get(way, {}).items():
            for name in names.split():
                note = None if way == "refused" else reason
                level: Level = "warning" if way == "warned" else "info"
                yield Keyword(name, note=note, level=level, refused=reason if way == "refused" else None)


_TEXTS = read_bundled(Path(__file__).parent, "keywords")
TABLE = {
    kind: [*_keywords(kind, _TEXTS.get(kind, {}))] for kind in ("general", "hd", "rg", "sd", "wd", "rd", "fsd", "fwd")
}
"""Keywords by kind of definition."""


_INDEX = {
    kind: {name: keyword for keyword in keywords for name in (keyword.name, *keyword.aliases)}
    for kind, keywords in TABLE.items()
}


def find(kind: str, written: str) -> Keyword:
    """Finds a keyword by its name, alias or abbreviation. Raises ``ValueError`` with a hint."""
    index = _INDEX[kind]
    word = written.lower().replace("_", "")
    if word in index:
        return index[word]
    names = [name for name in index if len(word) >= 2 and name.startswith(word)]
    meant = {index[name].name: index[name] for name in names}
    if len(meant) == 1:
        return next(iter(meant.values()))
    if meant:
        raise ValueError(f"'{written[:40]}' is ambiguous: {' or '.join(sorted(names))}")
    raise ValueError(f"{_unknown(kind, word, written)}{_hint(index, word)}")


def _unknown(kind: str, word: str, written: str) -> str:
    others = [other for other in TABLE if other != kind and word in _INDEX[other]]
    if others and kind != "general":
        owner = "general parameters, before all definitions" if others[0] == "general" else f"{others[0]}="
        return f"'{written[:40]}' is not a parameter of {kind}=; it belongs to {owner}"
    if others:
        return f"'{written[:40]}' belongs to {others[0]}=, and no {others[0]}= comes before it"
    return f"unknown parameter '{written[:40]}'" + ("" if kind == "general" else f" of {kind}=")


def _hint(index: dict[str, Keyword], word: str) -> str:
    close = get_close_matches(word, index, n=1)
    return f"; did you mean {close[0]}?" if close else ""


ERRORS_MAX = 1_000
"""Errors after which no further definition is read."""
_ORDER = {kind: number for number, kind in enumerate(("general", "hd", "rg", "sd", "fsd", "wd", "fwd", "rd"))}


class Definition(msgspec.Struct):
    """One ``sd=``, ``wd=``, ``rd=``, … with the defaults of its kind."""

    kind: str
    name: str
    where: Where
    values: dict[str, Any] = msgspec.field(default_factory=dict)
    """Values by the keyword's full name."""
    positions: dict[str, Where] = msgspec.field(default_factory=dict)
    loops: dict[str, tuple[Any, ...]] = msgspec.field(default_factory=dict)
    """Values of forxx loops, and of a fwdrate= with several, in the order they are written."""
    pairs: list[tuple[str, tuple[str, ...]]] = msgspec.field(default_factory=list)
    """host= and lun= of an SD in the order they are written."""
    wrong: set[str] = msgspec.field(default_factory=set)
    """Keywords with a value that could not be read; their errors are recorded."""

    def get(self, name: str, default: Any = None) -> Any:
        """Returns a value, or ``default``."""
        return self.values.get(name, default)

    def position_of(self, *names: str) -> Where:
        """Position of the first of these keywords that is set, else of the definition."""
        return next((self.positions[name] for name in names if name in self.positions), self.where)

    def copy(self, name: str, where: Where) -> Definition:
        """Starts another definition with these values, without the pairs of host= and lun=."""
        return Definition(self.kind, name, where, dict(self.values), dict(self.positions), dict(self.loops))


class Definitions(msgspec.Struct):
    """All definitions of the parameter files."""

    general: Definition
    by_kind: dict[str, list[Definition]]
    defaults: dict[str, Definition]
    hosts: list[str]
    """Labels of the hosts; an ``hd=`` with clients has several."""
    errors: list[Diagnostic]
    notes: list[PlanNote]

    @property
    def is_file_system(self) -> bool:
        """True if there are FSDs or FWDs."""
        return bool(self.by_kind["fsd"] or self.by_kind["fwd"])


def define(statements: Iterable[Statement]) -> Definitions:
    """Turns all statements into definitions."""
    return _DefinitionReader().define(statements)


class _DefinitionReader:
    def __init__(self) -> None:
        nowhere = Where("", 1)
        self._defaults = {kind: Definition(kind, "default", nowhere) for kind in DEFINITIONS}
        self._result = Definitions(
            Definition("general", "", nowhere), {kind: [] for kind in DEFINITIONS}, self._defaults, [], [], []
        )
        self._names: dict[str, set[str]] = {kind: set() for kind in DEFINITIONS}
        self._noted: set[tuple[str, str]] = set()
        self._latest = 0

    def define(self, statements: Iterable[Statement]) -> Definitions:
        for statement in statements:
            if len(self._result.errors) >= ERRORS_MAX:
                break
            self._note_order(statement)
            if kind_of(statement) == "general":
                for parameter in statement:
                    self._set(self._result.general, parameter)
            else:
                self._define(statement)
        return self._result

    def _note_order(self, statement: Statement) -> None:
        kind = kind_of(statement)
        order = _ORDER[kind]
        if order < self._latest and ("order", kind) not in self._noted:
            self._noted.add(("order", kind))
            text = "vdbench itself requires the order General, HD, RG, SD, WD, RD (or FSD, FWD, RD)"
            self._result.notes.append(PlanNote("order", text, statement[0].where, "warning"))
        self._latest = max(self._latest, order)

    def _define(self, statement: Statement) -> None:
        head, kind = statement[0], kind_of(statement)
        try:
            # host=(system,label) is the older form of hd=.
            name = head.values[1] if kind == "hd" and len(head.values) == 2 else head.text
        except ValueError as error:
            self._error(str(error), head)
            return
        keyword = find(kind, kind)
        if keyword.refused:
            self._error(f"{kind}= is not supported: {keyword.refused}", head)
            return
        if name.lower() == "default":
            made = self._defaults[kind]
        else:
            made = self._defaults[kind].copy(name, head.where)
            if name in self._names[kind] and kind != "rd":
                self._error(f"{kind}={name} is defined twice", head)
            self._names[kind].add(name)
            self._result.by_kind[kind].append(made)
        if len(head.values) == 2:
            made.values["system"] = head.values[0]
        for parameter in statement[1:]:
            if len(self._result.errors) >= ERRORS_MAX:
                break
            self._set(made, parameter)
        if kind == "hd":
            self._result.hosts += [label for label in host_labels(statement) if label not in self._result.hosts]

    def _set(self, made: Definition, parameter: Parameter) -> None:
        try:
            keyword = find(made.kind, parameter.keyword)
            if keyword.refused:
                raise ValueError(f"{parameter.keyword}= is not supported: {keyword.refused}")
            made.wrong.add(keyword.name)
            value = keyword.read(parameter)
            made.wrong.discard(keyword.name)
            if (made.kind, made.name, keyword.name) == ("sd", "default", "lun"):
                raise ValueError("sd=default takes no lun=, as in vdbench")
        except ValueError as error:
            # A variable without a value is recorded as an error already.
            if not any("$" in value for value in parameter.values):
                self._error(str(error), parameter)
            return
        self._note(made.kind, keyword, parameter)
        if keyword.first and len(parameter.values) > 1:
            text = f"{made.kind}={made.name}: {parameter.keyword}= has several numbers: vdbench uses the first, {value}"
            self._result.notes.append(PlanNote("first_number", text, parameter.where, "warning"))
        if keyword.loop:
            made.loops[keyword.name.removeprefix("for")] = value
        else:
            made.values[keyword.name] = value
            if keyword.name == "fwdrate":
                made.loops.pop("fwdrate", None)
                made.loops |= {"fwdrate": value} if len(value) > 1 else {}
        made.positions[keyword.name] = parameter.where
        if made.kind == "sd" and keyword.name in ("host", "lun"):
            made.pairs.append((keyword.name, parameter.values))

    def _note(self, kind: str, keyword: Keyword, parameter: Parameter) -> None:
        if keyword.note is None or (kind, keyword.name) in self._noted:
            return
        self._noted.add((kind, keyword.name))
        text = f"{parameter.keyword}= has no effect: {keyword.note}"
        self._result.notes.append(PlanNote("no_effect", text, parameter.where, keyword.level))

    def _error(self, text: str, parameter: Parameter) -> None:
        self._result.errors.append(Diagnostic(text, parameter.where))
