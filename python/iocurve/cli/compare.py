"""Commands that compare results with each other."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from msgspec.structs import replace

from iocurve.analysis.check_expressions import Expression
from iocurve.analysis.check_names import Vocabulary
from iocurve.analysis.checks import check_changes
from iocurve.analysis.compare import NAMES, compare, compare_turns
from iocurve.analysis.doubts import missing_parts
from iocurve.analysis.history import HistoryRun, histories
from iocurve.cli.checks import COMPARISON_CHECKS, ComparisonChecks, written
from iocurve.cli.common import JsonFlag, Many, Ratio, show, show_json
from iocurve.foundation.errors import Diagnostic, DialectError, ResultError, unknown
from iocurve.report import checks, compared
from iocurve.report.compared import Compared, History
from iocurve.result.document import Result
from iocurve.result.document_file import RESULT_NAME, write_atomically
from iocurve.result.figures import NAMES as FIGURE_NAMES
from iocurve.result.paired import MARGIN

HISTORY_NAMES = FIGURE_NAMES - {"iops_low", "iops_high", "limited_by", "limited_by_confidence"}
"""The figures that are numbers, without bounds."""


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ComparisonOutput:
    """The form of a comparison."""

    html: Path | None = None
    """Also write a page with charts to this file."""
    markdown: Path | None = None
    """Write the checks, and a comparison, to this file as Markdown, for a pull request."""
    json: JsonFlag = False
    checks: ComparisonChecks = COMPARISON_CHECKS

    def parsed(self, known: Vocabulary) -> list[Expression]:
        """The expressions of the checks, which may use changes. Raises ``DialectError`` and ``TargetError``."""
        return self.checks.parsed(replace(known, changes=frozenset(NAMES)))

    def report(self, found: Compared, expressions: Sequence[Expression]) -> int:
        """Prints and writes the checks of a comparison; gives the exit status. Raises ``TargetError``."""
        checked = check_changes(found.comparison, expressions) if expressions else None
        title = " and ".join(found.sources)
        if self.markdown:
            parts = [compared.markdown(found).encode(), *([checks.markdown(checked, title)] if checked else [])]
            write_atomically(self.markdown, b"\n".join(parts))
        if checked is None:
            return 0
        print("\n".join(["", *checks.lines(checked)]), file=sys.stderr if self.json else None)
        return written(checked, title, found.comparison.results[-1], self.checks)

    def show(self, found: Compared) -> None:
        """Prints a comparison in the requested form, and writes the page."""
        if self.html:
            from iocurve.report.compared_page import page

            write_atomically(self.html, page(found).encode())
        if self.json:
            show_json(compared.document(found))
        else:
            show_comparison(found)


OUTPUT = ComparisonOutput()


def compare_results(base: Path, /, *others: Path, margin: Ratio = MARGIN, output: ComparisonOutput = OUTPUT) -> int:
    """Compare results with the first of them: faster, slower, no difference, or inconclusive.

    Parameters
    ----------
    base
        A result.json, or its directory. Alone: compare its interleaved points.
    others
        Results to compare with it. Points are matched by name and parameters, or else by their load.
    margin
        Smallest difference that matters: 5%.
    """
    results = [Result.read(path) for path in (base, *others)]
    expressions = output.parsed(Vocabulary.of(results[-1]))
    if others:
        found = Compared(compare(*results, margin=margin), tuple(map(str, (base, *others))))
    else:
        found = Compared(compare_turns(results[0], margin), (str(base),))
    output.show(found)
    return output.report(found, expressions)


def show_history(
    directory: Path,
    /,
    *,
    figure: Annotated[tuple[str, ...], Many] = ("iops", "p99_us"),
    html: Path | None = None,
    json: JsonFlag = False,
) -> int:
    """Show values over the results of a directory, and the runs at which they changed.

    Parameters
    ----------
    directory
        Holds results, each as a result.json in a directory below it, or as a .json file in it.
    figure
        Figures as result.json names them: p99_us, mib_per_s, cpu_us_per_operation. Default: iops and p99_us.
    html
        Also write a page with charts to this file.
    """
    names = [name for name in figure if name not in HISTORY_NAMES]
    if names:
        raise DialectError([unknown("figure", names[0], sorted(HISTORY_NAMES), "iocurve history --help")])
    runs = _runs(directory)
    found = History(tuple(runs), tuple(histories(runs, figure)))
    if html:
        from iocurve.report.compared_page import history_page

        write_atomically(html, history_page(found).encode())
    if json:
        show_json(compared.history_document(found))
        return 0
    show(compared.history_table(found))
    print()
    for text in found.notes:
        print(text)
    return 0


def _runs(directory: Path) -> list[HistoryRun]:
    """The results of a directory by time. One that cannot be read or is incomplete is named and left out."""
    paths = {*directory.glob("*.json"), *directory.rglob(RESULT_NAME)}
    runs: list[HistoryRun] = []
    for path in sorted(paths):
        try:
            result = Result.read(path)
        except ResultError as error:
            print(f"warning: left out: {error}", file=sys.stderr)
            continue
        if missing := missing_parts(result):
            print(f"warning: left out: {path}: {'; '.join(missing)}", file=sys.stderr)
            continue
        name = path.parent if path.name == RESULT_NAME and path.parent != directory else path
        runs.append((str(name.relative_to(directory)), result))
    if not runs:
        raise DialectError([Diagnostic(f"{directory} has no results; name a directory with results below it")])
    return sorted(runs, key=lambda run: run[1].created)


def show_comparison(found: Compared) -> None:
    """Prints the number of each verdict, the results, the conditions that differ, the table and the notes."""
    print(f"{found.summary}\n")
    if len(found.sources) > 1:
        for name, source in zip(found.labels, found.sources, strict=True):
            print(f"{name}  {source}")
        print()
    if conditions := compared.conditions_table(found):
        show(conditions)
        print()
    show(compared.grouped(compared.table(found)))
    print()
    for text in (*found.unmatched, *found.notes):
        print(text)
