"""The parameter files of a published test with vdbench, on 24 machines with six volumes each."""

from pathlib import Path

SEED_HOSTS = 24
SEED_VOLUMES = 6
SEED_RUN = 'rd=RndRead,wd=RndRead,sd=("sd*"),threads=25'


def seed_files(directory: Path, vms: int = SEED_HOSTS, volumes: int = SEED_VOLUMES) -> Path:
    """The parameter file that the script of the published test writes, with its includes."""
    hosts = ["hd=default,jvms=1,shell=ssh"]
    hosts += [f"hd=vm{vm},system=vdbench-vnet1-{vm},user=root" for vm in range(1, vms + 1)]
    (directory / "vnet1-hosts-nfs").write_text("\n".join(hosts) + "\n", encoding="utf-8")
    luns = ["sd=default,size=693g"]
    luns += [
        f"sd=sd-{vm}-{vol},host=vm{vm},lun=/mnt/vdb{vol}/file-{vm}-{vol},openflags=o_direct"
        for vm in range(1, vms + 1)
        for vol in range(1, volumes + 1)
    ]
    (directory / "vnet1-luns-nfs").write_text("\n".join(luns) + "\n", encoding="utf-8")
    text = "include=vnet1-hosts-nfs\ninclude=vnet1-luns-nfs\n"
    text += "wd=RndRead,sd=sd*,rdpct=100,seekpct=100,xfersize=8k\n* Run Defaults\n"
    text += f"rd=default,warmup=60,elapsed=600,iorate=max\n{SEED_RUN}\n"
    (directory / "vnet1-RndRead-workload").write_text(text, encoding="utf-8")
    return directory / "vnet1-RndRead-workload"
