"""The first operation of each client, by the packets that arrive at the server: an instrument apart from iocurve.

``python -m bench.cluster.first_operations`` prints a line for each call of NFSv3's READ on ``eth0``: address, ns.
"""

from __future__ import annotations

import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread

from bench.cluster.hosts import Host

ROOT = Path(__file__).parents[2]
ETH_P_IP = 0x0800
SO_TIMESTAMPNS = 35
READ = struct.pack(">IIIII", 0, 2, 100003, 3, 6)
"""A call of RPC version 2, program NFS, version 3, procedure READ (RFC 5531, RFC 1813)."""
PAUSE_NS = 150_000_000
"""A client waits at least this long between what it does to prepare and its start."""


@dataclass
class FirstOperations:
    """Times of reads by client, ns."""

    reads: dict[str, list[int]] = field(default_factory=dict)

    def first(self) -> dict[str, int]:
        """The first read of each client after its pause before the start."""
        found = {}
        for client, times in self.reads.items():
            after = [at for before, at in zip([0, *times], times, strict=False) if at - before > PAUSE_NS]
            found[client] = after[-1] if len(after) < 3 else after[1]
        return found

    def spread_ns(self) -> int:
        """Time from the first client's start to the last one's."""
        starts = self.first().values()
        return max(starts, default=0) - min(starts, default=0)


@contextmanager
def watched(server: Host) -> Iterator[FirstOperations]:
    """Watches the network interface of a server while the context lasts."""
    found = FirstOperations()
    # The prefix ends in variables.
    command = [*server.prefix, f"PYTHONPATH={ROOT}", sys.executable, "-m", "bench.cluster.first_operations"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:

        def read() -> None:
            assert process.stdout
            for line in process.stdout:
                client, at = line.split()
                found.reads.setdefault(client, []).append(int(at))

        reader = Thread(target=read)
        reader.start()
        try:
            yield found
        finally:
            process.kill()
            reader.join()


def main() -> None:
    """Prints until it is killed."""
    with socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(ETH_P_IP)) as packets:
        packets.bind(("eth0", ETH_P_IP))
        packets.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        while True:
            packet, ancillary, _, _ = packets.recvmsg(2048, 64)
            if READ in packet:
                seconds, nanoseconds = struct.unpack("qq", ancillary[0][2][:16])
                print(socket.inet_ntoa(packet[12:16]), seconds * 10**9 + nanoseconds, flush=True)


if __name__ == "__main__":
    main()
