"""Commands that compare results with each other."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from iocurve.analysis.check_names import Vocabulary
from iocurve.analysis.checks import check_changes
from iocurve.analysis.compare import NAMES, compare, compare_turns
from iocurve.cli.checks import COMPARISON_CHECKS, ComparisonChecks, written
from iocurve.cli.common import show, show_json
from iocurve.cli.quantities import Flag, Ratio
from iocurve.report import checks, compared
from iocurve.report.compared import Compared
from iocurve.result.document import RESULT_NAME, Result
from iocurve.result.paired import MARGIN


def compare_results(
    base: Path,
    /,
    *others: Path,
    margin: Ratio = MARGIN,
    markdown: Flag = False,
    json: Flag = False,
    options: ComparisonChecks = COMPARISON_CHECKS,
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
    markdown
        Print Markdown, for a comment in a pull request.
    json
        Print a JSON object.
    """
    results = [_read(path) for path in (base, *others)]
    expressions = options.parsed(replace(Vocabulary.of(results[-1]), changes=frozenset(NAMES)))
    title = " and ".join(map(str, (base, *others)))
    if others:
        found = Compared(compare(*results, margin=margin), tuple(map(str, (base, *others))))
    else:
        found = Compared(compare_turns(results[0], margin), (str(base),))
    if json:
        show_json(compared.document(found))
    elif markdown:
        print(compared.markdown(found), end="")
    else:
        show_comparison(found)
    if not expressions:
        return 0
    checked = check_changes(found.comparison, expressions)
    if markdown:
        print(f"\n{checks.markdown(checked, title).decode()}", end="")
    else:
        print("\n".join(["", *checks.lines(checked)]), file=sys.stderr if json else None)
    return written(checked, title, options)


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
