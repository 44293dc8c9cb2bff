"""Service levels as data: published figures (``profiles/*.toml``), or a user's TOML file."""

from __future__ import annotations

import math
import tomllib
from decimal import Decimal
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from iocurve.foundation.errors import Diagnostic, DialectError, unknown
from iocurve.foundation.structs import Page, Struct, TaggedStruct, bundled_names
from iocurve.foundation.units import GIB, MIB, TIB
from iocurve.volume.validation import InvalidDocument, InvalidField, validated

DIRECTORY = Path(__file__).parent / "profiles"
UNLIMITED = "unlimited"
MEASURED = "measured-"
"""Start of the names of profiles of volumes as benchmarks measured them: they cannot be bought, so no list has them."""
FIGURE_MAX = (1 << 53) - 1
"""The largest number in a profile."""
MB = 1_000_000
MICROSECONDS_MAX = 3_600_000_000
SERVERS_MAX = 65_536

Whole = Annotated[int, Meta(ge=0, le=FIGURE_MAX)]
Positive = Annotated[int, Meta(ge=1, le=FIGURE_MAX)]


# ---- loading


def names() -> list[str]:
    """The names of all published profiles."""
    return [name for name in bundled_names(DIRECTORY) if not name.startswith(MEASURED)]


def load(name: str) -> Profile:
    """Loads a published profile by its name, or a file by its path, which ends in .toml. Raises ``DialectError``."""
    if not name.endswith(".toml"):
        return _published(name)
    try:
        return parse(Path(name).read_text(encoding="utf-8"), f"profile {name}")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise DialectError([Diagnostic(f"profile {name}: {reason}")]) from None


def absolute_name(name: str) -> str:
    """A name for the same profile that holds in any working directory."""
    return str(Path(name).absolute()) if name.endswith(".toml") else name


@cache
def _published(name: str) -> Profile:
    if name not in bundled_names(DIRECTORY):
        raise DialectError(
            [unknown("profile", name, names(), "iocurve profile list; a file of your own ends in .toml")]
        )
    return parse((DIRECTORY / f"{name}.toml").read_text(encoding="utf-8"), f"profile {name}")


def parse(text: str, where: str) -> Profile:
    """Reads a profile from TOML. Raises ``DialectError`` with all errors and their places."""
    try:
        return validated(tomllib.loads(text, parse_float=_exact), Profile)
    except tomllib.TOMLDecodeError as error:
        raise DialectError([Diagnostic(f"{where}: this is not TOML: {error}")]) from None
    except InvalidDocument as error:
        raise DialectError([Diagnostic(f"{where}: {error}")]) from None


def _exact(text: str) -> Decimal | int:
    """A number without rounding; ``64.0`` is the integer 64."""
    number = Decimal(text)
    return int(number) if number.is_finite() and number == number.to_integral_value() else number


# ---- figures


class Profile(Struct):
    """A service level as it was published. An absent figure means no limit, or none published."""

    title: str
    nconnect: Annotated[int, Meta(ge=1, le=16)] | None = None
    """TCP connections that the pages advise for a mount."""
    cloud: str = "azure"
    """The cloud whose machines are its clients, as in ``targets/vms``."""
    sources: dict[str, Source] = {}
    quota: QuotaBounds | None = None
    throughput_mib_per_s: Figure | None = None
    """Reads and writes together."""
    throughput_read_mib_per_s: Formula | None = None
    throughput_write_mib_per_s: Formula | None = None
    iops: Figure | None = None
    """Reads and writes together."""
    iops_read: Formula | None = None
    iops_write: Formula | None = None
    burst_iops: BurstFigure | None = None
    burst_throughput_mib_per_s: BurstFigure | None = None
    """Of reads and writes together."""
    reads_per_write: Number | None = None
    """Bytes of reads that count as one byte against the throughput of reads and writes together."""
    latency_us: LatencyFigure | None = None
    write_latency_us: LatencyFigure | None = None
    """Of writes; absent: as reads."""
    requests_in_flight_per_connection: Number | None = None
    bandwidth_mib_per_s_per_connection: Number | None = None
    """Reads and writes together."""
    bandwidth_read_mib_per_s_per_connection: Number | None = None
    bandwidth_write_mib_per_s_per_connection: Number | None = None
    iops_per_connection: Number | None = None
    """Reads and writes together."""
    iops_read_per_connection: Number | None = None
    iops_write_per_connection: Number | None = None
    bandwidth_read_mib_per_s_per_client: Number | None = None
    bandwidth_write_mib_per_s_per_client: Number | None = None
    """A client is an IP address with all its connections; the figure emulates the egress cap of a virtual machine."""
    iops_read_per_client: Number | None = None
    iops_write_per_client: Number | None = None
    parallelism: ParallelismFigure | None = None
    window_ms: Number | None = None
    """Length of the windows in which the limits of the volume count, each from its start on."""
    server_cache: ServerCacheFigure | None = None

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            figure = getattr(self, name)
            for cited in (figure, getattr(figure, "settable", None)):
                if isinstance(cited, Cited) and cited.source is not None and cited.source not in self.sources:
                    raise InvalidField(name, f"there is no [sources.{cited.source}]")
        if self.burst_iops is not None and self.iops is None:
            raise InvalidField("burst_iops", "a burst needs iops to go beyond")
        for name in ("burst_throughput_mib_per_s", "reads_per_write"):
            if getattr(self, name) is not None and self.throughput_mib_per_s is None:
                raise InvalidField(name, "it needs throughput_mib_per_s")

    @property
    def sizes(self) -> QuotaBounds:
        """The sizes that a volume can have; a service without a quota grows with its data."""
        return self.quota or QuotaBounds(at_least_gib=1, at_most_gib=1 << 20)

    @property
    def follows_stored(self) -> bool:
        """Limits grow with the data that is stored."""
        figures = (getattr(self, name) for name in self.__struct_fields__)
        return any(term.per_tib_stored for one in figures if isinstance(one, Formula) for term in one.terms)

    def cite(self, source: str | None) -> str:
        """The page and the date of a source; empty without a source."""
        if source is None:
            return ""
        found = self.sources[source]
        return f"fitted to {found}; not published" if found.fitted else str(found)

    def fitted(self) -> list[str]:
        """The names of the figures that no page publishes: they are fitted to results that a page shows."""
        cited = ((name, getattr(self, name)) for name in self.__struct_fields__)
        sources = ((name, figure.source) for name, figure in cited if isinstance(figure, Cited) and figure.source)
        return [name for name, source in sources if self.sources[source].fitted]


class Source(Page):
    """The page that a figure was published on; in a user's profile, any text that states the origin."""

    fitted: bool = False
    """The page does not state the figure; it is fitted to results that the page shows."""


class Term(Struct):
    """A part of a figure that grows with the size, with the data that is stored, or with the IOPS."""

    per_gib: Decimal = Decimal(0)
    per_tib: Decimal = Decimal(0)
    per_tib_stored: Decimal = Decimal(0)
    per_iops: Decimal = Decimal(0)
    round_up: bool = False

    def __post_init__(self) -> None:
        for name in ("per_gib", "per_tib", "per_tib_stored", "per_iops"):
            _check(name, getattr(self, name), FIGURE_MAX)

    def of(self, at: Sized) -> Fraction:
        """The value for a volume of this size."""
        value = Fraction(self.per_gib) * at.quota_bytes / GIB + Fraction(self.per_tib) * at.quota_bytes / TIB
        value += Fraction(self.per_tib_stored) * at.stored_bytes / TIB + Fraction(self.per_iops) * at.iops
        return Fraction(math.ceil(value)) if self.round_up else value


class Sized(msgspec.Struct, frozen=True, kw_only=True):
    """The size of a volume, and what was set for it: figures follow from these."""

    quota_bytes: int
    stored_bytes: int = 0
    iops: int = 0
    bytes_per_s: Fraction = Fraction(0)
    """The throughput."""


class ThroughputStep(Struct):
    """The most that a figure can be from a size and a throughput on."""

    gib: Whole = 0
    mb_per_s: Whole = 0
    """In 10^6 bytes per second."""
    value: Positive

    def holds(self, at: Sized) -> bool:
        """True for a volume of this size."""
        return at.quota_bytes >= self.gib * GIB and at.bytes_per_s >= self.mb_per_s * MB


class Cited(Struct):
    """A figure with the name of its source among the sources of the profile."""

    source: str | None = None


class Settable(Cited):
    """The bounds within which a figure can be set; with manual QoS also those of the capacity pool."""

    at_least: Whole
    at_most: Whole
    mb_per_s: tuple[Positive, ...] = ()
    """The only throughputs that can be set, in 10^6 bytes per second; without a setting it is the first."""
    pool_at_most_per_tib: Whole | None = None
    """The throughput of a capacity pool for each TiB of its size."""
    pool_at_least: Whole = 0
    """The throughput that a capacity pool of any size has."""

    def bound(self, pool_bytes: int) -> Fraction:
        """The most that can be set in a pool of this size."""
        if self.pool_at_most_per_tib is None:
            return Fraction(self.at_most)
        pool = max(Fraction(self.pool_at_most_per_tib * pool_bytes, TIB), Fraction(self.pool_at_least))
        return min(pool, Fraction(self.at_most))


class Formula(Cited):
    """A base plus terms, within bounds; without both of them the steps alone."""

    base: Whole = 0
    terms: tuple[Term, ...] = ()
    steps: tuple[ThroughputStep, ...] = ()
    """In the order of their sizes: the last one that holds counts."""
    at_least: Whole = 0
    at_most: Positive | None = None

    def of(self, at: Sized) -> Fraction:
        """The value for a volume of this size."""
        value = max(self.base + sum((term.of(at) for term in self.terms), Fraction(0)), Fraction(self.at_least))
        step = next((one.value for one in reversed(self.steps) if one.holds(at)), None)
        if step is not None:
            value = min(value, Fraction(step)) if self.base or self.terms else Fraction(step)
        return value if self.at_most is None else min(value, Fraction(self.at_most))


class Figure(Formula):
    """A formula whose result can be replaced by hand, within bounds."""

    settable: Settable | None = None

    def of(self, at: Sized) -> Fraction:
        """The value for a volume of this size."""
        if self.settable and self.settable.mb_per_s and not (self.base or self.terms or self.steps):
            return Fraction(self.settable.mb_per_s[0] * MB, MIB)
        return Formula.of(self, at)


class BurstFigure(Formula):
    """IOPS or throughput beyond the baseline while credits last; one of both says how many there are."""

    credits_for_s: Whole = 0
    """The seconds for which a full bucket of credits sustains the full burst."""
    credits: Formula | None = None
    """The credits of a full bucket: operations, or GiB of throughput."""

    def __post_init__(self) -> None:
        if (self.credits_for_s > 0) == (self.credits is not None):
            raise InvalidField("credits_for_s", "give it or credits")


class Number(Cited):
    """A figure that is the same for every size."""

    value: Positive


class ExponentialFigure(TaggedStruct, tag="exponential"):
    """An exponential tail."""

    mean_us: Decimal

    def __post_init__(self) -> None:
        _check("mean_us", self.mean_us, MICROSECONDS_MAX, above_zero=True)


class LognormalFigure(TaggedStruct, tag="lognormal"):
    """A lognormal distribution, by its median and its 99th percentile."""

    median_us: Decimal
    p99_us: Decimal

    def __post_init__(self) -> None:
        _check("median_us", self.median_us, MICROSECONDS_MAX, above_zero=True)
        _check("p99_us", self.p99_us, MICROSECONDS_MAX, above_zero=True)
        if self.p99_us < self.median_us:
            raise InvalidField("p99_us", "must not be below median_us")


class LatencyFigure(Cited):
    """The latency added to each read and write: a fixed part, one for each KiB, and a distribution on top of them."""

    value: Decimal = Decimal(0)
    per_kib: Decimal = Decimal(0)
    distribution: ExponentialFigure | LognormalFigure | None = None

    def __post_init__(self) -> None:
        _check("value", self.value, MICROSECONDS_MAX)
        _check("per_kib", self.per_kib, MICROSECONDS_MAX)


class ParallelismFigure(Cited):
    """The server's own speed: ``servers`` operations at a time, and the time of each; writes may have their own."""

    servers: Annotated[int, Meta(ge=1, le=SERVERS_MAX)]
    service_us: Decimal
    per_kib_us: Decimal = Decimal(0)
    write_service_us: Decimal | None = None
    write_per_kib_us: Decimal | None = None

    def __post_init__(self) -> None:
        for name in ("service_us", "per_kib_us", "write_service_us", "write_per_kib_us"):
            if (value := getattr(self, name)) is not None:
                _check(name, value, MICROSECONDS_MAX, above_zero="service" in name)


class ServerCacheFigure(Cited):
    """A cache of the server, and what data that it holds count at the limits of the volume."""

    mib: Positive
    """The size: it holds the blocks that were read or written last (LRU)."""
    read_iops: Decimal = Decimal(1)
    """A read hit counts as this part of an operation; 1: as any other read."""
    read_throughput: Decimal = Decimal(1)
    """Each byte of a read hit counts as this part of a byte."""
    write_iops: Decimal = Decimal(1)
    """The same for writes to data that the cache holds."""
    write_throughput: Decimal = Decimal(1)

    def __post_init__(self) -> None:
        for name in HIT_COSTS:
            _check(name, getattr(self, name), 1, above_zero=True)


HIT_COSTS = ServerCacheFigure.__struct_fields__[-4:]


class QuotaBounds(Cited):
    """The sizes that a volume can have."""

    at_least_gib: Whole
    at_most_gib: Positive


def _check(name: str, value: Decimal, at_most: int, *, above_zero: bool = False) -> None:
    """Raises ``InvalidField`` for a number out of bounds. msgspec checks no bounds of decimals."""
    is_in_bounds = value.is_finite() and 0 <= value <= at_most and not (above_zero and value == 0)
    if not is_in_bounds:
        raise InvalidField(name, f"expected a number {'above' if above_zero else '>='} 0, at most {at_most}")
