"""Our own job files: parsed with all errors, and written from any dialect without changing the plan."""

import contextlib
import json
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fio_machine import GOLDEN_MACHINE as MACHINE
from fio_machine import HeldMachine
from goldens import cases, data, matches, present, rows
from iocurve.dialects.diskspd import command as diskspd
from iocurve.dialects.fio import command as fio
from iocurve.dialects.native import command
from iocurve.dialects.native.kinds import DEFAULTS, FIELDS, KINDS, own_key
from iocurve.dialects.native.output import schema, table_of, write
from iocurve.dialects.native.reader import read
from iocurve.dialects.vdbench import command as vdbench
from iocurve.engine.derived import block_bytes_max
from iocurve.foundation.errors import DialectError, PlanError
from iocurve.job.model import Job, Said
from iocurve.job.resolve import resolve
from iocurve.measure.jobs import convert
from iocurve.result.document import Result
from programs import iocurve

ROOT = Path(__file__).parent
FIO, DISKSPD = ROOT / "golden/fio", ROOT / "golden/diskspd"
JOB = data("native/job.toml")


def written(tmp_path: Path, text: str) -> Path:
    (path := tmp_path / "job.toml").write_text(text, encoding="utf-8", errors="replace")
    return path


def of_vdbench(tmp_path: Path, text: str) -> dict[str, Any]:
    """The arguments of a command with this parameter file."""
    (path := tmp_path / "parm").write_text(text)
    machine = HeldMachine(directories=frozenset({str(tmp_path)}))
    return {"arguments": ["-f", str(path)], "cwd": tmp_path, "machine": machine}


def same_plans(tmp_path: Path, runs: list[Job], directory: Path) -> None:
    """A job that is written and read again has the same plan, and is written the same."""
    text = write(runs, "test")
    again = read(written(tmp_path, text))
    assert write(again, "test") == text
    for before, after in zip(runs, again, strict=True):
        expected, found = resolve(before, MACHINE, directory), resolve(after, MACHINE, directory)
        assert (found.plan, len(found.obstacles)) == (expected.plan, len(expected.obstacles))
        assert before.interval_ns == after.interval_ns


@pytest.mark.parametrize("args", sorted(FIO.glob("*.args")), ids=lambda path: path.stem)
def test_a_fio_job_stays_the_same_as_a_job_file(args: Path, tmp_path: Path) -> None:
    words = shlex.split(args.read_text(encoding="utf-8"))
    prepared = fio.read_command(words, cwd=FIO, environment={"BLOCK": "64k"}, machine=MACHINE)
    same_plans(tmp_path, [prepared.job.replace(interval_ns=prepared.plan.interval_ns)], FIO)


@pytest.mark.parametrize("args", sorted(DISKSPD.glob("*.args")), ids=lambda path: path.stem)
def test_a_diskspd_job_stays_the_same_as_a_job_file(args: Path, tmp_path: Path) -> None:
    prepared = diskspd.read_command(shlex.split(args.read_text(encoding="utf-8")), cwd=DISKSPD, machine=MACHINE)
    same_plans(tmp_path, [span.job for span in prepared.spans], DISKSPD)


def test_a_vdbench_file_stays_the_same_as_a_job_file(tmp_path: Path) -> None:
    given = of_vdbench(tmp_path, data("vdbench/every_word.parm"))
    prepared = vdbench.read_command(**given)
    runs = read(written(tmp_path, convert(vdbench.prepare(**given))))
    assert [run.name for run in runs] == [run.name for run in prepared.runs]
    for run, original in zip(runs, prepared.runs, strict=True):
        expected = prepared.resolve(original).resolution.plan
        found = resolve(run, given["machine"], tmp_path).plan
        assert _without_seeds(found.to_builtins()) == _without_seeds(expected.to_builtins())


def _without_seeds(plan: object) -> object:
    """vdbench draws different values each time a run is planned."""
    if isinstance(plan, dict):
        return {key: _without_seeds(value) for key, value in plan.items() if key != "seed"}
    return [_without_seeds(one) for one in plan] if isinstance(plan, list | tuple) else plan


def test_a_curve_of_vdbench_needs_its_own_runner(tmp_path: Path) -> None:
    text = "sd=sd1,lun=a.dat,size=64m\nwd=wd1,sd=sd1\nrd=rd1,wd=wd1,iorate=curve,elapsed=2,interval=1\n"
    with pytest.raises(PlanError, match="depend on its first run's result"):
        convert(vdbench.prepare(**of_vdbench(tmp_path, text)))


def test_the_earlier_keys_are_read(tmp_path: Path) -> None:
    text = '[[job]]\n{} = 8\n{} = 4\n{} = "64k"\n{} = "2s"\nsize = "1m"\n'
    runs = [
        read(written(tmp_path, text.format(*keys)))
        for keys in (("depth", "depth_low", "blocks", "ramp"), ("iodepth", "iodepth_low", "bs", "ramp_time"))
    ]
    assert (runs[0], runs[0][0].sections[0].pace.depth) == (runs[1], 8)
    assert 'bs = "64KiB", iodepth = 8, iodepth_low = 4, ramp_time = "2s"' in write(runs[0], "test")


def test_a_job_file_becomes_a_plan(tmp_path: Path) -> None:
    machine = HeldMachine(directories=frozenset({"/d"}))
    (plan,) = command.prepare([str(written(tmp_path, JOB))], cwd=Path("/d"), machine=machine).plans()
    assert (plan.name, plan.interval_ns, len(plan.groups)) == ("mine", 500_000_000, 2)
    reader, writer = plan.groups[0].workers[1], plan.groups[1].workers[0]
    kinds = [(one.kind, one.share, block_bytes_max(one.blocks)) for one in reader.operations]
    matches("native#job file becomes", kinds)
    assert (reader.depth, reader.end.runtime_ns, reader.files[0].bytes) == (32, 30_000_000_000, 64 << 20)
    assert (writer.start_delay_ns, writer.files[0].path) == (1_000_000_000, "/d/writers.0.0")


@cases("native/errors")
def test_errors_have_their_lines(tmp_path: Path, line: str, at: int, text: str) -> None:
    path = written(tmp_path, line)
    with pytest.raises(DialectError) as caught:
        read(path)
    found = [str(error) for error in caught.value.errors]
    assert any(text in error and error.startswith(f"{path}:{at}:") for error in found), found


def test_all_errors_are_reported_at_once(tmp_path: Path) -> None:
    with pytest.raises(DialectError) as caught:
        read(written(tmp_path, "[[job]]\ndepth = 'a'\nsize = 'b'\n[[job]]\nx = 1\n"))
    assert [present(error.where).line for error in caught.value.errors] == [2, 3, 5]


def test_a_job_names_its_local_address(tmp_path: Path) -> None:
    head = "[defaults]\nsize = '1m'\nengine = 'nfs'\nnfs_url = 'nfs://h/x'\n[[job]]\nnfs_source = '127.0.1.2'\n"
    plan = resolve(read(written(tmp_path, head))[0], MACHINE, Path("/d")).plan
    assert plan.groups[0].workers[0].engine.to_builtins()["mount"]["source"] == "127.0.1.2"


@cases("native/a_job_that_cannot_run")
def test_a_job_that_cannot_run_is_refused(tmp_path: Path, said: str, line: int, text: str) -> None:
    run = read(written(tmp_path, f"[[job]]\nsize = '1m'\n{said}\n"))[0]
    with pytest.raises(PlanError) as caught:
        resolve(run, MACHINE, Path("/d"))
    (error,) = caught.value.errors
    assert (error.text, error.where and error.where.line) == (text, line)


def test_the_defaults_are_written_and_read_as_they_are() -> None:
    table = table_of(DEFAULTS)
    fields = {name: KINDS[name].read(table[own_key(name)]) for name in FIELDS if own_key(name) in table}
    assert Said.of(**fields) == DEFAULTS


@settings(deadline=None)
@given(st.integers(0, 2**50), st.integers(0, 2**60), st.integers(-(2**40), 2**40))
def test_sizes_and_times_are_exact(size: int, time: int, gap: int) -> None:
    for name, value in (("size", size), ("runtime_ns", time), ("gap_bytes", gap)):
        assert KINDS[name].read(KINDS[name].write(value)) == value


VALUES = st.sampled_from([value for (value,) in rows("native/values")])
LINES = st.tuples(st.sampled_from(sorted(map(own_key, FIELDS))), VALUES).map(" = ".join)


@pytest.mark.slow
@settings(deadline=None, max_examples=200)
@given(
    st.text(max_size=80)
    | st.lists(LINES, max_size=4).map(lambda lines: "\n".join(["[defaults]", "size = '1m'", "[[job]]", *lines]))
)
def test_no_text_breaks_the_reader(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    with contextlib.suppress(DialectError, PlanError):
        resolve(read(written(tmp_path_factory.mktemp("job"), text))[0], MACHINE, Path("/d"))


def valued(said: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Values that a part of the schema allows."""
    if "$ref" in said:
        return valued(SCHEMA["$defs"][said["$ref"].rpartition("/")[2]])
    if "anyOf" in said or "oneOf" in said:
        return st.one_of([valued(part) for part in said.get("anyOf") or said["oneOf"]])
    if "const" in said or "enum" in said:
        return st.sampled_from(said.get("enum") or [said["const"]])
    if said["type"] == "array":
        return st.lists(valued(said["items"]), min_size=said.get("minItems", 0), max_size=said.get("maxItems", 2))
    if said["type"] == "object" and "properties" not in said:
        return st.dictionaries(st.sampled_from(["getattr", "create", "x"]), valued(said["additionalProperties"]))
    if said["type"] == "object":
        needed = set(said.get("required", said["properties"]))
        parts = {name: valued(part) for name, part in said["properties"].items()}
        return st.fixed_dictionaries(
            {name: part for name, part in parts.items() if name in needed},
            optional={name: part for name, part in parts.items() if name not in needed},
        )
    low, high = said.get("minimum", 0), said.get("maximum", 2**40)
    return {
        "string": st.from_regex(said.get("pattern", "[a-z0-9]{1,5}"), fullmatch=True),
        "integer": st.integers(low, min(high, low + 100)) | st.integers(low, high),
        "number": st.floats(low, high),
        "boolean": st.booleans(),
        "null": st.none(),
    }[said["type"]]


SCHEMA = schema()
KEYS = SCHEMA["$defs"]["section"]["properties"]
SECTIONS = st.lists(st.sampled_from(sorted(KEYS)), max_size=6, unique=True).flatmap(
    lambda names: st.fixed_dictionaries({name: valued(KEYS[name]) for name in names})
)


@pytest.mark.slow
@settings(deadline=None, max_examples=150)
@given(SECTIONS)
def test_no_job_that_the_schema_allows_breaks_the_reader(
    tmp_path_factory: pytest.TempPathFactory, section: dict[str, Any]
) -> None:
    # JSON's strings, numbers, lists and booleans are valid TOML.
    lines = [f"{name} = {inline(value)}" for name, value in section.items() if value is not None]
    text = "\n".join(["[defaults]", "size = '1m'", "[[job]]", *lines])
    with contextlib.suppress(DialectError, PlanError):
        plan = resolve(read(written(tmp_path_factory.mktemp("job"), text))[0], MACHINE, Path("/d")).plan
        assert type(plan).from_json(plan.to_json()) == plan


def inline(value: Any) -> str:
    """A value in TOML, on one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name} = {inline(part)}" for name, part in value.items() if part is not None) + "}"
    return "[" + ", ".join(map(inline, value)) + "]" if isinstance(value, list) else json.dumps(value)


def test_the_schema_in_docs_is_current() -> None:
    kept = ROOT.parent / "docs" / "job.schema.json"
    assert json.loads(kept.read_text(encoding="utf-8")) == schema()


def test_a_job_file_is_toml_that_names_its_origin(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(bytes(1 << 20))
    text = convert(diskspd.prepare(["-r", "-b4K", "-d5", "f"], cwd=tmp_path))
    assert text.startswith("# diskspd -r -b4K -d5 f\n")
    document = tomllib.loads(text)
    assert (document["job"][0]["bs"], document["job"][0]["runtime"]) == ("4KiB", "5s")


# -- the commands ------------------------------------------------------------------------------------------------------


def test_a_job_file_runs(tmp_path: Path) -> None:
    job = "[[job]]\nname = 'a'\nsize = '1MiB'\nwrites = true\nreads = false\ndirect = false\ntime_based = false\n"
    ran = iocurve("run", str(written(tmp_path, job)), "--out", "report", cwd=tmp_path)
    assert (ran.returncode, "job" in ran.stdout) == (0, True), ran.stderr
    (worker,) = Result.read(tmp_path / "report" / "result.json").points[0].outcome.workers
    assert (worker.operations["write"].operations, (tmp_path / "a.0.0").stat().st_size) == (256, 1 << 20)


def test_explain_reads_the_output_of_convert(tmp_path: Path) -> None:
    words = ("convert", "-o", "a.toml", *["fio", "--name=a", "--rw=randread", "--size=1m", "--bs=8k"])
    assert iocurve(*words, cwd=tmp_path).returncode == 0
    assert "8 KiB random reads" in iocurve("explain", "a.toml", cwd=tmp_path).stdout
    before = (tmp_path / "a.toml").read_text(encoding="utf-8")
    refused = iocurve(*words, cwd=tmp_path)
    assert (refused.returncode, (tmp_path / "a.toml").read_text(encoding="utf-8")) == (2, before)
    assert "a.toml exists; remove it, or choose another name" in refused.stderr


def test_the_schema_is_printed() -> None:
    assert json.loads(iocurve("schema").stdout) == schema()
