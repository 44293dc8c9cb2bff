"""fio-plot (PyPI) draws charts from our JSON and logs as it does from fio's."""

import sys
from pathlib import Path

import pytest
from PIL import Image

from goldens import cases, present
from programs import completed, printed

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
            printed("fio", *options.split(), "--group_reporting", "--output-format=json", f"--output={name}")
    return directory


@cases("fio/plots")
def test_fio_plot_draws_our_json(results: Path, tmp_path: Path, options: str) -> None:
    chart = tmp_path / "chart.png"
    command = [str(FIO_PLOT), "-i", str(results), "-T", "title", "-s", "source", "-r", "randread", "-o", chart.name]
    done = completed([*command, *options.split()], cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    drawn = Image.open(chart)
    # Checks for bars: the page must not be empty.
    assert drawn.format == "PNG"
    assert len(present(drawn.convert("RGB").getcolors(maxcolors=1 << 24))) > 10  # type: ignore[arg-type]
