"""fio-plot (PyPI) draws charts from our JSON and logs as it does from fio's."""

import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

from programs import completed

FIO_PLOT = Path(sys.executable).with_name("fio-plot")
if not FIO_PLOT.exists():
    pytest.skip("needs fio-plot (it is among the development dependencies)", allow_module_level=True)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """JSON of random reads at three depths with one and with two jobs, named as fio-plot requires."""
    directory = tmp_path_factory.mktemp("results")
    for depth in (1, 4, 16):
        for jobs in (1, 2):
            name = directory / f"randread-{depth}-{jobs}.json"
            options = f"--name=t --ioengine=null --rw=randread --bs=4k --size=64m --iodepth={depth} --numjobs={jobs}"
            command = [*(sys.executable, "-m", "iocurve", "fio"), *options.split(), "--group_reporting"]
            command += ["--eta=never", "--output-format=json", f"--output={name}"]
            subprocess.run(command, check=True, capture_output=True, timeout=60)
    return directory


def drawn(directory: Path, chart: Path, *options: str) -> Image.Image:
    command = [str(FIO_PLOT), "-i", str(directory), "-T", "title", "-s", "source", "-r", "randread", "-o", chart.name]
    done = completed([*command, *options], cwd=chart.parent)
    assert done.returncode == 0, done.stdout + done.stderr
    return Image.open(chart)


@pytest.mark.parametrize(
    "options",
    [
        ("-l", "-n", "1"),
        ("-N", "-d", "4", "-n", "1", "2", "--show-cpu"),
        ("-L", "-t", "iops"),
        ("-H", "-d", "16", "-n", "2"),
    ],
    ids=["by depth", "by jobs", "in three dimensions", "histogram"],
)
def test_fio_plot_draws_our_json(results: Path, tmp_path: Path, options: tuple[str, ...]) -> None:
    chart = drawn(results, tmp_path / "chart.png", *options)
    colours = chart.convert("RGB").getcolors(maxcolors=1 << 24)
    # Checks for bars: the page must not be empty.
    assert chart.format == "PNG"
    assert colours is not None
    assert len(colours) > 10
