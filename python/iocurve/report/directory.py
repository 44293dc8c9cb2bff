"""The directory of a result: ``result.json`` after every point, the report at the end."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from iocurve.analysis import Reading, read
from iocurve.errors import ResultError
from iocurve.report import page
from iocurve.result.document import RESULT_NAME, Result, make_writable, write_atomically


class ReportDirectory:
    """Writes a result and its report. A file that cannot be written ends no run and costs no other file."""

    def __init__(self, path: Path) -> None:
        """Creates the directory, and loads the libraries that draw, so that nothing is measured in vain.

        Raises ``TargetError`` if the directory cannot be written to.
        """
        make_writable(path)
        self.path = path
        self._failure: str | None = None
        """Reason why ``result.json`` is not the newest result."""
        if (reason := _failure(page.load_libraries)) is not None:
            print(f"warning: there will be no report.html: {reason}", file=sys.stderr)

    def keep(self, result: Result) -> None:
        """Writes ``result.json``; the first failure of several is printed."""
        before = self._failure
        self._write_result(result)
        if self._failure and not before:
            print(f"warning: {self._failure}; iocurve tries again after each point", file=sys.stderr)

    def finish(self, result: Result) -> Result:
        """Writes all files; returns the result with a note for each that could not be written."""
        self._write_result(result)
        for name, document in page.DOCUMENTS.items():
            reason = _failure(partial(self._write, name, document, result))
            if reason is not None:
                result = result.with_note("report_not_written", _named(self.path / name, reason), "error")
                self._write_result(result)
        return result.with_note("result_not_written", self._failure, "error") if self._failure else result

    def _write_result(self, result: Result) -> None:
        self._failure = _failure(partial(result.write, self.path / RESULT_NAME))

    def _write(self, name: str, document: Callable[[Reading], str], result: Result) -> None:
        write_atomically(self.path / name, document(read(result)).encode())


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
