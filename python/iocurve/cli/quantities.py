"""Quantities of the command line, which its parser checks, units included."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypeVar

from cyclopts import Parameter, Token, validators

from iocurve.foundation.units import (
    format_bytes,
    format_duration,
    parse_bandwidth,
    parse_bytes,
    parse_count,
    parse_fraction,
    parse_time_ns,
)

T = TypeVar("T")
PORT_MAX = 65535


def _read(parse: Callable[[str], T]) -> Callable[[Any, Sequence[Token]], T]:
    """A converter for the command parser, which reports a ``ValueError`` with the name of the option."""
    return lambda _, tokens: parse(tokens[0].value)


def _checked(parse: Callable[[str], Any]) -> Callable[[Any, Sequence[Token]], str]:
    """As ``_read``, but keeps the text: a volume's settings travel to its control socket as people write them."""

    def keep(_: Any, tokens: Sequence[Token]) -> str:
        parse(tokens[0].value)
        return tokens[0].value

    return keep


def _fraction(text: str) -> float:
    return float(parse_fraction(text))


def _whole(text: str) -> int:
    return round(parse_count(text))


def _mix(text: str) -> float:
    from iocurve.advice.demand import parse_mix

    return parse_mix(text)


def parse_metrics_address(text: str) -> tuple[str, int]:
    """``9100``, ``10.0.0.4:9100`` or ``[::]:9100`` as a host and a port; loopback without a host.

    Raises ``ValueError`` with a message for the user.
    """
    host, colon, port = text.rpartition(":")
    is_bare_v6 = ":" in host and not (host.startswith("[") and host.endswith("]"))
    if not port.isdecimal() or int(port) > PORT_MAX or is_bare_v6 or (colon and not host):
        raise ValueError(f"'{text}' is not a port or HOST:PORT, such as 9100, 0.0.0.0:9100 or [::]:9100")
    return host.removeprefix("[").removesuffix("]") or "127.0.0.1", int(port)


def _percent(fraction: float) -> str:
    return f"{fraction * 100:g}%"


def _default(form: Callable[[T], str]) -> Callable[[T | None], str | None]:
    """Help shows a default in the form of the quantity, and none where an option has none."""
    return lambda value: None if value is None else form(value)


SizeBytes = Annotated[int, Parameter(converter=_read(parse_bytes), metavar="SIZE", show_default=_default(format_bytes))]
TimeNs = Annotated[
    int, Parameter(converter=_read(parse_time_ns), metavar="TIME", show_default=_default(format_duration))
]
Ratio = Annotated[
    float,
    Parameter(converter=_read(_fraction), metavar="FRACTION", show_default=_default(_percent)),
]
MetricsAddress = Annotated[
    tuple[str, int],
    Parameter(
        converter=_read(parse_metrics_address), metavar="[HOST:]PORT", n_tokens=1, negative="", show_default=False
    ),
]
BandwidthBytes = Annotated[int, Parameter(converter=_read(parse_bandwidth), metavar="BANDWIDTH", show_default=False)]
Count = Annotated[int, Parameter(converter=_read(_whole), metavar="N", show_default=False)]
Operations = Annotated[int, Parameter(converter=_read(_whole), validator=validators.Number(gte=1), metavar="N")]
"""Operations per second, at least 1: ``100k``."""
Mix = Annotated[float, Parameter(converter=_read(_mix), metavar="READS:WRITES", show_default=False)]
SizeText = Annotated[str, Parameter(converter=_checked(parse_bytes), metavar="SIZE")]
TimeText = Annotated[str, Parameter(converter=_checked(parse_time_ns), metavar="TIME")]
FractionText = Annotated[str, Parameter(converter=_checked(parse_fraction), metavar="FRACTION")]
BandwidthText = Annotated[str, Parameter(converter=_checked(parse_bandwidth), metavar="BANDWIDTH")]
Port = Annotated[int, Parameter(validator=validators.Number(gte=0, lte=PORT_MAX), metavar="PORT")]
AtLeast0 = Annotated[int, Parameter(validator=validators.Number(gte=0), metavar="N")]
AtLeast1 = Annotated[int, Parameter(validator=validators.Number(gte=1), metavar="N")]
Rounds = Annotated[int, Parameter(validator=validators.Number(gte=1, lte=100), metavar="N")]
Flag = Annotated[bool, Parameter(negative="", show_default=False)]
Many = Parameter(consume_multiple=True, negative="", show_default=False)
"""An option that takes several values: ``--points A B`` or ``--points A --points B``."""
