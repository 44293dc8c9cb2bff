"""Commands that compare results with each other."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from cyclopts import Parameter

from iocurve.analysis.check_expressions import Expression
from iocurve.analysis.check_names import Vocabulary
from iocurve.analysis.checks import check_changes
from iocurve.analysis.compare import NAMES, compare, compare_turns
from iocurve.cli.checks import COMPARISON_CHECKS, ComparisonChecks, written
from iocurve.cli.common import show, show_json
from iocurve.cli.quantities import Flag, Ratio
from iocurve.report import checks, compared
from iocurve.report.compared import Compared
from iocurve.result.document import RESULT_NAME, Result, write_atomically
from iocurve.result.paired import MARGIN


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ComparisonOutput:
    """The form of a comparison."""

    html: Path | None = None
    """Also write a page with charts to this file."""
    markdown: Flag = False
    """Print Markdown, for a comment in a pull request."""
    json: Flag = False
    """Print a JSON object."""
    checks: ComparisonChecks = COMPARISON_CHECKS

    def parsed(self, known: Vocabulary) -> list[Expression]:
        """The expressions of the checks, which may use changes. Raises ``DialectError`` and ``TargetError``."""
        return self.checks.parsed(replace(known, changes=frozenset(NAMES)))

    def report(self, found: Compared, expressions: Sequence[Expression]) -> int:
        """Prints and writes the checks of a comparison; gives the exit status. Raises ``TargetError``."""
        if not expressions:
            return 0
        checked, title = check_changes(found.comparison, expressions), " and ".join(found.sources)
        if self.markdown:
            print(f"\n{checks.markdown(checked, title).decode()}", end="")
        else:
            print("\n".join(["", *checks.lines(checked)]), file=sys.stderr if self.json else None)
        return written(checked, title, self.checks)

    def show(self, found: Compared) -> None:
        """Prints a comparison in the requested form, and writes the page."""
        if self.html:
            from iocurve.report.compared_page import page

            write_atomically(self.html, page(found).encode())
        if self.json:
            show_json(compared.document(found))
        elif self.markdown:
            print(compared.markdown(found), end="")
        else:
            show_comparison(found)


OUTPUT = ComparisonOutput()


def compare_results(
    base: Path,
    /,
    *others: Path,
    margin: Ratio = MARGIN,
    output: ComparisonOutput = OUTPUT,
) -> int:
    """Compare results with the first of them: faster, slower, no difference, or cannot tell.

    Parameters
    ----------
    base
        A result.json, or its directory. Alone: compare its points that took turns.
    others
        Results to compare with it. Points are matched by name and axes, or else by their load.
    margin
        Smallest difference that matters: 5%. Verdicts say "no difference" only if an interval excludes it.
    """
    results = [_read(path) for path in (base, *others)]
    expressions = output.parsed(Vocabulary.of(results[-1]))
    if others:
        found = Compared(compare(*results, margin=margin), tuple(map(str, (base, *others))))
    else:
        found = Compared(compare_turns(results[0], margin), (str(base),))
    output.show(found)
    return output.report(found, expressions)


def show_comparison(found: Compared) -> None:
    """Prints the results, the conditions that differ, the table and the notes."""
    if len(found.sources) > 1:
        for name, source in zip(found.labels, found.sources, strict=True):
            print(f"{name}  {source}")
        print()
    if table := compared.conditions_table(found):
        show(table)
        print()
    show(compared.table(found))
    print(f"\n{found.summary}")
    for text in (*found.unmatched, *found.notes):
        print(text)


def _read(path: Path) -> Result:
    return Result.read(path / RESULT_NAME if path.is_dir() else path)
