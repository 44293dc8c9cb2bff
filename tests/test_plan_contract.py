"""Rust reads exactly the plans that Python writes, and refuses none that a dialect accepts."""

import contextlib
import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import inspect

from data.json_paths import paths, without
from fio_machine import GOLDEN_MACHINE
from goldens import rows
from iocurve import _native
from iocurve.cli import dialects
from iocurve.dialects.base import ParsedCommand
from iocurve.dialects.registry import load
from iocurve.engine import plan
from iocurve.foundation.errors import DialectError, PlanError, RunError
from plans import null_plan

ABOVE_ZERO = ("iops", "bytes_per_s", "count", "per_ns", "window_ns", "duration_ns", "check_ns")
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    **dict.fromkeys(ABOVE_ZERO, st.integers(1, 2**64 - 1)),
    "interval_ns": st.integers(1_000_000, 2**64 - 1),
    "errnos": st.integers(-(2**31), 2**31 - 1),
    "gap_bytes": st.integers(-(2**63), 2**63 - 1),
    # Python 3.11 and Rust write IPv4 addresses in IPv6 (::ffff:0:0) in two ways.
    "source": st.ip_addresses(v=4).map(str)
    | st.ip_addresses(v=6).map(str).filter(lambda address: "::ffff:" not in address),
}
"""Values of fields whose bounds Rust alone checks, also where None is another."""


def values(described: inspect.Type, name: str = "") -> st.SearchStrategy[Any]:
    match described:
        case inspect.IntType() | inspect.StrType() if name in FIELDS:
            return FIELDS[name]
        case inspect.StructType(cls=cls, fields=fields):
            return st.builds(cls, **{field.name: values(field.type, field.name) for field in fields})
        case inspect.UnionType(types=types):
            return st.one_of([values(one, name) for one in types])
        case inspect.VarTupleType(item_type=item, min_length=least):
            return st.lists(values(item, name), min_size=least or 0, max_size=2).map(tuple)
        case inspect.LiteralType(values=choices):
            return st.sampled_from(choices)
        case inspect.NoneType():
            return st.none()
        case inspect.BoolType():
            return st.booleans()
        case _:
            return scalars(described)


def scalars(described: inspect.Type) -> st.SearchStrategy[Any]:
    match described:
        case inspect.IntType(ge=low, le=high, lt=below):
            return st.integers(low or 0, high or (below or 2**64) - 1)
        case inspect.FloatType(ge=low, gt=above, le=high, lt=below):
            return st.floats(
                low or above or 0, high or below or 1000, exclude_min=above is not None, exclude_max=below is not None
            )
        case inspect.StrType(pattern=str(pattern)):
            return st.from_regex(pattern.replace("$", r"\Z"))
    assert isinstance(described, inspect.StrType), described
    return st.text(st.characters(codec="utf-8"), max_size=12)


# No deadline: the time that a busy machine takes to create a plan is irrelevant to the contract.
@pytest.mark.slow
@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(values(inspect.type_info(plan.Plan)))
def test_rust_reads_plans_of_python(written: plan.Plan) -> None:
    read = _native.plan_as_read(written.to_json())
    assert (plan.Plan.from_json(read), json.loads(read)) == (written, json.loads(written.to_json()))


def _example() -> Any:
    return json.loads(null_plan().to_json())


@pytest.mark.parametrize("path", paths(_example()), ids=lambda path: ".".join(map(str, path)))
def test_both_sides_require_every_field(path: tuple[str | int, ...]) -> None:
    with pytest.raises(RunError, match="missing field"):
        _native.plan_as_read(json.dumps(without(_example(), path)))


def test_both_sides_refuse_unknown_fields() -> None:
    with pytest.raises(RunError, match="unknown field `surprise`"):
        _native.plan_as_read(json.dumps(_example() | {"surprise": 1}))
    with pytest.raises(ValueError, match="surprise"):
        plan.Plan.from_builtins(_example() | {"surprise": 1})


# ---- refusals


GOLDEN = Path(__file__).parent / "golden"


def corpora() -> Iterator[tuple[str, list[str]]]:
    for path in sorted(GOLDEN.glob("*/*.args")):
        yield path.parent.name, shlex.split(path.read_text(encoding="utf-8"))
    for path in sorted((GOLDEN / "vdbench").glob("*.parm")):
        yield "vdbench", ["-f", path.name]
    for line in (GOLDEN / "mdtest/tasks.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("$"):
            yield "mdtest", line[1:].replace("-np", "--np").split()


def accepted(name: str, words: list[str]) -> ParsedCommand:
    return load(name).prepare(words, cwd=GOLDEN / name, environment={"BLOCK": "64k"}, machine=GOLDEN_MACHINE)


def engine_accepts(name: str, words: list[str]) -> None:
    plans = list(accepted(name, words).plans())
    assert plans
    for each in plans:
        _native.check_plan(each.to_json())


@pytest.mark.parametrize(
    ("name", "words"), list(corpora()), ids=lambda value: value if isinstance(value, str) else " ".join(value)[:60]
)
def test_the_engine_refuses_no_line_of_the_corpora(name: str, words: list[str]) -> None:
    engine_accepts(name, words)


OPTIONS: dict[str, str] = dict(rows("fio/words"))
LINES = st.lists(
    st.sampled_from([(name, value) for name, values in OPTIONS.items() for value in (values.split() or [""])]),
    min_size=1,
    max_size=6,
    unique_by=lambda pair: pair[0],
)


@settings(max_examples=300, deadline=None)
@given(LINES)
def test_the_engine_refuses_no_line_of_fio_that_is_accepted(pairs: list[tuple[str, str]]) -> None:
    words = [f"--{name}={value}" if value else f"--{name}" for name, value in pairs]
    with contextlib.suppress(DialectError, PlanError):
        engine_accepts("fio", ["--name=a", *([] if "size" in dict(pairs) else ["--size=1m"]), *words])


def test_explain_ends_with_the_refusal_of_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_native, "check_plan", Mock(side_effect=RunError("refused")))
    command = accepted("fio", ["--name=a", "--size=1m", "--directory=/d"])
    with pytest.raises(RunError, match="refused"):
        dialects.print_explanation(command, ["fio", "job.fio"])
