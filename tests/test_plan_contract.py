"""Rust reads exactly the plans that Python writes. Tests of the engine compare the structs with its types."""

from __future__ import annotations

import json
import typing
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from data.json_paths import paths, without
from iocurve import _native
from iocurve.engine import plan
from iocurve.foundation.errors import RunError
from plans import null_plan

u16, u32, u64 = (st.integers(0, 2**bits - 1) for bits in (16, 32, 64))
text = st.text(st.characters(codec="utf-8"), max_size=12)
durability = st.sampled_from(["none", "data_sync", "file_sync"])
file_open = st.builds(plan.FileOpen, direct=st.booleans(), durability=durability, invalidate=st.booleans())
# Python 3.11 and Rust write IPv4 addresses in IPv6 (::ffff:0:0) in two ways.
addresses = st.ip_addresses(v=4).map(str) | st.ip_addresses(v=6).map(str).filter(lambda one: "::ffff:" not in one)
mount = st.builds(
    plan.NfsMount,
    host=text,
    port=st.none() | u16,
    mount_port=st.none() | u16,
    export=text,
    version=st.just(3),
    nconnect=st.integers(1, 16),
    session_slots=st.integers(1, 1024),
    uid=u32,
    gid=u32,
    durability=durability,
    timeout_ns=u64,
    keep_payload=st.booleans(),
    source=st.none() | addresses,
)
engine = st.one_of(
    st.builds(plan.NullEngine),
    st.builds(plan.SyncEngine, open=file_open),
    st.builds(plan.AioEngine, open=file_open),
    st.builds(plan.UringEngine, open=file_open),
    st.builds(plan.MmapEngine, open=file_open),
    st.builds(plan.NfsEngine, mount=mount),
    st.builds(plan.SpaceEngine, open=file_open, call=st.sampled_from(["fallocate", "ftruncate"])),
    st.builds(plan.MetadataEngine, open=file_open, keep_open=st.booleans()),
    st.builds(plan.NfsMetadataEngine, mount=mount, keep_open=st.booleans()),
)
file = st.builds(
    plan.FilePlan,
    path=text,
    offset_bytes=u64,
    bytes=u64,
    start_bytes=u64,
    layout=st.sampled_from(["existing", "fill", "reserve", "new", "create", "recreate", "recreate_reserve", "nothing"]),
    keep=st.booleans(),
)
per_s = st.integers(1, 2**64 - 1)
io_limits = st.builds(
    plan.IoLimits,
    iops=per_s,
    bytes_per_s=per_s,
    burst=st.none() | st.builds(plan.IoBurst, iops=per_s, bytes_per_s=per_s, duration_ns=u64),
)
disk = st.builds(
    plan.DiskPlan,
    name=text,
    state_path=text,
    limits=io_limits,
    io_bytes=st.integers(1, 2**32 - 1),
    cache=st.sampled_from(["none", "read_only", "read_write"]),
    latency_ns=u64,
    vm=st.none()
    | st.builds(plan.VmPlan, name=text, uncached=st.none() | io_limits, cached=st.none() | io_limits, cache_bytes=u64),
)
rate = st.builds(
    plan.Rate,
    unit=st.sampled_from(["operations", "bytes"]),
    count=st.integers(1, 2**64 - 1),
    per_ns=st.integers(1, 2**64 - 1),
    arrivals=st.sampled_from(["even", "poisson"]),
)
count, share = st.integers(1, 2**32 - 1), st.floats(0, 1)
percent, exact_percent = st.integers(0, 100), st.floats(0, 100)
above_zero = st.floats(0, 1000, exclude_min=True)
hexadecimal = st.text("0123456789abcdef", min_size=2, max_size=8).map(lambda digits: digits[: len(digits) // 2 * 2])
blocks = st.one_of(
    st.builds(plan.FixedBlocks, bytes=count),
    st.builds(plan.BlockRange, low=count, high=count, step=count),
    st.builds(
        plan.BlockSplit,
        parts=st.lists(st.builds(plan.BlockShare, bytes=count, weight=u32), min_size=1, max_size=2).map(tuple),
    ),
)
zone = st.builds(plan.Zone, access_percent=exact_percent, offset_bytes=u64, bytes=u64)
distribution = st.one_of(
    st.builds(plan.Uniform),
    st.builds(plan.Zipf, theta=above_zero, center=st.none() | share),
    st.builds(plan.Pareto, h=st.floats(0.01, 0.99), center=st.none() | share),
    st.builds(plan.Normal, deviation_percent=above_zero, center=st.none() | share),
    st.builds(plan.Zones, zones=st.lists(zone, min_size=1, max_size=2).map(tuple)),
)
operation = st.builds(
    plan.OperationPlan,
    kind=st.sampled_from(typing.get_args(plan.OperationKind)),
    share=u32,
    blocks=blocks,
    align_bytes=u64,
    random_percent=percent,
    distribution=distribution,
    rate=st.none() | rate,
)
access = st.builds(
    plan.Access,
    cover=st.sampled_from(["once", "independent"]),
    passes=st.sampled_from(["same", "fresh"]),
    run_length=count,
    gap_bytes=st.integers(-(2**63), 2**63 - 1),
    gap_spread_bytes=u64,
    at_end=st.sampled_from(["wrap", "stop"]),
    position=st.sampled_from(["kind", "worker", "job", "identical", "repeated"]),
    strided=st.none() | st.builds(plan.Strided, range_bytes=u64, zone_bytes=u64, skip_bytes=u64),
)
content = st.one_of(
    st.builds(plan.RandomContent),
    st.builds(plan.ZeroContent),
    st.builds(plan.PatternContent, bytes=hexadecimal),
    st.builds(plan.PoolContent, bytes=u64, path=st.none() | text),
)
payload = st.builds(
    plan.Payload,
    content=content,
    renew=st.sampled_from(["keep", "scramble", "refill"]),
    compress_percent=percent,
    compress_chunk_bytes=u32,
    dedupe_percent=percent,
)
think = st.builds(
    plan.Think,
    pause_ns=u64,
    spin_ns=u64,
    every=count,
    counts=st.sampled_from(["completed", "issued"]),
    every_ns=st.none() | u64,
    drains=st.booleans(),
    moves_schedule=st.booleans(),
)
sync = st.builds(plan.SyncPlan, kind=st.sampled_from(typing.get_args(plan.SyncKind)), every=count)
latency_target = st.builds(
    plan.LatencyTarget,
    target_ns=u64,
    window_ns=st.integers(1, 2**64 - 1),
    percentile=st.floats(0, 100, exclude_min=True),
    run_on=st.booleans(),
)
steady_state = st.builds(
    plan.SteadyState,
    figure=st.sampled_from(["iops", "bandwidth", "latency"]),
    criterion=st.sampled_from(["deviation", "slope"]),
    limit=above_zero,
    limit_is_percent=st.booleans(),
    duration_ns=st.integers(1, 2**64 - 1),
    ramp_ns=u64,
    check_ns=st.integers(1, 2**64 - 1),
)
verify = st.builds(
    plan.Verify,
    method=st.sampled_from(typing.get_args(plan.VerifyMethod)),
    interval_bytes=u32,
    header_offset=u32,
    pattern=hexadecimal,
    read_back=st.booleans(),
    backlog=st.none() | u32,
    backlog_batch=u32,
    only=st.booleans(),
    fatal=st.booleans(),
    dump=st.booleans(),
    map=st.none()
    | st.builds(
        plan.VerifyMap,
        paths=st.lists(text, max_size=3).map(tuple),
        before_write=st.booleans(),
        after_write=st.booleans(),
        take_over=st.booleans(),
    ),
)
tree_work = st.builds(
    plan.TreeWork,
    tree=st.builds(
        plan.Tree,
        depth=st.integers(1, 2**32 - 1),
        width=st.integers(1, 2**32 - 1),
        files=st.integers(1, 2**32 - 1),
        files_on_all_levels=st.booleans(),
        sizes=st.lists(st.builds(plan.SizeShare, bytes=u64, weight=u32), min_size=1, max_size=2).map(tuple),
        sizes_spread=st.booleans(),
        used_bytes=st.none() | u64,
        creates_parents=st.booleans(),
    ),
    tasks=st.lists(st.sampled_from(typing.get_args(plan.TreeTask)), min_size=1, max_size=3).map(tuple),
    select=st.builds(plan.SequentialSelect)
    | st.builds(plan.RandomSelect)
    | st.builds(plan.SkewedSelect, half_within_ppm=st.integers(1, 2**32 - 1)),
    select_once=st.booleans(),
    delete_first=st.booleans(),
    flush_before_close=st.booleans(),
    files_shared=st.booleans(),
    stop_after=st.none()
    | st.builds(plan.AfterTransfers, count=u64)
    | st.builds(plan.AfterPercent, percent=st.integers(0, 100)),
)
worker = st.builds(
    plan.Worker,
    job=text,
    jobnum=u32,
    report_group=u32,
    engine=engine,
    disk=st.none() | disk,
    files=st.lists(file, min_size=1, max_size=3).map(tuple),
    file_select=st.sampled_from(["round_robin", "random", "sequential"]),
    file_run=count,
    operations=st.lists(operation, min_size=1, max_size=2).map(tuple),
    access=access,
    depth=count,
    batch=st.builds(plan.Batch, submit=u32, complete_min=u32, complete_max=u32, low=u32),
    rate=st.none() | rate,
    think=st.none() | think,
    syncs=st.lists(sync, max_size=3).map(tuple),
    tree=st.none() | tree_work,
    replay=st.none() | st.builds(plan.Replay, path=st.text(max_size=5), records=u64, paced=st.booleans()),
    sync_at_end=st.booleans(),
    wait_for=st.lists(text, max_size=2).map(tuple),
    start_delay_ns=u64,
    ramp_ns=u64,
    end=st.builds(
        plan.End,
        runtime_ns=st.none() | u64,
        bytes=st.none() | u64,
        operations=st.none() | u64,
        when_full=st.booleans(),
    ),
    cooldown_ns=u64,
    ends_others=st.sampled_from(["never", "always", "on_error", "together"]),
    ends_run=st.booleans(),
    flow=st.none() | st.builds(plan.Flow, id=u32, weight=count),
    latency_target=st.none() | latency_target,
    steady_state=st.none() | steady_state,
    seed=u64,
    payload=payload,
    verify=st.none() | verify,
    submission_latency=st.booleans(),
    log=st.none() | st.builds(plan.LogPlan, window_ns=st.none() | u64, histograms=st.booleans(), records=u64),
    cpus=st.lists(u32, max_size=2).map(tuple),
)
group = st.builds(plan.Group, workers=st.lists(worker, min_size=1, max_size=2).map(tuple))
plans = st.builds(
    plan.Plan,
    name=text,
    interval_ns=st.integers(1_000_000, 2**64 - 1),
    groups=st.lists(group, min_size=1, max_size=2).map(tuple),
)


# No deadline: the time that a busy machine takes to create a plan is irrelevant to the contract.
@pytest.mark.slow
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(plans)
def test_rust_reads_plans_of_python(written: plan.Plan) -> None:
    read = _native.plan_as_read(written.to_json())
    assert plan.Plan.from_json(read) == written
    assert json.loads(read) == json.loads(written.to_json())


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
