"""Reads a TOML job file into jobs, and collects every error with its line."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from iocurve.dialects.base import TimedJob
from iocurve.dialects.native.read.keys import DEFAULTS, FIELD_OF, KINDS
from iocurve.dialects.native.read.kinds import Time
from iocurve.dialects.native.words import WORDS
from iocurve.errors import Diagnostic, DialectError, Where, nearest
from iocurve.job.model import Job, Said
from iocurve.units import MILLISECOND_NS, SECOND_NS

RUN_KEYS = ("name", "interval", "defaults", "job")
_HEADER = re.compile(r"\s*(\[\[?)\s*([\w.\-]+)\s*\]")
_KEY = re.compile(r"\s*([\w\-]+)\s*[.=]")
_ERROR_POSITION = re.compile(r"(.*) \(at line (\d+), column (\d+)\)")


def read(path: Path) -> list[TimedJob]:
    """Reads the runs of a file. Raises ``DialectError`` with every error."""
    reader, document = begin(path)
    runs = reader.runs(document)
    reader.require_faultless()
    return runs


def begin(path: Path) -> tuple[Reader, dict[str, Any]]:
    """Opens a TOML file: returns a reader for its parts, and the document. Raises ``DialectError`` if it is no TOML."""
    text = _text(path)
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise DialectError([_not_toml(path, str(error))]) from None
    except RecursionError:
        raise DialectError([Diagnostic(f"{path} is nested too deeply for a job file")]) from None
    return Reader(path, _line_numbers(text)), document


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


KeyPath = tuple[str | int, ...]
"""A position in a document: keys, and indexes of tables in arrays."""


def _line_numbers(text: str) -> dict[KeyPath, int]:
    """Line of each table and key. Tables in arrays have an index, as in ``("job", 0, "depth")``."""
    lines: dict[KeyPath, int] = {}
    counts: dict[KeyPath, int] = {}
    table: KeyPath = ()
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
            lines.setdefault(table, number)
        elif key := _KEY.match(line):
            lines.setdefault((*table, key[1]), number)
    return lines


@dataclass
class Reader:
    """Reads the parts of one file, and collects errors with their lines."""

    path: Path
    lines: dict[KeyPath, int]
    errors: list[Diagnostic] = field(default_factory=list)

    def require_faultless(self) -> None:
        """Raises ``DialectError`` with every error so far, in the order of the lines."""
        if self.errors:
            raise DialectError(sorted(self.errors, key=lambda error: error.where.line if error.where else 0))

    def runs(self, document: dict[str, Any]) -> list[TimedJob]:
        """The runs of ``[[run]]``, or the whole file as one run."""
        if "run" not in document:
            return [self._run(document, (), self.path.stem)]
        self.check_keys(document, ("run",), ())
        return [
            self._run(run, ("run", number), f"{self.path.stem}-{number + 1}")
            for number, run in enumerate(self.tables(document, (), "run"))
        ]

    def _run(self, table: dict[str, Any], key_path: KeyPath, name: str) -> TimedJob:
        self.check_keys(table, RUN_KEYS, key_path)
        run_name = table.get("name", name)
        if not isinstance(run_name, str) or not run_name:
            self.error((*key_path, "name"), "name: a name is a text that is not empty")
            run_name = name
        interval = SECOND_NS
        try:
            interval = Time().read(table.get("interval", 1))
        except ValueError as error:
            self.error((*key_path, "interval"), f"interval: {error}")
        if interval < MILLISECOND_NS:
            self.error((*key_path, "interval"), "interval: the shortest interval is 1ms")
        defaults = table.get("defaults", {})
        if not isinstance(defaults, dict):
            self.error((*key_path, "defaults"), "defaults must be a table: [defaults]")
            defaults = {}
        jobs = self.tables(table, key_path, "job")
        if not jobs:
            self.error(key_path, "there is no job; add a table [[job]]")
        sections = [self.section(job, (*key_path, "job", number)) for number, job in enumerate(jobs)]
        common = self.section(defaults, (*key_path, "defaults")).over(DEFAULTS)
        return TimedJob(Job.of(run_name, WORDS, sections, common), interval)

    def section(self, table: dict[str, Any], key_path: KeyPath) -> Said:
        """Reads the keys of a job or of defaults."""
        self.check_keys(table, FIELD_OF, key_path)
        fields, positions = {}, {}
        for key, value in table.items():
            name = FIELD_OF.get(key)
            if name is None:
                continue
            positions[name] = self.where((*key_path, key))
            try:
                fields[name] = KINDS[name].read(_text_only(value))
            except (ValueError, OverflowError) as error:
                self.error((*key_path, key), f"{key}: {error}")
        return Said.of(**fields).at(positions)

    def tables(self, table: dict[str, Any], key_path: KeyPath, key: str) -> list[dict[str, Any]]:
        """The tables of ``[[key]]``."""
        value = table.get(key, [])
        if isinstance(value, list) and all(isinstance(one, dict) for one in value):
            return value
        self.error((*key_path, key), f"{key} must be a list of tables: [[{key}]]")
        return []

    def check_keys(self, table: dict[str, Any], known: Iterable[str], key_path: KeyPath) -> None:
        """Adds an error for each unknown key."""
        known = list(known)
        for key in table:
            if key not in known:
                close = nearest(key, known)
                hint = f"Did you mean {close}?" if close else None
                self.error((*key_path, key), f"unknown key '{key}'", hint)

    def error(self, key_path: KeyPath, text: str, hint: str | None = None) -> None:
        """Adds an error at the line of a key."""
        self.errors.append(Diagnostic(text, self.where(key_path), hint))

    def where(self, key_path: KeyPath) -> Where:
        """The line of a key, or of the innermost table around it."""
        while key_path and key_path not in self.lines:
            key_path = key_path[:-1]
        return Where(str(self.path), self.lines.get(key_path, 1))


def _text_only(value: Any) -> Any:
    """Refuses text with a zero byte, which would end a file name."""
    if isinstance(value, str) and "\0" in value:
        raise ValueError("a text cannot contain a zero byte")
    return value
