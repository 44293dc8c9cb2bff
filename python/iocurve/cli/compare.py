"""Commands that compare results with each other."""

from __future__ import annotations

from pathlib import Path

from iocurve.analysis.compare import compare, compare_turns
from iocurve.cli.common import show, show_json
from iocurve.cli.quantities import Flag, Ratio
from iocurve.report import compared
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
    return 0


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
