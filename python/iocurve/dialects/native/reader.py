"""Reads a TOML job file into jobs, and collects every error with its line."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from iocurve.dialects.native.kinds import DEFAULTS, EARLIER_KEYS, FIELD_OF, KINDS, TIME, WORDS, Kind
from iocurve.foundation.errors import Diagnostic, DialectError, Where, nearest
from iocurve.foundation.units import MILLISECOND_NS, SECOND_NS
from iocurve.job.model import Job, Said

T = TypeVar("T")
D = TypeVar("D")
KeyPath = tuple[str | int, ...]
"""A position in a document: keys, and indexes of tables in arrays."""
RUN_KEYS = ("name", "interval", "defaults", "job")
_HEADER = re.compile(r"\s*(\[\[?)\s*([\w.\-]+)\s*\]")
_KEY = re.compile(r"\s*([\w\-]+)\s*[.=]")
_ERROR_POSITION = re.compile(r"(.*) \(at line (\d+), column (\d+)\)")


def read(path: Path, text: str | None = None) -> list[Job]:
    """The runs of ``[[run]]``, or the whole file as one run. Raises ``DialectError`` with every error.

    With ``text`` the path only names it in errors.
    """
    document = begin(path, text)
    if "run" in document.values:
        document.check_keys(("run",))
        runs = [_run(run, f"{path.stem}-{number}") for number, run in enumerate(document.tables("run"), 1)]
    else:
        runs = [_run(document, path.stem)]
    document.require_faultless()
    return runs


def _run(table: DocumentTable, name: str) -> Job:
    table.check_keys(RUN_KEYS)
    run_name = table.values.get("name", name)
    if not isinstance(run_name, str) or not run_name:
        table.error("name: a name is a text that is not empty", "name")
        run_name = name
    interval = table.value("interval", TIME, SECOND_NS)
    if interval < MILLISECOND_NS:
        table.error("interval: the shortest interval is 1ms", "interval")
    defaults = table.table("defaults", "defaults must be a table: [defaults]")
    jobs = table.tables("job")
    if not jobs:
        table.error("there is no job; add a table [[job]]")
    sections = [job.section() for job in jobs]
    job = Job.of(run_name, WORDS, sections, defaults.section().over(DEFAULTS))
    return job.replace(interval_ns=interval)


def begin(path: Path, text: str | None = None) -> DocumentTable:
    """Opens a TOML file, or reads its text. Raises ``DialectError`` if it is no TOML."""
    text = _text(path) if text is None else text
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise DialectError([_not_toml(path, str(error))]) from None
    except RecursionError:
        raise DialectError([Diagnostic(f"{path} is nested too deeply for a job file")]) from None
    twice: list[KeyPath] = []
    document = _in_current_names(document, (), twice)
    table = DocumentTable(document, path, _line_numbers(text))
    for *position, earlier in twice:
        name = EARLIER_KEYS[str(earlier)]
        table.error(f"{earlier}: {name} is the same key, and is given as well", *position, name)
    return table


def _in_current_names(values: Mapping[str, object], position: KeyPath, twice: list[KeyPath]) -> dict[str, object]:
    """A table with the keys of today; a tree's own ``depth`` is its levels. Adds keys that are given by both names."""
    found: dict[str, object] = {}
    for key, value in values.items():
        name = EARLIER_KEYS.get(key, key)
        if name != key and name in values:
            twice.append((*position, key))
            continue
        found[name] = value if key == "tree" else _value_in_current_names(value, (*position, name), twice)
    return found


def _value_in_current_names(value: object, position: KeyPath, twice: list[KeyPath]) -> object:
    if isinstance(value, dict):
        return _in_current_names(value, position, twice)
    if isinstance(value, list):
        return [_value_in_current_names(one, (*position, number), twice) for number, one in enumerate(value)]
    return value


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise DialectError([Diagnostic(f"{path} is not text (UTF-8)")]) from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a valid file name"
        raise DialectError([Diagnostic(f"{path} cannot be read: {reason}")]) from None


def _not_toml(path: Path, text: str) -> Diagnostic:
    found = _ERROR_POSITION.fullmatch(text)
    if found is None:
        return Diagnostic(f"{path} is not TOML: {text}")
    return Diagnostic(f"this is not TOML: {found[1]}", Where(str(path), int(found[2]), int(found[3])))


def _line_numbers(text: str) -> dict[KeyPath, int]:
    """Line of each table and key. Tables in arrays have an index, as in ``("job", 0, "iodepth")``."""
    lines: dict[KeyPath, int] = {}
    counts: dict[KeyPath, int] = {}
    table: KeyPath = ()
    for number, line in enumerate(text.splitlines(), start=1):
        if header := _HEADER.match(line):
            table = ()
            names = [EARLIER_KEYS.get(name, name) for name in header[2].split(".")]
            for depth, name in enumerate(names, start=1):
                table = (*table, name)
                if depth == len(names) and header[1] == "[[":
                    counts[table] = counts.get(table, -1) + 1
                if table in counts:
                    table = (*table, counts[table])
            lines.setdefault(table, number)
        elif key := _KEY.match(line):
            lines.setdefault((*table, EARLIER_KEYS.get(key[1], key[1])), number)
    return lines


class DocumentTable(msgspec.Struct, frozen=True):
    """A table of a TOML file. What is wrong in it is collected, with its line."""

    values: Mapping[str, object]
    path: Path
    """The file."""
    lines: Mapping[KeyPath, int]
    """Lines of the file's tables and keys."""
    position: KeyPath = ()
    errors: list[Diagnostic] = msgspec.field(default_factory=list)
    """Values found in the whole file so far."""

    def require_faultless(self) -> None:
        """Raises ``DialectError`` with every error in the file so far, in the order of the lines."""
        if self.errors:
            raise DialectError(sorted(self.errors, key=lambda error: error.where.line if error.where else 0))

    def value(self, key: str, kind: Kind[T], otherwise: D) -> T | D:
        """The value of a key; ``otherwise`` where it is absent or wrong."""
        if key not in self.values:
            return otherwise
        try:
            return kind.read(self.values[key])
        except (ValueError, OverflowError) as error:
            self.error(f"{key}: {error}", key)
            return otherwise

    def table(self, key: str, error: str | None = None) -> DocumentTable:
        """The table ``[key]``; an empty one where it is absent or wrong."""
        value = self.values.get(key, {})
        if not isinstance(value, dict):
            self.error(error or f"{key} is a table: [{key}]", key)
            value = {}
        return self.part(value, key)

    def tables(self, key: str) -> list[DocumentTable]:
        """The tables of ``[[key]]``."""
        value = self.values.get(key, [])
        if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
            self.error(f"{key} must be a list of tables: [[{key}]]", key)
            return []
        return [self.part(one, key, number) for number, one in enumerate(value)]

    def part(self, values: Mapping[str, object], *position: str | int) -> DocumentTable:
        """Values of this table at a position below it."""
        return replace(self, values=values, position=(*self.position, *position))

    def section(self, *others: str) -> Said:
        """The fields of a job or of defaults; ``others`` are keys of the table that are no fields."""
        self.check_keys((*others, *FIELD_OF))
        fields, positions = {}, {}
        for key, value in self.values.items():
            name = FIELD_OF.get(key)
            if name is None or key in others:
                continue
            positions[name] = self._where(key)
            try:
                fields[name] = KINDS[name].read(_text_only(value))
            except (ValueError, OverflowError) as error:
                self.error(f"{key}: {error}", key)
        return Said.of(**fields).at(positions)

    def check_keys(self, known: Iterable[str]) -> None:
        """Adds an error for each unknown key."""
        known = list(known)
        for key in self.values:
            if key not in known:
                close = nearest(key, known)
                self.error(f"unknown key '{key}'", key, hint=f"Did you mean {close}?" if close else None)

    def error(self, text: str, *position: str | int, hint: str | None = None) -> None:
        """Adds an error at the line of a key, or of the table."""
        self.errors.append(Diagnostic(text, self._where(*position), hint))

    def _where(self, *position: str | int) -> Where:
        """The line of a key, or of the innermost table around it."""
        key_path = (*self.position, *position)
        while key_path and key_path not in self.lines:
            key_path = key_path[:-1]
        return Where(str(self.path), self.lines.get(key_path, 1))


def _text_only(value: object) -> object:
    """Refuses text with a zero byte, which would end a file name."""
    if isinstance(value, str) and "\0" in value:
        raise ValueError("a text cannot contain a zero byte")
    return value
