"""Data validation and journals of vdbench: options, and faults found on real files."""

import re
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from goldens import cases, data, matches, present
from iocurve.dialects.vdbench.parameter_file import ParameterFile
from iocurve.engine.derived import block_bytes_max
from iocurve.engine.plan import Verify, VerifyMap
from iocurve.foundation.errors import DialectError
from programs import iocurve, started, stopped
from vdbench_runs import read_text, report

pytestmark = pytest.mark.slow

SD = "sd=sd1,lun=/d/a,size=1g\n"
REST = "wd=wd1,sd=sd1,xf=8k,rdpct=0\nrd=rd1,wd=wd1,io=max,el=4,in=1\n"


def planned(made: ParameterFile) -> list[Verify | None]:
    return [worker.verify for worker in made.resolve(made.runs[0]).resolution.plan.groups[0].workers]


def around(made: ParameterFile) -> tuple[bool, bool] | None:
    (verify,) = planned(made)
    return (verify.map.before_write, verify.map.after_write) if verify and verify.map else None


@cases("vdbench/read_around")
def test_what_is_read_around_a_write(
    tmp_path: Path, general: str, option: list[str], expected: list[bool] | None
) -> None:
    found = around(read_text(tmp_path, general + SD + REST, *option))
    assert (list(found) if found else None) == expected


def test_a_block_is_what_divides_all_transfers_and_each_sd_has_a_map(tmp_path: Path) -> None:
    text = (
        "sd=sd1,lun=/d/a,size=1g\nsd=sd2,lun=/d/b,size=1g,journal=/j\nwd=wd1,sd=*,xf=(4k,50,12k,50)\n"
        "rd=rd1,wd=wd1,io=max,el=4,in=1,forx=(8k,64k)\n"
    )
    made = read_text(tmp_path, text, "-j")
    verifies = [verify for verify in planned(made) if verify]
    assert [verify.interval_bytes for verify in verifies] == [4096, 4096]
    paths = [verify.map.paths for verify in verifies if verify.map]
    assert paths == [("/d/sd1.iocurve-map",), ("/j/sd2.iocurve-map",)]


@cases("vdbench/not_validated")
def test_what_cannot_be_validated_is_refused(tmp_path: Path, text: str, option: str, expected: str) -> None:
    with pytest.raises(DialectError, match=re.escape(expected)):
        read_text(tmp_path, text, option)


def test_what_a_letter_does_not_do_is_noted(tmp_path: Path) -> None:
    made = read_text(tmp_path, SD + REST, "-vt", "-jm")
    matches("vdbench#what letter does", [note.text for note in made.notes if note.code == "no_effect"])


def test_a_recovery_reads_whole_blocks_of_the_sd(tmp_path: Path) -> None:
    (tmp_path / "sd1.iocurve-map").touch()
    text = f"sd=sd1,lun=/d/a,size=100m,journal={tmp_path}\n{REST}"
    made = read_text(tmp_path, text, "-jr")
    (section,) = made.builder().recovery().sections
    assert (section.load.blocks and block_bytes_max(section.load.blocks.read), section.load.at_end) == (1 << 20, "stop")
    assert section.data.verify
    assert section.data.verify.map == VerifyMap(
        paths=(str(tmp_path / "sd1.iocurve-map"),), before_write=False, after_write=False, take_over=True
    )


# -- on real files -----------------------------------------------------------------------------------------------------

FILE = data("vdbench/validated.parm")


def run(directory: Path, *options: str, rdpct: int = 0, wd: str = "wd*") -> subprocess.CompletedProcess[str]:
    text = FILE.format(path=directory / "data", rdpct=rdpct, wd=wd, elapsed=2)
    (directory / "p").write_text(text, encoding="utf-8")
    return iocurve("vdbench", "-f", "p", *options, cwd=directory)


def done(directory: Path, *options: str, **how: Any) -> str:
    """The output of a run that ends without an error."""
    ended = run(directory, *options, **how)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def failed(directory: Path, *options: str, **how: Any) -> str:
    """The error of a run that fails; a recovery alone starts no load."""
    ended = run(directory, *options, **how)
    assert ended.returncode != 0
    assert "-jro" not in options or "Starting RD=rd1" not in ended.stdout
    return ended.stderr


def change(directory: Path) -> None:
    """A byte of every block that was written is not what it was."""
    content = bytearray((directory / "data").read_bytes())
    for place in range(0, len(content), 4096):
        if content[place : place + 4] == b"ioCv":
            content[place + 2000] ^= 0xFF
    (directory / "data").write_bytes(content)


def test_workloads_of_one_sd_know_what_the_others_write(tmp_path: Path) -> None:
    done(tmp_path, "-v", "-vr", rdpct=50)
    assert not list(tmp_path.glob("*.iocurve-map"))


def test_a_journal_verifies_what_an_earlier_run_wrote(tmp_path: Path) -> None:
    done(tmp_path, "-j")
    assert "Journal recovery: 1 MiB read and verified, no differences" in done(tmp_path, "-jr", "-r", "rd1")
    change(tmp_path)
    assert "verification of 4096 bytes at offset" in failed(tmp_path, "-jro")
    assert "of its content is" in report(tmp_path, "errorlog")


def test_a_block_of_another_sd_is_found_though_all_else_is_the_same(tmp_path: Path) -> None:
    sds = "".join(f"sd=sd{number},lun={tmp_path}/data{number},size=64k\n" for number in (1, 2))
    runs = "wd=wd1,sd=*,xf=4k,rdpct=0,seekpct=eof\nrd=rd1,wd=wd1,iorate=max,elapsed=2,interval=1\n"
    (tmp_path / "p").write_text(sds + runs)

    def ended(option: str) -> subprocess.CompletedProcess[str]:
        return iocurve("vdbench", "-f", "p", option, cwd=tmp_path)

    assert (ended("-j").returncode, ended("-jro").returncode) == (0, 0)
    (tmp_path / "data1").write_bytes((tmp_path / "data2").read_bytes())
    different = ended("-jro")
    assert different.returncode != 0
    place = f"verification of 4096 bytes at offset 0 of {tmp_path}/data1 failed: it holds data of offset 0 of"
    assert f"{place} another file" in different.stderr


def test_a_recovery_alone_runs_nothing_else(tmp_path: Path) -> None:
    assert "there is no journal to recover" in failed(tmp_path, "-jro")
    done(tmp_path, "-j")
    assert "Starting RD=rd1" not in done(tmp_path, "-jro")


def test_a_later_run_reads_what_an_earlier_one_of_the_same_file_wrote(tmp_path: Path) -> None:
    """The first run writes, a command that stands in for bad storage changes it, the second reads."""
    done(tmp_path, "-j", wd="wd1")
    change(tmp_path)
    assert "verification of 4096 bytes" in failed(tmp_path, "-jr", wd="wd2")


def test_a_journal_survives_a_process_that_is_killed(tmp_path: Path) -> None:
    text = FILE.format(path=tmp_path / "data", rdpct=0, wd="wd1", elapsed=60).replace("2000", "max")
    (tmp_path / "p").write_text(text, encoding="utf-8")
    with started("vdbench", "-f", "p", "-j", cwd=tmp_path) as process:
        assert any(line.split()[1:2] == ["1"] for line in present(process.stdout))
        stopped(process, signal.SIGKILL)
    for _ in range(2):
        assert "no differences" in done(tmp_path, "-jro")


def test_a_file_that_is_no_journal_of_ours_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "sd1.iocurve-map").write_text("another program's data" * 9)
    assert "is not a verification map; name another file" in failed(tmp_path, "-j")
    assert (tmp_path / "sd1.iocurve-map").read_text() == "another program's data" * 9


FSD = "fsd=fsd1,anchor=/d/tree,depth=1,width=2,files=3,size=8k\n"
FWD = "fwd=fwd1,fsd=fsd*,operation=read,xfersize=4k\n"
FILES_RD = "rd=rd1,fwd=fwd1,fwdrate=max,elapsed=2,interval=1"


@cases("vdbench/validated")
def test_file_systems_are_validated_and_what_cannot_be_is_refused(
    tmp_path: Path, text: str, option: str, expected: list[str]
) -> None:
    made = read_text(tmp_path, text + "\n", option)
    assert [found.text for found in made.file_plans.obstacles(made.runs)] == expected


def test_a_validated_file_system_has_blocks_of_the_divisor_of_all_transfers(tmp_path: Path) -> None:
    made = read_text(tmp_path, FSD + FWD.replace("4k", "6k") + FILES_RD + ",format=yes\n", "-v")
    assert made.validation
    assert made.validation.interval_bytes == 2048
    planned = [made.file_plans.formats(made.runs[0], already=False), made.file_plans.run(made.runs[0], None)]
    workers = [worker for one in planned if one for group in one.plan.groups for worker in group.workers]
    matches(
        "vdbench#validated file",
        sorted({worker.verify.map.paths for worker in workers if worker.verify and worker.verify.map}),
    )
    assert all(worker.verify for worker in workers)
