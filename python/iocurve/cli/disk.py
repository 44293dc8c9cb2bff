"""Commands of emulated disks."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from iocurve.cli.common import JsonFlag, example, records, show, show_json
from iocurve.foundation.errors import DialectError, unknown
from iocurve.foundation.units import format_bytes
from iocurve.report.table import Table
from iocurve.targets import disk as disks

app = App(name="disk", help="List and show the disks that can be emulated; restart the virtual machine of one.")


def _names() -> list[str]:
    return [*disks.disk_names(), *disks.vms()]


@app.command(name="list", help_epilogue=example("iocurve disk list"))
def list_disks(*, json: JsonFlag = False) -> int:
    """List the disks that can be emulated, and the virtual machines that they can be attached to.

    A target is disk:NAME?path=DIR, with any of stripe=3, cache=none|read-only|read-write, vm=NAME, latency=1ms,
    burst=TIME and vm-burst=TIME (how long full credits last; default: the disk's published time, none for the virtual
    machine). A disk with a free choice of size, iops or throughput takes these as well."""
    disks_listed = [(name, _joined(disks.describe_disk(name)[:-1])) for name in disks.disk_names()]
    vms = [(f"vm={name}", _joined(disks.describe_vm(name), labelled=True)) for name in disks.vms()]
    if json:
        show_json([_described(name) for name in _names()])
    else:
        show(Table(("name", "figures"), [*disks_listed, *vms], sentences=["figures"], has_header=False))
    return 0


@app.command(name="show", help_epilogue=example("iocurve disk show premium-ssd-p30"))
def show_disk(name: Annotated[str, Parameter(completer=lambda _: _names())], /, *, json: JsonFlag = False) -> int:
    """Print the values of a disk or a virtual machine, each with its source.

    Parameters
    ----------
    name
        A disk or a virtual machine (iocurve disk list).
    """
    if name not in _names():
        raise DialectError([unknown("disk or virtual machine", name, _names(), "iocurve disk list")])
    if json:
        show_json(_described(name))
    else:
        page = "page of learn.microsoft.com"
        show(Table(("figure", "value", page), _figures(name), sentences=["value", page]))
    return 0


@app.command(name="restart", help_epilogue=example("iocurve disk restart /mnt/data"))
def restart_disk(directory: Path, /, *, json: JsonFlag = False) -> int:
    """Empty the host cache of an emulated disk, as a restart of its virtual machine does. Data and burst credits stay.

    Parameters
    ----------
    directory
        The path= of the disk.
    """
    dropped_bytes = disks.restart(directory)
    if json:
        show_json({"directory": str(directory), "dropped_bytes": dropped_bytes})
    else:
        print(f"{directory}: dropped {format_bytes(dropped_bytes)} from the host cache")
    return 0


def _joined(figures: list[tuple[str, str, str]], *, labelled: bool = False) -> str:
    return "; ".join(f"{label} {text}" if labelled else text for label, text, _ in figures)


def _figures(name: str) -> list[tuple[str, str, str]]:
    return disks.describe_vm(name) if name in disks.vms() else disks.describe_disk(name)


def _described(name: str) -> dict[str, object]:
    kind = "virtual machine" if name in disks.vms() else "disk"
    return {"name": name, "kind": kind, "figures": records(("figure", "value", "source"), _figures(name))}
