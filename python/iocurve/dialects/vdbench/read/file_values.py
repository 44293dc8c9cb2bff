"""Reads the values of file system workloads: file sizes, operations, file selection, ``format=``."""

from __future__ import annotations

from decimal import Decimal
from typing import Literal

import msgspec

from iocurve.dialects.vdbench.read import values
from iocurve.dialects.vdbench.read.lines import Parameter

OPERATIONS = (
    *("read", "write", "mkdir", "rmdir", "copy", "move", "create", "delete", "getattr", "setattr", "access"),
    *("open", "close"),
)
operation = values.choice(*OPERATIONS)
"""Reads ``operation=``."""
FORMATS = ("directories", "restart", "only", "once", "clean", "limited", "complete", "yes")
"""Values of ``format=`` other than no."""


class Shares(msgspec.Struct, frozen=True):
    """Sizes with the percentage of the files or transfers that have them."""

    parts: tuple[tuple[int, Decimal], ...]
    is_average: bool = False
    """``sizes=(n,0)``: sizes are drawn between a half and one and a half times n."""

    @classmethod
    def same(cls, size: int, *, is_average: bool = False) -> Shares:
        """One size for all."""
        return cls(((size, Decimal(100)),), is_average)

    @property
    def mean(self) -> Decimal:
        """Mean size in bytes."""
        if len(self.parts) == 1:
            return Decimal(self.parts[0][0])
        return sum((size * percent for size, percent in self.parts), Decimal(0)) / 100

    @property
    def is_fixed(self) -> bool:
        """True if all sizes are the same."""
        return len(self.parts) == 1 and not self.is_average


def file_sizes(parameter: Parameter) -> Shares:
    """Reads ``sizes=``: ``128k``, ``(4k,50,64k,50)``, or ``(64k,0)`` for an average. Files may be empty."""
    words = parameter.values
    if len(words) == 2 and values.quantity(words[1]) == 0:
        return Shares.same(_bytes(words[0]), is_average=True)
    return _shares(parameter, "sizes", smallest=0)


def transfers(parameter: Parameter) -> Shares:
    """Reads ``xfersize=`` of a file workload: ``4k`` or ``(4k,50,64k,50)``."""
    return _shares(parameter, "xfersize")


def _shares(parameter: Parameter, name: str, smallest: int = 1) -> Shares:
    words = parameter.values
    if len(words) == 1:
        return Shares.same(_bytes(words[0], smallest))
    if len(words) % 2:
        raise ValueError(f"{name} takes pairs of size and percentage: (4k,10,8k,90)")
    percents = [values.quantity(word) for word in words[1::2]]
    if int(sum(percents)) != 100 or any(percent < 0 for percent in percents):
        raise ValueError(f"the percentages of {name} add up to {sum(percents)}, not 100")
    return Shares(tuple((_bytes(word, smallest), part) for word, part in zip(words[::2], percents, strict=True)))


def _bytes(word: str, smallest: int = 1) -> int:
    # Fractions of a byte are dropped: 1.1m.
    number = int(values.quantity(word))
    if number < smallest:
        raise ValueError(f"'{word[:40]}' is not a size of at least one byte")
    return number


def total_size(parameter: Parameter) -> int:
    """Reads ``totalsize=``, ``workingsetsize=``: a size, or ``(size,N)`` for the N-th part of it."""
    if len(parameter.values) == 1:
        return _bytes(parameter.text)
    if len(parameter.values) != 2:
        raise ValueError(f"{parameter.keyword} takes a size, or a size and a divisor: (2g,8)")
    divisor = values.whole(parameter.values[1], 1)
    return max(1, _bytes(parameter.values[0]) // divisor)


def total_sizes(parameter: Parameter) -> tuple[int | Decimal, ...]:
    """Reads ``totalsize=`` of a run: sizes in bytes, or percentages of the FSD's, such as ``50%``."""
    if all(word.endswith("%") for word in parameter.values):
        return tuple(_percentage(word) for word in parameter.values)
    return tuple(values.whole(f"{number:f}", 1) for number in values.numbers(parameter.values))


def _percentage(word: str) -> Decimal:
    number = values.quantity(word[:-1])
    if not 0 < number <= 100:
        raise ValueError(f"{word[:40]} is not a percentage from 1 to 100")
    return number


def operations(parameter: Parameter) -> tuple[str, ...]:
    """Reads ``operations=(read,getattr)``, ``foroperations=…``."""
    words = [word.lower() for word in parameter.values]
    for word, lower in zip(parameter.values, words, strict=True):
        if lower not in OPERATIONS:
            raise ValueError(f"'{word[:40]}' is not one of {', '.join(OPERATIONS)}")
    return tuple(words)


class FileIo(msgspec.Struct, frozen=True):
    """Value of ``fileio=``."""

    access: Literal["random", "sequential"]
    shared: bool = False
    """Several threads use one file at the same time."""
    delete: bool = False
    """A file is deleted before it is written."""


def file_io(parameter: Parameter) -> FileIo:
    """Reads ``random``, ``sequential``, ``(random,shared)`` or ``(sequential,delete)``."""
    access, *more = parameter.values
    if values.chosen(access, ("random", "sequential")) == "random":
        for word in more:
            values.chosen(word, ("shared",))
        return FileIo("random", shared=bool(more))
    for word in more:
        values.chosen(word, ("delete",))
    return FileIo("sequential", delete=bool(more))


class FileSelect(msgspec.Struct, frozen=True):
    """Value of ``fileselect=``."""

    order: Literal["random", "sequential"] = "sequential"
    once: bool = False
    """The workload ends when each file was selected."""
    midpoint: Decimal | None = None
    """Poisson distribution: half of the selections go to this percentage of the files."""


def file_select(parameter: Parameter) -> FileSelect:
    """Reads ``random``, ``sequential``, ``once``, ``poisson`` or ``(poisson,midpoint=N)``."""
    order: Literal["random", "sequential"] = "sequential"
    once, midpoint = False, None
    for word in parameter.values:
        lower = word.lower()
        if lower in ("poisson", "skewed"):
            order, midpoint = "random", midpoint or Decimal(3)
        elif lower.startswith("midpoint="):
            order, midpoint = "random", values.quantity(lower.partition("=")[2])
        elif lower[:1].isdigit() or lower[:1] == ".":
            midpoint = values.quantity(lower)
        else:
            chosen = values.chosen(lower, ("random", "sequential", "once"))
            once |= chosen == "once"
            order = "random" if chosen == "random" else order
    return FileSelect(order, once, midpoint)


def formats(parameter: Parameter) -> tuple[str, ...]:
    """Reads ``format=``: no, yes, only, restart, … and their combinations. Empty for ``no``."""
    lower = [word.lower() for word in parameter.values]
    # A no among the words switches the others off, except for complete.
    if any("no".startswith(word) for word in lower):
        return ("complete",) if "complete" in lower else ()
    found = tuple(values.chosen(word, FORMATS) for word in lower)
    if "complete" in found:
        raise ValueError("format=complete needs no: format=(no,complete)")
    if "limited" in found and "only" not in found:
        raise ValueError("format=limited needs only: format=(only,limited)")
    return found


def stop_after(parameter: Parameter) -> str:
    """Reads ``stopafter=``: operations on a file, or a percentage of the file."""
    word = parameter.text
    if word.endswith("%"):
        _percentage(word)
    else:
        values.whole(word, 1)
    return word
