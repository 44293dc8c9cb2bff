"""Writes the report of a result: a page that needs nothing but itself, the points as CSV, the charts as images.

A directory of a result has ``result.json`` with its journal after every point, and the report at the end.
"""

from __future__ import annotations

import base64
import contextlib
import csv
import fcntl
import gzip
import io
import json
import os
import string
import sys
import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self

import msgspec

from iocurve.analysis import Reading, read
from iocurve.analysis.limit_groups import LimitGroup
from iocurve.foundation.errors import ResultError, TargetError, option
from iocurve.foundation.units import capitalised, counted
from iocurve.report.conditions import conditions, emulation_label, heading, incomplete_reason, setting, targets, tools
from iocurve.report.progress import NoView
from iocurve.report.views import with_observer
from iocurve.result.document import Result
from iocurve.result.document_file import (
    RESULT_NAME,
    append,
    cached_text,
    journal_head,
    journal_of,
    make_writable,
    write_atomically,
)

if TYPE_CHECKING:
    from iocurve.report.chart_style import Chart

# The libraries that draw take most of a second to load, so only the functions that draw import them.

IMAGE_WIDTH = 960
IMAGE_SCALE = 2.0
"""Pixels per unit in PNGs: sharp on paper and on dense screens."""

PAGE_DIGITS = string.digits + string.ascii_letters.swapcase() + "!#$%&()*+-;,=>?@^_`{|}~"
"""Digits of base 85 as Python writes it, but for ``<``, which begins markup in a page."""
LISTED_MAX = 5
"""Further sentences of a list are folded."""
POINTS_SHOWN_MAX = 110
"""Characters; a longer list of points is folded."""

ImageFormat = Literal["png", "svg"]


def write(reading: Reading, directory: Path) -> list[Path]:
    """Writes ``report.html`` and ``points.csv`` and returns their paths. Raises ``ResultError``."""
    for name, document in DOCUMENTS.items():
        write_atomically(directory / name, document(reading).encode())
    return [directory / name for name in DOCUMENTS]


def load_libraries() -> None:
    """Loads the libraries that draw. Raises whatever keeps them from being loaded, such as ``MemoryError``."""
    from jinja2 import Environment

    from iocurve.report.figures import figures

    _ = (Environment, figures, _chart_library())


def write_images(reading: Reading, directory: Path, formats: Sequence[ImageFormat] = ("png", "svg")) -> list[Path]:
    """Writes each chart as images and returns their paths. Raises ``ResultError``.

    An image leaves the page, which names the target, behind: charts of emulated targets are labelled so.
    """
    from iocurve.report.figures import figures

    label = emulation_label(reading.result)
    return [
        path
        for figure in figures(reading)
        for path in write_charts(figure.charts, figure.slug, label, directory, formats)
    ]


def write_charts(
    charts: Sequence[Chart], name: str, label: str, directory: Path, formats: Sequence[ImageFormat]
) -> list[Path]:
    """Writes charts as images with ``label`` below, numbered where there are several. Raises ``ResultError``."""
    from iocurve.report.chart_style import labelled

    written = []
    for number, chart in enumerate((labelled(chart, label) for chart in charts), start=1):
        stem = name if len(charts) == 1 else f"{name}-{number}"
        for suffix in formats:
            path = directory / f"{stem}.{suffix}"
            write_atomically(path, _image(chart | {"width": IMAGE_WIDTH}, suffix))
            written.append(path)
    return written


def html(reading: Reading) -> str:
    """The page with everything it needs; its content security policy forbids loading anything."""
    from iocurve.report.figures import explored, figures

    return rendered(
        "page.html",
        title=reading.result.name,
        version=reading.result.iocurve,
        reading=reading,
        result=reading.result,
        incomplete_reason=incomplete_reason(reading.result),
        heading=heading(reading.result),
        tools=tools(reading.result),
        targets=targets(reading.result),
        setting=setting(reading.result),
        conditions=conditions(reading.result),
        figures=figures(reading),
        explored=explored(reading),
        listed_max=LISTED_MAX,
        points_shown_max=POINTS_SHOWN_MAX,
    )


def rendered(template: str, **values: object) -> str:
    """A page from a template of this package, with the script that draws its charts.

    ``title`` and ``version`` are those of the frame that all pages share.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    from iocurve.report.chart_style import DARK_COLORS

    environment = Environment(
        loader=PackageLoader(__package__, "."), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    environment.filters |= {
        "packed": lambda chart: packed(json.dumps(chart, separators=(",", ":"))),
        "capitalised": capitalised,
        "limited_share": _limited_share,
    }
    return environment.get_template(template).render(
        **values, chart_library=_chart_library(), base85_digits=PAGE_DIGITS, dark_colors=DARK_COLORS
    )


def _limited_share(group: LimitGroup, points: int) -> str:
    """The points of a group among all points: ``3 of 14 points``, ``all 8 points``."""
    if group.count < points:
        return f"{group.count} of {counted(points, 'point')}"
    return f"all {counted(points, 'point')}" if points > 1 else "1 point"


def markdown(reading: Reading) -> list[str]:
    """The sentences and the table of the points, for a comment or another page."""
    from iocurve.report.table import escaped, result_table

    told = [*reading.sentences, *filter(None, [reading.trust[1]]), *reading.doubts]
    lines = [f"## {escaped(heading(reading.result))}", "", *(f"- {escaped(text)}" for text in told), ""]
    return [*lines, *result_table(reading).markdown()]


def points_csv(reading: Reading) -> str:
    """One line per point; units are in the names of the columns."""
    # A result of a run that still goes on, or of an earlier version, holds no verdicts.
    records = reading.result.to_records()
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(records[0]) if records else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return text.getvalue()


def write_parquet(reading: Reading, directory: Path) -> Path:
    """Writes the lines of ``points.csv`` as Parquet and returns its path. Raises ``ResultError``."""
    path = directory / "points.parquet"
    reading.result.write_parquet(path)
    return path


REPORT_NAME = "report.html"
DOCUMENTS: Mapping[str, Callable[[Reading], str]] = {REPORT_NAME: html, "points.csv": points_csv}
"""The files of a report and the functions that make their text."""


@cache
def _chart_library() -> str:
    """The parts of Vega and Vega-Lite that draw, packed, in the version that the charts are written for.

    Bundling takes two seconds, so the cache directory keeps the script, by version.
    """
    import vl_convert

    version = _vega_lite_version()
    name = f"vega-lite-{version}-{metadata.version('vl-convert-python')}.js.gz.b85"
    return cached_text(name, lambda: packed(vl_convert.javascript_bundle(_snippet(), vl_version=version)))


def _snippet() -> str:
    """The script's entry. It imports modules of vl-convert: the names that this offers bring all of Vega-Embed."""
    import altair
    import vl_convert

    modules = {
        f"vega-lite@{altair.SCHEMA_VERSION.removeprefix('v')}": ("vegaLite", "compile"),
        f"vega@{vl_convert.get_vega_version()}": ("vega", "parse, View"),
    }
    return "\n".join(
        f'import {{ {names} }} from "https://cdn.jsdelivr.net/npm/{module}/+esm"; window.{name} = {{ {names} }};'
        for module, (name, names) in modules.items()
    )


def packed(text: str) -> str:
    """A text as the page unpacks it: gzip in base 85. It is the same whenever it is made."""
    return base64.b85encode(gzip.compress(text.encode(), mtime=0)).decode().replace("<", ",")


def _image(chart: dict[str, object], suffix: ImageFormat) -> bytes:
    import vl_convert

    specification = json.dumps(chart)
    if suffix == "svg":
        return vl_convert.vegalite_to_svg(specification, vl_version=_vega_lite_version()).encode()
    return vl_convert.vegalite_to_png(specification, vl_version=_vega_lite_version(), scale=IMAGE_SCALE)


def _vega_lite_version() -> str:
    """Major and minor version, as vl-convert names them: ``6.4``."""
    import altair

    return ".".join(altair.SCHEMA_VERSION.removeprefix("v").split(".")[:2])


PROOF_NAME = "proof.html"
"""The page of ``iocurve prove``, which is written next to the report."""
WHOLE_BYTES_MAX = 512 << 10
"""A ``result.json`` up to this size is written whole after every point."""


class ReportDirectory:
    """Writes a result and its report. A file that cannot be written ends no run and costs no other file.

    Points are appended to a journal next to a large ``result.json``, which is written again only when the journal has
    become as large: the bytes written grow with the points, and not with their square.

    One run at a time writes to a directory: until it has finished, or the context ends. What an earlier run wrote there
    goes when this one has something to write.
    """

    def __init__(self, path: Path) -> None:
        """Creates the directory, and loads the libraries that draw, so that nothing is measured in vain.

        Raises ``TargetError`` if the directory cannot be written to, or if another run writes to it.
        """
        make_writable(path)
        self._release = _locked(self, path)
        self.path = path
        self._has_written = False
        self._failure: str | None = None
        """Reason why ``result.json`` and its journal do not hold the newest result."""
        self._kept: Result | None = None
        """The result that they hold; None where a write has failed, or none was made."""
        self._journal_room = 0
        """Bytes that the journal may still take."""
        self._journal_head = b""
        """Its first line, as long as there is no journal."""
        if (reason := _failure(load_libraries)) is not None:
            print(f"warning: there will be no report.html: {reason}", file=sys.stderr)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._release()

    def keep(self, result: Result) -> None:
        """Writes what is new of the result; the first failure of several is printed."""
        before = self._failure
        self._failure = _failure(partial(self._keep, result))
        if self._failure and not before:
            print(f"warning: {self._failure}; iocurve tries again after each point", file=sys.stderr)

    def finish(self, result: Result) -> Result:
        """Writes all files; returns the result with a note for each that could not be written."""
        self._write_result(result)
        for name, document in DOCUMENTS.items():
            reason = _failure(partial(self._write, name, document, result))
            if reason is not None:
                result = result.with_note("report_not_written", _named(self.path / name, reason), "error")
                self._write_result(result)
            elif name == REPORT_NAME:
                with_observer(NoView()).report_written(self.path / name)
        self._release()
        return result.with_note("result_not_written", self._failure, "error") if self._failure else result

    def _keep(self, result: Result) -> None:
        """Appends what is new to the journal; writes the whole document where the journal has no room for it."""
        kept, self._kept = self._kept, None
        line = msgspec.json.encode(result.changes(kept)) + b"\n" if kept is not None and self._journal_room else b""
        if not 0 < len(line) <= self._journal_room:
            self._write_whole(result)
            return
        append(journal_of(self.path / RESULT_NAME), line, self._journal_head)
        self._kept, self._journal_head, self._journal_room = result, b"", self._journal_room - len(line)

    def _write_result(self, result: Result) -> None:
        self._failure = _failure(partial(self._write_whole, result))

    def _write_whole(self, result: Result) -> None:
        """Writes ``result.json``, which ends its journal."""
        path, earlier = self.path / RESULT_NAME, () if self._has_written else (*DOCUMENTS, PROOF_NAME)
        for name in earlier:
            with contextlib.suppress(OSError):
                (self.path / name).unlink()
        self._has_written = True
        content = result.document()
        write_atomically(path, content)
        with contextlib.suppress(OSError):
            journal_of(path).unlink()
        self._kept, self._journal_head = result, journal_head(content)
        self._journal_room = len(content) if len(content) > WHOLE_BYTES_MAX else 0

    def _write(self, name: str, document: Callable[[Reading], str], result: Result) -> None:
        write_atomically(self.path / name, document(read(result)).encode())


def _locked(owner: ReportDirectory, path: Path) -> Callable[[], object]:
    """Locks a directory against other runs; returns the function that ends the lock. Raises ``TargetError``."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    # Closing the descriptor ends the lock, also where the owner is dropped without a word.
    release = weakref.finalize(owner, os.close, descriptor)
    # A file system without locks for directories, such as NFS, has none: the others report what is there.
    with contextlib.suppress(OSError):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            release()
            raise TargetError(
                f"{option('out')} {path}: another run writes to this directory; name another one"
            ) from None
    return release


def _named(path: Path, reason: str) -> str:
    return reason if str(path) in reason else f"{path} is not written: {reason}"


def _failure(action: Callable[[], None]) -> str | None:
    """The reason why an action failed; None if it did not."""
    try:
        action()
    except ResultError as error:
        return str(error)
    except Exception as error:  # noqa: BLE001
        # The libraries that draw fail in many ways, and none of them may cost the figures.
        return f"{type(error).__name__}: {error}".removesuffix(": ")
    return None
