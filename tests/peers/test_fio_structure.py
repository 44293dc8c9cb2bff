"""The fields of fio's JSON, json+ and terse output are those of fio 3.33, for jobs that show each of them."""

import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from goldens import DATA
from programs import FIO, fio_of

pytestmark = pytest.mark.skipif(shutil.which("fio") is None, reason="needs Debian's fio")

TABLE = Path(__file__).parents[2] / "docs/evidence/equivalence.md"

FILES = {"plain": ("json", 3), "writes": ("json+", 4), "reports": ("json+", 5), "paces": ("json+", 3)}
"""Job files, with the form and the version of the terse lines in which their output is compared."""


OURS = {
    "/iocurve": "the real tool, its notes, and figures that fio's format has no field for",
    "/job options/iodepth": "readers of the format rely on it; fio has it only where it is set",
    "/read/clat_ns/percentile": "`gtod_reduce` and `disable_clat`: the latencies are measured",
    "/read/clat_ns/bins": "`gtod_reduce` and `disable_clat`: the latencies are measured",
}
"""Fields that fio lacks, with the reason; docs/evidence/equivalence.md lists them."""


@pytest.mark.parametrize("name", FILES)
def test_the_output_has_the_fields_of_fio(name: str, tmp_path: Path) -> None:
    ours, theirs = (output(tool, name, tmp_path / tool) for tool in ("iocurve", "fio"))
    assert ours[1] == theirs[1]
    missing, more = set(), set()
    for mine, fios in zip(parts(ours[0]), parts(theirs[0]), strict=True):
        missing |= fios - mine
        more |= mine - fios
    assert (missing, {path for path, _ in more if not path.startswith(tuple(OURS))}) == (set(), set())


def test_the_page_lists_the_fields_that_fio_lacks() -> None:
    page = TABLE.read_text(encoding="utf-8").splitlines()
    assert [path for path, reason in OURS.items() if f"| `{path}` | {reason} |" not in page] == []


def parts(document: Mapping[str, Any]) -> Iterator[set[tuple[str, str]]]:
    """The fields of each job, then those around the jobs."""
    yield from (set(fields(job)) for job in document["jobs"])
    yield set(fields({key: value for key, value in document.items() if key != "jobs"}))


def output(tool: str, name: str, directory: Path) -> tuple[Any, list[int]]:
    """The JSON document, and the number of fields of each terse line."""
    directory.mkdir()
    form, version = FILES[name]
    jobs = str(DATA / f"fio/structure/{name}.fio")
    forms = (f"--output-format={form},terse", f"--terse-version={version}")
    done = fio_of(tool, [*FIO[1:], *forms, jobs], directory)
    assert done.returncode == 0, done.stderr
    start = done.stdout.index("{\n")
    document, end = json.JSONDecoder().raw_decode(done.stdout[start:])
    rest = done.stdout[:start] + done.stdout[start + end :]
    return document, [line.count(";") + 1 for line in rest.splitlines() if line.startswith(f"{version};")]


def fields(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Paths of the fields of a JSON value, with the types of the values."""
    if isinstance(value, Mapping):
        yield path, "object"
        for key, part in value.items():
            name = "N" if path.endswith("/bins") else key
            yield from fields(part, f"{path}/{name}")
    elif isinstance(value, list):
        yield path, "list"
        for part in value:
            yield from fields(part, f"{path}/[]")
    else:
        yield path, "number" if isinstance(value, float | int) else type(value).__name__
