"""The rate of sockets alone: threads exchange the bytes of NFSv3 calls and replies, and do nothing else."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from bench.measure import Side

EXAMPLE = Path(__file__).parents[1] / "target/release/examples/socket_limit"
READ_CALL_BYTES = 120
"""Record mark, call header with AUTH_SYS, a handle of 32 bytes, offset and count (RFC 5531, RFC 1813)."""
READ_REPLY_BYTES = 132
"""Record mark, reply header, status, attributes, count, end of file and length; the data follow."""
WRITE_CALL_BYTES = 128
WRITE_REPLY_BYTES = 164


def build() -> None:
    """Builds the program, with the features of dependencies that the bindings have. Raises ``CalledProcessError``."""
    packages = ("--package=iocurve-py", "--package=iocurve-epoll")
    words = ("cargo", "build", "--release", "--quiet", *packages, "--example=socket_limit")
    subprocess.run(words, cwd=EXAMPLE.parents[3], check=True)


def limit_sides(
    access: str, block: str, depth: int, connections: int, prefix: Sequence[str], memory_mib: int
) -> list[Side]:
    """The sides that carry the same load without NFS, to be built before; ``memory_mib`` is the size of each file.

    Writes have two: one whose server stores what it receives, which is the limit, and one that drops it.
    """
    data = int(block.removesuffix("k").removesuffix("m")) << (20 if block.endswith("m") else 10)
    is_write = access.endswith("write")
    call = WRITE_CALL_BYTES + data if is_write else READ_CALL_BYTES
    reply = WRITE_REPLY_BYTES if is_write else READ_REPLY_BYTES + data
    sizes = (str(number) for number in (connections, depth, call, reply, memory_mib))
    command, limit = (*prefix, str(EXAMPLE), *sizes), limit_name(access, block)
    if not is_write:
        return [Side(limit, command)]
    return [Side(limit, (*command, "--store")), Side(f"{access} {block}, sockets alone", command, limit=limit)]


def limit_name(access: str, block: str) -> str:
    """``randread 4k, sockets alone``, ``randwrite 4k, sockets that store``."""
    return f"{access} {block}, sockets {'that store' if access.endswith('write') else 'alone'}"
