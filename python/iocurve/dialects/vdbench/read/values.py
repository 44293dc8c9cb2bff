"""Reads values as vdbench does: sizes, times, series of numbers, names with wildcards and ranges.

Readers raise ``ValueError`` with the message for the user.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from difflib import get_close_matches
from fnmatch import translate
from typing import Any, Literal

import msgspec

from iocurve.dialects.vdbench.read.lines import Parameter
from iocurve.engine.plan import BlockRange, Blocks, BlockShare, BlockSplit, Durability, FixedBlocks
from iocurve.foundation.errors import Diagnostic, Where
from iocurve.foundation.units import SECOND_NS
from iocurve.job.model import PlanNote

Reader = Callable[[Parameter], Any]
VALUES_MAX = 100_000
"""Limit of values in one list."""
_NUMBER = r"-?(?:\d{1,18}(?:\.\d{0,9})?|\.\d{1,9})(?:[kmgt]b?)?"
_QUANTITY = re.compile(rf"({_NUMBER})\Z", re.IGNORECASE | re.ASCII)
_SERIES = re.compile(rf"({_NUMBER})-({_NUMBER})\Z", re.IGNORECASE | re.ASCII)
_TIME = re.compile(r"(\d{1,9}(?:\.\d{1,3})?)([smh]?)\Z", re.IGNORECASE | re.ASCII)
_RANGE = re.compile(r"(.*?)(\d{1,9})-(.*?)(\d{1,9})\Z", re.ASCII)
_SCALE = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600}
_LARGEST = 2**63 - 1


def quantity(word: str) -> Decimal:
    """Reads ``64k``, ``64KB``, ``100``, ``.1``."""
    if not _QUANTITY.match(word):
        raise ValueError(f"'{word[:40]}' is not a number; k, m, g and t stand for 1024, 1024², …")
    letters = word.lower().removesuffix("b")
    return Decimal(letters.rstrip("kmgt")) * _SCALE.get(letters[-1], 1)


def whole(word: str, low: int = 0, high: int = _LARGEST) -> int:
    """Reads a whole number within limits."""
    number = quantity(word)
    if number != int(number) or not low <= number <= high:
        limit = f"from {low} to {high}" if high != _LARGEST else f"of at least {low}"
        raise ValueError(f"'{word[:40]}' is not a whole number {limit}")
    return int(number)


def one(read: Callable[[str], object]) -> Reader:
    """Makes a reader of the only value."""
    return lambda parameter: read(parameter.text)


def every(read: Callable[[Decimal], object]) -> Reader:
    """Makes a reader of a series of numbers."""
    return lambda parameter: tuple(map(read, numbers(parameter.values)))


def count(low: int = 1, high: int = 1_000_000) -> Reader:
    """Makes a reader of whole numbers within limits."""
    return one(lambda word: whole(word, low, high))


size, size_or_zero = count(1, _LARGEST), count(0, _LARGEST)
"""Sizes in bytes: ``10g``, ``512``."""


def error_limit(parameter: Parameter) -> int | str:
    """Reads the number of errors that ends a run, at least 1, or a command, which vdbench starts at the first error."""
    text = ",".join(parameter.values)
    return whole(text, 1) if text.isdigit() else text


def duration_ns(word: str) -> int:
    """Reads a duration: ``60``, ``120m``, ``2h``."""
    found = _TIME.match(word)
    if found is None:
        raise ValueError(f"'{word[:40]}' is not a time; write seconds, 120m or 2h")
    return int(Decimal(found[1]) * _SECONDS[found[2].lower()] * SECOND_NS)


text, duration = one(str), one(duration_ns)
"""A text; a duration in nanoseconds."""


def numbers(words: Sequence[str]) -> tuple[Decimal, ...]:
    """Reads a series: ``1,2,4``, ``1-10,1``, ``1-64,d``, ``64-1,d`` or ``64,1,d``."""
    if words[-1].lower() == "d" and len(words) in (2, 3):
        return _doubled(words[:-1])
    if len(words) == 2 and (found := _SERIES.match(words[0])):
        return _stepped(quantity(found[1]), quantity(found[2]), quantity(words[1]))
    if len(words) == 1 and _SERIES.match(words[0]):
        raise ValueError(f"'{words[0]}' needs a step: ({words[0]},1) or ({words[0]},d)")
    return tuple(map(quantity, words))


def _doubled(words: Sequence[str]) -> tuple[Decimal, ...]:
    found = _SERIES.match(words[0])
    if len(words) == 1 and found is None:
        raise ValueError("a doubling series needs two ends: (1-64,d)")
    first, last = (quantity(word) for word in (words if found is None else (found[1], found[2])))
    if first <= 0 or last <= 0:
        raise ValueError("a doubling series needs ends above 0: (1-64,d)")
    values = [first]
    while values[-1] * 2 <= last if first <= last else values[-1] / 2 >= last:
        values.append(values[-1] * 2 if first <= last else values[-1] / 2)
    return tuple(values)


def _stepped(first: Decimal, last: Decimal, step: Decimal) -> tuple[Decimal, ...]:
    if step <= 0:
        raise ValueError("the step of a series must be above 0: (1-10,1)")
    steps = int(abs(last - first) / step)
    if steps >= VALUES_MAX:
        raise ValueError(f"a list can have at most {VALUES_MAX} values")
    return tuple(first + (step if first <= last else -step) * number for number in range(steps + 1))


def series(low: int, high: int = _LARGEST) -> Reader:
    """Makes a reader of a series of whole numbers."""

    def read(parameter: Parameter) -> tuple[int, ...]:
        values = numbers(parameter.values)
        for value in values:
            whole(f"{value:f}", low, high)
        return tuple(map(int, values))

    return read


def first(low: int, high: int) -> Reader:
    """Makes a reader of the first number of a series: vdbench reads the series, and ignores the others."""
    read_all, read_one = series(low, high), count(low, high)
    return lambda parameter: read_all(parameter)[0] if len(parameter.values) > 1 else read_one(parameter)


def _percent(value: Decimal) -> Decimal:
    if not 0 <= value <= 100:
        raise ValueError(f"{value} is not a percentage from 0 to 100")
    return value


percentage, percentages = one(lambda word: _percent(quantity(word))), every(_percent)
"""Percentages from 0 to 100."""


class Seek(msgspec.Struct, frozen=True):
    """Value of ``seekpct=``."""

    percent: Decimal
    """Percentage of the operations at a random offset."""
    at_end: Literal["wrap", "stop"] = "wrap"
    starts_anywhere: bool = False
    """seqnz: sequential from a random block."""

    def __str__(self) -> str:
        return "eof" if self.at_end == "stop" else "seqnz" if self.starts_anywhere else f"{self.percent:f}"


def seek(word: str) -> Seek:
    """Reads a percentage, ``eof``, ``seq``, ``seqnz`` or ``random``."""
    lower = word.lower()
    if lower in ("eof", "-1"):
        return Seek(Decimal(0), "stop")
    if len(lower) >= 3 and "random".startswith(lower):
        return Seek(Decimal(100))
    if lower in ("seqnz", "sequentialnz"):
        return Seek(Decimal(0), starts_anywhere=True)
    if len(lower) >= 3 and "sequential".startswith(lower):
        return Seek(Decimal(0))
    if lower.startswith("poisson"):
        raise ValueError("seekpct=poisson is not supported yet; hotband= is another non-uniform distribution")
    try:
        return Seek(_percent(quantity(word)))
    except ValueError as error:
        raise ValueError(f"{error}; seekpct takes a percentage, eof, seq, seqnz or random") from None


def seek_one(parameter: Parameter) -> Seek:
    """Reads ``seekpct=`` of a workload."""
    if parameter.values[0].lower() == "poisson":
        return seek("poisson")
    return seek(parameter.text)


def seeks(parameter: Parameter) -> tuple[Seek, ...]:
    """Reads ``forseekpct=``."""
    if len(parameter.values) == 1:
        return (seek(parameter.text),)
    return tuple(seek(f"{value:f}") for value in numbers(parameter.values))


def blocks(parameter: Parameter) -> Blocks:
    """Reads ``xfersize=``: ``4k``, ``(4k,10,8k,90)`` or ``(512,64k,512)``."""
    words = parameter.values
    if len(words) == 1:
        return FixedBlocks(bytes=_block(words[0]))
    if len(words) == 3:
        low, high, step = (_block(word) for word in words)
        if low > high or low % step:
            raise ValueError("xfersize=(min,max,align): min must be a multiple of align and not above max")
        return BlockRange(low=low, high=high, step=step)
    if len(words) % 2:
        raise ValueError("xfersize takes pairs of size and percentage: (4k,10,8k,90)")
    shares = [_percent(quantity(word)) for word in words[1::2]]
    # vdbench rounds the sum to a whole number: measured shares rarely add up exactly.
    if round(sum(shares)) != 100:
        raise ValueError(f"the percentages of xfersize add up to {sum(shares)}, not 100")
    scale = 1 if all(share == int(share) for share in shares) else 10_000
    return BlockSplit(
        parts=tuple(
            BlockShare(bytes=_block(word), weight=int(share * scale))
            for word, share in zip(words[::2], shares, strict=True)
            if int(share * scale)
        )
    )


def _block(word: str) -> int:
    value = whole(word, 1, 2**31)
    if value % 512:
        raise ValueError(f"a transfer size must be a multiple of 512 bytes; {value} is not")
    return value


Band = tuple[Decimal, Decimal]
"""``range=(40,60)`` in percent, or ``range=(1g,2g)`` in bytes."""


def band_bytes(band: Band, whole_bytes: int) -> tuple[int, int]:
    """First byte and end. An end beyond ``whole_bytes`` wraps to the start."""
    low, high = band
    if high > 200:
        return int(low), int(high)
    return int(whole_bytes * low / 100), int(whole_bytes * high / 100)


def band(parameter: Parameter) -> Band:
    """Reads two numbers, the smaller one first."""
    if len(parameter.values) != 2:
        raise ValueError(f"{parameter.keyword} takes two values: (40,60) in percent or (1g,2g) in bytes")
    low, high = map(quantity, parameter.values)
    if not 0 <= low < high or (high <= 200 and low > 100):
        raise ValueError(f"{parameter.keyword}=({low:f},{high:f}): the first must be at least 0 and below the second")
    return low, high


def pair(parameter: Parameter) -> tuple[int, int]:
    """Reads two sizes, the smaller one first; a single size stands for both."""
    words = parameter.values if len(parameter.values) == 2 else (parameter.text, parameter.text)
    low, high = (whole(word) for word in words)
    if low > high:
        raise ValueError(f"{parameter.keyword}=({low},{high}): the first must not be above the second")
    return low, high


def start_and_count(parameter: Parameter) -> tuple[int, int]:
    """Reads ``count=(1,8)``: the first number, and how many."""
    if len(parameter.values) == 2:
        first, number = (whole(word, 0, 100_000) for word in parameter.values)
        if number:
            return first, number
    raise ValueError("count takes the first number and the number of definitions: count=(1,8)")


class Rate(msgspec.Struct, frozen=True):
    """Requested rate of a run (iorate=)."""

    kind: Literal["number", "max", "curve", "variable"]
    per_second: Decimal = Decimal(0)
    pattern: tuple[tuple[Decimal, int], ...] = ()
    """For variable rates: rate and duration in seconds."""

    def __str__(self) -> str:
        if self.kind == "max":
            return "Uncontrolled MAX"
        if self.kind == "curve":
            return "Uncontrolled curve"
        if self.kind == "variable":
            return "variable: " + ",".join(f"{rate:f},{seconds}" for rate, seconds in self.pattern)
        return f"{self.per_second:f}"


def rates(parameter: Parameter) -> tuple[Rate, ...]:
    """Reads ``max``, ``curve`` or numbers; ``runs`` applies ``distribution=variable`` to them."""
    if len(parameter.values) == 1:
        lower = parameter.text.lower()
        if len(lower) >= 2 and "maximum".startswith(lower):
            return (Rate("max"),)
        if len(lower) >= 2 and "curve".startswith(lower):
            return (Rate("curve"),)
    try:
        found = numbers(parameter.values)
    except ValueError as error:
        raise ValueError(f"{error}; {parameter.keyword} takes max, curve or numbers") from None
    if any(not 0 < value <= 10**9 for value in found):
        raise ValueError(f"{parameter.keyword} must be above 0 and at most 1,000,000,000")
    return tuple(Rate("number", value) for value in found)


def rate(parameter: Parameter) -> Decimal:
    """Reads a fixed rate."""
    found = rates(Parameter(parameter.keyword, (parameter.text,), parameter.where))[0]
    if found.kind != "number":
        raise ValueError(f"{parameter.keyword} of a workload must be a number")
    return found.per_second


def _ratio(value: Decimal) -> Decimal:
    if not 1 <= value <= 1_000_000:
        raise ValueError(f"a ratio must be at least 1 (N to 1), not {value:f}")
    return value


ratio, ratios = one(lambda word: _ratio(quantity(word))), every(_ratio)
"""Ratios of compression and deduplication: N to 1."""


def choice(*words: str) -> Reader:
    """Makes a reader of one of ``words``, which may be abbreviated."""
    return one(lambda word: chosen(word, words))


def chosen(word: str, words: Sequence[str]) -> str:
    """Returns the one of ``words`` that is abbreviated."""
    lower = word.lower()
    found = [known for known in words if known == lower] or [known for known in words if known.startswith(lower)]
    if len(found) != 1:
        raise ValueError(f"'{word[:40]}' is not one of {', '.join(words)}")
    return found[0]


def yes_or_no(parameter: Parameter) -> bool:
    """Reads ``yes`` or ``no``."""
    return chosen(parameter.text, ("yes", "no", "on", "off")) in ("yes", "on")


def words(parameter: Parameter) -> tuple[str, ...]:
    """Returns all values unchanged."""
    return parameter.values


def one_number(parameter: Parameter) -> Decimal:
    """Reads any number above 0."""
    value = quantity(parameter.text)
    if value <= 0:
        raise ValueError(f"{parameter.keyword} must be above 0")
    return value


def matching(patterns: Sequence[str], known: Sequence[str], kind: str) -> list[str]:
    """Expands names, ``sd*`` and ``sd1-sd9``. Raises ``ValueError`` if a pattern matches nothing."""
    index = dict.fromkeys(known)
    found: dict[str, None] = {}
    for pattern in patterns:
        meant = [pattern] if pattern in index else _meant(pattern, known, index)
        if not meant:
            close = get_close_matches(pattern, known[:1000], n=1)
            hint = f"; did you mean {close[0]}?" if close else ""
            raise ValueError(f"there is no {kind} '{pattern[:40]}'{hint}")
        found |= dict.fromkeys(meant)
    return list(found)


def _meant(pattern: str, known: Sequence[str], index: dict[str, None]) -> list[str]:
    if any(letter in pattern for letter in "*?"):
        expression = re.compile(translate(pattern.replace("[", "[[]")))
        return [name for name in known if expression.match(name)]
    found = _RANGE.match(pattern)
    if found is None or found[3] not in ("", found[1]):
        return [name for name in known if name.lower() == pattern.lower()]
    first, last = int(found[2]), int(found[4])
    if last - first >= VALUES_MAX:
        return []
    names = [f"{found[1]}{number}" for number in range(first, last + 1)]
    return names if all(name in index for name in names) else []


_DSYNC, _SYNC, _DIRECT = 0x1000, 0x101000, 0x4000
"""Flag bits of open(2) on Linux x86."""


class Opening(msgspec.Struct, frozen=True):
    """Open flags of a file, and its flush at the end."""

    direct: bool
    durability: Durability
    flushed: bool
    """True if the file is flushed (fsync) at the end."""


def opening(flags: Sequence[str], where: Where, errors: list[Diagnostic], notes: list[PlanNote]) -> Opening:
    """Combines the flags. On Linux vdbench uses the same bit for o_sync, o_dsync and o_rsync."""
    bits, flushed = 0, False
    for flag in flags:
        lower = flag.lower()
        if lower in ("o_direct", "directio"):
            bits |= _DIRECT
        elif lower in ("o_sync", "o_dsync", "o_rsync"):
            bits |= _DSYNC
            if lower == "o_sync":
                notes.append(PlanNote("o_sync", "o_sync opens files with O_DSYNC, as vdbench does on Linux", where))
        elif lower == "fsync":
            flushed = True
        elif lower in ("directio_off", "clear_cache"):
            notes.append(PlanNote("no_effect", f"openflags={flag} has no effect: it applies to Solaris only", where))
        elif lower.startswith("0x"):
            bits |= _hexadecimal(lower, where, errors)
        else:
            known = "use o_direct, directio, o_dsync, o_rsync, o_sync, fsync or 0x…"
            errors.append(Diagnostic(f"openflags={flag[:40]} is not supported on Linux", where, known))
    durability: Durability = "file_sync" if bits & _SYNC == _SYNC else "data_sync" if bits & _DSYNC else "none"
    return Opening(bool(bits & _DIRECT), durability, flushed)


def _hexadecimal(word: str, where: Where, errors: list[Diagnostic]) -> int:
    try:
        bits = int(word, 16)
    except ValueError:
        errors.append(Diagnostic(f"openflags={word[:40]} is not a hexadecimal number", where))
        return 0
    if bits & ~(_SYNC | _DIRECT):
        text = f"openflags={word[:40]} has bits other than O_DIRECT (0x4000), O_DSYNC (0x1000) and O_SYNC (0x101000)"
        errors.append(Diagnostic(text, where))
    return bits & (_SYNC | _DIRECT)
