"""The report of a result: a page that needs nothing but itself, the points as CSV, charts as images."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Literal

import altair
import vl_convert
from jinja2 import Environment, PackageLoader, StrictUndefined

from iocurve.errors import ResultError
from iocurve.report import sentences as words
from iocurve.report.figures import figures
from iocurve.result.document import RESULT_NAME, Result, write_in_one_step
from iocurve.result.summary import PERCENTILES

IMAGE_WIDTH = 960
IMAGE_SCALE = 2.0
"""Pixels per unit in PNGs: sharp on paper and on dense screens."""


def write(result: Result, directory: Path) -> list[Path]:
    """Writes ``report.html`` and ``points.csv`` and says where. Raises ``ResultError``."""
    documents = {"report.html": html(result), "points.csv": points_csv(result)}
    for name, text in documents.items():
        write_in_one_step(directory / name, text.encode())
    return [directory / name for name in documents]


def write_all(result: Result, directory: Path) -> list[Path]:
    """Writes ``result.json`` and the report into a directory, which is made if it is missing, and says where."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ResultError(f"{directory} cannot be made: {error.strerror}") from None
    result.write(directory / RESULT_NAME)
    return [directory / RESULT_NAME, *write(result, directory)]


def write_images(
    result: Result, directory: Path, formats: Sequence[Literal["png", "svg"]] = ("png", "svg")
) -> list[Path]:
    """Writes each chart as images and says where. Raises ``ResultError``."""
    written = []
    for figure in figures(result):
        for number, chart in enumerate(figure.charts, start=1):
            stem = figure.slug if len(figure.charts) == 1 else f"{figure.slug}-{number}"
            for suffix in formats:
                path = directory / f"{stem}.{suffix}"
                write_in_one_step(path, _image(chart | {"width": IMAGE_WIDTH, "background": "white"}, suffix))
                written.append(path)
    return written


def html(result: Result) -> str:
    """The page: everything it needs is inside, and its policy forbids it to load anything."""
    environment = Environment(
        loader=PackageLoader(__package__, "."), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    return environment.get_template("page.html").render(
        result=result,
        incomplete_reason=words.incomplete_reason(result),
        setting=words.setting(result),
        headlines=words.headlines(result),
        findings=words.findings(result),
        next_steps=words.next_steps(result),
        doubts=words.doubts(result),
        remarks=words.remarks(result),
        conditions=words.conditions(result),
        figures=figures(result),
        percentiles=PERCENTILES,
        chart_library=_chart_library(),
    )


def points_csv(result: Result) -> str:
    """One line per point; units are in the names of the columns."""
    records = result.to_records()
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(records[0]) if records else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return text.getvalue()


@cache
def _chart_library() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script, of the version that the charts are written for."""
    return vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", vl_version=_vega_lite_version())


def _image(chart: dict[str, object], suffix: Literal["png", "svg"]) -> bytes:
    specification = json.dumps(chart)
    if suffix == "svg":
        return vl_convert.vegalite_to_svg(specification, vl_version=_vega_lite_version()).encode()
    return vl_convert.vegalite_to_png(specification, vl_version=_vega_lite_version(), scale=IMAGE_SCALE)


def _vega_lite_version() -> str:
    """Major and minor, as vl-convert names them: ``6.4``."""
    return ".".join(altair.SCHEMA_VERSION.removeprefix("v").split(".")[:2])
