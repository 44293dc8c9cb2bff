"""Every fault that a volume injects is found by verification, and named by file, offset and number of the write."""

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from bench.servers import Server
from goldens import cases, data, present
from iocurve.dialects.fio.command import parsed, read_command
from iocurve.dialects.fio.job import FioCommand
from iocurve.dialects.native.command import prepare as prepare_native
from iocurve.engine.outcome import DifferenceOutcome
from iocurve.engine.plan import Plan
from iocurve.foundation.errors import DialectError
from iocurve.foundation.units import KIB
from iocurve.measure import local
from iocurve.measure.jobs import convert
from iocurve.volume.config import FaultRate
from iocurve.volume.spec import Setting, VolumeSpec, read_spec, spec_of, volume_of
from programs import iocurve, volume_here
from vdbench_runs import report

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("runtime")]

Found = tuple[str, int, int | None]
"""Kind, offset, and number of the write that belongs there."""

BLOCK = 4 * KIB
BLOCKS = 256
FAULTS = ("torn-write", "lost-write", "misdirected-write")
SERVED = pytest.mark.parametrize(("store", "version"), [("memory", "3"), ("directory", "3"), ("memory", "4.1")])


def serve(directory: Path, fault: str, store: str = "memory", seed: int = 1) -> AbstractContextManager[Server]:
    """A volume with one kind of fault and a log of it."""
    (place := directory / "files").mkdir(exist_ok=True)
    served: dict[str, Setting] = {"store": str(place), "root_squash": False} if store == "directory" else {}
    return volume_here({"fault": [fault], "fault_seed": seed, "fault_log": str(directory / "log")}, **served)


def records(directory: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (directory / "log").read_text().splitlines()]


def block_of(record: dict[str, Any]) -> int:
    offset: int = record["offset"]
    return offset // BLOCK * BLOCK


def prepared_fio(url: str, directory: Path, *more: str) -> FioCommand:
    """A job that writes blocks of a file one by one, and reads them back."""
    job = ["--name=a", "--rw=write", "--bs=4k", f"--size={BLOCKS * BLOCK}", "--iodepth=1", "--filename=data", *more]
    return read_command([*job, "--ioengine=nfs", f"--nfs_url={url}", "--verify=crc32c"], cwd=directory, environment={})


def fio(url: str, directory: Path, *more: str) -> Sequence[DifferenceOutcome]:
    return differences_of(prepared_fio(url, directory, *more).plan)


def differences_of(plan: Plan) -> Sequence[DifferenceOutcome]:
    """The differences that the only worker of a plan finds."""
    [worker] = local.run(plan).workers
    assert (worker.state == "failed") == bool(worker.differences)
    assert {found.path for found in worker.differences} <= {"data"}
    return worker.differences


def found_by_fio(
    directory: Path, fault: str, store: str, version: str
) -> tuple[Sequence[DifferenceOutcome], list[dict[str, Any]]]:
    """The differences that two passes of a job find on a volume with a fault, and the log of the volume."""
    with serve(directory, fault, store) as server:
        differences = fio(server.url_of(version), directory, "--loops=2")
    return differences, records(directory)


def as_found(differences: Sequence[DifferenceOutcome]) -> list[Found]:
    """The differences in the order of their offsets."""
    return sorted((found.kind, found.offset, found.expected_write) for found in differences)


class Model:
    """The content of a file after its WRITEs in order; the log lists those that went wrong."""

    def __init__(self, injected: list[dict[str, Any]]) -> None:
        self._by_write = {record["write"]: record for record in injected}
        self._content: dict[int, tuple[str, int]] = {}

    def differences(self, first_write: int) -> Iterator[Found]:
        """The findings of a pass over all blocks written from this number on."""
        for number in range(BLOCKS):
            self._write(first_write + number, number * BLOCK)
        for number in range(BLOCKS):
            kind, write = self._content.get(number * BLOCK, ("lost_write", 0))
            if (kind, write) != ("right", first_write + number):
                yield ("lost_write" if kind == "right" else kind), number * BLOCK, first_write + number

    def _write(self, write: int, offset: int) -> None:
        record = self._by_write.get(write)
        if record is None:
            self._content[offset] = ("right", write)
        elif record["fault"] == "torn-write":
            self._content[offset] = ("torn_write", write)
        elif record["fault"] == "misdirected-write":
            self._content[record["stored_at"]] = ("misdirected_write", write)


@SERVED
@pytest.mark.parametrize("fault", FAULTS)
def test_fio_finds_every_write_that_is_not_stored_and_nothing_else(
    fault: str, store: str, version: str, tmp_path: Path
) -> None:
    differences, injected = found_by_fio(tmp_path, f"{fault}=0.05", store, version)
    assert len(injected) > 10
    assert {(record["fault"], record["file"], record["export"]) for record in injected} == {(fault, "data", "/vol")}
    model = Model(injected)
    expected = [found for first in (1, 1 + BLOCKS) for found in model.differences(first)]
    assert as_found(differences) == sorted(expected)
    assert all(found.persists for found in differences)
    if fault == "torn-write":
        assert [found.first_offset for found in differences] == [record["offset"] for record in injected]


@SERVED
def test_fio_finds_every_flipped_bit(store: str, version: str, tmp_path: Path) -> None:
    differences, injected = found_by_fio(tmp_path, "flip-bit=1e-6", store, version)
    assert len(injected) > 5
    named = [(found.kind, found.first_offset, found.expected_write, found.persists) for found in differences]
    assert named == [("flipped_bits", record["offset"], record["write"], False) for record in injected]
    for record, found in zip(injected, differences, strict=True):
        assert f"only bit {record['bit']} of byte {record['offset'] % BLOCK} differs" in found.text


@SERVED
def test_fio_finds_every_stale_read(store: str, version: str, tmp_path: Path) -> None:
    differences, injected = found_by_fio(tmp_path, "stale-read=0.05", store, version)
    assert len(injected) > 10
    # A second read may be stale as well; it is of the same block, and then it looks as if the write were lost.
    once = list({(block_of(record), record["write"]): record for record in injected}.values())
    assert [(found.offset, found.expected_write) for found in differences] == [
        (block_of(record), record["write"]) for record in once
    ]
    twice = len(injected) - len(once)
    assert sum(found.kind == "lost_write" for found in differences) == twice
    assert sum(found.kind == "stale_read" for found in differences) == len(once) - twice
    older = [found.found_write for found in differences]
    assert older == [record["write"] - BLOCKS if record["found_generation"] else None for record in once]


@pytest.mark.parametrize("version", ["3", "4.1"])
def test_a_job_file_finds_what_fio_finds(version: str, tmp_path: Path) -> None:
    with serve(tmp_path, "lost-write=0.05,flip-bit=1e-6") as server:
        (tmp_path / "job.toml").write_text(convert(parsed(prepared_fio(server.url_of(version), tmp_path))))
        differences = differences_of(next(prepare_native([str(tmp_path / "job.toml")]).plans()))
    lost = {record["offset"] for record in records(tmp_path) if record["fault"] == "lost-write"}
    flipped = {block_of(record) for record in records(tmp_path) if record["fault"] == "flip-bit"} - lost
    assert lost
    assert flipped
    kinds = {(found.kind, found.offset) for found in differences}
    assert kinds == {("lost_write", at) for at in lost} | {("flipped_bits", at) for at in flipped}


def test_the_same_seed_hits_the_same_operations(tmp_path: Path) -> None:
    logs = []
    for name, seed in (("a", 5), ("b", 5), ("c", 6)):
        (directory := tmp_path / name).mkdir()
        with serve(directory, "lost-write=0.05,flip-bit=1e-6", seed=seed) as server:
            fio(server.url, directory)
        logs.append(records(directory))
    assert logs[0] == logs[1]
    assert logs[0] != logs[2]


@pytest.mark.parametrize(("fault", "errno"), [("eio", "Input/output error"), ("enospc", "No space left on device")])
def test_an_operation_that_fails_is_named(fault: str, errno: str, tmp_path: Path) -> None:
    with serve(tmp_path, f"{fault}=0.01") as server:
        job = ["--name=a", "--rw=write", "--bs=4k", "--size=4m", "--ioengine=nfs", f"--nfs_url={server.url}"]
        ended = iocurve("fio", *job, "--filename=data", cwd=tmp_path)
        shown = iocurve("volume", "stats", str(server.port), "--json")
    [record] = records(tmp_path)
    assert ended.returncode != 0
    assert f"write of 4096 bytes at offset {record['offset']} of data: {errno}" in ended.stderr
    assert json.loads(shown.stdout)["exports"][0]["faults"][fault] == 1


# -- vdbench ----------------------------------------------------------------------------------------------------------

VDBENCH = data("vdbench/faults.parm")
LAYOUT = 1
"""WRITEs of each block before the run: the file is filled."""
_LINE = re.compile(r"(?P<kind>\w+ \w+): 4096 bytes at offset (?P<offset>\d+) of \S*data: (?P<text>.*)")


def vdbench(port: int, directory: Path, option: str, rdpct: int = 0) -> list[tuple[str, int, int]]:
    """The differences that a run lists in its error log: kind, offset, number of the write that belongs there."""
    (directory / "p").write_text(VDBENCH.format(port=port, rdpct=rdpct))
    ended = iocurve("vdbench", "-f", "p", option, cwd=directory)
    log = report(directory, "errorlog")
    found = []
    for line in _LINE.finditer(log):
        number = re.search(r"instead of the newest, (\d+)|it should hold write number (\d+)", line["text"])
        assert number, line["text"]
        found.append((line["kind"], int(line["offset"]), int(number[1] or number[2])))
    assert (ended.returncode != 0) == bool(found), ended.stderr
    return found


@pytest.mark.parametrize("fault", FAULTS)
def test_vdbench_finds_every_write_that_is_not_stored(fault: str, tmp_path: Path) -> None:
    """Before it writes a block it reads the block; what it does not write again, a recovery reads."""
    with serve(tmp_path, f"{fault}=0.02") as server:
        found = vdbench(server.port, tmp_path, "-j")
        found += vdbench(server.port, tmp_path, "-jro")
    injected = [record for record in records(tmp_path) if record["generation"] > LAYOUT]
    assert len(injected) > 5
    assert all(record["file"] == "data" for record in injected)
    kind = {"torn-write": "torn write", "lost-write": "lost write", "misdirected-write": "lost write"}[fault]
    wrong = {(kind, block_of(record), record["generation"] - LAYOUT) for record in injected}
    elsewhere = {record["stored_at"] for record in injected if "stored_at" in record}
    at_home = {one for one in found if one[0] == kind}
    # A write that landed in a place whose own write was misdirected hides the older content there.
    hidden = wrong - at_home
    assert at_home <= wrong
    assert {offset for _, offset, _ in hidden} <= elsewhere
    assert {offset for one, offset, _ in found if one == "misdirected write"} <= elsewhere
    assert {one for one, *_ in found} == ({kind, "misdirected write"} if elsewhere else {kind})
    if not elsewhere:
        assert not hidden


@pytest.mark.parametrize("fault", ["flip-bit=2e-6", "stale-read=0.02"])
def test_vdbench_finds_every_read_that_is_wrong(fault: str, tmp_path: Path) -> None:
    with serve(tmp_path, fault) as server:
        found = vdbench(server.port, tmp_path, "-v", rdpct=50)
    # A block that was never written has no known content.
    injected = [record for record in records(tmp_path) if record["generation"] > LAYOUT]
    assert len(injected) > 5
    assert {(offset, write) for _, offset, write in found} == {
        (block_of(record), record["generation"] - LAYOUT) for record in injected
    }


# -- what is written ---------------------------------------------------------------------------------------------------


def test_faults_are_written_in_two_ways(tmp_path: Path) -> None:
    expected = (FaultRate(kind="flip-bit", rate=1e-6), FaultRate(kind="eio", rate=0.5))
    spec = volume_of([spec_of({})], {"fault": ["flip-bit", "eio=0.5"], "fault_seed": 3})
    faults = present(spec.faults())
    assert (faults.rates, faults.seed, faults.log) == (expected, 3, None)
    assert volume_of([spec_of({})], {"fault": ["flip-bit,eio=0.5"]}).faults() == faults.replace(seed=0)
    (file := tmp_path / "v.toml").write_text(
        'fault = ["flip-bit", "eio=0.5"]\nfault_seed = 3\n[[export]]\npath = "/a"\n'
    )
    assert read_spec(file).faults() == faults
    assert VolumeSpec(export=(spec_of({}),)).faults() is None


@cases("volume/refused_faults")
def test_what_is_no_fault_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(DialectError) as raised:
        volume_of([spec_of({})], settings)
    assert str(raised.value).startswith(message)


def test_a_log_that_is_there_is_kept(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("another user's letters")
    log = str(tmp_path / "log")
    ended = iocurve("volume", "serve", "--profile=unlimited", "--fault", "eio", "--fault-log", log)
    assert ended.returncode != 0
    assert f"cannot create the fault log {tmp_path}/log: File exists" in ended.stderr
    assert (tmp_path / "log").read_text() == "another user's letters"
