"""The records of a result as tables and charts of other libraries, which extras install."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

from iocurve.foundation.errors import ResultError
from iocurve.foundation.units import format_number

if TYPE_CHECKING:
    import altair
    import pandas
    import polars
    import pyarrow

Records = Sequence[Mapping[str, int | float | str | None]]


def to_pandas(records: Records) -> pandas.DataFrame:
    """One row per record. Raises ``ResultError`` if pandas is not installed."""
    found: pandas.DataFrame = _library("pandas", "pandas").DataFrame(list(records))
    return found


def to_polars(records: Records) -> polars.DataFrame:
    """One row per record. Raises ``ResultError`` if polars is not installed."""
    # The first rows may have no value, from which polars infers no type.
    found: polars.DataFrame = _library("polars", "polars").DataFrame(list(records), infer_schema_length=None)
    return found


def to_arrow(records: Records) -> pyarrow.Table:
    """One row per record. Raises ``ResultError`` if pyarrow is not installed."""
    found: pyarrow.Table = _library("pyarrow", "arrow").Table.from_pylist(list(records))
    return found


def parquet(records: Records, facts: Mapping[str, str]) -> bytes:
    """A Parquet file with ``facts`` in the metadata of its schema. Raises ``ResultError`` without pyarrow."""
    table = to_arrow(records)
    table = table.replace_schema_metadata({f"iocurve.{name}": value for name, value in facts.items()})
    file = _library("pyarrow", "arrow").BufferOutputStream()
    _library("pyarrow.parquet", "arrow").write_table(table, file)
    content: bytes = file.getvalue().to_pybytes()
    return content


def chart(records: Records, y: str, x: str | None, by: str | None, axes: Sequence[str]) -> altair.LayerChart:
    """Points and lines of ``y`` over ``x`` with the 95 % interval of IOPS; see ``Result.chart``."""
    import altair as alt

    varied = [axis for axis in axes if _varies(records, axis)]
    x = x or (varied[0] if varied else "name")
    by = by or next((name for name in ("series", *varied) if name != x and _varies(records, name)), None)
    fields = list(dict.fromkeys(["name", x, y, *([by] if by else [])]))
    known = records[0].keys() if records else fields
    if missing := [name for name in fields if name not in known]:
        raise ResultError(f"no point has '{missing[0]}'; there are {', '.join(known)}")
    has_bounds = y == "iops" and any(record.get("iops_low") is not None for record in records)
    kept = [*fields, *(BOUNDS if has_bounds else ())]
    base = alt.Chart(alt.InlineData(values=[{name: record.get(name) for name in kept} for record in records])).encode(
        x=alt.X(field=x, type="quantitative" if _is_number(records, x) else "nominal"),
        tooltip=[
            alt.Tooltip(field=name, type="quantitative" if _is_number(records, name) else "nominal") for name in kept
        ],
    )
    if by:
        base = base.encode(color=alt.Color(field=by, type="nominal"))
    line = base.mark_line(point=True).encode(y=alt.Y(field=y, type="quantitative"))
    rule = base.mark_rule().encode(y=alt.Y(field=BOUNDS[0], type="quantitative", title=y), y2=alt.Y2(field=BOUNDS[1]))
    return alt.LayerChart(layer=[rule, line] if has_bounds else [line])


BOUNDS = ("iops_low", "iops_high")


def html(title: str, records: Records) -> str:
    """A table of the records with their main figures."""
    rows = ["".join(f"<th>{escape(text)}</th>" for text in SHOWN.values())]
    rows += ["".join(f"<td>{_cell(record.get(name))}</td>" for name in SHOWN) for record in records]
    return f"<table><caption>{escape(title)}</caption>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>"


SHOWN = {
    "name": "point",
    "iops": "IOPS",
    "mib_per_s": "MiB/s",
    "p50_us": "p50 µs",
    "p99_us": "p99 µs",
    "limited_by_name": "limited by",
    "limited_by_confidence": "",
}
"""The columns of a table in a notebook, by field."""


def _cell(value: float | str | None) -> str:
    return format_number(value) if isinstance(value, int | float) else escape(value or "")


def _is_number(records: Records, name: str) -> bool:
    return all(isinstance(record.get(name), int | float | None) for record in records)


def _varies(records: Records, name: str) -> bool:
    return len({record.get(name) for record in records}) > 1


def _library(name: str, extra: str) -> ModuleType:
    try:
        return import_module(name)
    except ImportError:
        library = name.partition(".")[0]
        raise ResultError(f"{library} is not installed; install it with: pip install 'iocurve[{extra}]'") from None
