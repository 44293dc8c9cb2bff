"""Many clients of one volume at once, by seed: loads, guests, clients that vanish or attack, kills, new settings."""

from __future__ import annotations

import csv
import itertools
import os
import random
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from bench import hostile
from bench.faults.victims import Client, VolumeProcess, runtime_environment, volume_process
from bench.nfs4 import GRACE, Peer, Session
from bench.servers import IOCURVE, RIG, Server
from bench.soak import Held, interval_sums, run
from bench.soak.vanishing import vanish
from iocurve.foundation.units import SECOND_NS
from iocurve.volume.control import Client as ControlClient

VERSIONS = ("3", "4.1")
REFUSED = "refused the connection"
"""A load that starts while the volume is down ends at once: it never reached the volume."""
UNFINISHED = "did not complete within"
"""A load waits half a minute for its last replies. If the volume hardly ran meanwhile, that shows nothing."""
STARVED_SECONDS = 15.0
"""A volume that was down for this time while a load ran, or waited for a processor, was starved."""
SAMPLE_SECONDS = 10.0
TIMEOUT_SECONDS = 3600
"""For a machine that does much else: what takes longer than this has stopped, however slow the machine is."""
LOADS = 2
KILLED_SHARE = 0.25
"""Part of the loads, and of the guests, that are killed."""
GUEST_SECONDS = 40
ATTACK_CALLS_MAX = 320
"""Most calls of an attack: the others, and a removal of what it made, go on meanwhile."""
RESIDENT_GROWTH_MAX_MIB = 12.0
"""Most growth of the volume's memory from the second tenth of the quiet part to its end, without state ..."""
CLIENT_STATE_BYTES = 8192
"""... and for each client more that has gone without a word, whose state stays for an hour."""
DESCRIPTORS_MAX_PER_CONNECTION = 1
DESCRIPTORS_MAX = 400
"""Most descriptors of the volume beyond its connections: files that are open or kept open."""

SETTINGS = (
    ("--profile", "unlimited"),
    ("--iops", "20000"),
    ("--throughput", "200MiB"),
    ("--iops", "5000", "--latency", "500us"),
    ("--level", "premium", "--quota", "4TiB"),
    ("--client-iops-write", "4000"),
)

LOCKS = """
end=$(($(date +%s) + SECONDS_OF_WORK))
while [ $(date +%s) -lt $end ]; do
    flock $MNT/lock sh -c 'n=0; read n <$MNT/counter; echo $((n + 1)) >$MNT/counter' && echo one more
done
"""
"""Counts under a lock. A count that another guest overwrites is a lock that two had."""

FILES = """
end=$(($(date +%s) + SECONDS_OF_WORK)); mkdir -p $MNT/guest3 && cd $MNT/guest3
while [ $(date +%s) -lt $end ]; do
    dd if=/dev/urandom of=one bs=64k count=32 2>/dev/null && cp one other && sync && mv other third
    echo 3 >/proc/sys/vm/drop_caches; cmp one third || exit 3; rm one third; echo one more
done
"""


@dataclass
class Sample:
    """The volume and this process at one time. Counts of state are of NFSv4.1 clients."""

    seconds: float
    starts: int
    resident_mib: float
    descriptors: int
    threads: int
    connections: int
    clients: int
    slots: int
    states: int
    ranges: int
    own_resident_mib: float
    own_descriptors: int


@dataclass
class Crowd:
    """The volume, the parts that use it, their counts and their faults."""

    volume: VolumeProcess
    directory: Path
    seed: int
    seconds: float
    began: float = field(default_factory=time.monotonic)
    ended: threading.Event = field(default_factory=threading.Event)
    is_serving: threading.RLock = field(default_factory=threading.RLock)
    """Held while the volume is asked, and while it is down."""
    starts: int = 1
    waited_seconds: float = 0.0
    """Time for which the machine had stopped, or the volume's threads waited for a processor, so far."""
    down_seconds: float = 0.0
    """Time from the volume's kills to its next service so far."""
    counts: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)

    def random(self, name: str) -> random.Random:
        """The random numbers of one part of the crowd."""
        return random.Random(f"{self.seed} {name}")

    def fault(self, text: str) -> None:
        """Notes what went wrong."""
        self.faults.append(text)
        print(f"  after {time.monotonic() - self.began:,.0f} s: {text}", flush=True)

    @property
    def idle_seconds(self) -> float:
        """Time for which the volume could not run so far."""
        return self.waited_seconds + self.down_seconds

    def excuses(self, error: str, idle_before: float) -> bool:
        """True if the volume being down, or the machine, is the reason of a load's error; both are counted."""
        if REFUSED in error:
            self.counts["loads that found no volume"] += 1
        elif UNFINISHED in error and self.idle_seconds - idle_before >= STARVED_SECONDS:
            self.counts["loads while the volume was starved"] += 1
        else:
            return False
        return True

    @property
    def is_in_first_half(self) -> bool:
        """True while the volume is killed now and then."""
        return time.monotonic() - self.began < self.seconds / 2


def crowd(directory: Path, seconds: float, seed: int, samples: Path | None, *, has_guests: bool) -> Iterator[str]:
    """Runs all of it. The volume is killed now and then in the first half; in the second its memory must stay flat."""
    (place := directory / "crowd").mkdir()
    with volume_process(place) as volume:
        (volume.files / "counter").write_text("0\n")
        everything = Crowd(volume, place, seed, seconds)
        parts: list[Callable[[Crowd], None]] = [
            *([_load] * LOADS), _measured_loads, _vanishing_clients, _attackers, _settings, _kills, _sampler, _clock,
        ]  # fmt: skip
        guests = [_guests_with_locks, _other_guests_with_locks, _guests_with_files] if has_guests else []
        with ExitStack() as stack:
            stack.callback(everything.ended.set)
            for number, part in enumerate([*parts, *guests]):
                stack.enter_context(_thread(everything, part, number))
            everything.ended.wait(seconds)
            everything.ended.set()
        yield from everything.faults
        yield from _counter(everything)
        yield from _flat(everything)
    if samples:
        with samples.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(Sample.__annotations__)
            writer.writerows(vars(sample).values() for sample in everything.samples)
    print(f"a crowd by seed {seed}: {dict(sorted(everything.counts.items()))}", flush=True)


@contextmanager
def _thread(everything: Crowd, part: Callable[[Crowd], None], number: int) -> Iterator[None]:
    def work() -> None:
        try:
            part(everything)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is a fault, and the others go on
            everything.fault(f"{part.__name__}: {type(error).__name__}: {error}")

    thread = threading.Thread(target=work, name=f"{part.__name__}-{number}")
    thread.start()
    yield
    thread.join()


# ---- clients


def _url(everything: Crowd, version: str) -> str:
    return f"{everything.volume.url()}?vers={version}"


def _job(random: random.Random, name: str, version: str, everything: Crowd) -> list[str]:
    block = random.choice(("4k", "8k", "64k"))
    depth, connections = random.choice((1, 4, 16)), random.choice((1, 2, 4))
    return [
        *("--name=load", f"--filename={name}", "--size=8m", f"--bs={block}", f"--iodepth={depth}"),
        *("--ioengine=nfs", f"--nfs_url={_url(everything, version)}", f"--nconnect={connections}"),
    ]


def _load(everything: Crowd) -> None:
    """Processes that verify what they wrote; some are killed."""
    name = threading.current_thread().name
    random = everything.random(name)
    (place := everything.directory / name).mkdir()
    for number in itertools.count():
        if everything.ended.is_set():
            return
        version = random.choice(VERSIONS)
        job = _job(random, f"{name}-{number % 5}", version, everything)
        timed = ("--time_based", f"--runtime={random.randint(3, 15)}")
        work = random.choice(
            (("--rw=randrw", *timed), ("--rw=randwrite", "--verify=crc32c"), ("--rw=randread", *timed))
        )
        idle = everything.idle_seconds
        client = Client(place, ["fio", *job, *work, "--output=out"])
        if random.random() < KILLED_SHARE:
            everything.ended.wait(random.uniform(1, 4))
            client.signal(signal.SIGKILL)
            client.wait()
            everything.counts["loads killed"] += 1
            continue
        ended = client.wait(TIMEOUT_SECONDS)
        everything.counts[f"loads by {version}"] += 1
        if ended.status and not everything.excuses(ended.last_line, idle):
            everything.fault(f"a load by {version} ended with {ended.status}: {ended.last_line}")


def _measured_loads(everything: Crowd) -> None:
    """Loads in this process: intervals sum to totals, also if the volume is killed meanwhile."""
    random = everything.random("measured")
    for number in itertools.count():
        if everything.ended.is_set():
            return
        job = _job(random, "measured", VERSIONS[number % 2], everything)
        work = ("--rw=randrw", "--time_based", f"--runtime={random.randint(5, 20)}", "--numjobs=2")
        idle = everything.idle_seconds
        try:
            outcome = run([*job, *work], everything.directory)
        except RuntimeError as error:
            if not everything.excuses(str(error), idle):
                everything.fault(f"a measured load: {error}")
            continue
        operations, faults = interval_sums(outcome)
        for fault in faults:
            everything.fault(fault)
        everything.counts["measured loads"] += 1
        everything.counts["measured operations"] += operations


def _vanishing_clients(everything: Crowd) -> None:
    """Clients with an open file and a lock, of which nothing is heard again."""
    random = everything.random("vanishing")
    for number in itertools.count():
        if everything.ended.wait(random.uniform(0.5, 4)):
            return
        with everything.is_serving:
            vanish(everything.volume.port, b"%d %d" % (everything.seed, number), b"left-%d" % (number % 50))
        everything.counts["clients that vanished"] += 1


def _attackers(everything: Crowd) -> None:
    """Clients that behave badly. Who opens files in a grace period is refused, and is no test of anything."""
    random = everything.random("attackers")
    while not everything.ended.wait(random.uniform(2, 10)):
        with everything.is_serving:
            if _is_in_grace(everything.volume.port):
                everything.counts["attacks put off by a grace period"] += 1
            else:
                attack(everything, random)


def attack(everything: Crowd, random: random.Random) -> None:
    """One attack of ``bench.hostile``, with a part of its calls; the others must be served meanwhile and afterwards."""
    name = random.choice([name for name, (_, _, settings) in hostile.ATTACKS.items() if not settings])
    call, count, _ = hostile.ATTACKS[name]
    volume = everything.volume
    control = str(everything.directory / f"run/iocurve/{volume.port}.sock")
    server = Server(volume.pid, volume.port, volume.port, "/vol", control=control)
    for row in call(server, min(count, ATTACK_CALLS_MAX)):
        everything.counts[f"attacks: {name}"] += 1
        if not row.holds:
            everything.fault(f"{row.attack}: {row.seen}")


def _is_in_grace(port: int) -> bool:
    with Peer(port, hostile.NEWCOMER) as peer:
        session = Session.of(peer, b"grace")
        return session.call(*hostile.VOLUME, session.open(b"grace", b"grace")).status == GRACE


def _guests_with_locks(everything: Crowd) -> None:
    _guests(everything, "4.1", LOCKS)


def _other_guests_with_locks(everything: Crowd) -> None:
    _guests(everything, "4.1", LOCKS)


def _guests_with_files(everything: Crowd) -> None:
    _guests(everything, "3", FILES)


def _guests(everything: Crowd, version: str, script: str) -> None:
    """Linux kernels that mount the volume; some lose their power."""
    name = threading.current_thread().name.strip("_").replace("_", "-")
    random = everything.random(name)
    port = str(everything.volume.port)
    options = f"vers={version},nconnect=2,hard"
    rig = (str(RIG / "kernel-nfs"), "--port", port, "--mountport", port, "--opts", options, "--add", "flock")
    # Kernels of one hostname are one client that restarts.
    begin = f"hostname {name}; mkdir -p $MNT; nfsmount /vol $MNT || exit {MOUNT_FAILED}\n"
    while not everything.ended.is_set():
        is_killed = random.random() < KILLED_SHARE
        limit = random.uniform(20, GUEST_SECONDS) if is_killed else TIMEOUT_SECONDS
        work = begin + script.replace("SECONDS_OF_WORK", str(GUEST_SECONDS))
        command = (*rig, "--timeout", str(limit), "--", work)
        ended = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
        everything.counts[f"guests by {version}{' killed' if is_killed else ''}"] += 1
        everything.counts["counts under a lock" if script == LOCKS else "files of guests"] += ended.stdout.count(
            "one more"
        )
        if ended.returncode == MOUNT_FAILED:
            everything.counts["guests that could not mount"] += 1
        elif ended.returncode and not is_killed:
            last = (ended.stderr.strip() or "no error").splitlines()[-1]
            everything.fault(f"a guest by {version} ended with {ended.returncode}: {last}")


MOUNT_FAILED = 126
"""Mounting gives up on the first reset, so a guest that boots while the volume is down ends with it."""


# ---- the volume


def _command(everything: Crowd, *words: str) -> str:
    """Runs a command about the volume, and returns its output."""
    environment = runtime_environment(everything.directory)
    command = (str(IOCURVE), "volume", words[0], str(everything.volume.port), *words[1:])
    ended = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, timeout=TIMEOUT_SECONDS
    )
    if ended.returncode:
        raise RuntimeError(f"iocurve volume {' '.join(words)} ended with {ended.returncode}: {ended.stderr.strip()}")
    return ended.stdout


def _settings(everything: Crowd) -> None:
    random = everything.random("settings")
    while not everything.ended.wait(random.uniform(5, 20)):
        with everything.is_serving:
            _command(everything, "set", *random.choice(SETTINGS))
        everything.counts["settings changed"] += 1


def _kills(everything: Crowd) -> None:
    random = everything.random("kills")
    while not everything.ended.wait(random.uniform(100, 240)) and everything.is_in_first_half:
        with everything.is_serving:
            killed = time.monotonic()
            everything.volume.kill()
            time.sleep(random.uniform(0.5, 2))
            everything.volume.start()
            everything.starts += 1
            everything.down_seconds += time.monotonic() - killed
        everything.counts["kills of the volume"] += 1


def _sampler(everything: Crowd) -> None:
    printed = 0.0
    while not everything.ended.wait(SAMPLE_SECONDS):
        with everything.is_serving:
            with ControlClient(str(everything.directory / f"run/iocurve/{everything.volume.port}.sock")) as control:
                stats = control.stats()
            held = Held.by(everything.volume.pid)
        own = Held.by(os.getpid())
        seconds = time.monotonic() - everything.began
        sample = Sample(
            seconds=round(seconds, 1),
            starts=everything.starts,
            resident_mib=round(held.resident_mib, 2),
            descriptors=held.descriptors,
            threads=held.threads,
            connections=len(stats.connections),
            **stats.nfs4,
            own_resident_mib=round(own.resident_mib, 2),
            own_descriptors=own.descriptors,
        )
        everything.samples.append(sample)
        if seconds - printed >= everything.seconds / 12:
            printed = seconds
            print(f"  {sample}", flush=True)


def _clock(everything: Crowd) -> None:
    """Counts the time by which this thread, which only looks at the time, is late, or the volume's threads wait."""
    before, waited = time.monotonic(), 0.0
    while not everything.ended.wait(1):
        now, waits = time.monotonic(), _waited_seconds(everything.volume)
        everything.waited_seconds += max(now - before - 1, waits - waited)
        before, waited = now, waits


def _waited_seconds(volume: VolumeProcess) -> float:
    """Time for which the volume's threads have waited for a processor, all together; 0 while it is down."""
    waited_ns = 0
    with suppress(OSError, AssertionError):
        for task in (Path("/proc") / str(volume.pid) / "task").iterdir():
            with suppress(OSError):
                waited_ns += int((task / "schedstat").read_text().split()[1])
    return waited_ns / SECOND_NS


# ---- what must hold


def _counter(everything: Crowd) -> Iterator[str]:
    """Each count under a lock is in the file. A guest without power may have written one that it did not report."""
    reported = everything.counts["counts under a lock"]
    found = int((everything.volume.files / "counter").read_text() or 0)
    unreported = everything.counts["guests by 4.1 killed"]
    if not reported <= found <= reported + unreported:
        yield f"the counter is {found:,}, after {reported:,} counts under a lock"


def _flat(everything: Crowd) -> Iterator[str]:
    """Memory, descriptors, threads and state of the volume's last life, and memory of this process."""
    last = [sample for sample in everything.samples if sample.starts == everything.starts]
    if len(last) < 10:
        yield f"only {len(last)} samples of the volume's last start"
        return
    tenth = len(last) // 10
    early, late = last[tenth : 2 * tenth], last[-tenth:]
    changes = {name: (_mean(early, name), _mean(late, name)) for name in Sample.__annotations__}
    print(f"in the last {last[-1].seconds - last[0].seconds:,.0f} s: ", end="")
    print("; ".join(f"{name} {one:.1f} to {other:.1f}" for name, (one, other) in changes.items()), flush=True)
    clients = max(0.0, changes["clients"][1] - changes["clients"][0])
    allowed = RESIDENT_GROWTH_MAX_MIB + clients * CLIENT_STATE_BYTES / 2**20
    for name in ("resident_mib", "own_resident_mib"):
        if changes[name][1] - changes[name][0] > allowed:
            yield f"{name} grew from {changes[name][0]:.1f} to {changes[name][1]:.1f}"
    # A thread that answers a command is there for a moment, in some samples.
    half = len(last) // 2
    most, fewest = max(sample.threads for sample in last[:half]), min(sample.threads for sample in last[half:])
    if fewest > most:
        yield f"threads grew from at most {most} to at least {fewest}"
    for sample in last:
        if sample.descriptors > DESCRIPTORS_MAX + DESCRIPTORS_MAX_PER_CONNECTION * sample.connections:
            yield f"{sample.descriptors} descriptors with {sample.connections} connections"
            return


def _mean(samples: Sequence[Sample], name: str) -> float:
    return sum(float(getattr(sample, name)) for sample in samples) / len(samples)
