"""The checks of the machine: size of the virtual machine, processors, interrupts, memory, other load."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from fractions import Fraction

from iocurve.advice.doctor.checks import MACHINE, Finding, Judgement, TunedSetting
from iocurve.advice.doctor.host import HostFiles
from iocurve.foundation.units import MIB, counted
from iocurve.machine.files import memory
from iocurve.machine.processes import ALL, STAT, ticks
from iocurve.result.caps import EGRESS, Cap, cap_value
from iocurve.targets.disk import VmSize, describe_vm, vms

MBIT = 10**6
CPU = "sys/devices/system/cpu"
IRQ_CPUS_MIN = 2
IRQS_MIN = 10_000
"""Fewer interrupts of a device tell nothing of their placement."""
IRQ_SHARE_MAX = 0.8


def find_vm(name: str) -> tuple[str, VmSize] | None:
    """A size by its name, with or without ``Standard_``; None if it is not in the list."""
    known = {each.lower(): each for each in vms()}
    found = known.get(name.lower()) or known.get(f"standard_{name.lower()}")
    return (found, vms()[found][1]) if found else None


def network_bytes_per_s(name: str | None) -> float | None:
    """Network bandwidth of a virtual machine of this size, in bytes/s; None if it is not known."""
    found = find_vm(name) if name else None
    mbit = found[1].network_mbit_per_s if found else None
    return mbit * MBIT / 8 if mbit else None


def check(host: HostFiles, vm: str | None, limits: Sequence[Cap], connections: int | None) -> Iterator[Finding]:
    """The checks of the machine; ``limits`` are those of the profile that the user gave.

    ``connections`` are the fewest of an NFS mount; None without one.
    """
    yield "machine.vm_size", MACHINE, _vm_size(vm, limits)
    yield "machine.governor", MACHINE, _governor(host)
    yield "machine.steal", MACHINE, _steal(host)
    yield "machine.interrupts", MACHINE, _interrupts(host)
    yield "machine.huge_pages", MACHINE, _huge_pages(host)
    yield "machine.bond", MACHINE, _bonds(host, connections)
    yield "machine.load", MACHINE, _load(host)


def _vm_size(name: str | None, limits: Sequence[Cap]) -> Judgement | str:
    if name is None:
        return "Azure's instance metadata was not reached; give --vm SIZE"
    known = find_vm(name)
    if known is None:
        fix = "add its figures from its vendor's page by hand; iocurve disk list has the known sizes"
        return Judgement("yellow", f"{name}: not in the list", fix=fix)
    size, network = known[0], network_bytes_per_s(known[0])
    text = f"{size}: {'; '.join(f'{label} {value}' for label, value, _ in describe_vm(size))}"
    volume = cap_value(tuple(limits), "throughput_bytes_per_s")
    egress = cap_value(tuple(limits), EGRESS)
    carried = min(filter(None, (network, egress)), default=None)
    if not volume or not carried or volume <= carried:
        return Judgement("green", text)
    text += f"; the volume carries {volume / MIB:,.0f} MiB/s, this machine sends {carried / MIB:,.0f}"
    clients = -(-Fraction(volume) // Fraction(int(carried)))
    fix = f"{counted(int(clients), 'client')} of this size, or a size with more network bandwidth"
    return Judgement("yellow", text, fix=fix, undo="the former size")


def _governor(host: HostFiles) -> Judgement | str:
    cpus = [name for name in host.names(CPU) if re.fullmatch(r"cpu\d+", name)]
    paths = [f"{CPU}/{name}/cpufreq/scaling_governor" for name in cpus]
    governors = {path: word for path in paths if (word := host.word(path))}
    if not governors:
        return "the processors' frequency is not controlled here, as in most guests"
    others = sorted(set(governors.values()) - {"performance"})
    first, now = next(iter(governors.items()))
    setting = TunedSetting(path=first, now=now, wanted="performance", load="rw=randread bs=4k")
    return Judgement(
        "yellow" if others else "green",
        ", ".join(others) or "performance",
        fix=f"cpupower frequency-set -g performance (or echo performance > /{CPU}/cpu*/cpufreq/scaling_governor)",
        undo=f"cpupower frequency-set -g {others[0] if others else now}",
        setting=setting if len(governors) == 1 else None,
    )


def _steal(host: HostFiles) -> Judgement | str:
    since_boot = ticks(host.text(STAT)).get(ALL, [])
    if not sum(since_boot):
        return "/proc/stat states no steal"
    share = since_boot[7] / sum(since_boot)
    return Judgement("green" if share < 0.01 else "yellow" if share < 0.05 else "red", f"{share:.2%} since boot")


def _interrupts(host: HostFiles) -> Judgement | str:
    lines = host.text("proc/interrupts").splitlines()
    cpus = len(lines[0].split()) if lines else 0
    if cpus < IRQ_CPUS_MIN:
        return "one CPU, or no /proc/interrupts"
    queues = _queues(lines[1:], cpus)
    crowded: list[str] = []
    spread: list[str] = []
    for device, rows in sorted(queues.items()):
        sums = [sum(column) for column in zip(*rows, strict=True)]
        if len(rows) > 1 and sum(sums) >= IRQS_MIN:
            share = max(sums) / sum(sums)
            text = f"{device}: {len(rows)} queues, {share:.0%} on CPU {sums.index(max(sums))}"
            (crowded if share > IRQ_SHARE_MAX else spread).append(text)
    if not crowded and not spread:
        return "no device with several queues has had enough interrupts"
    return Judgement("yellow" if crowded else "green", "; ".join(crowded or spread))


def _queues(lines: Sequence[str], cpus: int) -> dict[str, list[list[int]]]:
    """Interrupts of each queue by CPU, for network cards and disks, by device."""
    queues: dict[str, list[list[int]]] = {}
    for line in lines:
        words = line.split()
        counts = words[1 : cpus + 1]
        if len(counts) < cpus or not all(word.isdigit() for word in counts):
            continue
        match = re.search(r"(virtio\d+|mlx\d+|mana|nvme\d+|eth\d+|ens\w+|eno\w+)", words[-1])
        # Vectors of configuration and of errors carry no data.
        if match and "config" not in words[-1] and any(map(int, counts)):
            queues.setdefault(match[1], []).append([int(word) for word in counts])
    return queues


def _huge_pages(host: HostFiles) -> Judgement | str:
    directory = "sys/kernel/mm/transparent_hugepage"
    enabled, defrag = (_chosen(host.word(f"{directory}/{name}")) for name in ("enabled", "defrag"))
    found = memory(host.text("proc/meminfo"))
    reserved = found.get("HugePages_Total", 0) * found.get("Hugepagesize", 0)
    share = reserved / found["MemTotal"] if found.get("MemTotal") else 0.0
    if not enabled and not found:
        return "neither /proc/meminfo nor transparent_hugepage is there"
    compacts = defrag == "always" and enabled == "always"
    fixes = [f"echo madvise > /{directory}/defrag"] if compacts else []
    fixes += ["sysctl -w vm.nr_hugepages=N for what the application uses"] if share > 0.5 else []
    return Judgement(
        "yellow" if fixes else "green",
        f"transparent: {enabled or 'none'}, defrag {defrag or 'none'}; reserved: {share:.0%} of memory",
        fix="; ".join(fixes),
        undo=f"echo {defrag} > /{directory}/defrag; sysctl -w vm.nr_hugepages={found.get('HugePages_Total', 0)}",
    )


def _chosen(text: str) -> str:
    return next((word.strip("[]") for word in text.split() if word.startswith("[")), "")


BONDS = "proc/net/bonding"


def _bonds(host: HostFiles, connections: int | None) -> Judgement | str:
    found = [_bond(name, host.text(f"{BONDS}/{name}"), connections) for name in host.names(BONDS)]
    if not found:
        return "no bonded network interface"
    return Judgement(
        "green" if all(is_good for is_good, _ in found) else "yellow", "; ".join(text for _, text in found)
    )


def _bond(name: str, text: str, connections: int | None) -> tuple[bool, str]:
    """False where the traffic of an NFS mount may use one member of several."""
    mode, policy = (
        found[1] if (found := re.search(rf"^{label}: (\S+)", text, re.MULTILINE)) else ""
        for label in ("Bonding Mode", "Transmit Hash Policy")
    )
    speeds = [int(speed) for speed in re.findall(r"^Speed: (\d+) Mbps", text, re.MULTILINE)]
    members = text.count("Slave Interface:")
    is_one = "active-backup" in text or members < 2
    one = f", one connection has {max(speeds):,} Mbit/s of {sum(speeds):,}" if speeds and not is_one else ""
    shown = f"{name}: {counted(members, 'member')}, {policy or mode or 'mode not stated'}{one}"
    spreads = policy.endswith("3+4") or (not policy and "round-robin" in text)
    return is_one or (spreads and connections != 1), shown


def _load(host: HostFiles) -> Judgement | str:
    words, cpus = host.text("proc/loadavg").split(), host.cpus
    if len(words) < 3 or not cpus:
        return "/proc/loadavg is not there"
    load = float(words[0])
    return Judgement(
        "green" if load / cpus < 0.7 else "yellow" if load / cpus < 1.5 else "red",
        f"{load:g} tasks (1 min) on {counted(cpus, 'CPU')}",
    )
