"""The command that writes reports."""

from __future__ import annotations

from pathlib import Path

from iocurve.analysis import read
from iocurve.cli.quantities import Flag
from iocurve.report import page
from iocurve.result.document import RESULT_NAME, Result


def rewrite_report(result: Path, /, *, out: Path | None = None, images: Flag = False) -> int:
    """Write the report of a result again.

    Parameters
    ----------
    result
        A result.json, or its directory.
    out
        Directory for the report. Default: the directory of the result.
    images
        Also write the charts as PNG and SVG.
    """
    source = result / RESULT_NAME if result.is_dir() else result
    reading, directory = read(Result.read(source)), out or source.parent
    directory.mkdir(parents=True, exist_ok=True)
    written = page.write(reading, directory)
    written += page.write_images(reading, directory) if images else []
    for path in written:
        print(path)
    return 0
