"""The plan is one contract in two languages: what Python writes, Rust reads as the same and nothing else."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iocurve import _native, plan
from iocurve.errors import RunError
from plans import null_plan

u16, u32, u64 = (st.integers(0, 2**bits - 1) for bits in (16, 32, 64))
text = st.text(st.characters(codec="utf-8"), max_size=12)
durability = st.sampled_from(["none", "data_sync", "file_sync"])
file_open = st.builds(plan.FileOpen, direct=st.booleans(), durability=durability, invalidate=st.booleans())
mount = st.builds(
    plan.NfsMount,
    host=text,
    port=st.none() | u16,
    mount_port=st.none() | u16,
    export=text,
    version=st.just(3),
    nconnect=st.integers(1, 16),
    uid=u32,
    gid=u32,
    durability=durability,
    timeout_ns=u64,
    keep_payload=st.booleans(),
)
engine = st.one_of(
    st.builds(plan.NullEngine),
    st.builds(plan.SyncEngine, open=file_open),
    st.builds(plan.AioEngine, open=file_open),
    st.builds(plan.UringEngine, open=file_open),
    st.builds(plan.NfsEngine, mount=mount),
)
file = st.builds(
    plan.FilePlan,
    path=text,
    offset_bytes=u64,
    bytes=u64,
    layout=st.sampled_from(["existing", "fill", "reserve", "new"]),
    keep=st.booleans(),
)
rate = st.builds(
    plan.Rate,
    unit=st.sampled_from(["operations", "bytes"]),
    count=st.integers(1, 2**64 - 1),
    per_ns=st.integers(1, 2**64 - 1),
)
operation = st.builds(
    plan.OperationPlan,
    kind=st.sampled_from(["read", "write"]),
    share=u32,
    block_bytes=st.integers(1, 2**32 - 1),
    rate=st.none() | rate,
)
access = st.builds(plan.Sequential) | st.builds(
    plan.Random, cover=st.sampled_from(["once", "independent"]), passes=st.sampled_from(["same", "fresh"])
)
worker = st.builds(
    plan.Worker,
    job=text,
    clone=u32,
    report_group=u32,
    engine=engine,
    files=st.lists(file, min_size=1, max_size=3).map(tuple),
    file_select=st.sampled_from(["round_robin", "random", "sequential"]),
    operations=st.lists(operation, min_size=1, max_size=2).map(tuple),
    access=access,
    depth=st.integers(1, 2**32 - 1),
    start_delay_ns=u64,
    ramp_ns=u64,
    end=st.builds(plan.End, runtime_ns=st.none() | u64, bytes=st.none() | u64, operations=st.none() | u64),
    seed=u64,
    payload=st.builds(
        plan.Payload,
        content=st.sampled_from(["random", "zero"]),
        renew=st.sampled_from(["keep", "scramble", "refill"]),
    ),
    cpu=st.none() | u32,
)
group = st.builds(plan.Group, workers=st.lists(worker, min_size=1, max_size=2).map(tuple))
plans = st.builds(
    plan.Plan,
    name=text,
    interval_ns=st.integers(1_000_000, 2**64 - 1),
    groups=st.lists(group, min_size=1, max_size=2).map(tuple),
)


@given(plans)
def test_rust_reads_what_python_writes(written: plan.Plan) -> None:
    read = _native.plan_as_read(written.model_dump_json())
    assert plan.Plan.model_validate_json(read) == written
    assert json.loads(read) == json.loads(written.model_dump_json())


def _fields(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Paths of all fields below a JSON value."""
    if isinstance(value, dict):
        return [found for key, part in value.items() for found in [(*path, key), *_fields(part, (*path, key))]]
    if isinstance(value, list):
        return [found for index, part in enumerate(value) for found in _fields(part, (*path, index))]
    return []


def _without(value: Any, path: tuple[str | int, ...]) -> Any:
    """A copy of a JSON value that lacks the field at ``path``."""
    copy = json.loads(json.dumps(value))
    parent = copy
    for step in path[:-1]:
        parent = parent[step]
    del parent[path[-1]]
    return copy


def _example() -> Any:
    return json.loads(null_plan().model_dump_json())


@pytest.mark.parametrize("path", _fields(_example()), ids=lambda path: ".".join(map(str, path)))
def test_neither_side_does_without_a_field(path: tuple[str | int, ...]) -> None:
    with pytest.raises(RunError, match="missing field"):
        _native.plan_as_read(json.dumps(_without(_example(), path)))


def test_neither_side_takes_a_field_it_does_not_know() -> None:
    with pytest.raises(RunError, match="unknown field `surprise`"):
        _native.plan_as_read(json.dumps(_example() | {"surprise": 1}))
    with pytest.raises(ValueError, match="surprise"):
        plan.Plan.model_validate(_example() | {"surprise": 1})
