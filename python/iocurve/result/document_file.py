"""The file ``result.json`` and its journal: read in every version, and written in one step.

A run whose document is large appends its points to the journal, ``result.journal.jsonl``: each line has the difference
from the state before it, and the first line names the document that the journal extends.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

import msgspec

from iocurve.foundation.errors import ResultError, TargetError, option
from iocurve.machine.files import cache_directory
from iocurve.result.caps import CAPS, Burst, caps

RESULT_NAME = "result.json"
"""File name of the result in a report's directory."""
SCHEMA_VERSION = 5
VERSIONS_READ = (2, 3, 4, SCHEMA_VERSION)
"""Version 4 had ``EARLIER_FIELDS``, version 3 no figures; ``_from_version_2`` has what changed before it."""
EARLIER_FIELDS = {
    "axes": "parameters", "disturbance": "noise", "families": "series", "family": "series",
    "fresh_turns": "fresh_runs", "gain": "speedup", "probes": "perturbation_tests", "repeated_turns": "repeated_runs",
    "repeats": "retries", "round": "repetition", "turns": "runs", "turns_chosen": "runs_chosen",
}  # fmt: skip
"""Fields of results, points, their runs, caches and references that had other names in earlier documents."""
RESULT_BYTES_MIN = 64 << 10
"""A directory for results must have room for this much, which a result with few points takes."""

Json = dict[str, Any]
"""A parsed document."""


class JournalLine(msgspec.Struct, frozen=True):
    """The difference of a result from the state before it."""

    replaced: tuple[int, int]
    """The first of the points that were replaced, and the first after them."""
    points: list[Json]
    """The points in their place."""
    fields: Json
    """Other fields of the result that changed."""


# ---- reading


def read_document(path: Path) -> Json:
    """Reads a document of any version, with its journal, in the names of this version. Raises ``ResultError``."""
    # Imported here, as are hashlib and tempfile below, because few commands need them.
    import json

    try:
        content = path.read_bytes()
        document = json.loads(content.decode(), parse_constant=_refused_constant)
    except UnicodeDecodeError:
        raise ResultError(f"{path} is not a result of iocurve: it is not text") from None
    except OSError as error:
        raise ResultError(f"{path} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise ResultError(f"{path} is not JSON ({error}); was it truncated?") from None
    version = _checked_version(path, document)
    for line in _journal(path, content):
        first, last = line.replaced
        points = [*document["points"][:first], *line.points, *document["points"][last:]]
        document |= line.fields | {"points": points}
    if version == 2:
        document = _from_version_2(document)
    return _in_current_names(document) | {"schema_version": SCHEMA_VERSION}


def _refused_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no value of JSON")


def _checked_version(path: Path | str, document: object) -> int:
    """The version of the document. Checked first, so that a newer document is reported as newer and not as faulty."""
    found = document.get("schema_version") if isinstance(document, dict) else None
    if found is None:
        raise ResultError(f"{path} is not a result of iocurve: it has no schema_version")
    if not isinstance(found, int) or found not in VERSIONS_READ:
        hint = "read it with a newer iocurve" if isinstance(found, int) and found > SCHEMA_VERSION else "measure again"
        raise ResultError(f"{path} has schema_version {found}, this iocurve reads 2 to {SCHEMA_VERSION}; {hint}")
    return found


def _in_current_names(part: Json) -> Json:
    """A part of a result, with the names of today; plans and outcomes stay as they are."""
    nested: Json = {
        name: [_in_current_names(each) if isinstance(each, dict) else each for each in part[name]]
        for name in ("points", "turns", "discarded", "references", "figures", "comparisons")
        if isinstance(part.get(name), list)
    }
    nested |= {
        name: _in_current_names(part[name]) for name in ("cache", "scenario") if isinstance(part.get(name), dict)
    }
    return {EARLIER_FIELDS.get(name, name): value for name, value in (part | nested).items()}


def _from_version_2(part: Json) -> Json:
    """A part of version 2 as of version 3: a worker's ``clone`` is its ``jobnum``, limits of targets are ``caps``."""
    if "next_tib_bytes_per_s" in part:
        return _target_from_version_2(part)
    return {"jobnum" if key == "clone" else key: _value_from_version_2(value) for key, value in part.items()}


def _value_from_version_2(value: object) -> object:
    if isinstance(value, dict):
        return _from_version_2(value)
    return [_value_from_version_2(each) for each in value] if isinstance(value, list) else value


def _target_from_version_2(target: Json) -> Json:
    """The facts of a target whose limits were fields, most of them in ``further``."""
    facts = {name: value for name, value in target.items() if name != "further"} | (target.get("further") or {})
    burst_iops, credits = facts.pop("burst_iops", None), facts.pop("burst_credits", None)
    burst = Burst(value=burst_iops, credits=credits) if burst_iops and credits else None
    names = {_VERSION_2_CAPS.get(cap.name, cap.name): cap.name for cap in CAPS}
    values = {name: facts.pop(old, None) for old, name in names.items()}
    return facts | {"caps": [cap.to_builtins() for cap in caps(values, burst)]}


_VERSION_2_CAPS = {
    "client.bandwidth_read_bytes_per_s": "client_read_bytes_per_s",
    "client.bandwidth_write_bytes_per_s": "client_egress_bytes_per_s",
    "client.iops_read": "client_iops_read",
    "client.iops_write": "client_iops_write",
    "connection.requests_in_flight": "connection_requests_in_flight",
    "connection.bandwidth_bytes_per_s": "connection_bytes_per_s",
    "connection.bandwidth_read_bytes_per_s": "connection_read_bytes_per_s",
    "connection.bandwidth_write_bytes_per_s": "connection_write_bytes_per_s",
    "connection.iops": "connection_iops",
    "connection.iops_read": "connection_iops_read",
    "connection.iops_write": "connection_iops_write",
}
"""The fields of version 2 with other names than the cap has."""


# ---- the journal


def journal_of(path: Path) -> Path:
    """The file next to ``result.json`` with the points that were measured since it was written."""
    return path.with_suffix(".journal.jsonl")


def journal_head(document: bytes) -> bytes:
    """The first line of a journal, with the digest of the document that it extends."""
    import hashlib

    return msgspec.json.encode({"extends": hashlib.sha256(document).hexdigest()}) + b"\n"


def append(path: Path, line: bytes, head: bytes) -> None:
    """Appends a line to a journal and syncs it; ``head`` is the first line of a new journal. Raises ``ResultError``."""
    try:
        with path.open("wb" if head else "ab") as file:
            file.write(head + line)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise ResultError(f"{path} cannot be written: {error.strerror}", ran=True) from None


def _journal(path: Path, document: bytes) -> Iterator[JournalLine]:
    """The changes since a document was written; none of a journal that extends another one. The last may be cut off.

    Raises ``ResultError`` for a whole line that is none.
    """
    journal = journal_of(path)
    try:
        head, *lines = journal.read_bytes().splitlines(keepends=True)
    except (OSError, ValueError):
        return
    whole = [line for line in lines if line.endswith(b"\n")] if head == journal_head(document) else []
    for number, line in enumerate(whole, 2):
        try:
            yield msgspec.json.decode(line, type=JournalLine)
        except ValueError as error:
            text = f"{journal}, line {number}, is damaged ({error}); remove the file to read what was written before it"
            raise ResultError(text) from None


# ---- writing


def make_writable(directory: Path) -> None:
    """Creates the directory of a report before the measurement. Raises ``TargetError`` if it is not writable."""
    import tempfile

    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory) as file:
            # An empty file can be created on a full disk.
            file.write(bytes(RESULT_BYTES_MIN))
    except OSError as error:
        raise TargetError(
            f"{option('out')} {directory}: {error.strerror}; name a directory that you can write to"
        ) from None


def write_atomically(path: Path, content: bytes) -> None:
    """Writes a file atomically: readers see the old file or the new one. Raises ``ResultError``."""
    try:
        _replace(path, content)
    except OSError as error:
        raise ResultError(f"{path} cannot be written: {error.strerror}", ran=True) from None


def _replace(path: Path, content: bytes) -> None:
    """Writes and syncs a temporary file in the same directory, then renames it."""
    # The name is known before the file exists: a signal that arrives while it is created leaves no file either.
    temporary = path.with_name(f".{path.name}.{os.urandom(4).hex()}.tmp")
    try:
        with temporary.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def cached_text(name: str, make: Callable[[], str]) -> str:
    """The text of a file in the user's cache directory; where it is missing, ``make`` makes the text to keep."""
    kept = cache_directory() / name
    with suppress(OSError, UnicodeDecodeError):
        return kept.read_text(encoding="utf-8")
    text = make()
    with suppress(OSError):
        kept.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _replace(kept, text.encode())
    return text
