"""The commands, each with a name, and the files that they read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

SCENARIOS = (
    "anf-regular-iops",
    "anf-regular-throughput",
    "anf-nconnect",
    "anf-vdbench",
    "azure-files-nconnect",
    "azure-files-clients",
    "anf-large-scale-out",
    "anf-large-scale-up",
    "azure-disk",
)
NEAR = "volume:anf-premium?quota=70.31TiB&latency=300us&speed=0.1&nconnect=8"
"""The volume of document B, near its clients."""
LOAD = "rw=randread bs=8k"
VDBENCH_HOSTS, VDBENCH_VOLUMES = 24, 6
FILL_RUN = "iorate=max,interval=1,forthreads=1,elapsed=259200"
PATTERNS = {
    "FillWrite": (
        "rdpct=0,seekpct=eof,xfersize=64k",
        {"Initialize-LUNs-Full": FILL_RUN},
    ),
    "SeqRead": ("rdpct=100,seekpct=0,xfersize=64k", {"SeqRead-4": "threads=20"}),
    "SeqWrite": ("rdpct=0,seekpct=0,xfersize=64k", {f"SeqWrite-{count}": f"threads={count}" for count in (26, 32, 40)}),
    "RndRead": ("rdpct=100,seekpct=100,xfersize=8k", {"RndRead": "threads=25"}),
    "RndWrite": ("rdpct=0,seekpct=100,xfersize=8k", {"RndWrite": "threads=20"}),
    "SeqMix": ("rdpct=50,seekpct=0,xfersize=64k", {f"SeqMix-{count}": f"threads={count}" for count in (6, 7)}),
    "RndMix": ("rdpct=50,seekpct=100,xfersize=8k", {"RndMix": "threads=25"}),
}
"""The patterns of the script of document B: the workload, and its runs."""
FIO_C = ["--ioengine=libaio", "--direct=1", "--nrfiles=4", "--numjobs=1", "--runtime=1800", "--time_based"]
DISKSPD_WRITES = "-c200G -w100 -b8K -F4 -r -o128 -W30 -d30 -Sh testfile.dat"
DISKSPD_READS = "-c200G -b4K -F4 -r -o128 -W7200 -d30 -Sh testfile.dat"
LEVELS = "ultra", "premium", "standard"
LARGE = "volume:anf-large-ultra?quota=100TiB"
SCALED = f"{LARGE}&latency=500us&speed=0.05"
CLIENT_HOST = """sd=default,size=4m
sd=sd-1,lun=/mnt/vdb1/file-1
sd=sd-2,lun=/mnt/vdb2/file-2
sd=sd-3,lun=/mnt/vdb3/file-3
sd=sd-4,lun=/mnt/vdb4/file-4
sd=sd-5,lun=/mnt/vdb5/file-5
sd=sd-6,lun=/mnt/vdb6/file-6
wd=RndRead,sd=sd*,rdpct=100,seekpct=100,xfersize=8k
rd=RndRead,wd=RndRead,sd=("sd*"),threads=25,warmup=1,elapsed=3,iorate=max
"""
"""One of the 24 hosts of the script of document B, with its six files."""


def fio_c(kind: str, block: str) -> list[str]:
    """A command line of document C."""
    load = [f"--bs={block}", "--iodepth=64", "--filesize=4G", f"--rw={kind}", "--group_reporting", "--ramp_time=300"]
    return ["fio", *FIO_C, *load]


def fio_c_small(kind: str, block: str) -> list[str]:
    """The same command line over one connection and over four to an emulated share, with small files."""
    size = "16m" if block == "1024k" else "4m"
    small = [f"--filesize={size}", "--runtime=1", "--ramp_time=0", "--ioengine=nfs"]
    lines = [
        " ".join([*fio_c(kind, block), *small, f"--nfs_url={{url}}?vers=4.1&nconnect={count}"]) for count in (1, 4)
    ]
    return ["ab", *lines, "--runs", "3", "--retries", "0", "--out", "report"]


def small(line: str) -> list[str]:
    """A command line of DiskSpd with a small file on a served volume, for three seconds."""
    words = {"-c200G": "-c8M", "-W30": "-W1", "-W7200": "-W1", "-d30": "-d3", "testfile.dat": "{url}/testfile.dat"}
    return ["diskspd", *(words.get(word, word) for word in line.split())]


def vdbench_files(pattern: str) -> dict[str, str]:
    """The files that the script of document B writes for a pattern."""
    machines, volumes = range(1, VDBENCH_HOSTS + 1), range(1, VDBENCH_VOLUMES + 1)
    hosts = ["hd=default,jvms=1,shell=ssh", *(f"hd=vm{vm},system=vdbench-vnet1-{vm},user=root" for vm in machines)]
    luns = [
        f"sd=sd-{vm}-{one},host=vm{vm},lun=/mnt/vdb{one}/file-{vm}-{one},openflags=o_direct"
        for vm in machines
        for one in volumes
    ]
    load, runs = PATTERNS[pattern]
    lines = ["include=vnet1-hosts-nfs", "include=vnet1-luns-nfs", f"wd={pattern},sd=sd*,{load}", "* Run Defaults"]
    if pattern != "FillWrite":
        lines += ["rd=default,warmup=60,elapsed=600,iorate=max", "* Run Definitions"]
    lines += [f'rd={name},wd={pattern},sd=("sd*"),{more}' for name, more in runs.items()]
    texts = {"vnet1-hosts-nfs": hosts, "vnet1-luns-nfs": ["sd=default,size=693g", *luns], "workload": lines}
    return {name: "\n".join(text) + "\n" for name, text in texts.items()}


HOSTS = {
    "doctor-case-1": "composed-scenario-1",
    "doctor-case-3": "composed-scenario-3",
    "doctor-old-kernel": "composed-old-kernel",
    "doctor-windows": "composed-lossy",
}
"""By command: the machine of tests/hosts that doctor looks at."""
BUSY_HOST = Path("tests/hosts/composed-scenario-1.json").read_text(encoding="utf-8").replace("16 100 900", "32 100 900")
"""A machine of which each of four connections has had 32 requests in flight."""

COMMANDS: dict[str, list[str]] = {
    **{name: ["run", name, "--quick", "--out", "report"] for name in SCENARIOS},
    "max-1ms": ["max", NEAR, "--p50", "10ms", "--workload", LOAD, "--search-time", "60s", "--out", "report"],
    "curve": ["curve", NEAR, "--steps", "5", "--workload", LOAD, "--out", "report"],
    **{f"vdbench-{pattern}": ["explain", "vdbench", "-f", "workload"] for pattern in PATTERNS},
    **{
        f"fio-{kind}-{block}{form}": ["explain", *fio_c(kind, block)] if not form else fio_c_small(kind, block)
        for form in ("", "-small")
        for kind in ("randread", "randwrite")
        for block in ("4k", "8k", "64k", "1024k")
    },
    **{
        f"fio-{name}": ["explain", "fio", "--runtime", "30", f"{{root}}/tests/golden/fio/{name}.ini"]
        for name in ("fiowrite", "fioread", "fioreadwrite")
    },
    "diskspd-writes": ["explain", "diskspd", *DISKSPD_WRITES.split()],
    "diskspd-reads": ["explain", "diskspd", *DISKSPD_READS.split()],
    "size-premium": ["size", "--have", "premium:70.31TiB"],
    "size-littles-law": ["size", "--iops", "5000", "--latency", "1.3ms", "--bs", "8k"],
    **{
        f"size-large-{level}": ["size", "--have", f"large-{level}:100TiB"] for level in ("ultra", "premium", "standard")
    },
    "rsize": [
        *("ab", "--target", f"{SCALED}&nconnect=8&rsize=65536", "--target", f"{SCALED}&nconnect=8&rsize=262144"),
        *("--workload", "rw=read bs=256k", "--iodepth", "64", "--size", "64MiB", "--runtime", "1s"),
        *("--runs", "5", "--retries", "0", "--out", "report"),
    ],
    "wsize": [
        *("ab", "--target", f"{SCALED}&nconnect=8&wsize=65536", "--target", f"{SCALED}&nconnect=8&wsize=262144"),
        *("--workload", "rw=write bs=256k", "--iodepth", "64", "--size", "64MiB", "--runtime", "1s"),
        *("--runs", "5", "--retries", "0", "--out", "report"),
    ],
    **{name: ["run", name, "--quick", "--target", LARGE, "--out", "report"] for name in ("vcs", "eda")},
    "vdbench-24-clients": [
        *("convert", "-o", "job.toml", "vdbench", "-f", "one-host", "--map-lun", "/mnt/vdb*={url}/{sd}", "&&"),
        *("run", "job.toml", "--clients", "24", "--out", "report"),
    ],
    "diskspd-writes-small": small(DISKSPD_WRITES),
    "diskspd-reads-small": small(DISKSPD_READS),
    "doctor": ["doctor", "--from", "{root}/tests/hosts/captured-nfs41-four.json"],
    "doctor-shared": ["doctor", "--from", "{root}/tests/hosts/captured-nfs3-shared-four.json"],
    **{name: ["doctor", "--from", f"{{root}}/tests/hosts/{host}.json"] for name, host in HOSTS.items()},
    "doctor-depth": ["doctor", "--from", "host.json"],
}
FILES = {f"vdbench-{pattern}": vdbench_files(pattern) for pattern in PATTERNS} | {
    "vdbench-24-clients": {"one-host": CLIENT_HOST},
    "doctor-depth": {"host.json": BUSY_HOST},
}
"""By command: the files that it reads, in its directory."""
SHARE = ("azure-files-v1", "30TiB", {"speed": "0.1"})
SERVED: dict[str, tuple[str, str, dict[str, Any]]] = {
    **{name: SHARE for name in COMMANDS if name.startswith("fio-rand") and name.endswith("-small")},
    "vdbench-24-clients": ("anf-premium", "70.31TiB", {"speed": "0.02"}),
    "diskspd-writes-small": ("unlimited", "1TiB", {"iops": 12_800, "speed": "0.1"}),
    "diskspd-reads-small": ("unlimited", "1TiB", {"iops": 77_000, "speed": "0.1"}),
}
"""By command: the profile, the quota and the other settings of the volume that runs for it; ``{url}`` is its URL."""
