"""Observations from the kernel's counters: rates, sizes, waits, limits, processes, and the job files made of them."""

import tomllib
from pathlib import Path
from typing import Any

import pytest

from goldens import Golden, cases, has, matches
from iocurve.advice import observe
from iocurve.advice.demand import measured_demand
from iocurve.advice.doctor.host import HostFiles
from iocurve.advice.observation import KindObserved, Observation, job_file
from iocurve.advice.observe import CounterSample, Processes, Subject, find_subject, observation
from iocurve.advice.observe import samples as watched
from iocurve.cli.commands import run
from iocurve.dialects.native.command import DIALECT as NATIVE
from iocurve.foundation.errors import IocurveError, ResultError, TargetError
from iocurve.foundation.units import GIB, TIB
from iocurve.volume.profile_limits import resolve

READ_STAT = "1000 0 16000 500 200 0 6400 400 0 0 0 0"


def nfs_host(root: Path, *, reads: int, writes: int, queue_ms: int = 100, ports: int = 4) -> Path:
    """A machine with one NFS mount at /mnt/a after these numbers of 8 KiB reads and 64 KiB writes."""
    stats = [
        "device 10.1.0.4:/vol mounted on /mnt/a with fstype nfs statvers=1.1",
        f"\tbytes:\t0 0 0 0 {8192 * reads} {65536 * writes} 0 0 ",
        *(f"\txprt:\ttcp {700 + port} 0 2 0 0 5000 5000 0 20000 0 16 100 900" for port in range(ports)),
        f"\t        READ: {reads} {reads} 0 1 1 {queue_ms} {2 * reads} {2 * reads + queue_ms} 0",
        f"\t       WRITE: {writes} {writes} 0 1 1 0 {writes} {writes} 0",
        f"\t     GETATTR: {reads} {reads} 0 1 1 0 0 0 0",
    ]
    texts = {
        "proc/self/mountinfo": "30 22 0:40 / /mnt/a rw - nfs 10.1.0.4:/vol rw,vers=3,nconnect=4,addr=10.1.0.4\n",
        "proc/self/mountstats": "\n".join(stats) + "\n",
        "proc/sys/sunrpc/tcp_max_slot_table_entries": "128\n",
    }
    for path, text in texts.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return root


def observed(root: Path, after: dict[str, int], seconds: float = 10.0) -> tuple[Observation, Subject]:
    """An observation of a mount whose counters stand at 1,000 reads and 1,000 writes at its start."""
    nfs_host(root, reads=1_000, writes=1_000, queue_ms=0)
    subject = find_subject("/mnt/a/data", HostFiles(root))
    first = subject.sample(root, lambda: 5.0)
    nfs_host(root, **after)
    return observation(subject, [first, subject.sample(root, lambda: 5.0 + seconds)]), subject


def saved(root: Path, after: dict[str, int]) -> Path:
    (path := root / "o.json").write_text(observed(root, after)[0].to_json())
    return path


@cases("advice/observed")
def test_a_mount_is_observed_and_what_limits_it_is_named(
    after: dict[str, int], profile: str, vm: str | None, fields: dict[str, Any], golden: Golden, tmp_path: Path
) -> None:
    found, subject = observed(tmp_path, after)
    has(found, fields)
    caps = resolve(profile, 2 * TIB).caps if profile else ()
    near = observe.near(found, subject, HostFiles(tmp_path), caps, profile, vm)
    limits = [[one.name, round(one.value, 1), round(one.observed, 1)] for one in near.limits]
    advice = [observe.for_twice_the_rate(near), observe.for_half_the_latency(near)]
    golden.check([*observe.verdict(near), *advice, *limits])


def test_an_observation_is_saved_and_read(tmp_path: Path) -> None:
    after = {"reads": 8_000, "writes": 4_000}
    path = saved(tmp_path, after)
    assert Observation.load(path).replace(began="") == observed(tmp_path, after)[0].replace(began="")
    path.write_text("{}")
    with pytest.raises(ResultError, match="is not an observation"):
        Observation.load(path)


def test_an_observation_is_the_start_of_a_sizing(tmp_path: Path) -> None:
    path = saved(tmp_path, {"reads": 8_000, "writes": 4_000, "queue_ms": 3_500})
    start, moved = measured_demand(path, iops=0, bytes_per_s=0, block_bytes=None), 700 * 8_192 + 300 * 65_536
    assert (start.iops, start.read_percent, start.latency_ns) == (1_000, 70.0, 2_050_000)
    assert (start.bytes_per_s, start.block_bytes) == (moved, round(moved / 1_000))
    assert start.text.startswith("/mnt/a, observed for 10 s: 1,000 IOPS, 24.22 MiB/s on average")


def test_an_idle_observation_is_no_start(tmp_path: Path) -> None:
    path = saved(tmp_path, {"reads": 1_000, "writes": 1_000})
    with pytest.raises(ResultError, match="was idle while it was observed"):
        measured_demand(path, iops=0, bytes_per_s=0, block_bytes=None)


def test_a_device_has_latencies_that_are_not_split(tmp_path: Path) -> None:
    directory = tmp_path / "sys/block/sda"
    directory.mkdir(parents=True)
    (directory / "dev").write_text("8:0\n")
    (directory / "stat").write_text(READ_STAT)
    subject = find_subject("sda", HostFiles(tmp_path))
    first = subject.sample(tmp_path, lambda: 0.0)
    (directory / "stat").write_text("2000 0 32000 1500 200 0 6400 400 0 0 0 0")
    found = observation(subject, [first, subject.sample(tmp_path, lambda: 2.0)])
    assert (found.subject, found.counters) == ("sda", "diskstats")
    assert (found.read.iops, found.read.mean_bytes, found.read.mean_us) == (500.0, 8_192.0, 1_000.0)
    assert (found.read.client_wait_us, found.read.server_us) == (None, None)
    assert (found.write.operations, found.write.mean_us, found.write.mean_bytes, found.depth) == (0, None, None, 0.5)


def test_samples_are_taken_at_even_times_and_at_the_end(tmp_path: Path) -> None:
    subject = find_subject("/mnt/a", HostFiles(nfs_host(tmp_path, reads=1, writes=1)))
    now = 100.0

    def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds

    samples = watched(subject, 2.5, 1.0, tmp_path, sleep, lambda: now)
    assert [sample.time_s for sample in samples] == [100.0, 101.0, 102.0, 102.5]


@pytest.mark.parametrize(
    ("times", "message"), [(1, "nothing was observed"), (2, "counters went back")], ids=["one sample", "mounted again"]
)
def test_observations_that_cannot_be_made(tmp_path: Path, times: int, message: str) -> None:
    subject = find_subject("/mnt/a", HostFiles(nfs_host(tmp_path, reads=10, writes=10)))
    first = subject.sample(tmp_path, lambda: 0.0)
    nfs_host(tmp_path, reads=5, writes=5)
    samples: list[CounterSample] = [first, subject.sample(tmp_path, lambda: 1.0)][:times]
    with pytest.raises(TargetError, match=message):
        observation(subject, samples)


def test_a_mount_that_is_gone_is_an_error(tmp_path: Path) -> None:
    subject = find_subject("/mnt/a", HostFiles(nfs_host(tmp_path, reads=10, writes=10)))
    (tmp_path / "proc/self/mountstats").write_text("")
    with pytest.raises(TargetError, match="was it unmounted"):
        subject.sample(tmp_path)


def test_processes_with_files_open_there_come_first(tmp_path: Path) -> None:
    nfs_host(tmp_path, reads=1, writes=1)

    def process(pid: int, name: str, read: int, opened: str) -> None:
        (tmp_path / f"proc/{pid}/fd").mkdir(parents=True, exist_ok=True)
        (tmp_path / f"proc/{pid}/io").write_text(f"rchar: 1\nread_bytes: {read}\nwrite_bytes: 0\n")
        (tmp_path / f"proc/{pid}/comm").write_text(f"{name}\n")
        link = tmp_path / f"proc/{pid}/fd/3"
        link.unlink(missing_ok=True)
        link.symlink_to(opened)

    for pid, name, opened in ((7, "app", "/mnt/a/file"), (8, "other", "/mnt/ab"), (9, "idle", "/mnt/a/file")):
        process(pid, name, 100, opened)
    before = Processes.now(tmp_path)
    process(7, "app", 300, "/mnt/a/file")
    process(8, "other", 900, "/mnt/ab")
    subject = find_subject("/mnt/a", HostFiles(tmp_path))
    samples = [subject.sample(tmp_path, lambda: 0.0), subject.sample(tmp_path, lambda: 1.0)]
    found = observation(subject, samples, (before, Processes.now(tmp_path)))
    matches("advice#processes files", [(one.name, one.read_bytes, one.has_files_open) for one in found.processes])


@pytest.mark.parametrize("name", ["/mnt/nowhere", "/dev/sdz"])
def test_a_subject_without_counters_is_an_error(tmp_path: Path, name: str) -> None:
    with pytest.raises(TargetError, match="which has no counters"):
        find_subject(name, HostFiles(nfs_host(tmp_path, reads=1, writes=1)))


def on_device(reads: int, writes: int, mean_bytes: int = 4_096) -> Observation:
    """A second of a device with these numbers of operations."""
    read, write = (
        KindObserved(operations=count, bytes=mean_bytes * count, seconds=1.0, latency_us_total=1e3 * count)
        for count in (reads, writes)
    )
    return Observation(subject="sda", counters="diskstats", began="", seconds=1.0, read=read, write=write)


def test_a_few_operations_of_the_file_system_are_no_part_of_the_job() -> None:
    text = job_file(on_device(1_000, 4), "random", GIB)
    (job,) = tomllib.loads(text)["job"]
    assert (job["writes"], job["rate_operations"], job["cover"]) == (False, 1_000, "independent")
    assert "# Left out as the file system's own: writes, 4." in text


@cases("advice/blocks_of_a_job")
def test_blocks_of_a_job_have_the_mean_size_that_was_observed(tmp_path: Path, mean: int, blocks: object) -> None:
    (tmp_path / "app.toml").write_text(job_file(on_device(1_000, 0, mean), "random", GIB))
    assert len(NATIVE.prepare([str(tmp_path / "app.toml")]).steps) == 1
    (job,) = tomllib.loads((tmp_path / "app.toml").read_text())["job"]
    made = job["blocks"]
    found = made if isinstance(made, str) else {str(part["bytes"]): part["weight"] for part in made["parts"]}
    assert found == blocks


def test_a_job_file_makes_the_same_mix_sizes_and_rate(tmp_path: Path) -> None:
    found, _ = observed(tmp_path, {"reads": 8_000, "writes": 4_000, "queue_ms": 3_500})
    text = job_file(found, "random", GIB)
    (job,) = tomllib.loads(text)["job"]
    matches("advice#job of an observation", job)
    assert "--access random and --data 1 GiB are the user's" in text
    (tmp_path / "app.toml").write_text(text)
    (plan,) = NATIVE.prepare([str(tmp_path / "app.toml")]).plans()
    (worker,) = plan.groups[0].workers
    assert worker.end.runtime_ns == 10_000_000_000


def test_a_job_file_of_one_kind(tmp_path: Path) -> None:
    found, _ = observed(tmp_path, {"reads": 8_000, "writes": 1_000})
    (tmp_path / "app.toml").write_text(job_file(found, "sequential", GIB))
    NATIVE.prepare([str(tmp_path / "app.toml")])
    idle, _ = observed(tmp_path, {"reads": 1_000, "writes": 1_000})
    with pytest.raises(TargetError, match="no load for a job"):
        job_file(idle, "random", GIB)


@cases("advice/observe_errors")
def test_errors(arguments: list[str], message: str) -> None:
    with pytest.raises(IocurveError, match=message):
        run(["observe", "/nowhere", "--vm", "D8s_v5", *arguments])
