"""The command that writes reports."""

from __future__ import annotations

from pathlib import Path

from iocurve.analysis import read
from iocurve.report import page
from iocurve.result.document import Result


def rewrite_report(result: Path, /, *, out: Path | None = None, images: bool = False) -> int:
    """Write the report of a result.json again.

    Parameters
    ----------
    result
        A result.json.
    out
        Directory for the report. Default: where the result is.
    images
        Write the charts as PNG and SVG, too.
    """
    reading, directory = read(Result.read(result)), out or result.parent
    directory.mkdir(parents=True, exist_ok=True)
    written = page.write(reading, directory)
    written += page.write_images(reading, directory) if images else []
    for path in written:
        print(path)
    return 0
