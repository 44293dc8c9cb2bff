"""Volumes as users describe them (options, ``--export``, TOML files), and their conversion to a configuration."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Annotated, TypeVar

from msgspec import Meta

from iocurve.foundation.errors import Diagnostic, DialectError, TargetError, option
from iocurve.foundation.structs import Struct
from iocurve.foundation.units import parse_bandwidth, parse_bytes, parse_fraction, parse_time_ns
from iocurve.machine.files import memory_available
from iocurve.result.caps import EGRESS, INGRESS, caps
from iocurve.result.document import TargetFacts
from iocurve.volume import config as configs
from iocurve.volume.limits import Limits
from iocurve.volume.messages import LimitSettings
from iocurve.volume.profile import UNLIMITED, load
from iocurve.volume.profile_limits import next_tib_bytes_per_s, resolve
from iocurve.volume.validation import InvalidDocument, InvalidField, validated

T = TypeVar("T")
Setting = str | int | Sequence[str]
"""The value of a setting, as people write it."""
SHORT_NAMES = ("standard", "premium", "ultra")
"""Short names of profiles: ``ultra`` is ``anf-ultra``."""
DEFAULT_PROFILE = "anf-ultra"
DEFAULT_QUOTA = "4TiB"
NUMBER_MAX = (1 << 63) - 1
"""The largest number of bytes or nanoseconds that the native module can count."""
PORT_MAX = 65535
LOOPBACK = "127.0.0.1"
MEMORY = "memory"
"""The store that is no directory."""
CONNECTIONS_MOST = 1 << 20
UserId = Annotated[int, Meta(ge=0, le=(1 << 32) - 1)]
REPLACING = tuple(name for name in LimitSettings.__struct_fields__ if name not in ("profile", "quota"))
"""The settings that replace figures of a profile."""
MEMORY_SHARE = 0.75
"""The fraction of the memory free at the start that all exports in memory may use together."""
OTHER_BYTES = 650 << 20
"""Most memory of connections and of NFSv4.1 state: as much stays free of files, but no more than half."""


class ExportSpec(LimitSettings):
    """An export as users describe it, on the command line or in a file."""

    path: str = "/vol"
    """The path that clients mount."""
    quota: str = DEFAULT_QUOTA
    """Size: ``4TiB``."""
    speed: str | None = None
    """Fraction of its speed at which the volume runs: ``0.1``, ``10%``. Rates are a tenth, times ten times as long."""
    store: str = "memory"
    """``memory``, or a directory."""
    sync: bool = True
    """Changes of names and attributes in a directory are stable before they are answered, as in exports(5)."""
    allow: tuple[str, ...] = ()
    """Clients that may use the export: ``10.1.0.0/16``, ``10.1.2.3:ro``. Default: every client that can connect."""
    read_only: bool = False
    """No client may write."""
    secure_ports: bool = False
    """Clients must call from a port below 1024."""
    root_squash: bool = True
    """Calls of root are executed as the anonymous user's."""
    all_squash: bool = False
    """All calls are executed as the anonymous user's."""
    anonuid: UserId | None = None
    """The anonymous user. Default: 65534; of a server that is not root, its own user."""
    anongid: UserId | None = None
    """The anonymous group. Default: 65534; of a server that is not root, its own group."""
    suid: bool = False
    """Clients may make set-user-ID and set-group-ID files."""
    dev: bool = False
    """Root may make device files."""

    def __post_init__(self) -> None:
        for client in self.allow:
            try:
                configs.parse_client(client)
            except ValueError as error:
                raise InvalidField("allow", str(error)) from None
        if self.all_squash and not self.root_squash:
            raise InvalidField("all_squash", "squashing everybody squashes root, too; leave out one of the two")

    @property
    def profile_name(self) -> str:
        """The whole name of the profile, or of the default one."""
        if self.profile in SHORT_NAMES:
            return f"anf-{self.profile}"
        return self.profile or (DEFAULT_PROFILE if self.throughput is None else UNLIMITED)

    def quota_bytes(self) -> int:
        """The size. Raises ``DialectError``."""
        return _number("quota", self.quota, parse_bytes, at_least=1)

    def limits(self, quota_bytes: int | None = None, *, stored_bytes: int = 0) -> Limits:
        """The profile's limits with this export's settings applied; for another quota if one is given.

        ``stored_bytes`` is what the volume holds, unless a setting says what counts.

        Raises ``DialectError`` or ``TargetError``.
        """
        found = resolve(
            self.profile_name,
            self.quota_bytes() if quota_bytes is None else quota_bytes,
            throughput_bytes_per_s=_optional("throughput", self.throughput, parse_bandwidth, at_least=1),
            iops=self.iops,
            latency_ns=_optional("latency", self.latency, parse_time_ns),
            pool_bytes=_optional("pool", self.pool, parse_bytes),
            stored_bytes=_optional("stored", self.stored, parse_bytes) or stored_bytes,
        )
        clients = caps(
            {
                INGRESS: _optional("client_ingress", self.client_ingress, parse_bandwidth, at_least=1),
                EGRESS: _optional("client_egress", self.client_egress, parse_bandwidth, at_least=1),
                "client.iops_read": self.client_iops_read,
                "client.iops_write": self.client_iops_write,
            }
        )
        others = (cap for cap in found.caps if cap.name not in {one.name for one in clients})
        found = found.replace(caps=(*others, *clients))
        return found if self.speed is None else found.at_speed(self.speed_fraction())

    def speed_fraction(self) -> Fraction:
        """The fraction of its speed at which the volume runs. Raises ``DialectError``."""
        try:
            return parse_fraction(self.speed or "1")
        except ValueError as error:
            raise DialectError([Diagnostic(f"{option('speed')}: {error}")]) from None

    def rules(self) -> configs.ExportRules:
        """The clients that may use the export, and the users that they act as."""
        uid, gid = configs.anonymous_user()
        return configs.ExportRules(
            clients=tuple(map(configs.parse_client, self.allow)),
            read_only=self.read_only,
            secure_ports=self.secure_ports,
            squash="all" if self.all_squash else "root" if self.root_squash else "none",
            anonuid=uid if self.anonuid is None else self.anonuid,
            anongid=gid if self.anongid is None else self.anongid,
            suid=self.suid,
            dev=self.dev,
        )

    def for_own_runs(self) -> ExportSpec:
        """The export for a volume that serves only a run of this user.

        A run of root writes to a directory as root. Other users of this machine cannot call from a port that is served.
        """
        is_roots = os.geteuid() == 0 and self.store != MEMORY and self.root_squash and not self.all_squash
        return self.replace(root_squash=False, secure_ports=True) if is_roots else self

    def changed(self, changes: dict[str, str | int]) -> ExportSpec:
        """The export with other settings. A new profile resets the settings that replaced values of the old one."""
        reset = dict.fromkeys(REPLACING) if "profile" in changes else {}
        return self.replace(**(reset | changes))


def follows_stored(export: ExportSpec) -> bool:
    """True where limits grow with the data that the volume holds. Raises ``DialectError``."""
    return export.stored is None and load(export.profile_name).follows_stored


class VolumeSpec(Struct):
    """A volume as users describe it: ``iocurve volume serve --config volumes.toml``."""

    address: str = LOOPBACK
    """Address of this machine to listen on that others cannot reach."""
    listen: str | None = None
    """Address to listen on, whoever can reach it."""
    port: Annotated[int, Meta(ge=0, le=PORT_MAX)] = 0
    """TCP port of NFS and MOUNT; 0 takes a free one."""
    max_connections: Annotated[int, Meta(ge=1, le=CONNECTIONS_MOST)] = configs.CONNECTIONS_MAX
    """Further connections are closed at once."""
    fault: tuple[str, ...] = ()
    """Faults that all stores inject: ``flip-bit=1e-6``, ``torn-write``."""
    fault_seed: Annotated[int, Meta(ge=0, le=NUMBER_MAX)] = 0
    """Decides which operations are hit."""
    fault_log: str | None = None
    """A new file that gets a line of JSON for each injected fault."""
    tls: bool = False
    """Connections must be encrypted (RFC 9289)."""
    tls_certificate: str | None = None
    """A PEM file with the certificate and its key; None makes one."""
    tls_clients: str | None = None
    """A PEM file with the authorities that sign the certificates of clients; None: clients need no certificate."""
    export: Annotated[tuple[ExportSpec, ...], Meta(min_length=1)]

    def __post_init__(self) -> None:
        try:
            rates = configs.parse_faults(self.fault)
        except ValueError as error:
            raise InvalidField("fault", str(error)) from None
        if self.fault_log is not None and not rates:
            raise InvalidField("fault_log", "there are no faults to log; name some with fault")
        if self.tls_certificate is not None and not self.tls:
            raise InvalidField("tls_certificate", "this is the certificate of tls; add tls")
        if self.tls_clients is not None and not self.tls:
            raise InvalidField("tls_clients", "these are the clients of tls; add tls")
        if self.listen is None and not configs.is_loopback(self.address):
            raise InvalidField(
                "address",
                f"{self.address} can be reached from other machines, and NFS has no authentication; if that is meant, "
                f"use listen = {self.address} in its place, and name the clients with allow",
            )

    @property
    def listen_address(self) -> str:
        """The address that is listened on."""
        return self.listen or self.address

    def tls_files(self) -> configs.TlsFiles | None:
        """The keys of TLS; None without it. Raises ``RunError``."""
        if not self.tls:
            return None
        if self.tls_certificate is not None:
            files = configs.TlsFiles(certificate=self.tls_certificate, key=self.tls_certificate)
        else:
            files = configs.tls_files(configs.certificate_names(self.listen_address))
        return files.replace(clients=self.tls_clients)

    def faults(self) -> configs.Faults | None:
        """The faults to inject; None without any."""
        rates = configs.parse_faults(self.fault)
        return configs.Faults(rates=rates, seed=self.fault_seed, log=self.fault_log) if rates else None

    def config(self) -> configs.VolumeConfig:
        """The configuration for the native module. Raises ``DialectError`` or ``TargetError``."""
        in_memory = sum(export.store == MEMORY for export in self.export)
        exports = tuple(
            configs.ExportConfig(
                path=export.path,
                store=_store(export, in_memory),
                quota_bytes=export.quota_bytes(),
                limits=export.limits(),
                rules=export.rules(),
            )
            for export in self.export
        )
        config = configs.VolumeConfig(
            address=self.listen_address,
            port=self.port,
            exports=exports,
            connections_max=self.max_connections,
            faults=self.faults(),
            tls=self.tls_files(),
        )
        return config if in_memory == len(exports) else config.replace(handle_key=configs.handle_key())


def read_spec(path: Path) -> VolumeSpec:
    """Reads a volume's file, in TOML or JSON. Raises ``DialectError`` with all errors and their places."""
    try:
        text = path.read_text(encoding="utf-8")
        document = json.loads(text) if text.startswith("{") else tomllib.loads(text)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else f"neither TOML nor JSON: {error}"
        raise DialectError([Diagnostic(f"--config {path}: {reason}")]) from None
    return _validated(document, VolumeSpec, lambda error: f"--config {path}: {error}")


def parse_export(text: str) -> ExportSpec:
    """Reads ``/a:profile=anf-premium,quota=2TiB``. Raises ``DialectError``."""
    path, _, settings = text.partition(":")
    pairs = [setting.partition("=") for setting in settings.split(",") if setting]
    if wrong := [key for key, equals, _ in pairs if not equals]:
        raise DialectError([Diagnostic(f"--export {text}: '{wrong[0]}' is not key=value, as in /a:quota=2TiB")])
    allow = {"allow": [value for key, _, value in pairs if key == "allow"]}
    others = {key: value for key, _, value in pairs if key != "allow"}
    document = {"path": path} | others | (allow if allow["allow"] else {})
    return _validated(document, ExportSpec, lambda error: f"--export {text}: {error}")


def spec_of(options: Mapping[str, Setting]) -> ExportSpec:
    """The export that options of the command line describe. Raises ``DialectError``."""
    return _validated(options, ExportSpec, _of_option)


def volume_of(exports: Sequence[ExportSpec], settings: dict[str, Setting]) -> VolumeSpec:
    """The volume with the given exports; the settings are those of ``VolumeSpec``. Raises ``DialectError``."""
    port = settings.get("port", 0)
    if isinstance(port, int) and not 0 <= port <= PORT_MAX:
        raise DialectError([Diagnostic(f"{option('port')} {port}: choose 0 to {PORT_MAX}")])
    return _validated(settings | {"export": [export.to_builtins() for export in exports]}, VolumeSpec, _of_option)


def facts(address: str, spec: ExportSpec) -> TargetFacts:
    """The facts of an embedded volume with one export."""
    limits = spec.limits()
    parallelism = limits.parallelism
    is_limited = spec.profile_name != UNLIMITED
    return TargetFacts(
        kind="embedded_volume",
        address=address,
        service_level=spec.profile_name.removeprefix("anf-") if is_limited else None,
        quota_bytes=spec.quota_bytes() if is_limited else None,
        caps=limits.caps,
        latency_ns=limits.latency.base_ns or None,
        latency_mean_ns=limits.latency.mean_ns or None,
        servers=parallelism.servers if parallelism else None,
        service_ns=parallelism.service_ns if parallelism else None,
        next_tib_bytes_per_s=next_tib_bytes_per_s(spec.limits, spec.quota_bytes()) if is_limited else None,
        speed=float(spec.speed_fraction()) if spec.speed else None,
        fitted=tuple(load(spec.profile_name).fitted()),
        store=spec.store,
    )


def memory_limit_bytes(exports: int = 1) -> int:
    """The memory that each of several exports in memory may use: the rest is for connections and state."""
    available = memory_available()
    return int(min(available * MEMORY_SHARE, max(available - OTHER_BYTES, available / 2)) / exports)


def _of_option(error: str) -> str:
    field, colon, text = error.partition(":")
    return f"{option(field)}{colon}{text}"


def _validated(document: object, kind: type[T], written: Callable[[str], str]) -> T:
    try:
        return validated(document, kind)
    except InvalidDocument as error:
        raise DialectError([Diagnostic(written(error)) for error in error.errors]) from None


def _optional(field: str, text: str | None, parse: Callable[[str], int], at_least: int = 0) -> int | None:
    return None if text is None else _number(field, text, parse, at_least)


def _number(field: str, text: str, parse: Callable[[str], int], at_least: int) -> int:
    try:
        value = parse(text)
        if not at_least <= value <= NUMBER_MAX:
            raise ValueError(f"'{text}' is too {'small' if value < at_least else 'large'}")
    except ValueError as error:
        raise DialectError([Diagnostic(f"{option(field)}: {error}")]) from None
    return value


def _store(export: ExportSpec, exports_in_memory: int) -> configs.MemoryStore | configs.DirectoryStore:
    """The store of an export: memory, or a directory. Raises ``TargetError``."""
    if export.store == MEMORY:
        return configs.MemoryStore(limit_bytes=memory_limit_bytes(exports_in_memory))
    if not Path(export.store).is_dir():
        raise TargetError(
            f"{option('store')} {export.store}: there is no such directory; create it, or use {option('store')} memory"
        )
    return configs.DirectoryStore(path=str(Path(export.store).resolve()), is_async=not export.sync)
