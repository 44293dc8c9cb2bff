"""Statements become definitions: defaults filled in, keywords found, values read, every mistake with its place."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from iocurve.dialects.vdbench.read import keywords
from iocurve.dialects.vdbench.read.lines import DEFINITIONS, Parameter, Statement, host_labels
from iocurve.errors import Mistake, Where
from iocurve.job.model import PlanNote

_ORDER = {kind: number for number, kind in enumerate(("general", "hd", "rg", "sd", "fsd", "wd", "fwd", "rd"))}


@dataclass
class Definition:
    """One ``sd=``, ``wd=``, ``rd=``, … with the defaults of its kind."""

    kind: str
    name: str
    where: Where
    values: dict[str, Any] = field(default_factory=dict)
    """By the keyword's full name."""
    places: dict[str, Where] = field(default_factory=dict)
    loops: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    """Values of for-loops, in the order in which they were written."""
    pairs: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)
    """host= and lun= of an SD as they follow one another."""
    written: dict[str, str] = field(default_factory=dict)
    """As a person wrote them, for those that are only explained."""

    wrong: set[str] = field(default_factory=set)
    """Keywords whose values could not be read; that was told already."""

    def get(self, name: str, default: Any = None) -> Any:
        """A value, or what holds without one."""
        return self.values.get(name, default)

    def place(self, *names: str) -> Where:
        """Where the first of these was said."""
        return next((self.places[name] for name in names if name in self.places), self.where)

    def copy(self, name: str, where: Where) -> Definition:
        """These values as the beginning of another definition; pairs belong to one definition alone."""
        return Definition(
            self.kind, name, where, dict(self.values), dict(self.places), dict(self.loops), [], dict(self.written)
        )


@dataclass
class Definitions:
    """A whole parameter file."""

    general: Definition
    by_kind: dict[str, list[Definition]]
    defaults: dict[str, Definition]
    hosts: list[str]
    """Labels, several for an ``hd=`` with clients."""
    mistakes: list[Mistake]
    notes: list[PlanNote]

    @property
    def is_file_system(self) -> bool:
        """Whether it is about FSDs and FWDs."""
        return bool(self.by_kind["fsd"] or self.by_kind["fwd"])


def define(statements: Iterable[Statement]) -> Definitions:
    """Reads all statements."""
    return _Definer().define(statements)


class _Definer:
    def __init__(self) -> None:
        nowhere = Where("", 1)
        self._defaults = {kind: Definition(kind, "default", nowhere) for kind in DEFINITIONS}
        self._made = Definitions(
            Definition("general", "", nowhere), {kind: [] for kind in DEFINITIONS}, self._defaults, [], [], []
        )
        self._names: dict[str, set[str]] = {kind: set() for kind in DEFINITIONS}
        self._noted: set[tuple[str, str]] = set()
        self._latest = 0

    def define(self, statements: Iterable[Statement]) -> Definitions:
        for statement in statements:
            self._note_order(statement)
            if statement.kind == "general":
                for parameter in statement.parameters:
                    self._set(self._made.general, parameter)
            else:
                self._define(statement)
        return self._made

    def _note_order(self, statement: Statement) -> None:
        order = _ORDER[statement.kind]
        if order < self._latest and ("order", statement.kind) not in self._noted:
            self._noted.add(("order", statement.kind))
            text = "vdbench itself wants General, HD, RG, SD, WD, RD (or FSD, FWD, RD) in this order"
            self._made.notes.append(PlanNote("order", text, statement.parameters[0].where, "warning"))
        self._latest = max(self._latest, order)

    def _define(self, statement: Statement) -> None:
        head = statement.parameters[0]
        kind = statement.kind
        try:
            # host=(system,label) is how hosts were written before hd= was there.
            name = head.values[1] if kind == "hd" and len(head.values) == 2 else head.text
        except ValueError as error:
            self._mistake(str(error), head)
            return
        keyword = keywords.find(kind, kind)
        if keyword.refused:
            self._mistake(f"{kind}= is not supported: {keyword.refused}", head)
            return
        if name.lower() == "default":
            made = self._defaults[kind]
        else:
            made = self._defaults[kind].copy(name, head.where)
            if name in self._names[kind] and kind != "rd":
                self._mistake(f"{kind}={name} is defined twice", head)
            self._names[kind].add(name)
            self._made.by_kind[kind].append(made)
        if len(head.values) == 2:
            made.values["system"] = head.values[0]
        for parameter in statement.parameters[1:]:
            self._set(made, parameter)
        if kind == "hd":
            self._made.hosts += [label for label in host_labels(statement) if label not in self._made.hosts]

    def _set(self, made: Definition, parameter: Parameter) -> None:
        try:
            keyword = keywords.find(made.kind, parameter.keyword)
            if keyword.refused:
                raise ValueError(f"{parameter.keyword}= is not supported: {keyword.refused}")
            made.wrong.add(keyword.name)
            value = keyword.read(parameter)
            made.wrong.discard(keyword.name)
        except ValueError as error:
            # That a variable has no value was told already.
            if not any("$" in value for value in parameter.values):
                self._mistake(str(error), parameter)
            return
        self._note(made.kind, keyword, parameter)
        if keyword.loop:
            made.loops[keyword.name] = value
        else:
            made.values[keyword.name] = value
        made.places[keyword.name] = parameter.where
        made.written[keyword.name] = _written(parameter.values)
        if made.kind == "sd" and keyword.name in ("host", "lun"):
            made.pairs.append((keyword.name, parameter.values))

    def _note(self, kind: str, keyword: keywords.Keyword, parameter: Parameter) -> None:
        if keyword.note is None or (kind, keyword.name) in self._noted:
            return
        self._noted.add((kind, keyword.name))
        text = f"{parameter.keyword}= has no effect: {keyword.note}"
        self._made.notes.append(PlanNote("no_effect", text, parameter.where, keyword.level))

    def _mistake(self, text: str, parameter: Parameter) -> None:
        self._made.mistakes.append(Mistake(text, parameter.where))


def _written(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"({','.join(words)})"
