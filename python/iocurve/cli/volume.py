"""Commands of the embedded volume: serve it, change it, watch it."""

from __future__ import annotations

import signal
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter

from iocurve.cli.common import given, time_of
from iocurve.errors import DialectError, Mistake
from iocurve.units import SECOND_NS, format_bytes
from iocurve.volume import control
from iocurve.volume import profile as profiles
from iocurve.volume import serve as volumes
from iocurve.volume import view as volume_view
from iocurve.volume.messages import SetRequest
from iocurve.volume.spec import Level, VolumeSpec, parse_export, read_spec, spec_of, volume_of

ENDING = (signal.SIGINT, signal.SIGTERM)


app = App(name="volume", help="Serve an NFSv3 volume with a service level; change and watch it while it serves.")


@app.command(name="serve")
def serve_volume(
    *,
    profile: str | None = None,
    level: Level | None = None,
    quota: str | None = None,
    throughput: str | None = None,
    iops: int | None = None,
    latency: str | None = None,
    pool: str | None = None,
    client_egress: str | None = None,
    unlimited: Annotated[bool, Parameter(negative="")] = False,
    store: str | None = None,
    export: Annotated[tuple[str, ...], Parameter(negative="", show_default=False)] = (),
    config: Path | None = None,
    address: str = "127.0.0.1",
    port: int = 0,
    metrics: int | None = None,
    metrics_address: str = "127.0.0.1",
) -> int:
    """Serve an NFSv3 volume from this process until Ctrl-C; it needs no root and no portmapper.

    Parameters
    ----------
    profile
        Service level (iocurve profile list), or a file of your own that ends in .toml; anf-ultra, or unlimited with a
        --throughput.
    level
        Short for --profile anf-standard, anf-premium or anf-ultra: 16, 64 or 128 MiB/s per TiB of quota.
    quota
        Size of the volume (4TiB); with the profile it gives the limits.
    throughput
        Per second, reads and writes together, instead of the profile's: 512MiB, 1.5GiB. With a profile of manual QoS
        at most what the pool has.
    iops
        Most reads and writes per second, together, instead of the profile's.
    latency
        Added to each read and write, instead of the profile's: 500us, 2ms.
    pool
        Size of the capacity pool that --throughput is taken from; the quota if not given.
    client_egress
        What each client (an IP address) can send, and so write, per second: 16000Mb, 16Gb, 1907MiB. A small b is bits.
    unlimited
        Short for --profile unlimited: as fast as this machine is.
    store
        "memory" (the default) or a directory whose files the volume serves.
    export
        Several exports, each with settings of its own: --export /a:profile=anf-premium,quota=2TiB
        --export /b:store=/srv.
    config
        A TOML file instead of these options: address, port, and for each export a table [[export]] with path, profile,
        quota, throughput, iops, latency, pool, client_egress, store.
    address
        Address to listen on. Whoever reaches it can read and write the volume.
    port
        TCP port of NFS and MOUNT; 0 takes a free one.
    metrics
        Port for OpenMetrics at /metrics; 0 takes a free one.
    metrics_address
        Address for --metrics.
    """
    one = given(
        profile=_profile_of(profile, level, unlimited=unlimited),
        quota=quota,
        throughput=throughput,
        iops=iops,
        latency=latency,
        pool=pool,
        client_egress=client_egress,
        store=store,
    )
    spec = _volume_spec(one, export, config, address, port)
    _hold_the_end_back()
    served = volumes.serve(spec.config())
    answers = control.Control(served, spec.export)
    with ExitStack() as stack:
        stack.callback(served.stop)
        socket = stack.enter_context(control.control_socket(answers, served.port))
        for line in volumes.greeting(spec, served.port):
            print(line)
        print(f"control: {socket}")
        if metrics is not None:
            # The library takes a while to load; who does not ask for it need not wait.
            from iocurve.volume import metrics as openmetrics

            found = openmetrics.VolumeMetrics(answers.stats)
            print(f"metrics: {stack.enter_context(openmetrics.metrics_server(found, metrics_address, metrics))}")
        print("Ctrl-C ends it", flush=True)
        _wait_for_the_end()
    return 0


@app.command(name="set")
def set_volume(
    volume: str | None = None,
    /,
    *,
    export: str | None = None,
    profile: str | None = None,
    level: Level | None = None,
    quota: str | None = None,
    throughput: str | None = None,
    iops: int | None = None,
    latency: str | None = None,
    pool: str | None = None,
    client_egress: str | None = None,
) -> int:
    """Change the limits and the size of a running volume. Clients notice nothing but the speed.

    What is not named stays, but another profile begins anew. A quota below what is used lets no more be written.

    Parameters
    ----------
    volume
        Its port, nfs:// URL or control socket; not needed if one runs here.
    export
        Path of the export; not needed if there is one, or if the URL names it.
    profile
        Service level (iocurve profile list), or a file of your own that ends in .toml; named again, it is read again.
    level
        Short for --profile anf-standard, anf-premium or anf-ultra.
    quota
        Size.
    throughput
        Per second, reads and writes together, instead of the profile's.
    iops
        Most reads and writes per second, instead of the profile's.
    latency
        Added to each read and write, instead of the profile's.
    pool
        Size of the capacity pool that --throughput is taken from.
    client_egress
        What each client (an IP address) can send, and so write, per second: 16000Mb.
    """
    named = _profile_of(profile, level, unlimited=False)
    changes = given(
        profile=named and profiles.absolute_name(named),
        quota=quota,
        throughput=throughput,
        iops=iops,
        latency=latency,
        pool=pool,
        client_egress=client_egress,
    )
    if not changes:
        raise DialectError(
            [
                Mistake(
                    "nothing to set: name --quota, --profile, --level, --throughput, --iops, --latency, --client-egress"
                )
            ]
        )
    with control.Client(volume) as client:
        done = client.set(SetRequest(export=export or client.export, **changes))
    print(f"{done.export}: {done.profile}, {format_bytes(done.quota_bytes)}, {done.limits.throughput or 'no limit'}")
    return 0


@app.command(name="stats")
def volume_stats(
    volume: str | None = None,
    /,
    *,
    interval: str = "1s",
    once: Annotated[bool, Parameter(negative="")] = False,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Show what a running volume does, by export, client and connection, until Ctrl-C.

    Parameters
    ----------
    volume
        Its port, nfs:// URL or control socket; not needed if one runs here.
    interval
        Rates are over so long.
    once
        One interval, then end.
    json
        A line of JSON for each interval.
    """
    seconds = time_of("--interval", interval) / SECOND_NS
    if not 0.01 <= seconds <= control.IDLE_S_MAX / 2:
        raise DialectError([Mistake(f"--interval {interval}: choose 10ms to 30m")])
    with control.Client(volume) as client:
        volume_view.show(client.stats, lambda: time.sleep(seconds), once=once, as_json=json)
    return 0


def _profile_of(profile: str | None, level: Level | None, *, unlimited: bool) -> str | None:
    """The profile that one of its options names."""
    named = given(profile=profile, level=level and f"anf-{level}", unlimited=profiles.UNLIMITED if unlimited else None)
    if len(named) > 1:
        raise DialectError([Mistake(f"{' and '.join(f'--{option}' for option in named)}: choose one")])
    return next(iter(named.values()), None)


def _volume_spec(
    one: dict[str, Any], exports: tuple[str, ...], config: Path | None, address: str, port: int
) -> VolumeSpec:
    """The volume that is described in one of three ways: one export's options, --export, --config."""
    if config is not None:
        if one or exports or port or address != "127.0.0.1":
            raise DialectError([Mistake("--config: what is served stands in the file; leave out the other options")])
        return read_spec(config)
    if exports and one:
        raise DialectError([Mistake("--export: its settings follow its path, as in /a:quota=2TiB,profile=anf-premium")])
    specs = tuple(map(parse_export, exports)) or (spec_of(one),)
    return volume_of(specs, address, port)


def _hold_the_end_back() -> None:
    """From here on Ctrl-C and requests to terminate wait for ``_wait_for_the_end``, in threads made later, too.

    A handler could run while the main thread is about to wait, and would then wait for itself.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)


def _wait_for_the_end() -> None:
    """Until Ctrl-C or a request to terminate."""
    signal.sigwait(ENDING)
