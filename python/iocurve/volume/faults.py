"""Faults that a volume injects on purpose: ``--fault flip-bit=1e-6,torn-write``."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from iocurve.foundation.structs import Struct

DEFAULT_RATES = {
    "flip-bit": 1e-6,
    "torn-write": 1e-3,
    "lost-write": 1e-3,
    "stale-read": 1e-3,
    "misdirected-write": 1e-3,
    "eio": 1e-3,
    "enospc": 1e-3,
    "lost-create": 1e-3,
    "misdirected-rename": 1e-3,
    "stale-attributes": 1e-3,
}
"""Every kind of fault, with the rate that it has if none is given: of each operation, for ``flip-bit`` of each bit."""


class FaultRate(Struct):
    """The rate at which a kind of fault is injected."""

    kind: str
    rate: float
    """Probability, above 0 and at most 1: for each operation, for ``flip-bit`` for each bit that is read."""


class Faults(Struct):
    """The faults that all stores of a volume inject."""

    rates: tuple[FaultRate, ...]
    seed: int = 0
    """The same operations on the same files in the same order are hit again with the same seed."""
    log: str | None = None
    """A new file that gets a line of JSON for each injected fault."""

    def announcement(self) -> str:
        """The line that announces the faults."""
        rates = ", ".join(f"{one.kind} {one.rate:g} {_unit(one.kind)}" for one in self.rates)
        return f"faults: {rates}; seed {self.seed}" + (f"; log: {self.log}" if self.log else "")


def parse_faults(texts: Iterable[str]) -> tuple[FaultRate, ...]:
    """Reads ``flip-bit=1e-6,torn-write`` and several of these. Raises ``ValueError``."""
    words = [word.strip() for text in texts for word in text.split(",")]
    rates = tuple(map(_parse_fault, filter(None, words)))
    kinds = [rate.kind for rate in rates]
    if twice := [kind for kind in DEFAULT_RATES if kinds.count(kind) > 1]:
        raise ValueError(f"{twice[0]} is there twice")
    return rates


def _parse_fault(word: str) -> FaultRate:
    kind, equals, text = word.partition("=")
    if kind not in DEFAULT_RATES:
        close = get_close_matches(kind, DEFAULT_RATES, n=1, cutoff=0.6)
        hint = f"did you mean {close[0]}?" if close else f"choose from {', '.join(DEFAULT_RATES)}"
        raise ValueError(f"there is no fault '{kind}'; {hint}")
    try:
        rate = float(text) if equals else DEFAULT_RATES[kind]
    except ValueError:
        rate = 0
    if not 0 < rate <= 1:
        raise ValueError(
            f"{word}: the rate is a probability above 0 and at most 1, as in {kind}={DEFAULT_RATES[kind]:g}"
        )
    return FaultRate(kind=kind, rate=rate)


def _unit(kind: str) -> str:
    return _UNITS.get(kind, "of WRITEs")


_UNITS = {
    "flip-bit": "of bits read",
    "stale-read": "of READs",
    "eio": "of READs and WRITEs",
    "lost-create": "of new files",
    "misdirected-rename": "of RENAMEs",
    "stale-attributes": "of GETATTRs",
}
