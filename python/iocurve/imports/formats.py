"""The tools whose outputs are read, and how each is recognised by its content."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from iocurve.foundation.errors import ResultError
from iocurve.imports import diskspd, elbencho, fio, fio_text, mdtest, vdbench
from iocurve.imports.parsing import SourceFile
from iocurve.imports.points import ImportedMeasurement, result_of
from iocurve.result.document import Result


class Format(msgspec.Struct, frozen=True):
    """The output of a tool."""

    name: str
    looked_for: str
    """The content of such a file, for messages."""
    is_recognised: Callable[[SourceFile], bool]
    read: Callable[[SourceFile], list[ImportedMeasurement]]
    files: tuple[str, ...] = ()
    """Names of files of which the first in a directory has all; empty where each file counts."""


FORMATS = (
    Format("fio JSON", '"jobs" with "jobname"', fio.is_fio, fio.read),
    Format("fio normal output", "a line 'NAME: (groupid=0, jobs=1): err= 0:'", fio_text.is_normal, fio.read_normal),
    Format("fio terse output", "a line '3;fio-3.33;NAME;…'", fio_text.is_terse, fio.read_terse),
    Format("DiskSpd XML", "<Results> with <TimeSpan>", diskspd.is_xml, diskspd.read_xml),
    Format("DiskSpd text", "a table 'Total IO'", diskspd.is_text, diskspd.read_text),
    Format(
        "vdbench output",
        "flatfile.html, or summary.html or totals.html with intervals or averages",
        vdbench.is_vdbench,
        vdbench.read,
        vdbench.FILES,
    ),
    Format("elbencho JSON", '"phase_type" with "last_done"', elbencho.is_json, elbencho.read_json),
    Format("elbencho CSV", "the columns operation and 'time ms [last]'", elbencho.is_csv, elbencho.read_csv),
    Format("elbencho console", "a table 'OPERATION RESULT TYPE'", elbencho.is_console, elbencho.read_console),
    Format("mdtest output", "a table 'SUMMARY rate'", mdtest.is_mdtest, mdtest.read),
)


def imported(paths: Sequence[Path]) -> tuple[Result, list[str]]:
    """The result of files and directories, and what ``read_all`` leaves out. Raises as ``read_all``."""
    measured, left_out = read_all(paths)
    return result_of(measured, ", ".join(map(str, paths))), left_out


def import_results(*paths: Path | str) -> Result:
    """Imports outputs of other tools, as ``iocurve import``: files, or directories with such files.

    Values that the tool does not state are None. Files in directories that are no such output are listed in a note.
    Raises ``ResultError`` for a file that is no output that iocurve reads.
    """
    if not paths:
        raise ResultError("nothing to import; name files, or directories with files")
    result, left_out = imported([Path(path) for path in paths])
    return result.with_note("left_out", f"left out: {', '.join(left_out)}", "info") if left_out else result


def read_all(paths: Sequence[Path]) -> tuple[list[ImportedMeasurement], list[str]]:
    """The loads of files and directories, and the names of files in directories that are of no known format.

    Raises ``ResultError`` for a file that was given and is of no known format, and for one that is damaged.
    """
    measured: list[ImportedMeasurement] = []
    left_out: list[str] = []
    for path in paths:
        if path.is_dir():
            of_directory, others = _read_directory(path)
            measured += of_directory
            left_out += others
        else:
            measured += _read_file(SourceFile(path))
    return measured, left_out


def _read_file(source: SourceFile) -> list[ImportedMeasurement]:
    found = _format_of(source)
    if found is None:
        raise source.error(f"not an output that iocurve reads; looked for {_looked_for()}")
    return _read_as(found, source)


def _read_directory(directory: Path) -> tuple[list[ImportedMeasurement], list[str]]:
    """The files of a directory and those below it, by name."""
    measured: list[ImportedMeasurement] = []
    left_out: list[str] = []
    try:
        files = sorted(path for path in directory.rglob("*") if path.is_file())
    except OSError as error:
        raise ResultError(f"{directory} cannot be read: {error.strerror}") from None
    formats = {path: _format_of(SourceFile(path)) for path in files}
    read_of = {path.parent: found for path, found in formats.items() if found and found.files}
    for path, found in formats.items():
        of_directory = read_of.get(path.parent)
        if of_directory and path != _first(path.parent, of_directory):
            continue
        if found:
            measured += _read_as(found, SourceFile(path))
        else:
            left_out.append(str(path))
    if not measured:
        raise ResultError(f"{directory}: no output that iocurve reads; looked for {_looked_for()}")
    return measured, left_out


def _first(directory: Path, found: Format) -> Path | None:
    """The file that has all of an output of several files."""
    paths = [directory / name for name in found.files]
    return next((path for path in paths if path.is_file() and found.is_recognised(SourceFile(path))), None)


def _read_as(found: Format, source: SourceFile) -> list[ImportedMeasurement]:
    try:
        return found.read(source)
    except (ValueError, TypeError, ArithmeticError, LookupError, AttributeError) as error:
        raise source.error(f"{found.name} is damaged: {error}") from None


def _format_of(source: SourceFile) -> Format | None:
    return next((one for one in FORMATS if one.is_recognised(source)), None)


def _looked_for() -> str:
    return "; ".join(f"{one.name} ({one.looked_for})" for one in FORMATS)
