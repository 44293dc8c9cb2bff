"""Checks of a measurement, and of a result that was kept: options, reports and exit statuses."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

from cyclopts import Parameter

from iocurve.cli.exits import EXIT_INCOMPLETE
from iocurve.foundation.errors import Diagnostic, DialectError, TargetError

if TYPE_CHECKING:
    from iocurve.analysis.check_expressions import Expression
    from iocurve.analysis.check_names import Vocabulary
    from iocurve.analysis.checks import Checks, Verdict
    from iocurve.result.document import Result

EXIT_CHECK_FAILED = 4
EXIT_INCONCLUSIVE = 5
STATUS: dict[Verdict, int] = {"failed": EXIT_CHECK_FAILED, "inconclusive": EXIT_INCONCLUSIVE, "passed": 0}


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ComparisonChecks:
    """Checks of a comparison, and a file that they are written to."""

    fail_if: Annotated[tuple[str, ...], Parameter(negative="", show_default=False, metavar="EXPRESSION")] = ()
    """Exit with status 4 if the expression holds for a point, 5 if its 95 % interval is inconclusive: 'p99 > 2ms',
    'iops < 100k where depth == 16'; of a comparison also 'p99 change > 5%'. May be given several times.
    docs/howto-pipeline.md"""
    junit: Path | None = None
    """Write the checks to this file as JUnit XML."""

    @property
    def files(self) -> dict[str, Path | None]:
        """The files by their options."""
        return {"--junit": self.junit}

    def parsed(self, known: Vocabulary) -> list[Expression]:
        """The expressions. Raises ``DialectError`` for errors in them, ``TargetError`` for files without a place."""
        from iocurve.analysis.check_expressions import parse_all

        for option, path in self.files.items():
            if path is not None and not self.fail_if:
                raise DialectError([Diagnostic(f"{option} writes checks; add --fail-if 'p99 > 2ms'")])
            if path is not None and not path.parent.is_dir():
                raise TargetError(f"{option} {path}: there is no directory {path.parent}")
        return parse_all(self.fail_if, known)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class CheckOptions(ComparisonChecks):
    """Checks of the points, and the files that they are written to."""

    markdown: Path | None = None
    """Write the checks, and a comparison, to this file as Markdown, for a pull request."""

    @property
    def files(self) -> dict[str, Path | None]:
        """The files by their options."""
        return {"--junit": self.junit, "--markdown": self.markdown}


COMPARISON_CHECKS = ComparisonChecks()
CHECKS = CheckOptions()


def report(result: Result, expressions: Sequence[Expression], options: CheckOptions, out: TextIO | None = None) -> int:
    """Checks a result, prints the outcomes (default: to stdout) and writes the files; gives the exit status.

    Raises ``TargetError``.
    """
    if not expressions:
        return 0
    from iocurve.analysis import checks as analysis
    from iocurve.report import checks as reports

    found = analysis.check(result, expressions)
    print("\n".join(reports.lines(found)), file=out or sys.stdout)
    return written(found, result.name, result, options)


def written(found: Checks, name: str, measured: Result, options: ComparisonChecks) -> int:
    """Writes the files of checks; gives the exit status. Raises ``TargetError``."""
    from iocurve.report import checks as reports

    for option, path in options.files.items():
        if path:
            is_xml = option == "--junit"
            content = reports.junit(found, name, measured) if is_xml else reports.markdown(found, name)
            write_file(option, path, content, ran=True)
    return EXIT_INCOMPLETE if found.incomplete else STATUS[found.verdict]


def write_file(option: str, path: Path, content: bytes, *, ran: bool = False) -> None:
    """Writes a file that an option names. Raises ``TargetError``; ``ran`` says that something was measured before."""
    try:
        path.write_bytes(content)
    except OSError as error:
        raise TargetError(f"{option} {path} cannot be written: {error.strerror}", ran=ran) from None


def check_result(result: Path, /, *, options: CheckOptions = CHECKS) -> int:
    """Check a result: exit with status 4 if an expression holds for a point, 5 if its interval is inconclusive.

    Exit with status 1 if the result is incomplete or points failed, whatever the others show.

    Parameters
    ----------
    result
        A result.json, or its directory.
    """
    from iocurve.analysis.check_names import Vocabulary
    from iocurve.result.document import Result

    if not options.fail_if:
        raise DialectError([Diagnostic("nothing to check; add --fail-if 'p99 > 2ms'")])
    found = Result.read(result)
    expressions = options.parsed(Vocabulary.of(found))
    return report(found, expressions, options)
