"""Commands of the embedded volume: serve it, change it, watch it; and of the service levels that it can have."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from iocurve.cli import common
from iocurve.foundation.errors import Diagnostic, DialectError
from iocurve.foundation.units import SECOND_NS, format_bytes, format_duration
from iocurve.report.table import Table
from iocurve.volume import control
from iocurve.volume import profile as profiles
from iocurve.volume import serve as volumes
from iocurve.volume import view as volume_view
from iocurve.volume.messages import SetRequest
from iocurve.volume.profile_limits import describe
from iocurve.volume.spec import REPLACING, Setting, VolumeSpec, parse_export, read_spec, spec_of, volume_of

Profile = Annotated[str, Parameter(completer=lambda _: profiles.names())]


app = App(
    name="volume",
    help="Serve an NFS volume with a service level; change it and watch it.",
    group_parameters=common.PARAMETERS,
)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class LimitOptions:
    """The service level of an export, and settings that replace its limits."""

    profile: Profile | None = None
    """Service level (iocurve profile list), or a profile file that ends in .toml; standard, premium and ultra are
    short for anf-…: 16, 64 or 128 MiB/s per TiB of quota. Default of a new volume: anf-ultra; with --throughput,
    unlimited."""
    quota: common.SizeText | None = None
    """Size of the volume: 4TiB. Many profiles derive their limits from it. Default of a new volume: 4TiB."""
    throughput: common.BandwidthText | None = None
    """Throughput limit per second, reads and writes together, instead of the profile's: 512MiB, 1.5GiB. A profile
    with manual QoS limits it to the throughput of the pool."""
    iops: common.Operations | None = None
    """IOPS limit, reads and writes together, instead of the profile's."""
    latency: common.TimeText | None = None
    """Latency added to each read and write, instead of the profile's: 500us, 2ms."""
    pool: common.SizeText | None = None
    """Size of the capacity pool that --throughput is taken from. Default: the quota."""
    stored: common.SizeText | None = None
    """Stored data for profiles whose limits grow with it: 4TiB. Default: what the volume holds, counted each second."""
    client_ingress: common.BandwidthText | None = None
    """Limit of the data that each client receives, which is its reads: 10000MiB."""
    client_egress: common.BandwidthText | None = None
    """Limit of the data that each client (an IP address) sends, which is its writes: 16000Mb, 16Gb, 1907MiB. A small b
    means bits."""
    client_iops_read: common.Operations | None = None
    """Limit of the reads per second of each client."""
    client_iops_write: common.Operations | None = None
    """Limit of the writes per second of each client."""

    def settings(self) -> dict[str, Setting]:
        """The settings of ``ExportSpec`` that were given."""
        return common.given(vars(self))


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class AccessOptions:
    """The clients that may use an export, and the users that they act as."""

    allow: Annotated[tuple[str, ...], common.Many] = ()
    """Clients that may use the export, by address or network; :ro lets them only read: 10.1.0.0/16 10.2.3.4:ro.
    Default: every client that can connect."""
    read_only: common.Flag = False
    """No client may write."""
    secure_ports: common.Flag = False
    """Clients must call from a port below 1024, which on most machines takes root."""
    no_root_squash: common.Flag = False
    """Carry out root's calls as root. Default: as the anonymous user."""
    all_squash: common.Flag = False
    """Carry out all calls as the anonymous user."""
    anonuid: int | None = None
    """The anonymous user. Default: 65534; where the server is not root, its own user."""
    anongid: int | None = None
    """The anonymous group. Default: 65534; where the server is not root, its own group."""
    suid: common.Flag = False
    """Let clients make set-user-ID and set-group-ID files. Default: the bits are ignored."""
    dev: common.Flag = False
    """Let root make device files. Default: refused."""
    asynchronous: Annotated[common.Flag, Parameter(name="--async")] = False
    """Reply to changes of names and attributes before they are on stable storage; a crash may undo them. Default: after
    it, as NFS requires."""

    def settings(self) -> dict[str, Setting]:
        """The settings of ``ExportSpec`` that were given."""
        settings = common.given(vars(self))
        turned_off = {"no_root_squash": "root_squash", "asynchronous": "sync"}
        return settings | {name: False for option, name in turned_off.items() if settings.pop(option, False)}


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class VolumeOptions:
    """The address of a volume, its connections, and the faults that all its stores inject."""

    listen: str | None = None
    """Address to listen on that other machines can reach: 10.1.2.3, or 0.0.0.0 for all."""
    address: str | None = None
    """Address of this machine's own to listen on. Default: 127.0.0.1."""
    port: common.Port = 0
    """TCP port of NFS and MOUNT; 0 takes a free one."""
    tls: common.Flag = False
    """Encrypt the connections (TLS 1.3, RFC 9289), and refuse others. The printed URL has the certificate to trust."""
    tls_certificate: Path | None = None
    """A PEM file with a certificate and its key, for --tls. Default: one that is made at first use and kept."""
    tls_clients: Path | None = None
    """A PEM file with authorities, for --tls: each client must show a certificate that one of them has signed."""
    max_connections: common.AtLeast1 | None = None
    """Most open connections; beyond them addresses have equal shares, and idle ones make room. Default: 8192."""
    fault: Annotated[tuple[str, ...], common.Many] = ()
    """Faults to inject, as KIND or KIND=PROBABILITY: flip-bit=1e-6,torn-write. Kinds: flip-bit (per bit read, default
    1e-6), torn-write, lost-write, stale-read, misdirected-write, eio, enospc, lost-create, misdirected-rename,
    stale-attributes (per operation, default 1e-3)."""
    fault_seed: int | None = None
    """Decides which operations are hit: the same operations in the same order are hit again. Default: 0."""
    fault_log: Path | None = None
    """A new file for a line of JSON for each injected fault: file, offset, length, number of the write."""

    def settings(self) -> dict[str, Setting]:
        """The settings of ``VolumeSpec`` that were given."""
        return common.given(
            vars(self)
            | {"port": self.port or None, "fault_log": self.fault_log and str(self.fault_log)}
            | {name: path and str(path.absolute()) for name, path in self._tls_paths().items()}
        )

    def _tls_paths(self) -> dict[str, Path | None]:
        return {"tls_certificate": self.tls_certificate, "tls_clients": self.tls_clients}


LIMITS, ACCESS, VOLUME = LimitOptions(), AccessOptions(), VolumeOptions()


@app.command(
    name="serve", help_epilogue=common.example("iocurve volume serve --profile anf-ultra --quota 4TiB --port 2049")
)
def serve_volume(
    *,
    limits: LimitOptions = LIMITS,
    speed: common.FractionText | None = None,
    store: str | None = None,
    access: AccessOptions = ACCESS,
    export: Annotated[tuple[str, ...], common.Many] = (),
    config: Path | None = None,
    volume: VolumeOptions = VOLUME,
    metrics: common.Port | None = None,
    metrics_address: str | None = None,
) -> int:
    """Serve an NFS volume (versions 3 and 4.1) from this process until Ctrl-C; it needs no root and no portmapper.

    NFS has no authentication here (AUTH_SYS): a client states which user it is. --allow limits the clients, by address.

    Parameters
    ----------
    speed
        Run at this fraction of the speed, for small machines: at 10% rates are a tenth and latencies ten times as long,
        so that curves keep their shape. Default: full speed.
    store
        "memory" or a directory whose files the volume serves. Default: memory.
    export
        Several exports, each with its settings: --export /a:profile=anf-premium,quota=2TiB
        /b:store=/srv,allow=10.1.0.0/16,read_only=true.
    config
        A TOML file instead of these options: the server's by their names (fault_seed), and for each export a table
        [[export]] with path, root_squash, sync and the others.
    metrics
        Port of OpenMetrics at /metrics; 0 takes a free one. Default: no metrics.
    metrics_address
        Address of --metrics. Default: 127.0.0.1.
    """
    if metrics is None:
        common.refuse("this is the address of --metrics; add --metrics PORT", metrics_address=metrics_address)
    one = limits.settings() | common.given({"speed": speed, "store": store}) | access.settings()
    spec = _volume_spec(one, export, config, volume.settings())
    with ExitStack() as stack:
        ending = stack.enter_context(_end_held_back())
        served = volumes.serve(spec.config())
        answers = control.Control(served, spec.export)
        stack.callback(served.stop)
        socket = stack.enter_context(control.control_socket(answers, served.port))
        for line in volumes.greeting(spec, served.port):
            print(line)
        print(f"control: {socket}")
        if metrics is not None:
            print(f"metrics: {stack.enter_context(_metrics_server(answers, metrics_address or '127.0.0.1', metrics))}")
        print("Ctrl-C ends it", flush=True)
        # A wait with a time limit would end when the process goes on after a stop (SIGCONT).
        stack.enter_context(_counting(answers))
        signal.sigwait(ending)
    return 0


@contextmanager
def _counting(answers: control.Control) -> Iterator[None]:
    """Renews the limits that grow with stored data, each second."""
    ended = threading.Event()

    def count() -> None:
        while not ended.wait(1):
            answers.count_stored()

    thread = threading.Thread(target=count, daemon=True)
    thread.start()
    yield
    ended.set()
    thread.join()


def _metrics_server(answers: control.Control, address: str, port: int) -> AbstractContextManager[str]:
    # The library takes a while to load; a volume without metrics need not wait.
    from iocurve.result import openmetrics
    from iocurve.volume.metrics import VolumeMetrics

    return openmetrics.metrics_server(VolumeMetrics(answers.stats), address, port)


@app.command(
    name="set",
    usage=common.usage("volume set", "[VOLUME]"),
    help_epilogue=common.example("iocurve volume set --throughput 200MiB"),
)
def set_volume(
    volume: str | None = None,
    /,
    *,
    export: str | None = None,
    limits: LimitOptions = LIMITS,
    json: common.JsonFlag = False,
) -> int:
    """Change the limits and the size of a running volume. Clients stay connected.

    Settings you leave out keep their values; a new profile resets them. Name the same profile file again to reload it.
    A quota below current usage blocks writes.

    Parameters
    ----------
    volume
        Port, nfs:// URL or control socket of the volume. Default: the one that runs on this machine.
    export
        Path of the export. Default: the only one, or the one that the URL names.
    """
    changes = limits.settings()
    if not changes:
        options = ", ".join(f"--{name.replace('_', '-')}" for name in ("quota", "profile", *REPLACING))
        raise DialectError([Diagnostic(f"nothing to set: name {options}")])
    if "profile" in changes:
        changes["profile"] = profiles.absolute_name(str(changes["profile"]))
    with control.Client(volume) as client:
        done = client.set(SetRequest(export=export or client.export).replace(**changes))
    if json:
        common.show_json(done.to_builtins())
        return 0
    print(f"{done.export}: {done.profile}, {format_bytes(done.quota_bytes)}, {done.limits.throughput or 'no limit'}")
    return 0


@app.command(
    name="stats",
    usage=common.usage("volume stats", "[VOLUME]"),
    help_epilogue=common.example("iocurve volume stats --watch"),
)
def volume_stats(
    volume: str | None = None,
    /,
    *,
    interval: common.TimeNs = SECOND_NS,
    watch: common.Flag = False,
    json: common.Flag = False,
) -> int:
    """Show rates and latencies of a running volume by export, client and connection.

    Parameters
    ----------
    volume
        Port, nfs:// URL or control socket of the volume. Default: the one that runs on this machine.
    interval
        Sampling interval for rates, 10ms to 30m.
    watch
        Show one interval after another, until Ctrl-C.
    json
        Print a line of JSON for each interval.
    """
    seconds = interval / SECOND_NS
    if not 0.01 <= seconds <= control.IDLE_S_MAX / 2:
        raise DialectError([Diagnostic(f"--interval {format_duration(interval)}: choose 10ms to 30m")])
    with control.Client(volume) as client:
        volume_view.show(client.stats, lambda: time.sleep(seconds), watch=watch, as_json=json)
    return 0


def _volume_spec(
    one: dict[str, Setting], exports: tuple[str, ...], config: Path | None, whole: dict[str, Setting]
) -> VolumeSpec:
    """The specification of the volume: from one export's options, from --export, or from --config."""
    if config is not None:
        if one or exports or whole:
            raise DialectError(
                [Diagnostic("--config: the file describes the whole volume; leave out the other options")]
            )
        return read_spec(config)
    if exports and one:
        words = ", ".join("the profile" if name == "profile" else f"--{name.replace('_', '-')}" for name in one)
        raise DialectError(
            [Diagnostic(f"{words} with --export: settings follow the path, as in /a:quota=2TiB,profile=anf-premium")]
        )
    specs = tuple(map(parse_export, exports)) or (spec_of(one),)
    return volume_of(specs, whole)


@contextmanager
def _end_held_back() -> Iterator[set[signal.Signals]]:
    """Blocks the signals that end the volume, also in threads started later, and yields them for ``sigwait``.

    A handler could run while the main thread is about to wait, and would then wait for itself. A volume that ignores
    SIGHUP (nohup) goes on ignoring it. They stay blocked once the volume has ended: a second Ctrl-C changes nothing.
    """
    ending = {signal.SIGINT, signal.SIGTERM}
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        ending.add(signal.SIGHUP)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ending)
    try:
        yield ending
    except BaseException:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        raise


profile_commands = App(name="profile", help="List and show service levels of volumes.")


@profile_commands.command(name="list", help_epilogue=common.example("iocurve profile list"))
def list_profiles(*, json: common.JsonFlag = False) -> int:
    """List the service levels of volumes. A volume also takes a profile file of your own."""
    common.show_titles({name: profiles.load(name).title for name in profiles.names()}, json=json)
    return 0


@profile_commands.command(name="show", help_epilogue=common.example("iocurve profile show anf-ultra"))
def show_profile(
    name: Annotated[str, Parameter(completer=lambda _: profiles.names())], /, *, json: common.JsonFlag = False
) -> int:
    """Print the values of a service level, each with its source.

    Parameters
    ----------
    name
        A service level (iocurve profile list), or a profile file that ends in .toml.
    """
    title, rows = profiles.load(name).title, describe(name)
    if json:
        common.show_json({"name": name, "title": title, "figures": common.records(("figure", "value", "source"), rows)})
        return 0
    print(f"{name}: {title}")
    if rows:
        source = "page of learn.microsoft.com" if name in profiles.names() else "source"
        common.show(Table(("figure", "value", source), rows, sentences=["value", source]))
    return 0
