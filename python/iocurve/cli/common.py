"""What the commands share: the application, exit statuses, quantities of options."""

from __future__ import annotations

import sys
from typing import Annotated, Any

from cyclopts import App, Parameter

from iocurve.errors import DialectError, IocurveError, Mistake
from iocurve.result.document import Result, iocurve_version
from iocurve.units import parse_bytes, parse_time_ns

EXIT_INCOMPLETE = 1
EXIT_MISTAKE = 2
EXIT_INTERRUPTED = 130

app = App(
    name="iocurve",
    help="Measures how much I/O a volume carries, draws the curve, and says what limits it.",
    version=iocurve_version,
)
Words = Annotated[str, Parameter(allow_leading_hyphen=True, show=False)]


def status(result: Result) -> int:
    """The exit status of what was measured; why it is incomplete goes to stderr."""
    if result.state == "finished":
        return 0
    print(f"iocurve: incomplete: {result.incomplete_reason}", file=sys.stderr)
    return EXIT_INTERRUPTED if result.state == "interrupted" else EXIT_INCOMPLETE


def complain(error: IocurveError) -> None:
    """Says what is wrong."""
    print(f"iocurve: {error}", file=sys.stderr)


def bytes_of(option: str, text: str) -> int:
    """A size. Raises ``DialectError`` that names the option."""
    try:
        return parse_bytes(text)
    except ValueError as error:
        raise DialectError([Mistake(f"{option}: {error}")]) from None


def time_of(option: str, text: str) -> int:
    """Nanoseconds. Raises ``DialectError`` that names the option."""
    try:
        return parse_time_ns(text)
    except ValueError as error:
        raise DialectError([Mistake(f"{option}: {error}")]) from None


def given(**options: Any) -> dict[str, Any]:
    """Those that were said."""
    return {option: value for option, value in options.items() if value is not None}
