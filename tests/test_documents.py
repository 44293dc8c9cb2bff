"""The commands quoted in the five source documents, run for real with small sizes and short times."""

import json
import shlex
from pathlib import Path

import pytest

import programs
from goldens import data
from published_vdbench import seed_files

pytestmark = pytest.mark.slow

FIO = Path(__file__).parent / "golden" / "fio"
DISKSPD = Path(__file__).parent / "golden" / "diskspd"

DOCUMENT_C = sorted(FIO.glob("document-c-*.args"))
DOCUMENT_E_JOBS = ("fiowrite", "fioread", "fioreadwrite")
DOCUMENT_E_DISKSPD = ("seed-writes", "seed-reads")
# Document B's script writes these for 24 hosts and 6 volumes.
DOCUMENT_B: dict[str, list[str]] = json.loads(data("vdbench/document_b.json"))
HOSTS, VOLUMES = 2, 2


def iocurve(directory: Path, *arguments: str) -> str:
    done = programs.iocurve(*arguments, cwd=directory)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("command", DOCUMENT_C, ids=lambda path: path.stem)
def test_a_command_line_of_document_c(command: Path, tmp_path: Path) -> None:
    arguments = shlex.split(command.read_text(encoding="utf-8"))
    short = ("--filesize=4m", "--runtime=1", "--ramp_time=0", "--output-format=json", "--eta=never")
    [job] = json.loads(iocurve(tmp_path, "fio", *arguments, *short))["jobs"]
    kind = "read" if "--rw=randread" in arguments else "write"
    assert job[kind]["total_ios"] > 0
    # As in fio, the runtime reaches to the completion of the last operation.
    assert job[kind]["runtime"] >= 1000
    assert len(list(tmp_path.iterdir())) == 4


@pytest.mark.parametrize("name", DOCUMENT_E_JOBS)
def test_a_job_file_of_document_e(name: str, tmp_path: Path) -> None:
    text = (FIO / f"{name}.ini").read_text(encoding="utf-8").replace("size=30g", "size=4m")
    for place in ("nocache", "readcache"):
        (tmp_path / place).mkdir()
    (tmp_path / f"{name}.ini").write_text(text.replace("directory=/mnt/", f"directory={tmp_path}/"), encoding="utf-8")
    document = json.loads(
        iocurve(tmp_path, "fio", "--runtime", "30", "--output-format=json", "--eta=never", f"{name}.ini")
    )
    assert all(job["error"] == 0 for job in document["jobs"])
    jobs = text.count("numjobs=4") * 4 * text.count("directory=")
    assert sum(job["read"]["io_bytes"] + job["write"]["io_bytes"] for job in document["jobs"]) == jobs * (4 << 20)


@pytest.mark.parametrize("name", DOCUMENT_E_DISKSPD)
def test_a_diskspd_line_of_document_e(name: str, tmp_path: Path) -> None:
    line = (DISKSPD / f"{name}.args").read_text(encoding="utf-8")
    short = {"-c200G": "-c8M", "-W30": "-W0", "-W7200": "-W0", "-d30": "-d1"}
    output = iocurve(tmp_path, "diskspd", *(short.get(word, word) for word in shlex.split(line)))
    totals = [line for line in output.splitlines() if line.startswith("total:")]
    assert len(totals) == 3
    assert int(totals[0].split("|")[1]) > 0
    assert (tmp_path / "testfile.dat").stat().st_size == 8 << 20


@pytest.mark.parametrize("pattern", DOCUMENT_B)
def test_a_parameter_file_of_document_b(pattern: str, tmp_path: Path) -> None:
    work, *runs = DOCUMENT_B[pattern]
    defaults = [] if pattern == "FillWrite" else ["rd=default,warmup=60,elapsed=600,iorate=max"]
    seed_files(tmp_path, HOSTS, VOLUMES)
    lines = ["include=vnet1-hosts-nfs", "include=vnet1-luns-nfs", work, "* Run Defaults", *defaults, *runs]
    (tmp_path / f"vnet1-{pattern}-workload").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (tmp_path / "data").mkdir()
    size = "64m" if pattern == "FillWrite" else "2m"
    place = (f"--map-lun=/mnt/vdb*={tmp_path}/data/{{sd}}", "--size", size)
    output = iocurve(
        tmp_path, "vdbench", "-f", f"vnet1-{pattern}-workload", *place, "-e", "2", "-i", "1", "-w", "0", "-o", "out"
    )
    assert output.count("Starting RD=") == len(runs)
    assert (tmp_path / "out/summary.html").read_text(encoding="utf-8").count("avg_") >= len(runs) - 1
    assert len(list((tmp_path / "data").iterdir())) == HOSTS * VOLUMES
