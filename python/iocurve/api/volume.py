"""The embedded volume for programs: it serves while a ``with`` block lasts."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Self

from iocurve.api.contexts import in_arguments
from iocurve.foundation.errors import TargetError
from iocurve.targets.target import VolumeTarget
from iocurve.volume import control
from iocurve.volume.messages import ServedStats, SetRequest
from iocurve.volume.serve import volume_process
from iocurve.volume.spec import spec_of


class Volume:
    """An NFS volume with a service level, in a separate process of this machine, while a ``with`` block lasts.

    As a ``target`` it brings its limits, so that verdicts are measured against them; its ``url`` is for other programs.
    It listens on loopback only. Leave the block in the thread that entered it: the volume ends with that thread.
    """

    @in_arguments
    def __init__(
        self,
        profile: str | None = None,
        quota: str | None = None,
        *,
        throughput: str | None = None,
        iops: int | None = None,
        latency: str | None = None,
        speed: str | None = None,
        store: str | None = None,
    ) -> None:
        """The settings are those of ``iocurve volume serve``, as text with a unit.

        ``profile`` is a service level (``iocurve profile list``; default ``anf-ultra``, with ``throughput``
        ``unlimited``), ``quota`` its size (default ``4TiB``). ``throughput`` (``512MiB`` per second), ``iops`` and
        ``latency`` (``500us``) replace those of the profile; ``speed`` (``10%``) slows everything down; ``store`` is
        ``memory`` (the default) or a directory. Raises ``DialectError`` and ``TargetError``.
        """
        said = {"profile": profile, "quota": quota, "throughput": throughput, "iops": iops, "latency": latency}
        said |= {"speed": speed, "store": store}
        self._export = spec_of({name: value for name, value in said.items() if value is not None})
        self._export.limits()
        self._url: str | None = None
        self._stack = ExitStack()

    @in_arguments
    def __enter__(self) -> Self:
        if self._url is not None:
            raise TargetError(f"the volume serves already, at {self._url}")
        self._url = self._stack.enter_context(volume_process(self._export.for_own_runs()))
        return self

    def __exit__(self, *_: object) -> None:
        self._url = None
        self._stack.close()

    @property
    def url(self) -> str:
        """``nfs://127.0.0.1:PORT/vol``. Raises ``TargetError`` outside of the ``with`` block."""
        if self._url is None:
            raise TargetError("the volume does not serve; use it in a block: with iocurve.Volume() as volume")
        return self._url

    @property
    def target(self) -> VolumeTarget:
        """The target of measurements. Raises ``TargetError`` outside of the ``with`` block."""
        return VolumeTarget(self.url, self._export, url=self.url)

    def set(
        self,
        *,
        profile: str | None = None,
        quota: str | None = None,
        throughput: str | None = None,
        iops: int | None = None,
        latency: str | None = None,
    ) -> None:
        """Changes settings while clients stay connected; a new profile resets the others.

        Raises ``TargetError`` if the volume refuses, or outside of the ``with`` block.
        """
        request = SetRequest(profile=profile, quota=quota, throughput=throughput, iops=iops, latency=latency)
        with control.Client(self.url) as client:
            client.set(request.replace(export=client.export))
        self._export = self._export.changed(request.changes)

    def stats(self) -> ServedStats:
        """The counters since the start, by export, client and connection.

        Raises ``TargetError``, also outside of the ``with`` block.
        """
        with control.Client(self.url) as client:
            return client.stats()

    def __repr__(self) -> str:
        return f"<Volume {self._export.profile_name}, {self._export.quota}: {self._url or 'not started'}>"
