"""The region of an SD that a workload accesses, and its offset distribution: range, hotband, hitarea, streams."""

from __future__ import annotations

from decimal import Decimal
from random import Random
from typing import Any

from iocurve.dialects.vdbench.hotband import MIN_BAND_BYTES
from iocurve.dialects.vdbench.hotband import hotband as hot_zones
from iocurve.dialects.vdbench.read.values import Band, Seek
from iocurve.engine.plan import Uniform
from iocurve.errors import Diagnostic, Where
from iocurve.job.model import PerKind, Preference, ZoneShare, ZonesSaid


def region_fields(
    *,
    whole: int,
    is_device: bool,
    block: int,
    offset: int,
    span: Band | None,
    hotband: Band | None,
    read_hits: Decimal,
    write_hits: Decimal,
    hitarea: int,
    seek: Seek,
    stream: tuple[int, int],
    rng: Random,
    where: Where,
    errors: list[Diagnostic],
) -> dict[str, Any]:
    """Fields of a section. ``whole`` is the size of the SD, ``stream`` a stream's number and the number of streams."""
    hits = bool(read_hits or write_hits) and seek.percent > 0
    # Block 0 of a device holds its label: vdbench never accesses it, whatever the transfer size.
    start = offset + (block if is_device else 0)
    band = hotband or span
    low, end = band.within(whole) if band else (0, whole)
    if end > whole and band and not (band.high <= 200 and not hotband and seek.percent == 100):
        text = "beyond the end of the SD only range= in percent is supported, with a purely random workload"
        errors.append(Diagnostic(text, where))
        return {}
    wraps = end > whole > 0
    fields = _region(start if wraps else max(start, _align_down(low, block)), whole if wraps else end)
    region = fields.get("file_bytes", (0, 0))[0] - fields["offset"]
    if wraps:
        fields |= _zones(PerKind.same(_wrapped(low - start, end - whole - start, region)))
    elif hotband:
        fields |= _hot(region, block, where, errors)
    if hits and (wraps or hotband):
        errors.append(Diagnostic("rhpct= and whpct= are not supported yet with this range or hotband", where))
    elif hits:
        fields |= _hit_zones(read_hits, write_hits, hitarea, region, block, where, errors)
    if stream[1] > 1:
        fields |= _stream(fields["offset"], region, stream, block)
    if seek.starts_anywhere and region > block:
        fields["start_bytes"] = rng.randrange(1, max(2, region // block)) * block
    return fields


def _region(start: int, end: int) -> dict[str, Any]:
    """Offset and end of the region; without an end the size of the file applies."""
    return {"offset": start} | ({"file_bytes": (end, end)} if end else {})


def _wrapped(low: int, wrapped: int, region: int) -> Preference:
    """Distribution over the last and the first part of the region, weighted by their sizes."""
    first, last = max(0, wrapped), region - low
    share = 100 * first / max(1, first + last)
    return ZonesSaid(
        zones=(
            ZoneShare(access_percent=float(share), size=first),
            ZoneShare(access_percent=0.0, size=region - first - last),
            ZoneShare(access_percent=100.0 - share, size=last),
        )
    )


def _hit_zones(
    reads: Decimal, writes: Decimal, hitarea: int, region: int, block: int, where: Where, errors: list[Diagnostic]
) -> dict[str, Any]:
    area = _align_down(hitarea, block)
    if area < 4 * block or region - area < 4 * block:
        text = (
            f"the hit area ({hitarea} bytes) and the rest of the region ({region - hitarea} bytes) must each hold at "
            "least four transfers"
        )
        errors.append(Diagnostic(text, where, "use a smaller hitarea= or a larger size="))
        return {}

    def zones(percent: Decimal) -> Preference:
        shares = (ZoneShare(access_percent=float(percent), size=area),)
        return ZonesSaid(zones=(*shares, ZoneShare(access_percent=float(100 - percent), size=region - area)))

    return _zones(PerKind[Preference](read=zones(reads), write=zones(writes), trim=Uniform()))


def _hot(region: int, block: int, where: Where, errors: list[Diagnostic]) -> dict[str, Any]:
    if region < max(MIN_BAND_BYTES, block * 100):
        text = (
            f"a hotband needs at least {MIN_BAND_BYTES} bytes and room for 100 transfers; this one has {region} bytes"
        )
        errors.append(Diagnostic(text, where))
        return {}
    read, write = (hot_zones(region, block, writes=writes) for writes in (False, True))
    return _zones(PerKind[Preference](read=read, write=write, trim=Uniform()))


def _zones(distribution: PerKind[Preference]) -> dict[str, Any]:
    return {"distribution": distribution}


def _stream(offset: int, region: int, stream: tuple[int, int], block: int) -> dict[str, Any]:
    number, count = stream
    length = _align_down(region // count, block)
    end = offset + (number + 1) * length
    return {"offset": offset + number * length, "file_bytes": (end, end)}


def _align_down(size: int, block: int) -> int:
    return size - size % block
