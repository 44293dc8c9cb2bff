"""Directories on the machines of load clients."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from iocurve.foundation.errors import TargetError
from iocurve.machine.processes import Process
from iocurve.measure.group.link import ClientLostError, Member, cause_of
from iocurve.targets.places import FileFacts

FILES_S = 60.0
"""Longest time in which a client lists, writes or removes files."""


@dataclass(frozen=True)
class ClientPlace:
    """A directory on the machine of a load client (``Place``)."""

    member: Member = field(hash=False)
    loop: asyncio.AbstractEventLoop = field(hash=False)
    client: int
    directory: Path

    def process(self) -> Process:
        """See ``Place``."""
        return cast("Process", self._ask("process"))

    def names(self, suffix: str) -> list[str]:
        """See ``Place``."""
        return cast("list[str]", self._ask("names", suffix))

    def facts(self, names: Sequence[str]) -> list[FileFacts | None]:
        """See ``Place``."""
        return cast("list[FileFacts | None]", self._ask("facts", list(names)))

    def read(self, name: str, bytes_max: int) -> bytes:
        """See ``Place``."""
        return cast("bytes", self._ask("read", name, bytes_max))

    def write(self, name: str, data: bytes, *, new: bool) -> None:
        """See ``Place``."""
        self._ask("write", name, data, new=new)

    def remove(self, names: Sequence[str]) -> None:
        """See ``Place``."""
        self._ask("remove", list(names))

    def _ask(self, method: str, *arguments: object, **options: object) -> object:
        return asyncio.run_coroutine_threadsafe(self._reply(method, arguments, options), self.loop).result()

    async def _reply(self, method: str, arguments: tuple[object, ...], options: dict[str, object]) -> Any:
        link = self.member.link
        if self.member.is_lost:
            raise TargetError(
                f"load client {link.name} was lost; what it left: iocurve clean {self.directory}, run there"
            )
        call = link.call("in_directory", str(self.directory), method, arguments, options)
        try:
            return await asyncio.wait_for(call, FILES_S)
        except (ClientLostError, TimeoutError) as error:
            self.member.lose()
            raise TargetError(f"load client {link.name} was lost: {cause_of(error)}") from None
