"""Parses and formats quantities. Sizes are bytes, times are nanoseconds.

iocurve's own options use IEC and SI units (KiB = 1024, kB = 1000; bare K, M, G, T = 1024). A small b is bits, which
only a bandwidth has.
Each dialect parses quantities by its own rules, in its own module.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from fractions import Fraction

UNKNOWN_TEXT = "–"
"""A value that is not known (NaN)."""
KIB, MIB, GIB, TIB = 1 << 10, 1 << 20, 1 << 30, 1 << 40
LARGE_BLOCK_BYTES = 64 * KIB
"""Loads of blocks of at least this size are counted in MiB/s, as sequential loads are."""
MB = 1_000_000
MICROSECOND_NS, MILLISECOND_NS, SECOND_NS = 1_000, 1_000_000, 1_000_000_000

_BYTES = {"": 1, "b": 1}
for _power, _letter in enumerate("kmgtp", start=1):
    _BYTES |= {_letter: 1024**_power, f"{_letter}ib": 1024**_power, f"{_letter}b": 1000**_power}

_TIMES_NS = {
    "ns": 1,
    "us": MICROSECOND_NS,
    "µs": MICROSECOND_NS,
    "ms": MILLISECOND_NS,
    "s": SECOND_NS,
    "m": 60 * SECOND_NS,
    "min": 60 * SECOND_NS,
    "h": 3600 * SECOND_NS,
    "d": 86_400 * SECOND_NS,
}
_THOUSANDS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_BITS_PER_S = re.compile(r"\s*(\d{1,19}(?:\.\d{1,9})?)\s*([kMGT])(?:b|bit)(?:/s|ps)?\s*\Z", re.ASCII)
_IN_BITS = re.compile(r"\d\s*[kMGTPmgtp]?i?b\s*\Z", re.ASCII)
_QUANTITY = re.compile(r"\s*(\d{1,19}(?:\.\d{1,9})?)\s*([a-zµ]*)\s*\Z", re.ASCII | re.IGNORECASE)


def parse_bytes(text: str) -> int:
    """``4TiB``, ``64k``, ``1.5 GB`` as bytes. Raises ``ValueError`` with a message for the user."""
    if _IN_BITS.search(text):
        raise ValueError(f"'{text}' is not a size: a small b is bits; write 64KiB, 64kB or 64k")
    return _parse(text, _BYTES, "a size such as 64KiB, 4G or 1.5TiB")


def parse_bandwidth(text: str) -> int:
    """``16000Mb``, ``12.5 Gb/s``, ``1907MiB/s`` as bytes per second; a small b is bits.

    Raises ``ValueError``, also for a number without a unit, except 0.
    """
    if found := _BITS_PER_S.match(text):
        return _scaled(found[1], 1000 ** ("kMGT".index(found[2]) + 1)) // 8
    size = re.sub(r"(/s|ps)\s*\Z", "", text)
    if size.strip() != "0" and _is_bare(number := size.strip()):
        raise ValueError(f"'{text}' has no unit; write {number}MiB/s, {number}MB/s or {number}Mb/s")
    if _IN_BITS.search(size):
        raise ValueError(f"'{text}' may be bits or bytes; write 16000Mb, 16Gb, 2000MB or 1907MiB")
    return _parse(size, _BYTES, "a bandwidth such as 16000Mb, 16Gb, 2000MB or 1907MiB")


def parse_fraction(text: str) -> Fraction:
    """``2%``, ``0.02`` or ``1/50``, above 0 and at most 1. Raises ``ValueError``."""
    try:
        fraction = Fraction(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
        if 0 < fraction <= 1:
            return fraction
    except (ValueError, ZeroDivisionError):
        pass
    raise ValueError(f"'{text}' is not a fraction such as 2%, 0.02 or 1/50")


def parse_count(text: str) -> float:
    """``950``, ``12.8k``, ``1.05M``: thousands and millions, as ``format_count`` writes them. Raises ``ValueError``."""
    found = _QUANTITY.match(text)
    if found is None or found[2].lower() not in _THOUSANDS:
        raise ValueError(f"'{text}' is not a number such as 950, 12.8k or 1.05M")
    return float(found[1]) * _THOUSANDS[found[2].lower()]


def parse_time_ns(text: str) -> int:
    """``250us``, ``2ms``, ``30s``, ``10m`` as nanoseconds.

    Raises ``ValueError``, also for a number without a unit, except 0.
    """
    number = text.strip()
    if number == "0":
        return 0
    if _is_bare(number):
        raise ValueError(f"'{text}' has no unit; write {number}us, {number}ms, {number}s or {number}m")
    return _parse(text, _TIMES_NS, "a time such as 250us, 2ms, 30s or 10m")


def format_bytes(size: int) -> str:
    """Formats in the largest binary unit, with three significant digits: ``4 KiB``, ``1.46 TiB``."""
    unit, scaled = "B", float(size)
    for larger in ("KiB", "MiB", "GiB", "TiB", "PiB"):
        if scaled < 1024:
            break
        unit, scaled = larger, scaled / 1024
    return f"{_three_digits(scaled)} {unit}"


def numbered(names: Iterable[str]) -> list[str]:
    """The names, of which the second of the same is ``name (2)``."""
    seen: dict[str, int] = {}
    found = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        found.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return found


def counted(number: int, noun: str) -> str:
    """Formats a number with its noun: ``1 point``, ``1,200 points``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def format_count(count: float) -> str:
    """Abbreviates thousands and millions: ``950``, ``12.8k``, ``1.05M``; NaN is a dash."""
    if math.isnan(count):
        return UNKNOWN_TEXT
    unit, scaled = "", float(count)
    for larger in ("k", "M", "G", "T"):
        if scaled < 1000:
            break
        unit, scaled = larger, scaled / 1000
    return f"{_three_digits(scaled)}{unit}"


def format_number(value: float, digits: int = 6) -> str:
    """With ``digits`` digits, never in scientific notation: ``130,998``, ``6.09304``, ``0.0000966``; NaN is a dash."""
    if math.isnan(value):
        return UNKNOWN_TEXT
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value)))) if value else 0
    text = f"{value:,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def format_depth(depth: float) -> str:
    """Operations in flight on average: a whole number as it is, another in three digits."""
    return f"{depth:g}" if depth % 1 == 0 else format_number(depth, 3)


def format_latency(nanoseconds: float) -> str:
    """Formats in the largest fitting unit: ``640 ns``, ``12.5 µs``, ``1.2 ms``, ``3 s``; NaN as a dash."""
    if math.isnan(nanoseconds):
        return UNKNOWN_TEXT
    for unit, size in (("ns", 1), ("µs", MICROSECOND_NS), ("ms", MILLISECOND_NS)):
        if nanoseconds < size * 1000:
            return f"{_three_digits(nanoseconds / size)} {unit}"
    return f"{_three_digits(nanoseconds / SECOND_NS)} s"


def format_duration(nanoseconds: int) -> str:
    """Formats in hours, minutes and seconds: ``1.5 s``, ``30 s``, ``35 min``, ``1 h 5 min``."""
    if nanoseconds < SECOND_NS:
        return format_latency(nanoseconds)
    if nanoseconds < 60 * SECOND_NS:
        return f"{_three_digits(nanoseconds / SECOND_NS)} s"
    seconds = round(nanoseconds / SECOND_NS)
    parts = ((seconds // 3600, "h"), (seconds // 60 % 60, "min"), (seconds % 60, "s"))
    return " ".join(f"{count} {unit}" for count, unit in parts if count)


def _is_bare(number: str) -> bool:
    """True for a number without a unit."""
    return number.replace(".", "", 1).isdecimal()


def _parse(text: str, units: dict[str, int], expected: str) -> int:
    found = _QUANTITY.match(text)
    if found is None or found[2].lower() not in units:
        raise ValueError(f"'{text}' is not {expected}")
    return _scaled(found[1], units[found[2].lower()])


def _scaled(decimal: str, unit: int) -> int:
    whole, _, fraction = decimal.partition(".")
    return int(int(whole + fraction) * unit // 10 ** len(fraction))


def _three_digits(value: float) -> str:
    digits = 2 if value < 10 else 1 if value < 100 else 0
    text = f"{value:.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def capitalised(text: str) -> str:
    """The text with a capital first letter; the rest stays as it is."""
    return text[:1].upper() + text[1:]


def sentence(text: str) -> str:
    """The text with a capital and one full stop; empty text stays empty."""
    return f"{capitalised(text.removesuffix('.'))}." if text else ""
