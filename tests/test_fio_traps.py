"""Traps of fio's language: fio 3.33 and the plan take the same text for the same jobs, groups and amounts."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from iocurve.dialects.fio.command import read_command
from iocurve.dialects.fio.invocation import FioCommand
from iocurve.engine.derived import block_bytes_min
from iocurve.engine.plan import Worker
from iocurve.foundation.errors import DialectError, PlanError

pytestmark = [pytest.mark.slow, pytest.mark.skipif(shutil.which("fio") is None, reason="needs Debian's fio")]

NULL = "ioengine=null\n"


@dataclass(frozen=True)
class Case:
    """Job files by name, and the arguments; without arguments the file is job.fio."""

    files: dict[str, str]
    arguments: str = "job.fio"
    environment: dict[str, str] = field(default_factory=dict)


def job(text: str, arguments: str = "job.fio", **environment: str) -> Case:
    return Case({"job.fio": text}, arguments, environment)


CASES = {
    "a second global holds from there on": job(f"[global]\n{NULL}size=64k\n[a]\n[global]\nsize=128k\n[b]\n"),
    "options before the file are globals": job(f"[a]\n{NULL}\n[b]\n{NULL}size=8k\n", "--size=64k job.fio"),
    "options behind the file are globals too": job(f"[a]\n{NULL}\n[b]\n{NULL}size=8k\n", "job.fio --size=64k"),
    "a word and its value apart": job("", "--name a --size 64k --ioengine null"),
    "one hyphen": job("", "-name=a -size=64k -ioengine=null -bs=8k"),
    "cut short": job("", "--name=a --size=64k --ioengine=null --ioeng=null --number_i=4"),
    "comments behind": job(f"[a] ; x\n{NULL}size=64k ; x\nbs=8k # y\n# z\n; size=1m\n"),
    "bare words": job(f"[a]\n{NULL}size=64k\ntime_based=0\ngroup_reporting\nnumjobs=2\n[b]\n{NULL}size=64k\n"),
    "last word": job(f"[a]\n{NULL}size=64k\nsize=8k\n"),
    "variables": job(f"[a]\n{NULL}size=${{SIZE}}\nbs=${{N}}k\n", SIZE="64k", N="8"),
    "keywords": job(f"[a]\n{NULL}size=10*$pagesize\nbs=$pagesize\n"),
    "no arithmetic": job(f"[a]\n{NULL}size=8192*9\n"),
    "kib is 1000": job(f"[a]\n{NULL}size=64kib\nbs=1000\n[b]\n{NULL}size=64ki\n"),
    "base 1000": job(f"[a]\n{NULL}size=64k\nbs=1k\nkb_base=1000\n[b]\n{NULL}kb_base=1000\nsize=64kib\n"),
    "hexadecimal": job(f"[a]\n{NULL}size=0x10000\n"),
    "each job has its own size": job(f"[a]\n{NULL}size=64k\nnumjobs=3\n"),
    "jobs are reported as one": job(f"[a]\n{NULL}size=64k\nnumjobs=3\ngroup_reporting\n[b]\n{NULL}size=8k\n"),
    "stonewall begins a group": job(f"[a]\n{NULL}size=64k\n[b]\n{NULL}size=8k\nstonewall\n[c]\n{NULL}size=16k\n"),
    "new_group begins a group": job(f"[a]\n{NULL}size=64k\n[b]\n{NULL}size=8k\nnew_group\n[c]\n{NULL}size=16k\n"),
    "groups end the merging": job(
        f"[global]\n{NULL}size=64k\ngroup_reporting\nnumjobs=2\n[a]\n[b]\n[c]\nnew_group\n[d]\nstonewall\n[e]\n"
    ),
    "waits": job(f"[a]\n{NULL}size=64k\n[b]\n{NULL}size=8k\nwait_for=a\n"),
    "includes": Case({"job.fio": f"[a]\n{NULL}include more.inc\nbs=8k\n", "more.inc": "size=64k\n"}),
    "several files": Case(
        {"one.fio": f"[global]\n{NULL}bs=8k\n[a]\nsize=64k\n", "two.fio": f"[b]\n{NULL}size=64k\n"}, "one.fio two.fio"
    ),
    "several files and options": Case(
        {"one.fio": f"[a]\n{NULL}\n", "two.fio": f"[b]\n{NULL}size=64k\n"}, "--size=16k --bs=8k one.fio two.fio"
    ),
    "one section": job(f"[global]\n{NULL}size=64k\n[a]\n[b]\nsize=8k\n", "--section=b job.fio"),
    "a name as an option": job(f"[a]\n{NULL}size=64k\nname=other\n"),
    "size is divided": job(f"[a]\n{NULL}size=64k\nnrfiles=4\n"),
    "filesize adds up": job(f"[a]\n{NULL}filesize=64k\nnrfiles=4\n"),
    "a range goes before bs": job(f"[a]\n{NULL}size=64k\nbsrange=16k-16k\nbs=8k\n"),
    "a split goes before bs": job(f"[a]\n{NULL}size=64k\nbssplit=16k/100\nbs=8k\n"),
    "the later of split and range": job(f"[a]\n{NULL}size=64k\nbssplit=16k/100\nbsrange=8k-8k\n"),
    "zones do not shorten": job(f"[a]\n{NULL}size=1m\nzonemode=strided\nzonesize=64k\nzoneskip=192k\n"),
    "trims and writes count both": job(f"[a]\n{NULL}size=64k\nrw=trimwrite\n"),
    "random trims and writes": job(f"[a]\n{NULL}size=64k\nrw=randtrimwrite\n"),
    "pairs are counted": job(f"[a]\n{NULL}size=1m\nrw=trimwrite\nnumber_ios=10\n"),
    "trims alone": job(f"[a]\n{NULL}size=64k\nrw=trim\nbs=4k,4k,16k\n"),
    "runs at random places": job(f"[a]\n{NULL}size=64k\nrw=randread:4\n"),
    "steps": job(f"[a]\n{NULL}size=64k\nrw=read:4k\n"),
    "steps that lead to the end": job(f"[a]\n{NULL}size=1m\nrw=read:1k\n"),
    "steps to the end, twice": job(f"[a]\n{NULL}size=1m\nrw=write:1k\nloops=2\n"),
    "backwards": job(f"[a]\n{NULL}size=64k\nrw=write:-8k\n"),
    "distributions": job(f"[a]\n{NULL}size=64k\nrw=randread\nrandom_distribution=zipf:1.2\n"),
    "a share of random places": job(f"[a]\n{NULL}size=64k\nrw=randread\npercentage_random=50\n"),
    "batches": job(f"[a]\n{NULL}size=64k\niodepth=8\niodepth_batch=4\niodepth_batch_complete=2\niodepth_low=2\n"),
    "more than size": job(f"[a]\n{NULL}size=64k\nio_size=160k\n"),
    "counted loops": job(f"[a]\n{NULL}size=64k\nloops=3\n"),
}


def prepared(case: Case, directory: Path) -> FioCommand:
    for name, text in case.files.items():
        (directory / name).write_text(text, encoding="utf-8")
    return read_command(case.arguments.split(), cwd=directory, environment=case.environment)


def amount(worker: Worker) -> tuple[int, int]:
    """Operations and bytes of a worker whose blocks have one size."""
    block = block_bytes_min(worker.operations[0].blocks)
    ends = [worker.end.bytes // block] if worker.end.bytes else []
    ends += [worker.end.operations] if worker.end.operations else []
    return min(ends), min(ends) * block


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_fio_and_the_plan_have_the_same_jobs(case: Case, tmp_path: Path) -> None:
    result = prepared(case, tmp_path)
    workers = [worker for group in result.plan.groups for worker in group.workers]
    said = []
    for number, group in enumerate(result.report_groups):
        amounts = [amount(worker) for worker in workers if worker.report_group == number]
        name = result.sections[group.section].name
        said.append((name, group.number, sum(count for count, _ in amounts), sum(size for _, size in amounts)))
    assert said == [
        (entry["jobname"], entry["groupid"], total(entry, "total_ios"), total(entry, "io_bytes"))
        for entry in run_fio(case, tmp_path)["jobs"]
    ]


SHOWN = {
    "plain": job(f"[global]\n{NULL}[a]\nsize=64k\nblocksize=8k\n[b]\nsize=8k ; x\ndescription=two words\n"),
    "variables": job(f"[a]\n{NULL}size=${{SIZE}}\nbs=2*$pagesize\ngroup_reporting\n", SIZE="64k"),
    "included": Case({"job.fio": f"[a]\n{NULL}include more.inc\n", "more.inc": "size=64k\n"}),
}


@pytest.mark.parametrize("case", SHOWN.values(), ids=SHOWN.keys())
def test_showcmd_shows_what_fio_shows(case: Case, tmp_path: Path) -> None:
    showing = Case(case.files, f"--showcmd {case.arguments}", case.environment)
    lines = prepared(showing, tmp_path).command_lines
    assert "".join(f"{line}\n" for line in lines) == called(showing, tmp_path).stdout


REFUSED = {
    "itself": job(f"[a]\n{NULL}size=64k\nwait_for=a\n"),
    "an unknown job": job(f"[a]\n{NULL}size=64k\nwait_for=b\n"),
    "one that comes later": job(f"[a]\n{NULL}size=64k\nwait_for=b\n[b]\n{NULL}size=64k\n"),
    "zones without a mode": job(f"[a]\n{NULL}size=64k\nzonesize=64k\n"),
    "a mode without zones": job(f"[a]\n{NULL}size=64k\nzonemode=strided\n"),
    "theta 1": job(f"[a]\n{NULL}size=64k\nrandom_distribution=zipf:1\n"),
    "shares that miss 100": job(f"[a]\n{NULL}size=64k\nrandom_distribution=zoned:50/50:40/50\n"),
    "a criterion without a limit": job(f"[a]\n{NULL}size=64k\nsteadystate=iops\n"),
    "an offset in a buffer's pattern": job(f"[a]\n{NULL}size=64k\nbuffer_pattern=%o\n"),
    "a pattern that is none": job(f"[a]\n{NULL}size=64k\nverify_pattern=abc\n"),
    "a small interval": job(f"[a]\n{NULL}size=64k\nverify=md5\nverify_interval=10\n"),
    "cut short in a file": job(f"[a]\n{NULL}size=64k\niodept=4\n"),
    "rate twice": job(f"[a]\n{NULL}size=64k\nrate=1m\nrate_iops=10\n"),
    "only globals": job(f"[global]\n{NULL}size=64k\n"),
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED.keys())
def test_both_refuse(case: Case, tmp_path: Path) -> None:
    with pytest.raises((DialectError, PlanError)):
        prepared(case, tmp_path)
    assert called(case, tmp_path).returncode != 0


def total(entry: dict[str, Any], figure: str) -> int:
    return int(sum(entry[kind][figure] for kind in ("read", "write", "trim")))


def run_fio(case: Case, directory: Path) -> dict[str, Any]:
    done = called(case, directory, "--output-format=json")
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout[done.stdout.index("{") :])
    return document


def called(case: Case, directory: Path, *more: str) -> subprocess.CompletedProcess[str]:
    command = ["fio", *case.arguments.split(), *more]
    environment = os.environ | case.environment
    return subprocess.run(
        command, cwd=directory, env=environment, capture_output=True, text=True, check=False, timeout=60
    )
