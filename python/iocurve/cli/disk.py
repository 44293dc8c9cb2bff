"""Commands of emulated disks."""

from __future__ import annotations

from pathlib import Path

from cyclopts import App
from rich.console import Console
from rich.table import Table

from iocurve.errors import TargetError
from iocurve.targets import disk as disks
from iocurve.targets import disk_data
from iocurve.units import format_bytes

app = App(name="disk", help="List and show disks that can be emulated; restart the virtual machine of one.")


@app.command(name="list")
def list_disks() -> int:
    """List the disks that can be emulated, and the virtual machines that they can be attached to.

    A target is disk:NAME?path=DIR, with any of stripe=3, cache=none|read-only|read-write, vm=NAME, latency=1ms,
    burst=TIME and vm-burst=TIME (how long full credits last: the disk's as published and the machine's none unless
    said); where size, iops and throughput are free, with these.
    """
    table = Table(box=None, pad_edge=False, show_header=False)
    for name in disk_data.disk_names():
        table.add_row(name, "; ".join(text for _, text, _ in disk_data.describe_disk(name)[:-1]))
    for name in disk_data.vms():
        table.add_row(f"vm={name}", "; ".join(f"{label} {text}" for label, text, _ in disk_data.describe_vm(name)))
    Console().print(table)
    return 0


@app.command(name="show")
def show_disk(name: str, /) -> int:
    """Print the figures of a disk or a virtual machine, each with the page it was published on.

    Parameters
    ----------
    name
        One of iocurve disk list.
    """
    is_vm = name in disk_data.vms()
    if not is_vm and name not in disk_data.disk_names():
        raise TargetError(f"there is no disk and no virtual machine '{name}'; iocurve disk list lists them")
    table = Table(box=None, pad_edge=False)
    for column in ("figure", "value", "page of learn.microsoft.com"):
        table.add_column(column, overflow="fold")
    for row in disk_data.describe_vm(name) if is_vm else disk_data.describe_disk(name):
        table.add_row(*row)
    Console().print(table)
    return 0


@app.command(name="restart")
def restart_disk(directory: Path, /) -> int:
    """Empty the host cache of an emulated disk, as a restart of its virtual machine does. Data and burst credits stay.

    Parameters
    ----------
    directory
        The path= of the disk.
    """
    lost = disks.restart(directory)
    print(f"{directory}: {format_bytes(lost)} were cached, and are no longer")
    return 0
