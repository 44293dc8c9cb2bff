"""Reads values as DiskSpd's parser does: numbers, sizes, processors, distributions, odd rules included.

Readers raise ``ValueError`` with the message for the user.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Literal

import msgspec

from iocurve.foundation.errors import Where
from iocurve.job.model import Level, PlanNote

DistributionKind = Literal["Percent", "Absolute"]
FlushMode = Literal["ViewOfFile", "NonVolatileMemory", "NonVolatileMemoryNoDrain"]
U32_MAX, U64_MAX = 2**32 - 1, 2**64 - 1
INT_MAX = 2**31 - 1
SIZE_HINT = "a size is a whole number with K, M, G, T or b (blocks), such as 64K"
_FACTORS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_DIGITS = re.compile(r"\d+", re.ASCII)
_INTEGER = re.compile(r"[ \t\n\v\f\r]*([+-]?\d+)", re.ASCII)


class OffsetZone(msgspec.Struct):
    """A zone of a target, and its share of the operations. The shares of all zones need not add up to 100."""

    io_percent: int
    start: int
    """In bytes, or in percent of the target where it is written so; likewise ``length``."""
    length: int
    """0 as it is written means up to the end; of an effective distribution, one block at the end of the zone before."""

    @property
    def end(self) -> int:
        """Offset of the first byte after the zone."""
        return self.start + self.length


class Given(msgspec.Struct):
    """A flag that is being read, and what its meaning depends on."""

    fresh_seed: Callable[[], int]
    name: str = ""
    """The flag as written, for notes."""
    text: str = ""
    """The text after the flag's letter."""
    where: Where | None = None
    block_bytes: int = 0
    notes: list[PlanNote] = msgspec.field(default_factory=list)

    def note(self, code: str, text: str, level: Level = "info") -> None:
        """Adds a note about the flag."""
        self.notes.append(PlanNote(code, f"{self.name}: {text}", self.where, level))

    def number(self, text: str | None = None) -> int:
        """Reads a number as C's atoi does, and notes the text that atoi ignores."""
        value, rest = leading_integer(self.text if text is None else text)
        if rest:
            self.note("passed_over", f"DiskSpd reads {value} and ignores '{rest}'", "warning")
        return value

    def size(self, text: str | None = None) -> int:
        """Reads a size; the suffix b counts blocks of -b."""
        return size(self.text if text is None else text, self.block_bytes)


# -- flags that set one field ------------------------------------------------------------------------------------------

Reader = Callable[[Given], object]
"""Reads the value of a flag."""


def numbers(refusal: str, low: int, high: int = INT_MAX) -> Reader:
    """A whole number from ``low`` to ``high``; ``refusal`` is the error for others."""
    return lambda given: _within(given.number(), refusal, low, high)


def positive(quantity: str) -> Reader:
    """A whole number above 0."""
    return numbers(f"needs a whole number above 0 ({quantity})", 1)


def sizes(refusal: str, low: int, high: int = U64_MAX) -> Reader:
    """A size from ``low`` to ``high`` bytes; ``refusal`` is the error for others."""
    return lambda given: _within(given.size(), refusal, low, high)


def _within(value: int, refusal: str, low: int, high: int) -> int:
    if not low <= value <= high:
        raise ValueError(refusal)
    return value


def seconds(default: int) -> Reader:
    """A whole number of seconds; ``default`` applies without the flag."""

    def read(given: Given) -> int:
        if not given.text:
            given.note("bare_seconds", f"without a number it is 0 s, not DiskSpd's default of {default} s", "warning")
        return _within(given.number(), "needs a whole number of seconds, 0 or more", 0, INT_MAX)

    return read


def switch(given: Given) -> bool:
    """A flag without a value."""
    if given.text:
        given.note("passed_over", f"DiskSpd ignores '{given.text}'", "warning")
    return True


def write_percent(given: Given) -> int:
    """Percentage of writes."""
    if not given.text:
        raise ValueError("needs the percentage of writes: -w0 for none")
    return _within(given.number(), "needs a percentage of writes, 0 to 100", 0, 100)


def flush(given: Given) -> FlushMode:
    """Flushes of a mapped file."""
    modes: dict[str, FlushMode] = {"v": "ViewOfFile", "n": "NonVolatileMemory", "i": "NonVolatileMemoryNoDrain"}
    if given.text.lower() not in modes:
        raise ValueError("needs one of the letters v, n, i")
    return modes[given.text.lower()]


def progress(given: Given) -> int:
    """Operations per dot of progress."""
    value = given.number() if given.text else 0
    return value if value > 0 else 65536


def experiment(given: Given) -> int:
    """Experiment flags, 32 bits."""
    return given.number() % (U32_MAX + 1)


def seed(given: Given) -> int:
    """Reads 32 bits as C's strtoul does: a negative number wraps, a large one is limited to 2^32-1.

    Without a text the seed is a new one.
    """
    if not given.text:
        return given.fresh_seed() % (U32_MAX + 1)
    found = _INTEGER.fullmatch(given.text)
    if found is None:
        raise ValueError(f"'{given.text}' is not a random seed: a seed is a whole number of 32 bits")
    value = int(found[1][:20])
    return value % (U32_MAX + 1) if abs(value) <= U32_MAX else U32_MAX


# -- texts -------------------------------------------------------------------------------------------------------------


def leading_integer(text: str) -> tuple[int, str]:
    """Reads a number as C's atoi does, and returns the rest: ``10s`` is 10 and ``s``, ``fast`` is 0 and ``fast``."""
    found = _INTEGER.match(text)
    if found is None:
        return 0, text
    return max(-INT_MAX - 1, min(INT_MAX, int(found[1][:20]))), text[found.end() :]


def size(text: str, block_bytes: int) -> int:
    """Reads a size in bytes: ``64K``, ``200G``, ``8b`` (blocks)."""
    value, rest = leading_size(text, block_bytes)
    if rest:
        raise ValueError(f"'{text}' is not a size: {SIZE_HINT}")
    return value


def leading_size(text: str, block_bytes: int) -> tuple[int, str]:
    """Reads the size at the start of the text, and returns it with the rest."""
    digits = _DIGITS.match(text)
    if digits is None:
        raise ValueError(f"'{text}' is not a size: {SIZE_HINT}")
    letter = text[digits.end() : digits.end() + 1].upper()
    factor = block_bytes if letter == "B" else _FACTORS.get(letter)
    rest = text[digits.end() :] if factor is None else text[digits.end() + 1 :]
    # Converting hundreds of digits would take long.
    value = int(digits[0][:40]) * (1 if factor is None else factor)
    if value > U64_MAX:
        raise ValueError(f"'{text}' is too large: the largest size is {U64_MAX} bytes")
    return value, rest


def affinity(text: str) -> tuple[tuple[int, int], ...]:
    """Reads pairs of group and processor: ``0,1,2`` or ``g0,0,1,g1,0``; ``g`` alone is the default."""
    if text in ("", "g"):
        return ()
    pairs, group = [], 0
    words = text.split(",")
    for number, word in enumerate(words):
        digits = word[1:] if word.startswith("g") else word
        if not _DIGITS.fullmatch(digits):
            raise ValueError(f"'{word}' is neither a processor nor a group; write -a0,1,2 or -ag0,0,1,2")
        value = int(digits[:12])
        if word.startswith("g"):
            group = _at_most(value, 2**16 - 1, f"group {digits}")
            if number == len(words) - 1:
                raise ValueError(f"no processor follows group {digits}")
        else:
            pairs.append((group, _at_most(value, 255, f"processor {digits}")))
    return tuple(pairs)


def distribution(text: str, block_bytes: int) -> tuple[DistributionKind, list[OffsetZone]]:
    """Reads ``pct90/10:0/10`` or ``abs90/10G:5/20G``: percent of the operations / percent or bytes of the target."""
    kind: DistributionKind = "Percent" if text.startswith("pct") else "Absolute"
    if not text.startswith(("pct", "abs")):
        raise ValueError(f"'{text}' is not a distribution: write -rdpct90/10:5/20 or -rdabs90/10G:5/20G")
    spans: list[OffsetZone] = []
    start = 0
    for pair in text[3:].split(":"):
        percent, slash, part = pair.partition("/")
        if not slash or not _DIGITS.fullmatch(percent) or int(percent[:12]) > 100:
            raise ValueError(
                f"'{pair}' must be a percentage of the operations (0 to 100), '/' and a part of the target"
            )
        length = _part(part, kind, block_bytes)
        spans.append(OffsetZone(int(percent), start, length))
        start += length
    return kind, spans


def buffer_source(text: str, block_bytes: int) -> tuple[int, str]:
    """Reads ``1M`` or ``1M,file``: the size of the write buffer, and the file that fills it."""
    length, _, path = text.partition(",")
    bytes_ = size(length, block_bytes)
    if not bytes_:
        raise ValueError("the write buffer must be larger than 0 bytes")
    return bytes_, path


def _part(text: str, kind: DistributionKind, block_bytes: int) -> int:
    if kind == "Percent":
        if not _DIGITS.fullmatch(text) or not 0 < int(text[:12]) <= 100:
            raise ValueError(f"'{text}' is not a percentage of the target: 1 to 100")
        return int(text)
    length = size(text, block_bytes)
    if not length:
        raise ValueError("a part of the target cannot have length 0")
    return length


def _at_most(value: int, largest: int, name: str) -> int:
    if value > largest:
        raise ValueError(f"{name} is out of range: at most {largest}")
    return value
