"""What the commands share: quantities of options, arguments that are passed on."""

from __future__ import annotations

from typing import Annotated, Any

from cyclopts import Parameter

from iocurve.errors import DialectError, Mistake
from iocurve.units import parse_bytes, parse_time_ns

Words = Annotated[str, Parameter(allow_leading_hyphen=True, show=False)]
"""Arguments that another tool's rules apply to."""


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
