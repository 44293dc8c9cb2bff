"""Volumes as people write them: options, ``--export``, TOML files, and the configuration that they stand for."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from iocurve.errors import DialectError, Mistake, TargetError
from iocurve.result.document import TargetFacts
from iocurve.units import parse_bandwidth, parse_bytes, parse_time_ns
from iocurve.volume import profile as profiles
from iocurve.volume.config import DirectoryStore, ExportConfig, MemoryStore, VolumeConfig
from iocurve.volume.limits import Limits

Level = Literal["standard", "premium", "ultra"]
"""Short for the profile ``anf-`` and the level's name."""
DEFAULT_PROFILE = "anf-ultra"
DEFAULT_QUOTA = "4TiB"
NUMBER_MAX = (1 << 63) - 1
"""Largest number of bytes or nanoseconds, which the native module can still count with."""
MEMORY_SHARE = 0.75
"""Part of the memory that is free at the start which the exports in memory may take, together."""


class ExportSpec(BaseModel):
    """An export as people write it, on the command line or in a file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    path: str = "/vol"
    """What clients mount."""
    profile: str | None = None
    """A service level (``iocurve profile list``) or a file of one's own; anf-ultra, or unlimited with a throughput."""
    quota: str = DEFAULT_QUOTA
    """Size: ``4TiB``."""
    throughput: str | None = None
    """Per second, instead of the profile's: ``512MiB``."""
    iops: Annotated[int | None, Field(gt=0, lt=1 << 53)] = None
    """Instead of the profile's."""
    latency: str | None = None
    """Added to each read and write, instead of the profile's: ``500us``."""
    pool: str | None = None
    """Size of the capacity pool that a throughput is taken from; the quota if not given."""
    client_egress: str | None = None
    """What each client, an IP address, can send, and so write, per second: ``16000Mb`` are 1,907 MiB."""
    store: str = "memory"
    """``memory``, or a directory."""

    @property
    def profile_name(self) -> str:
        """The profile that is meant."""
        return self.profile or (DEFAULT_PROFILE if self.throughput is None else profiles.UNLIMITED)

    def quota_bytes(self) -> int:
        """The size. Raises ``DialectError``."""
        return quantity("--quota", self.quota, at_least=1)

    def limits(self) -> Limits:
        """What the profile and the settings give. Raises ``DialectError`` or ``TargetError``."""
        return profiles.resolve(
            self.profile_name,
            self.quota_bytes(),
            throughput_bytes_per_s=quantity("--throughput", self.throughput, at_least=1)
            if self.throughput is not None
            else None,
            iops=self.iops,
            latency_ns=time_ns("--latency", self.latency) if self.latency is not None else None,
            pool_bytes=quantity("--pool", self.pool) if self.pool is not None else None,
            client_egress_bytes_per_s=bandwidth("--client-egress", self.client_egress)
            if self.client_egress is not None
            else None,
        )

    def changed(self, changes: dict[str, str | int]) -> ExportSpec:
        """With other settings. Another profile begins anew: what was set by hand before goes."""
        kept = self.model_dump()
        if "profile" in changes:
            kept |= dict.fromkeys(("throughput", "iops", "latency", "pool", "client_egress"))
        return ExportSpec(**(kept | changes))


class VolumeSpec(BaseModel):
    """A volume as people write it: ``iocurve volume serve --config volumes.toml``."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    address: str = "127.0.0.1"
    """Address to listen on."""
    port: Annotated[int, Field(ge=0, le=65535)] = 0
    """TCP port of NFS and MOUNT; 0 takes a free one."""
    export: Annotated[tuple[ExportSpec, ...], Field(min_length=1)]
    """What clients mount."""

    def config(self) -> VolumeConfig:
        """As the native module takes it. Raises ``DialectError`` or ``TargetError``."""
        in_memory = sum(export.store == "memory" for export in self.export)
        exports = tuple(
            ExportConfig(
                path=export.path,
                store=store_of(export.store, in_memory),
                quota_bytes=export.quota_bytes(),
                limits=export.limits(),
            )
            for export in self.export
        )
        return VolumeConfig(address=self.address, port=self.port, exports=exports)


def read_spec(path: Path) -> VolumeSpec:
    """Reads a volume's TOML file. Raises ``DialectError`` that says where it is wrong."""
    try:
        return VolumeSpec.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise DialectError([Mistake(f"--config {path}: {error}")]) from None
    except ValidationError as error:
        raise DialectError([Mistake(f"--config {path}: {text}") for text in mistakes(error)]) from None


def parse_export(text: str) -> ExportSpec:
    """``/a:profile=anf-premium,quota=2TiB``. Raises ``DialectError``."""
    path, _, settings = text.partition(":")
    pairs = [setting.partition("=") for setting in settings.split(",") if setting]
    if wrong := [key for key, equals, _ in pairs if not equals]:
        raise DialectError([Mistake(f"--export {text}: '{wrong[0]}' is not key=value, as in /a:quota=2TiB")])
    try:
        return ExportSpec.model_validate({"path": path} | {key: value for key, _, value in pairs})
    except ValidationError as error:
        raise DialectError([Mistake(f"--export {text}: {reason}") for reason in mistakes(error)]) from None


def spec_of(options: dict[str, str | int]) -> ExportSpec:
    """The export that options of the command line describe. Raises ``DialectError``."""
    try:
        return ExportSpec.model_validate(options)
    except ValidationError as error:
        raise DialectError([Mistake(f"--{reason}") for reason in mistakes(error)]) from None


def mistakes(error: ValidationError) -> list[str]:
    """What is wrong with a model, for people."""
    return [f"{'.'.join(map(str, wrong['loc']))}: {wrong['msg']}".lstrip(": ") for wrong in error.errors()]


def quantity(option: str, text: str, *, at_least: int = 0) -> int:
    """Bytes. Raises ``DialectError`` that names the option."""
    return _within(option, text, parse_bytes, at_least)


def bandwidth(option: str, text: str) -> int:
    """Bytes per second. Raises ``DialectError`` that names the option."""
    return _within(option, text, parse_bandwidth, 1)


def time_ns(option: str, text: str) -> int:
    """Nanoseconds. Raises ``DialectError`` that names the option."""
    return _within(option, text, parse_time_ns, 0)


def _within(option: str, text: str, parse: Callable[[str], int], at_least: int) -> int:
    try:
        value = parse(text)
        if not at_least <= value <= NUMBER_MAX:
            raise ValueError(f"'{text}' is too {'small' if value < at_least else 'large'}")
    except ValueError as error:
        raise DialectError([Mistake(f"{option}: {error}")]) from None
    return value


def store_of(text: str, sharing: int = 1) -> MemoryStore | DirectoryStore:
    """``memory``, of which ``sharing`` exports get equal parts, or a directory. Raises ``TargetError``."""
    if text == "memory":
        return MemoryStore(limit_bytes=int(_memory_available() * MEMORY_SHARE / sharing))
    if not Path(text).is_dir():
        raise TargetError(f"--store {text}: there is no such directory; create it, or use --store memory")
    return DirectoryStore(path=str(Path(text).resolve()))


def facts(address: str, spec: ExportSpec) -> TargetFacts:
    """Facts of an embedded volume with one export."""
    limits = spec.limits()
    is_limited = spec.profile_name != profiles.UNLIMITED
    return TargetFacts(
        kind="embedded_volume",
        address=address,
        service_level=spec.profile_name.removeprefix("anf-") if is_limited else None,
        quota_bytes=spec.quota_bytes() if is_limited else None,
        throughput_bytes_per_s=limits.throughput_bytes_per_s,
        iops=limits.iops,
        latency_ns=limits.latency.base_ns or None,
        client_egress_bytes_per_s=limits.client.bandwidth_write_bytes_per_s,
        store=spec.store,
    )


def _memory_available() -> int:
    for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
