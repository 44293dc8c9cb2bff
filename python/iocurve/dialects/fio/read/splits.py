"""Reads fio's compound values: bssplit, random_distribution and the criterion of steadystate."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from iocurve.dialects.fio.read import values
from iocurve.dialects.fio.read.draft import steady_state
from iocurve.dialects.fio.read.values import Context
from iocurve.engine import plan as plans
from iocurve.job.model import Amount, Percent, PerKind, Preference, ZoneShare, ZonesSaid

T = TypeVar("T")
_FIGURES: dict[str, plans.SteadyFigure] = {"iops": "iops", "bw": "bandwidth", "lat": "latency"}
_LARGEST_BLOCK = 2**32 - 1
_ZIPF, _PARETO = 1.1, 0.2
_NORMAL_PERCENT = 100 / 12
"""Standard deviation of fio's default, the mean of twelve draws."""


def block_split(text: str, context: Context) -> PerKind[plans.Blocks | None]:
    """Reads ``4k/10:64k/50:32k`` for each kind; None for a kind without a size."""
    return _by_kind(text, lambda part: _blocks(part, context))


def or_else(blocks: PerKind[plans.Blocks | None], others: PerKind[T]) -> PerKind[plans.Blocks | T]:
    """The blocks, with those of ``others`` for kinds that have none."""
    return PerKind(read=blocks.read or others.read, write=blocks.write or others.write, trim=blocks.trim or others.trim)


def distribution(text: str, context: Context) -> PerKind[Preference]:
    """Reads ``zipf:1.2``, ``zipf:1.2:0.5``, ``zoned:60/10:30/20:10/70``."""
    word, _, rest = values.word("random", "zipf", "pareto", "normal", "zoned", "zoned_abs", "sequence")(
        text, context
    ).partition(":")
    word = word.strip()
    if word == "sequence":
        raise ValueError("random_distribution=sequence is not supported yet")
    if word.startswith("zoned"):
        zones = _by_kind(rest, lambda part: _zones(part, context, word == "zoned_abs"))
        return zones.map(lambda of_kind: of_kind or plans.Uniform())
    return PerKind[Preference].same(_preference(word, rest))


def criterion(text: str, context: Context) -> plans.SteadyState:
    """Reads ``iops_slope:0.3%``; the times are those of other options."""
    words = ("iops", "iops_slope", "bw", "bw_slope", "lat", "lat_slope")
    word, colon, limit = values.word(*words)(text, context).partition(":")
    if not colon:
        raise ValueError(f"{context.option}={text} has no limit; write {context.option}={word}:0.3%")
    name, _, slope = word.strip().partition("_")
    figure = _FIGURES[name]
    kind: plans.SteadyCriterion = "slope" if slope else "deviation"
    is_percent = limit.rstrip().endswith("%")
    if is_percent:
        value = _not_negative(values.decimal(limit.rstrip()[:-1]), context)
    elif figure == "latency":
        value = float(values.short_time_ns(limit.strip(), context))
    elif figure == "bandwidth":
        value = float(values.size(limit.strip(), context))
    else:
        value = _not_negative(values.decimal(limit), context)
    return steady_state(figure, kind, value, is_percent=is_percent)


def _not_negative(value: float, context: Context) -> float:
    if not 0 <= value < float("inf"):
        raise ValueError(f"{context.option}: the limit must be 0 or more")
    return value


def _by_kind(text: str, read: Callable[[str], T]) -> PerKind[T]:
    """Reads one text for all kinds, or texts for reads, writes and trims separated by commas; the last one repeats."""
    parts = [part.strip() for part in text.split(",", 2)]
    return PerKind(read=parts[0], write=parts[min(1, len(parts) - 1)], trim=parts[-1]).map(read)


def _pairs(text: str) -> list[tuple[str, str | None]]:
    """Splits ``a/b:c`` into pairs; an empty pair ends the list, as in fio."""
    pairs: list[tuple[str, str | None]] = []
    for item in text.split(":"):
        if not item:
            break
        first, slash, second = item.partition("/")
        pairs.append((first, second if slash else None))
    return pairs


def _shared(given: list[int | None], what: str) -> list[int]:
    """Divides what is left of 100 % evenly among the percentages that are not given."""
    total, missing = sum(share or 0 for share in given), given.count(None)
    if missing and total > 100:
        raise ValueError(f"{what} add up to {total} %; at most 100 % is possible")
    rest = (100 - total) // missing if missing else 0
    return [rest if share is None else share for share in given]


def _percent(text: str | None, what: str) -> int | None:
    """A percentage, capped at 100; None for 0 or no text, as in fio."""
    if not text:
        return None
    return min(values.leading_integer(text, what), 100) or None


def _blocks(text: str, context: Context) -> plans.Blocks | None:
    pairs = _pairs(text)
    if not pairs:
        return None
    sizes = [values.size(size, context) for size, _ in pairs]
    if not all(1 <= size <= _LARGEST_BLOCK for size in sizes):
        raise ValueError(f"{context.option} takes blocks of 1 byte to 4 GiB")
    shares = _shared([_percent(share, "a percentage") for _, share in pairs], "the shares of the blocks")
    parts = [(size, share) for size, share in zip(sizes, _as_drawn(shares, context), strict=True) if share]
    if len(parts) == 1:
        return plans.FixedBlocks(bytes=parts[0][0])
    return plans.BlockSplit(parts=tuple(plans.BlockShare(bytes=size, weight=share) for size, share in parts))


def _as_drawn(shares: list[int], context: Context) -> list[int]:
    """Corrects shares that do not add up to 100 % as fio does.

    fio draws a number from 1 to 100 and finds its block in ascending order of shares. A total above 100 cuts off the
    largest shares; with a total below 100 the largest share gets the rest.
    """
    total = sum(shares)
    if total == 100:
        return shares
    order = sorted(range(len(shares)), key=lambda index: shares[index])
    left, drawn = 100, [0] * len(shares)
    for index in order:
        drawn[index] = min(shares[index], left)
        left -= drawn[index]
    drawn[order[-1]] += left
    if abs(total - 100) >= len(shares):
        used = ", ".join(map(str, drawn))
        text = f"the shares of {context.option} add up to {total} %; as in fio the blocks get {used} %"
        context.note("shares_odd", text, "warning")
    return drawn


def _zones(text: str, context: Context, absolute: bool) -> ZonesSaid | None:
    pairs = _pairs(text)
    if not pairs:
        return None
    access = [values.leading_integer(share, "a share such as 60") for share, _ in pairs]
    if sum(access) != 100 or min(access) < 0:
        raise ValueError(f"the shares of {context.option} must add up to 100 %, not {sum(access)} %")
    if absolute:
        sizes: list[Amount] = [values.size(size or "", context) for _, size in pairs]
    else:
        given = _shared([_percent(size, "a percentage") for _, size in pairs], "the sizes of the zones")
        if sum(given) > 100:
            raise ValueError(f"the sizes of the zones add up to {sum(given)} %; at most 100 % is possible")
        sizes = [Percent(percent=size) for size in given]
    zones = [ZoneShare(access_percent=float(share), size=size) for share, size in zip(access, sizes, strict=True)]
    return ZonesSaid(zones=tuple(zones))


def _preference(word: str, rest: str) -> Preference:
    first, _, second = rest.partition(":")
    center = values.decimal(second) if second else None
    if center is not None and not 0 <= center <= 1:
        raise ValueError(f"the center must be from 0 to 1, not {second}")
    if word == "zipf":
        theta = values.decimal(first) if first else _ZIPF
        if not 0 < theta < float("inf") or theta == 1:
            raise ValueError(f"zipf takes a theta above 0 other than 1, not {first}")
        return plans.Zipf(theta=theta, center=center)
    if word == "pareto":
        h = values.decimal(first) if first else _PARETO
        if not 0 < h < 1:
            raise ValueError(f"pareto takes a value between 0 and 1, not {first}")
        return plans.Pareto(h=h, center=center)
    if word == "normal":
        deviation = values.decimal(first) if first else 0.0
        if not 0 <= deviation < 100:
            raise ValueError(f"normal takes a deviation of 0 to 100 %, not {first}")
        return plans.Normal(deviation_percent=deviation or _NORMAL_PERCENT, center=center)
    return plans.Uniform()
