"""``python -m bench.observed DIRECTORY``: observes loads of fio, runs the job files of the observations, compares both.

DIRECTORY is on an NFS mount or a block device that nothing else uses. A row has the rates and sizes that fio counted,
those that were observed, and those of the job that the observation gave. ``docs/observe.md`` has the table.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

IOCURVE = [sys.executable, "-m", "iocurve"]
LOADS = {
    "random reads of 4 KiB": "random --rw=randread --bs=4k --rate_iops=400",
    "70:30 of 8 KiB": "random --rw=randrw --bs=8k --rate_iops=210,90",
    "sequential writes of 256 KiB": "sequential --rw=write --bs=256k --rate_iops=,40",
    "random reads of 12.5 KiB": "random --rw=randread --bs=12800 --rate_iops=200",
    "reads of 64 KiB, writes of 4 KiB": "random --rw=randrw --bs=64k,4k --rate_iops=60,180",
    "random writes of 4 KiB, no rate": "random --rw=randwrite --bs=4k --thinktime=4ms --thinktime_iotime=0",
}
"""Access that the counters do not tell, and fio's words, by name."""
DATA_MIB = 64
OBSERVED_S = 5
FIO_S = OBSERVED_S + 9
KINDS = ("read", "write")
Rates = dict[str, tuple[float, float]]
"""IOPS and mean bytes, by kind."""


def measured(words: str, directory: Path, scratch: Path) -> dict[str, Rates]:
    """The rates of one load: as fio counted them, as they were observed, and those of the job."""
    access, *load = shlex.split(words)
    fio = ["fio", "--name=app", f"--directory={directory}", f"--size={DATA_MIB}m", "--direct=1", "--ioengine=libaio"]
    fio += ["--iodepth=4", "--time_based", f"--runtime={FIO_S}", "--output-format=json", *load]
    subprocess.run([*fio, "--create_only=1"], check=True, capture_output=True)
    with subprocess.Popen([*fio, "--eta=never", f"--output={scratch / 'fio.json'}"]) as running:
        time.sleep(2)
        observe = ["observe", str(directory), f"--seconds={OBSERVED_S}", "--interval=2s", "--json"]
        observe += ["--job", str(scratch / "app.toml"), "--access", access, f"--data={DATA_MIB}MiB"]
        seen = json.loads(subprocess.run([*IOCURVE, *observe], check=True, stdout=subprocess.PIPE, text=True).stdout)
        running.wait()
    counted = json.loads((scratch / "fio.json").read_text())["jobs"][0]
    run = [*IOCURVE, "run", str(scratch / "app.toml"), "--out", str(scratch / "out")]
    # A job that others disturb ends with 5.
    ended = subprocess.run(run, capture_output=True, text=True, cwd=directory, check=False)
    if ended.returncode not in (0, 5):
        raise RuntimeError(ended.stderr)
    ran = json.loads((scratch / "out" / "result.json").read_text())["points"][0]
    return {
        "fio": {
            kind: (one["iops"], one["io_bytes"] / one["total_ios"])
            for kind in KINDS
            if (one := counted[kind])["total_ios"]
        },
        "observed": {
            kind: (one["operations"] / one["seconds"], one["bytes"] / one["operations"])
            for kind in KINDS
            if (one := seen[kind])["operations"]
        },
        "job": {
            kind: (ran[kind]["iops"], ran[kind]["bytes"] / ran[kind]["operations"]) for kind in KINDS if kind in ran
        },
    }


def table(rows: dict[str, dict[str, Rates]]) -> str:
    """The rows as Markdown."""
    lines = [
        "| load of fio | | fio | observed | its job | job against fio |",
        "| --- | --- | ---: | ---: | ---: | ---: |",
    ]
    for name, row in rows.items():
        for kind in row["fio"]:
            cells, rates = [], {who: row[who].get(kind, (0.0, 0.0)) for who in ("fio", "observed", "job")}
            for iops, size in rates.values():
                cells.append(f"{iops:,.1f} IOPS of {size / 1024:.2f} KiB")
            changes = [100 * (job / fio - 1) for job, fio in zip(rates["job"], rates["fio"], strict=True)]
            cells.append(f"{changes[0]:+.1f} % IOPS, {changes[1]:+.1f} % size")
            lines.append(f"| {name} | {kind}s | {' | '.join(cells)} |")
        if len(row["fio"]) > 1:
            shares = [100 * row[who]["read"][0] / sum(iops for iops, _ in row[who].values()) for who in row]
            lines.append(
                f"| | mix | {' | '.join(f'{share:.2f} % reads' for share in shares)} | "
                f"{shares[2] - shares[0]:+.2f} points |"
            )
    return "\n".join(lines)


def main() -> None:
    """Measures all loads; prints the table."""
    directory = Path(sys.argv[1]).resolve()
    rows = {}
    for name, words in LOADS.items():
        with tempfile.TemporaryDirectory() as scratch:
            rows[name] = measured(words, directory, Path(scratch))
        print(name, rows[name], file=sys.stderr, flush=True)
    print(table(rows))


if __name__ == "__main__":
    main()
