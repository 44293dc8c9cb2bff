"""The figures of points: exact values, the same names in every form, and never a second truth."""

import csv
import io
import json
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from data import synthetic
from data.synthetic import kind, plan, result, worker_outcome, worker_plan
from goldens import data, matches, present
from iocurve import _native
from iocurve.analysis import read
from iocurve.cli.jobs import result_schema
from iocurve.engine.outcome import Outcome
from iocurve.engine.plan import FileOpen, Group, Rate, SyncEngine
from iocurve.foundation.errors import ResultError
from iocurve.foundation.units import SECOND_NS
from iocurve.report.page import points_csv
from iocurve.result.document import Limit, Point, Result
from iocurve.result.figures import KIND_NAMES, NAMES

BLOCK = 4096


def mixed() -> Result:
    """100 reads of 1 ms and 100 writes of 3 ms in 2 s; the writes were due 1 ms before."""
    rate = Rate(unit="operations", count=100, per_ns=SECOND_NS)
    writes = kind({3_000_000: 100}, BLOCK, response={4_000_000: 100}, errors=2)
    worker = worker_outcome(
        {"read": kind({1_000_000: 100}, BLOCK), "write": writes}, window_ns=(SECOND_NS, 3 * SECOND_NS)
    )
    limit = Limit(code="depth", short_name="depth", text="by the depth", confidence="possible")
    planned = plan([worker_plan([("read", 50), ("write", 50)], rate=rate)])
    return result([synthetic.point(planned, worker, limit=limit)])


def written(document: Result) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(document.document())
    return found


@cache
def validator() -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(result_schema())


def test_the_document_has_rates_and_latencies_in_microseconds() -> None:
    (point,) = written(mixed())["points"]
    matches("result#point of a mix", {name: point[name] for name in (*sorted(NAMES - OVERLAP), "read", "write")})


def test_a_point_without_operations_has_rates_of_0_and_no_latencies() -> None:
    figures = synthetic.point(plan([worker_plan()]), worker_outcome({"read": kind({}, BLOCK)})).figures
    assert (figures.iops, figures.p99_us, figures.min_us) == (0.0, None, None)
    assert (figures.cpu_us_per_operation, figures.limited_by) == (None, None)


OVERLAP = {"overlap_iops", "overlap_mib_per_s"}
"""Names that are left out where all workers ran in the whole window."""


def row_of(document: Result) -> dict[str, str]:
    (row,) = csv.DictReader(io.StringIO(points_csv(read(document))))
    return row


def test_the_rate_while_all_workers_ran_has_its_own_name_in_every_form() -> None:
    """1,000 reads in 2 s next to 1,500 in 4 s, as fio's text has it: 2,500 in 4 s."""
    short = worker_outcome({"read": kind({1000: 1000}, BLOCK)}, window_ns=(0, 2 * SECOND_NS))
    long = worker_outcome({"read": kind({1000: 1500}, BLOCK)}, number=1, window_ns=(0, 4 * SECOND_NS))
    long = long.replace(intervals=tuple(synthetic.intervals([375] * 4, BLOCK)))
    document = result([synthetic.point(plan([worker_plan()] * 2), short, long)])
    (point,), (record,) = written(document)["points"], document.to_records()
    forms: list[dict[str, Any]] = [point, record, row_of(document), point["read"]]
    for form in forms:
        assert (float(form["iops"]), float(form["overlap_iops"])) == (625.0, 875.0)
    assert (record["window_s"], record["skew_s"]) == (4.0, 2.0)
    assert OVERLAP.isdisjoint(written(mixed())["points"][0])


def test_all_forms_have_the_same_names_and_values() -> None:
    document = mixed()
    (point,), (record,), row = written(document)["points"], document.to_records(), row_of(document)
    definitions = validator().schema["$defs"]
    properties = definitions["Point"]["properties"]
    assert {*data("report/names_of_figures.txt").split()} | OVERLAP == NAMES
    assert set(properties) - set(Point.__struct_encode_fields__) == NAMES | {"stream_hash"}
    assert set(definitions["KindFigures"]["properties"]) == KIND_NAMES
    for name in NAMES - OVERLAP:
        assert point[name] == record[name] == getattr(document.points[0].figures, name), name
        assert name in row
    for operation in ("read", "write"):
        of_kind = document.points[0].kind_figures[operation]
        for name, value in point[operation].items():
            assert value == record[f"{operation}_{name}"] == getattr(of_kind, name), name
            assert row[f"{operation}_{name}"] == str(value)


@pytest.mark.parametrize("document", [mixed(), synthetic.fio_run()], ids=["mixed", "fio"])
def test_a_written_document_is_valid_by_the_schema(document: Result) -> None:
    assert [error.message for error in validator().iter_errors(written(document))] == []


def test_a_measured_document_is_valid_by_the_schema() -> None:
    worker = worker_plan([("read", 70), ("write", 30)], depth=8)
    planned = plan([worker.replace(end=worker.end.replace(runtime_ns=None, operations=2000))])
    measured = Outcome.from_json(present(_native.Run(planned.to_json()).wait(60)))
    found = written(result([synthetic.point(planned, *measured.workers, axes={"depth": 8}).replace(outcome=measured)]))
    assert [error.message for error in validator().iter_errors(found)] == []
    assert found["points"][0]["operations"] == 2000


@pytest.mark.parametrize("wrong", [{"p99_us": "2 ms"}, {"p999_us": 2.0}, {"read": {"p99_us": 1.0}}, {"iops": "fast"}])
def test_the_schema_refuses_other_names_and_types(wrong: dict[str, Any]) -> None:
    found = written(mixed())
    found["points"][0] |= wrong
    assert not validator().is_valid(found)


def test_the_schema_carries_its_version_and_the_meaning_of_fields() -> None:
    found = validator().schema
    matches("result#schema carries", (found["$id"], found["$defs"]["Result"]["properties"]["schema_version"]["enum"]))
    assert found["$defs"]["Point"]["properties"]["p99_us"]["description"].endswith("service latency, in µs.")


def test_the_hash_of_a_point_is_that_of_its_operations() -> None:
    point = mixed().points[0]
    (worker,) = point.plan.groups[0].workers
    found = present(point.stream_hash)

    def other(**changes: Any) -> str | None:
        changed = point.plan.replace(groups=(Group(workers=(worker.replace(**changes),)),))
        return point.replace(plan=changed).stream_hash

    assert (written(mixed())["points"][0]["stream_hash"], len(found)) == (found, 64)
    assert other() == other(cpus=(1,), intervals_singly=8, client=3) == found
    assert other(files=(worker.files[0].replace(path="elsewhere"),)) == found
    assert other(engine=SyncEngine(open=FileOpen(direct=False, durability="none", invalidate=False))) == found
    assert len({found, other(seed=2), other(depth=2), other(files=(worker.files[0].replace(bytes=1 << 20),))}) == 4
    assert point.replace(plan=point.plan.replace(name="other", interval_ns=1)).stream_hash == found


def test_the_hash_does_not_depend_on_the_version_of_iocurve() -> None:
    assert mixed().points[0].stream_hash == "ad81f7ef66e73a028abd460666f5fe36d7a5bf85394a2a85b878898976217a48"


def reread(directory: Path, **changes: Any) -> Result:
    """The written document with changes of its point, read again."""
    path, changed = directory / "result.json", written(mixed())
    changed["points"][0] |= changes
    path.write_text(json.dumps(changed))
    return Result.read(path)


def test_figures_are_computed_again_when_a_document_is_read(tmp_path: Path) -> None:
    found = reread(tmp_path, iops=1e9, p99_us=-1.0, read={"p99_us": 7.0})
    assert (found, found.points[0].figures) == (mixed(), mixed().points[0].figures)


def test_a_document_of_version_3_is_read(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    path.write_text(json.dumps(mixed().to_builtins() | {"schema_version": 3}, default=str))
    assert Result.read(path) == mixed()


@pytest.mark.parametrize("unknown", [{"surprise": 1}, {"surprise": {"p99_us": 1, "other": 2}}, {"surprise": {}}])
def test_an_unknown_field_of_a_point_is_an_error(tmp_path: Path, unknown: dict[str, Any]) -> None:
    with pytest.raises(ResultError, match="unknown field surprise"):
        reread(tmp_path, **unknown)
