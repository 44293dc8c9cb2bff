"""A TOML job file becomes jobs; everything that is wrong in it is found at once, with its line."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from iocurve.dialects.native.document import DEFAULTS, Run
from iocurve.dialects.native.keys import FIELD_OF, KINDS
from iocurve.dialects.native.kinds import Time
from iocurve.errors import DialectError, Mistake, Where
from iocurve.model import Job, Section
from iocurve.units import MILLISECOND_NS, SECOND_NS

RUN_KEYS = ("name", "interval", "defaults", "job")
_HEADER = re.compile(r"\s*(\[\[?)\s*([\w.\-]+)\s*\]")
_KEY = re.compile(r"\s*([\w\-]+)\s*[.=]")
_ERROR_PLACE = re.compile(r"(.*) \(at line (\d+), column (\d+)\)")


def read(path: Path) -> list[Run]:
    """The runs of a file. Raises ``DialectError`` with every mistake."""
    text = _text(path)
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise DialectError([_not_toml(path, str(error))]) from None
    except RecursionError:
        raise DialectError([Mistake(f"{path} is nested too deeply for a job file")]) from None
    reader = _Reader(path, _places(text))
    runs = reader.runs(document)
    if reader.mistakes:
        raise DialectError(sorted(reader.mistakes, key=lambda mistake: mistake.where.line if mistake.where else 0))
    return runs


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise DialectError([Mistake(f"{path} is not text (UTF-8)")]) from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "no file can have this name"
        raise DialectError([Mistake(f"{path} cannot be read: {reason}")]) from None


def _not_toml(path: Path, text: str) -> Mistake:
    found = _ERROR_PLACE.fullmatch(text)
    if found is None:
        return Mistake(f"{path} is not TOML: {text}")
    return Mistake(f"this is not TOML: {found[1]}", Where(str(path), int(found[2]), int(found[3])))


_Path = tuple[str | int, ...]


def _places(text: str) -> dict[_Path, int]:
    """The line of each table and key. Tables of arrays are counted, as in ``("job", 0, "depth")``."""
    places: dict[_Path, int] = {}
    counts: dict[_Path, int] = {}
    table: _Path = ()
    for number, line in enumerate(text.splitlines(), start=1):
        if header := _HEADER.match(line):
            table = ()
            names = header[2].split(".")
            for depth, name in enumerate(names, start=1):
                table = (*table, name)
                if depth == len(names) and header[1] == "[[":
                    counts[table] = counts.get(table, -1) + 1
                if table in counts:
                    table = (*table, counts[table])
            places.setdefault(table, number)
        elif key := _KEY.match(line):
            places.setdefault((*table, key[1]), number)
    return places


@dataclass
class _Reader:
    path: Path
    places: dict[_Path, int]
    mistakes: list[Mistake] = field(default_factory=list)

    def runs(self, document: dict[str, Any]) -> list[Run]:
        """Those of ``[[run]]``, or the file as one."""
        if "run" not in document:
            return [self._run(document, (), self.path.stem)]
        self._check_keys(document, ("run",), ())
        return [
            self._run(run, ("run", number), f"{self.path.stem}-{number + 1}")
            for number, run in enumerate(self._tables(document, (), "run"))
        ]

    def _run(self, table: dict[str, Any], place: _Path, name: str) -> Run:
        self._check_keys(table, RUN_KEYS, place)
        said = table.get("name", name)
        if not isinstance(said, str) or not said:
            self._mistake((*place, "name"), "name: this is not a name")
            said = name
        interval = SECOND_NS
        try:
            interval = Time().read(table.get("interval", 1))
        except ValueError as error:
            self._mistake((*place, "interval"), f"interval: {error}")
        if interval < MILLISECOND_NS:
            self._mistake((*place, "interval"), "interval: 1ms is the shortest")
        defaults = table.get("defaults", {})
        if not isinstance(defaults, dict):
            self._mistake((*place, "defaults"), "defaults is a table: [defaults]")
            defaults = {}
        jobs = self._tables(table, place, "job")
        if not jobs:
            self._mistake(place, "there is no job: begin one with [[job]]")
        sections = tuple(self._section(job, (*place, "job", number)) for number, job in enumerate(jobs))
        common = self._section(defaults, (*place, "defaults")).over(DEFAULTS)
        return Run(Job(name=said, dialect="iocurve", sections=sections, defaults=common), interval)

    def _section(self, table: dict[str, Any], place: _Path) -> Section:
        self._check_keys(table, FIELD_OF, place)
        fields, positions = {}, {}
        for key, value in table.items():
            name = FIELD_OF.get(key)
            if name is None:
                continue
            positions[name] = self._where((*place, key))
            try:
                fields[name] = KINDS[name].read(_text_only(value))
            except (ValueError, OverflowError) as error:
                self._mistake((*place, key), f"{key}: {error}")
        return Section(**fields, positions=positions)

    def _tables(self, table: dict[str, Any], place: _Path, key: str) -> list[dict[str, Any]]:
        value = table.get(key, [])
        if isinstance(value, list) and all(isinstance(one, dict) for one in value):
            return value
        self._mistake((*place, key), f"{key} is a list of tables: [[{key}]]")
        return []

    def _check_keys(self, table: dict[str, Any], known: Iterable[str], place: _Path) -> None:
        known = list(known)
        for key in table:
            if key not in known:
                close = difflib.get_close_matches(key, known, n=1, cutoff=0.6)
                hint = f"Did you mean {close[0]}?" if close else None
                self._mistake((*place, key), f"there is no key '{key}' here", hint)

    def _mistake(self, place: _Path, text: str, hint: str | None = None) -> None:
        self.mistakes.append(Mistake(text, self._where(place), hint))

    def _where(self, place: _Path) -> Where:
        """The line of a key, or of what it stands in."""
        while place and place not in self.places:
            place = place[:-1]
        return Where(str(self.path), self.places.get(place, 1))


def _text_only(value: Any) -> Any:
    """Dates are no value of any key, and file names end at a zero byte."""
    if isinstance(value, str) and "\0" in value:
        raise ValueError("a text cannot hold a zero byte")
    return value
