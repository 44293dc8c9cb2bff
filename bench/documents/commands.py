"""The commands, each with a name, and the files that they read."""

from __future__ import annotations

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


def fio_c(kind: str, block: str) -> list[str]:
    """A command line of document C."""
    load = [f"--bs={block}", "--iodepth=64", "--filesize=4G", f"--rw={kind}", "--group_reporting", "--ramp_time=300"]
    return ["explain", "fio", *FIO_C, *load]


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


COMMANDS: dict[str, list[str]] = {
    **{name: ["run", name, "--quick", "--out", "report"] for name in SCENARIOS},
    "max-1ms": ["max", NEAR, "--p50", "10ms", "--workload", LOAD, "--search-time", "60s", "--out", "report"],
    "curve": ["curve", NEAR, "--steps", "5", "--workload", LOAD, "--out", "report"],
    **{f"vdbench-{pattern}": ["explain", "vdbench", "-f", "workload"] for pattern in PATTERNS},
    **{
        f"fio-{kind}-{block}": fio_c(kind, block)
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
    "doctor": ["doctor", "--from", "{root}/tests/hosts/captured-nfs41-four.json"],
    "doctor-shared": ["doctor", "--from", "{root}/tests/hosts/captured-nfs3-shared-four.json"],
}
FILES = {f"vdbench-{pattern}": vdbench_files(pattern) for pattern in PATTERNS}
"""By command: the files that it reads, in its directory."""
