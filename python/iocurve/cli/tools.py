"""Commands that take other tools' words, and job files: run, explained, converted."""

from __future__ import annotations

from pathlib import Path

from cyclopts import App

from iocurve.cli.common import EXIT_MISTAKE, Words, app, status
from iocurve.dialects.diskspd.options import flag_lines
from iocurve.measure import jobs

FIO_HELP = """\
Usage: iocurve fio [fio's options] [job files]

Runs fio's job files and command lines as they are; fio's manual describes the options. On top of them there are
  --nconnect=N        connections of each job to its NFS server (ioengine=nfs)
  --nfs_url=URL       also nfs://host:port/export?nconnect=8, NFS and MOUNT on one port
  --disk=MOUNT=DISK   files below the directory MOUNT lie on an emulated disk, as in
                      --disk '/mnt/data=disk:premium-ssd-p30?stripe=3&vm=Standard_D8ds_v4&path=DIR' (iocurve disks)
  --nfs_timeout=TIME  give up when the server has not answered for so long (60 s)
  --out=DIR           result.json, report.html and points.csv go there

--output-format=normal,terse,json,json+ answers as fio does; --enghelp[=ENGINE] and --cmdhelp[=OPTION] say what runs.
What a job would do, and which traps are in it: iocurve explain fio ...
"""
VDBENCH_HELP = """\
Usage: iocurve vdbench -f file [file ...] [vdbench's options] [variable=value ...]

Runs vdbench's parameter files as they are; vdbench's guide describes them. Of its options there are
  -f FILE ...         parameter files
  -o DIR              folder for the reports (output); DIR+ counts on, DIR.tod adds the time
  -e, -i, -w TIME     instead of every elapsed=, interval=, warmup=
  -l [TIME]           all runs again, for a time or without end
  -v[r|w], -j[r|ro]   data validation: what is read is compared; journals let a later run verify what this one wrote
  -r RD               begin with this run definition
  -s                  only print which runs there would be
  -t                  a sample: five seconds on a small file
On top of them there are
  --map-host FROM=TO  play host FROM (a label, a system, or a pattern) as TO; hosts with one name become one
  --map-lun FROM=TO   use TO instead of the LUN, directory or pattern FROM; {sd} and {host} are filled in
  --size SIZE         instead of every size=, to try a file out
  --report DIR        result.json, report.html and points.csv go there
A lun may be nfs://host[:port]/export/file?nconnect=8.

What a parameter file would do, and which traps are in it: iocurve explain vdbench ...
"""
DISKSPD_HELP = """\
Usage: iocurve diskspd [flags] target [targets]

Runs DiskSpd's command lines and XML profiles as they are, and answers in its text or XML. A value follows its letter at
once; flags are case-sensitive and come before the targets. A target is a file, a block device, or nfs://host/export/file.

{flags}

On top of them there are
  --disk=MOUNT=DISK  files below the directory MOUNT lie on an emulated disk: see iocurve fio --help
  --out=DIR          result.json, report.html and points.csv go there

What a command line would do, and which traps are in it: iocurve explain diskspd ...
"""
CONVERT_HELP = """\
Usage: iocurve convert [-o FILE] fio|vdbench|diskspd [the tool's own options]

Writes the job as a TOML file that iocurve run takes; the plan stays the same. Without -o it goes to stdout."""


@app.command(help_flags=[], version_flags=[])
def fio(*arguments: Words) -> int:
    """Run fio job files and fio command lines as they are."""
    if arguments in (("--help",), ("-h",)):
        print(FIO_HELP)
        return 0
    result = jobs.run_fio(arguments)
    return 0 if result is None else status(result)


@app.command(help_flags=[], version_flags=[])
def vdbench(*arguments: Words) -> int:
    """Run vdbench parameter files and vdbench command lines as they are."""
    if arguments in (("--help",), ("-h",)):
        print(VDBENCH_HELP)
        return 0
    result = jobs.run_vdbench(arguments)
    return 0 if result is None else status(result)


@app.command(help_flags=[], version_flags=[])
def diskspd(*arguments: Words) -> int:
    """Run DiskSpd command lines and XML profiles as they are."""
    if not arguments or "-?" in arguments or arguments in (("--help",), ("/?",)):
        print(DISKSPD_HELP.format(flags="\n".join(flag_lines())), end="")
        return 0
    result = jobs.run_diskspd(arguments)
    return 0 if result is None else status(result)


@app.command(help_flags=[], version_flags=[])
def convert(*arguments: Words) -> int:
    """Write a fio, vdbench or DiskSpd job as a job file (TOML)."""
    words = list(arguments)
    path = None
    if words[:1] == ["-o"] and len(words) > 1:
        path, words = Path(words[1]), words[2:]
    if not words or words[0] not in jobs.CONVERTERS:
        print(CONVERT_HELP)
        return 0 if words in ([], ["--help"], ["-h"]) else EXIT_MISTAKE
    jobs.convert(words[0], words[1:], path)
    return 0


@app.command
def schema() -> int:
    """Print the JSON schema of job files, for editors."""
    from iocurve.dialects.native.schema import schema_text

    print(schema_text(), end="")
    return 0


explain = App(name="explain", help="Print what would run, and the traps in it, without running it.")
app.command(explain)


@explain.default
def explain_job(job: Path, /) -> int:
    """Explain a job file (TOML).

    Parameters
    ----------
    job
        The file; docs/jobs.md describes it.
    """
    print(jobs.explain_job(job), end="")
    return 0


@explain.command(name="fio", help_flags=[], version_flags=[])
def explain_fio(*arguments: Words) -> int:
    """Explain fio job files and fio command lines."""
    print(jobs.explain_fio(arguments))
    return 0


@explain.command(name="vdbench", help_flags=[], version_flags=[])
def explain_vdbench(*arguments: Words) -> int:
    """Explain vdbench parameter files and command lines."""
    print(jobs.explain_vdbench(arguments), end="")
    return 0


@explain.command(name="diskspd", help_flags=[], version_flags=[])
def explain_diskspd(*arguments: Words) -> int:
    """Explain DiskSpd command lines and XML profiles."""
    print(jobs.explain_diskspd(arguments))
    return 0
