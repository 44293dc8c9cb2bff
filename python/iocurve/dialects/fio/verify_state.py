"""fio's verify state files (``verify_state_save``, ``verify_state_load``): how far a job had written.

Format version 3, as Debian's fio 3.33 writes it; all numbers are little-endian. A header of version, bytes that follow
and their CRC-32C without the final inversion, 8 bytes each; then the number of completions (u64), iodepth and number
of files (u32), writes issued (u64), number of the job (u64), the state of fio's random generator (56 bytes, zeros
here: iocurve draws offsets from a seed), the job's name (64 bytes), and for each completion file and offset (u64): the
last writes of each file, newest first.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from iocurve.dialects.fio.job import SectionReport, by_worker
from iocurve.engine.outcome import WorkerOutcome
from iocurve.engine.plan import Plan, Worker
from iocurve.foundation.errors import Diagnostic, TargetError
from iocurve.job.model import Job

VERSION = 3
_HEADER = struct.Struct("<QQQ")
_STATE = struct.Struct("<QIIQQ56x64s")
_COMPLETION = struct.Struct("<QQ")
_NAME_BYTES_MAX = 63


class State(msgspec.Struct, frozen=True):
    """The content of a state file."""

    job: str
    depth: int
    files: int
    writes: int
    """Writes that were issued."""
    number: int
    """Number of the job among all jobs, numjobs counted, from 0."""
    completions: tuple[tuple[int, int], ...]
    """File and offset of the last writes of each file, newest first."""

    def encode(self) -> bytes:
        """The bytes of the file."""
        name = self.job.encode()[:_NAME_BYTES_MAX]
        body = _STATE.pack(len(self.completions), self.depth, self.files, self.writes, self.number, name)
        body += b"".join(_COMPLETION.pack(*completion) for completion in self.completions)
        # fio's file has room for as many completions as operations can be in flight.
        body = body.ljust(_STATE.size + self.depth * self.files * _COMPLETION.size, b"\0")
        return _HEADER.pack(VERSION, len(body), _crc32c(body)) + body

    @classmethod
    def decode(cls, text: bytes) -> State:
        """Reads the bytes of a file. Raises ``ValueError`` with the reason."""
        if len(text) < _HEADER.size + _STATE.size:
            raise ValueError(f"it has {len(text)} bytes, too few for a verify state")
        version, length, checksum = _HEADER.unpack_from(text)
        if version != VERSION:
            raise ValueError(f"its version is {version}; only version {VERSION} is supported")
        body = text[_HEADER.size : _HEADER.size + length]
        if len(body) != length or length < _STATE.size or checksum != _crc32c(body):
            raise ValueError("its length or checksum is wrong; it may have been cut off")
        count, depth, files, writes, number, name = _STATE.unpack_from(body)
        if _STATE.size + count * _COMPLETION.size > length:
            raise ValueError(f"it says {count} completions and has fewer")
        rest = body[_STATE.size : _STATE.size + count * _COMPLETION.size]
        job = name.split(b"\0")[0].decode("utf-8", "replace")
        return cls(job, depth, files, writes, number, tuple(_COMPLETION.iter_unpack(rest)))


def path_of(directory: Path, job: str, number: int) -> Path:
    """The state file of a job; ``number`` counts the jobs of all sections from 0."""
    return directory / f"local-{job}-{number}-verify.state"


def write(job: Job, reports: Sequence[SectionReport], workers: Sequence[WorkerOutcome], plan: Plan, to: Path) -> None:
    """Writes the state of each worker that wrote blocks to verify. Raises ``TargetError``."""
    done = {(worker.group, worker.worker): worker for worker in workers}
    for number, (place, report) in enumerate(by_worker(job, plan, reports).items()):
        planned, worker = plan.groups[place[0]].workers[place[1]], done.get(place)
        if worker is None or not (report.reporting.state_save and _saves(planned)):
            continue
        written = worker.operations.get("write")
        state = State(
            job=report.name,
            depth=planned.depth,
            files=len(planned.files),
            writes=written.operations if written else 0,
            number=number,
            completions=tuple((write.file, write.offset) for write in worker.last_writes),
        )
        path = path_of(to, report.name, number)
        try:
            path.write_bytes(state.encode())
        except OSError as error:
            raise TargetError(f"{path} cannot be written: {error.strerror}") from None


def limited(
    job: Job, reports: Sequence[SectionReport], plan: Plan, directory: Path
) -> tuple[Plan, list[Diagnostic], list[Diagnostic]]:
    """The plan with the jobs of ``verify_state_load=1`` limited to what their states say.

    Returns it with errors in the options, and with obstacles: state files that are missing or invalid.
    """
    groups = [list(group.workers) for group in plan.groups]
    errors: list[Diagnostic] = []
    obstacles: list[Diagnostic] = []
    for number, ((group, index), report) in enumerate(by_worker(job, plan, reports).items()):
        worker = groups[group][index]
        if not (report.reporting.state_load and worker.verify):
            continue
        if any(operation.kind == "write" for operation in worker.operations) and not worker.verify.only:
            text = f"{report.name}: verify_state_load=1 is not supported yet in a job that writes"
            errors.append(Diagnostic(text, None, "add verify_only, or use rw=read or rw=randread"))
            continue
        path = path_of(directory, report.name, number)
        try:
            groups[group][index] = _stopping(worker, State.decode(path.read_bytes()))
        except OSError as error:
            hint = "run the job that writes first, with verify and without verify_state_save=0"
            text = f"{report.name}: verify_state_load=1: {path} cannot be read: {error.strerror}"
            obstacles.append(Diagnostic(text, None, hint))
        except ValueError as error:
            text = f"{report.name}: verify_state_load=1: {path} is no verify state: {error}"
            obstacles.append(Diagnostic(text, None, "remove it and run the job that writes again"))
    changed = tuple(group.replace(workers=tuple(each)) for group, each in zip(plan.groups, groups, strict=True))
    return plan.replace(groups=changed), errors, obstacles


def _stopping(worker: Worker, state: State) -> Worker:
    if not state.writes:
        raise ValueError("nothing was written when it was saved")
    most = worker.end.operations
    return worker.replace(end=worker.end.replace(operations=min(most, state.writes) if most else state.writes))


def _saves(worker: Worker) -> bool:
    writes = any(operation.kind == "write" for operation in worker.operations)
    return writes and worker.verify is not None and not worker.verify.only


def _table() -> Iterator[int]:
    """Remainders of all bytes for the reflected polynomial of CRC-32C (RFC 3720, appendix B.4)."""
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        yield value


_REMAINDERS = tuple(_table())


def _crc32c(content: bytes) -> int:
    """CRC-32C without the final inversion."""
    value = 0xFFFFFFFF
    for byte in content:
        value = value >> 8 ^ _REMAINDERS[(value ^ byte) & 0xFF]
    return value
