"""The outputs and the picture of README.md: runs the commands that the page shows, and writes what they print.

``make readme`` takes about five minutes; the names of blocks run these alone, and ``--kept`` measures nothing. The
results of the searches are kept in ``tests/data/readme``: ``tests/test_readme.py`` prints them again and compares, so a
page that is out of date is found without a measurement.
"""

from __future__ import annotations

import contextlib
import io
import lzma
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from bench.servers import free_ports
from iocurve.cli.common import OutputOptions
from iocurve.cli.measure import show_result
from iocurve.foundation.structs import Struct
from iocurve.result.document import Result

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "README.md"
PICTURE = ROOT / "docs" / "report.png"
KEPT = ROOT / "tests" / "data" / "readme"
FENCE = re.compile(r"^```text (?P<name>[a-z-]+)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
LEFT_OUT = "…"
COMMAND_S_MAX = 300
DIRECTORY, VOLUME = "/mnt/data", "nfs://10.0.0.4/vol"
"""The targets as the page names them: a directory of this machine, and a volume that this machine serves."""
SERVED = ("--profile", "anf-premium", "--quota", "1TiB", "--latency", "2ms")
PICTURE_SIZE = (1280, 860)


class Block(Struct):
    """A command of the page, and what of its output the page shows."""

    name: str
    """The word after ``text`` at the start of the block."""
    command: str
    shows: tuple[str, ...]
    """Patterns of the lines that are shown; ``…`` stands for others."""
    lines_max: int = 30
    """Most lines of the block."""
    kept: str = ""
    """The directory of the command's result, which is kept; empty: none."""

    def excerpt(self, output: str) -> str:
        """The command with the lines of an output that the page shows."""
        lines: list[str] = [f"$ {self.command}"]
        for line in output.rstrip().splitlines():
            if len(lines) < self.lines_max and any(re.search(pattern, line) for pattern in self.shows):
                lines.append(line.rstrip())
            elif line.strip() and lines[-1] != LEFT_OUT:
                lines.append(LEFT_OUT)
        return "\n".join(lines) + "\n"


BLOCKS = (
    Block(
        name="knee",
        command="iocurve knee 'volume:anf-premium?quota=1TiB&latency=2ms'",
        shows=(
            "^point ",
            "^(1|4|16|64|256) in flight ",
            "^the knee: ",
            "^  (knee|load at|latency at|capacity  |unloaded)",
            "^report",
        ),
        kept="iocurve-report",
    ),
    Block(
        name="directory",
        command="iocurve envelope /mnt/data --quick",
        shows=("^point ", "^random-4k-mix (100:0|0:100)", "^sequential-64k-mix (100:0|0:100)", "^highest rates"),
    ),
    Block(
        name="nfs",
        command="iocurve envelope 'nfs://10.0.0.4/vol?nconnect=4' --quick --out nightly",
        shows=("^point ", "^random-4k-mix (100:0|0:100)", "^sequential-64k-mix (100:0|0:100)", "^highest rates"),
    ),
    Block(
        name="fio",
        command="iocurve fio --name=t --rw=randread --bs=4k --size=64m --directory=/mnt/data --runtime=3 --time_based",
        shows=("^  read: IOPS=", "^     lat ", "99.00th"),
    ),
    Block(
        name="max",
        command="iocurve max 'nfs://10.0.0.4/vol?nconnect=4' --p99 20ms --precision 5% --out max",
        shows=("^the highest rate", "^  highest rate", "^  capacity"),
        kept="max",
    ),
    Block(
        name="check",
        command="iocurve check nightly --fail-if 'errors > 0' --fail-if 'iops < 20k where depth == 64'",
        shows=(".",),
    ),
    Block(name="cluster", command="iocurve cluster up --local 2", shows=(".",)),
    Block(
        name="clients",
        command="iocurve diskspd -b4K -r -o8 -t1 -W1 -d5 -c64M --on=127.0.0.10:6379 nfs://10.0.0.4/vol/file",
        shows=("^Total IO", "^thread ", "^ +[01] \\|", "^total:"),
        lines_max=9,
    ),
)
"""In the order in which they run. Blocks that the page lacks are refused."""


def kept_result(block: Block) -> Path:
    """The file that keeps a block's result, compressed."""
    return KEPT / f"{block.name}.json.xz"


def filled(page: str, name: str, body: str) -> str:
    """The page with another body of a block."""
    return FENCE.sub(lambda found: f"```text {name}\n{body}```" if found["name"] == name else found[0], page)


def bodies(page: str) -> dict[str, str]:
    """The blocks of a page by name."""
    return {fence["name"]: fence["body"] for fence in FENCE.finditer(page)}


@contextmanager
def served(directory: Path) -> Iterator[str]:
    """A volume on loopback; gives the URL of its export."""
    port = free_ports()
    log = (directory / "volume.log").open("w")
    words = [sys.executable, "-m", "iocurve", "volume", "serve", *SERVED, "--port", str(port)]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=log, text=True)
    assert process.stdout is not None
    try:
        first = process.stdout.readline()
        assert first.startswith("nfs://"), (directory / "volume.log").read_text()
        yield first.split()[0]
    finally:
        process.terminate()
        process.wait()
        log.close()


def ran(command: str, names: Mapping[str, str], directory: Path) -> str:
    """Runs a command; gives its stdout, with the targets as the page names them."""
    real = command
    for shown, actual in names.items():
        real = real.replace(shown, actual)
    here = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        real,
        shell=True,
        cwd=directory,
        env=os.environ | {"PATH": here},
        capture_output=True,
        text=True,
        timeout=COMMAND_S_MAX,
        check=False,
    )
    if done.returncode not in (0, 4, 5):
        raise SystemExit(f"$ {real}\n{done.stderr}")
    output = done.stdout
    for shown, actual in names.items():
        output = output.replace(actual, shown)
    return output


def printed(block: Block) -> str:
    """The output of a block's command for the result that is kept."""
    with tempfile.TemporaryDirectory() as at:
        path = Path(at) / "result.json"
        path.write_bytes(lzma.decompress(kept_result(block).read_bytes()))
        with contextlib.redirect_stdout(io.StringIO()) as output:
            show_result(Result.read(path), Path(block.kept), OutputOptions(), ())
    return output.getvalue()


def write_kept() -> None:
    """Writes the blocks whose results are kept, without a measurement."""
    page = PAGE.read_text(encoding="utf-8")
    for block in BLOCKS:
        if block.kept:
            page = filled(page, block.name, block.excerpt(printed(block)))
    PAGE.write_text(page, encoding="utf-8")


def take_picture(page: Path, picture: Path = PICTURE, *, is_dark: bool = False) -> None:
    """Writes the first screen of a page as a PNG, by Chromium."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        raise SystemExit("docs/report.png needs Chromium: apt-get install chromium")
    width, height = PICTURE_SIZE
    words = [browser, "--headless", "--no-sandbox", "--hide-scrollbars", f"--window-size={width},{height}"]
    words += ["--virtual-time-budget=10000", *(["--blink-settings=preferredColorScheme=0"] if is_dark else [])]
    subprocess.run([*words, f"--screenshot={picture}", page.as_uri()], check=True, capture_output=True, timeout=60)


def take_pictures() -> None:
    """Writes the pictures of documents from a result that is kept, without a measurement."""
    with tempfile.TemporaryDirectory() as at:
        directory, kept = Path(at), next(block for block in BLOCKS if block.kept)
        (directory / "result.json").write_bytes(lzma.decompress(kept_result(kept).read_bytes()))
        for command in ("iocurve report result.json", "iocurve article result.json --out ."):
            ran(command, {}, directory)
        take_picture(directory / "report.html", PICTURE.with_name("report-dark.png"), is_dark=True)
        take_picture(directory / "article.html", PICTURE.with_name("article.png"))


def main() -> None:
    """Runs the blocks, and writes the page, the picture and the results that are kept."""
    wanted, found = sys.argv[1:], bodies(PAGE.read_text(encoding="utf-8"))
    if wanted in (["--kept"], ["--pictures"]):
        (write_kept if wanted == ["--kept"] else take_pictures)()
        return
    if missing := [block.name for block in BLOCKS if block.name not in found]:
        raise SystemExit(f"README.md lacks the blocks {', '.join(missing)}")
    with tempfile.TemporaryDirectory() as at:
        directory = Path(at)
        (directory / "data").mkdir()
        with served(directory) as url:
            names = {DIRECTORY: str(directory / "data"), VOLUME: url}
            try:
                for block in BLOCKS:
                    if wanted and block.name not in wanted:
                        continue
                    print(block.command, file=sys.stderr)
                    body = block.excerpt(ran(block.command, names, directory))
                    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8"), block.name, body), encoding="utf-8")
                    if block.kept:
                        KEPT.mkdir(exist_ok=True)
                        kept_result(block).write_bytes(
                            lzma.compress((directory / block.kept / "result.json").read_bytes())
                        )
            finally:
                if not wanted or "cluster" in wanted:
                    ran("iocurve cluster down", {}, directory)
        if (directory / "nightly").exists():
            take_picture(directory / "nightly" / "report.html")


if __name__ == "__main__":
    main()
