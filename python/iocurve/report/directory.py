"""The directory of a result: ``result.json`` after every point, the report at the end."""

from __future__ import annotations

import contextlib
import fcntl
import os
import sys
import weakref
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Self

from iocurve.analysis import Reading, read
from iocurve.foundation.errors import ResultError, TargetError, option
from iocurve.report import page
from iocurve.result.document import RESULT_NAME, Result, make_writable, write_atomically

PROOF_NAME = "proof.html"
"""The page of ``iocurve prove``, which is written next to the report."""


class ReportDirectory:
    """Writes a result and its report. A file that cannot be written ends no run and costs no other file.

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
        """Reason why ``result.json`` is not the newest result."""
        if (reason := _failure(page.load_libraries)) is not None:
            print(f"warning: there will be no report.html: {reason}", file=sys.stderr)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._release()

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
        self._release()
        return result.with_note("result_not_written", self._failure, "error") if self._failure else result

    def _write_result(self, result: Result) -> None:
        if not self._has_written:
            for name in (*page.DOCUMENTS, PROOF_NAME):
                with contextlib.suppress(OSError):
                    (self.path / name).unlink()
        self._has_written = True
        self._failure = _failure(partial(result.write, self.path / RESULT_NAME))

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
