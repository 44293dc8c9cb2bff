"""A TOML job file becomes jobs; everything that is wrong in it is found at once, with its line."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from iocurve.dialects.base import TimedJob
from iocurve.dialects.native.read.document import DEFAULTS
from iocurve.dialects.native.read.keys import FIELD_OF, KINDS
from iocurve.dialects.native.read.kinds import Time
from iocurve.dialects.native.words import WORDS
from iocurve.errors import DialectError, Mistake, Where, nearest
from iocurve.job.model import Job, Said
from iocurve.units import MILLISECOND_NS, SECOND_NS

RUN_KEYS = ("name", "interval", "defaults", "job")
_HEADER = re.compile(r"\s*(\[\[?)\s*([\w.\-]+)\s*\]")
_KEY = re.compile(r"\s*([\w\-]+)\s*[.=]")
_ERROR_PLACE = re.compile(r"(.*) \(at line (\d+), column (\d+)\)")


def read(path: Path) -> list[TimedJob]:
    """The runs of a file. Raises ``DialectError`` with every mistake."""
    reader, document = begin(path)
    runs = reader.runs(document)
    reader.require_faultless()
    return runs


def begin(path: Path) -> tuple[Reader, dict[str, Any]]:
    """A TOML file, and who reads it and collects its mistakes. Raises ``DialectError`` where it is no TOML."""
    text = _text(path)
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise DialectError([_not_toml(path, str(error))]) from None
    except RecursionError:
        raise DialectError([Mistake(f"{path} is nested too deeply for a job file")]) from None
    return Reader(path, _places(text)), document


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


Place = tuple[str | int, ...]
"""Where in a document: keys, and numbers of tables in arrays."""


def _places(text: str) -> dict[Place, int]:
    """The line of each table and key. Tables of arrays are counted, as in ``("job", 0, "depth")``."""
    places: dict[Place, int] = {}
    counts: dict[Place, int] = {}
    table: Place = ()
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
class Reader:
    """Reads the parts of one file; what is wrong in them is collected with its line."""

    path: Path
    places: dict[Place, int]
    mistakes: list[Mistake] = field(default_factory=list)

    def require_faultless(self) -> None:
        """Raises ``DialectError`` with every mistake until now, in the order of the lines."""
        if self.mistakes:
            raise DialectError(sorted(self.mistakes, key=lambda mistake: mistake.where.line if mistake.where else 0))

    def runs(self, document: dict[str, Any]) -> list[TimedJob]:
        """Those of ``[[run]]``, or the file as one."""
        if "run" not in document:
            return [self._run(document, (), self.path.stem)]
        self.check_keys(document, ("run",), ())
        return [
            self._run(run, ("run", number), f"{self.path.stem}-{number + 1}")
            for number, run in enumerate(self.tables(document, (), "run"))
        ]

    def _run(self, table: dict[str, Any], place: Place, name: str) -> TimedJob:
        self.check_keys(table, RUN_KEYS, place)
        said = table.get("name", name)
        if not isinstance(said, str) or not said:
            self.mistake((*place, "name"), "name: this is not a name")
            said = name
        interval = SECOND_NS
        try:
            interval = Time().read(table.get("interval", 1))
        except ValueError as error:
            self.mistake((*place, "interval"), f"interval: {error}")
        if interval < MILLISECOND_NS:
            self.mistake((*place, "interval"), "interval: 1ms is the shortest")
        defaults = table.get("defaults", {})
        if not isinstance(defaults, dict):
            self.mistake((*place, "defaults"), "defaults is a table: [defaults]")
            defaults = {}
        jobs = self.tables(table, place, "job")
        if not jobs:
            self.mistake(place, "there is no job: begin one with [[job]]")
        sections = [self.section(job, (*place, "job", number)) for number, job in enumerate(jobs)]
        common = self.section(defaults, (*place, "defaults")).over(DEFAULTS)
        return TimedJob(Job.of(said, WORDS, sections, common), interval)

    def section(self, table: dict[str, Any], place: Place) -> Said:
        """A table of a job's keys."""
        self.check_keys(table, FIELD_OF, place)
        fields, positions = {}, {}
        for key, value in table.items():
            name = FIELD_OF.get(key)
            if name is None:
                continue
            positions[name] = self.where((*place, key))
            try:
                fields[name] = KINDS[name].read(_text_only(value))
            except (ValueError, OverflowError) as error:
                self.mistake((*place, key), f"{key}: {error}")
        return Said.of(**fields).at(positions)

    def tables(self, table: dict[str, Any], place: Place, key: str) -> list[dict[str, Any]]:
        """The tables of ``[[key]]``."""
        value = table.get(key, [])
        if isinstance(value, list) and all(isinstance(one, dict) for one in value):
            return value
        self.mistake((*place, key), f"{key} is a list of tables: [[{key}]]")
        return []

    def check_keys(self, table: dict[str, Any], known: Iterable[str], place: Place) -> None:
        """Keys that are not known are mistakes."""
        known = list(known)
        for key in table:
            if key not in known:
                close = nearest(key, known)
                hint = f"Did you mean {close}?" if close else None
                self.mistake((*place, key), f"there is no key '{key}' here", hint)

    def mistake(self, place: Place, text: str, hint: str | None = None) -> None:
        """Something is wrong there."""
        self.mistakes.append(Mistake(text, self.where(place), hint))

    def where(self, place: Place) -> Where:
        """The line of a key, or of what it stands in."""
        while place and place not in self.places:
            place = place[:-1]
        return Where(str(self.path), self.places.get(place, 1))


def _text_only(value: Any) -> Any:
    """Dates are no value of any key, and file names end at a zero byte."""
    if isinstance(value, str) and "\0" in value:
        raise ValueError("a text cannot hold a zero byte")
    return value
