"""Configuration, limits and counters of a volume are one contract in two languages."""

import json
import re
import socket
import struct
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.json_paths import Path, paths, without
from goldens import matches, present
from iocurve import _native
from iocurve.foundation.errors import TargetError
from iocurve.foundation.units import GIB, MIB
from iocurve.result.caps import CAPS, Burst, caps
from iocurve.volume import limits
from iocurve.volume.config import ExportConfig, FaultRate, Faults, MemoryStore, VolumeConfig
from iocurve.volume.messages import VolumeStats
from programs import awaited

FAULTS = Faults(rates=(FaultRate(kind="stale-read", rate=1e-9),))
CONFIG = VolumeConfig(exports=(ExportConfig(store=MemoryStore(limit_bytes=MIB), quota_bytes=GIB),), faults=FAULTS)

u64, hour_ns = st.integers(1, 2**64 - 1), st.integers(1, 3600 * 10**9)
rates = st.none() | u64
distribution = st.one_of(
    st.builds(limits.Constant),
    st.builds(limits.Exponential, mean_ns=hour_ns),
    st.tuples(hour_ns, hour_ns).map(lambda two: limits.Lognormal(median_ns=min(two), p99_ns=max(two))),
)
bursts = st.none() | st.builds(Burst, value=st.just(2**64 - 1), credits=u64)
costs = {f"{kind}_{unit}": st.integers(1, 1000) for kind in ("read", "write") for unit in ("iops", "bytes")}
all_limits = st.builds(
    limits.Limits,
    caps=st.builds(caps, st.fixed_dictionaries({cap.name: rates for cap in CAPS} | {"iops": u64}), bursts),
    latency=st.builds(limits.AddedLatency, base_ns=hour_ns, distribution=distribution, seed=u64),
    parallelism=st.none() | st.builds(limits.Parallelism, servers=st.integers(1, 64), service_ns=hour_ns),
    server_cache=st.none() | st.builds(limits.ServerCache, bytes=st.integers(4096, 2**40), **costs),
)


@pytest.fixture(scope="module")
def volume() -> Iterator[_native.Volume]:
    served = _native.Volume(CONFIG.to_json())
    yield served
    served.stop()


@given(all_limits)
def test_rust_has_the_limits_that_python_sets(volume: _native.Volume, written: limits.Limits) -> None:
    volume.set_limits("/vol", written.to_json())
    (export,) = VolumeStats.from_json(stats_text(volume)).exports
    assert export.limits == written


def test_buckets_have_the_names_of_their_limits(volume: _native.Volume) -> None:
    volume.set_limits("/vol", limits.Limits(caps=caps({cap.name: 1000 for cap in CAPS})).to_json())
    (export,) = VolumeStats.from_json(stats_text(volume)).exports
    matches("volume_contract/buckets_have_the_names_of_their_limits", [bucket.limit for bucket in export.buckets])
    volume.set_limits("/vol", limits.Limits().to_json())


def test_python_reads_the_counters_of_rust(volume: _native.Volume) -> None:
    rows = caps({"iops": 7, "connection.bandwidth_bytes_per_s": MIB})
    volume.set_limits("/vol", limits.Limits(caps=rows).to_json())
    text = connected_stats_text(volume)
    read = VolumeStats.from_json(text)
    assert json.loads(read.to_json()) == json.loads(text)
    assert (len(read.clients), len(read.connections), len(read.exports[0].buckets)) == (1, 1, 1)


def required(document: Any) -> list[Path]:
    """Paths of the fields that must be present. Limits have defaults, which are the same on both sides."""
    return [path for path in paths(document) if "limits" not in path[:-1]]


@pytest.mark.parametrize("path", required(json.loads(CONFIG.to_json())), ids=lambda path: ".".join(map(str, path)))
def test_rust_requires_every_field_of_a_configuration(path: Path) -> None:
    document = without(json.loads(CONFIG.to_json()), path)
    with pytest.raises(TargetError, match=f"missing field `{path[-1]}`"):
        _native.Volume(json.dumps(document))


def test_both_sides_refuse_unknown_fields(volume: _native.Volume) -> None:
    for document in (json.loads(CONFIG.to_json()) | {"surprise": 1}, with_surprise_in_limits()):
        with pytest.raises(TargetError, match="unknown field `surprise`"):
            _native.Volume(json.dumps(document))
        with pytest.raises(ValueError, match="surprise"):
            VolumeConfig.from_builtins(document)
    with pytest.raises(ValueError, match="surprise"):
        VolumeStats.from_builtins(json.loads(stats_text(volume)) | {"surprise": 1})


def test_python_requires_every_field_of_the_counters(volume: _native.Volume) -> None:
    document = json.loads(connected_stats_text(volume))
    by_name = {"nfs4", "faults", "nfs3_procedures", "nfs4_operations"}
    for path in [path for path in required(document) if not by_name & {*path[:-1]}]:
        with pytest.raises(ValueError, match=f"missing required field `{path[-1]}`"):
            VolumeStats.from_builtins(without(document, path))


def connected_stats_text(volume: _native.Volume) -> str:
    """The counters while a client is connected."""
    with socket.create_connection(("127.0.0.1", volume.port)):
        awaited(lambda: json.loads(stats_text(volume))["connections"], "the connection is not there")
        return stats_text(volume)


def stats_text(volume: _native.Volume) -> str:
    return present(volume.stats())


def with_surprise_in_limits() -> Any:
    document = json.loads(CONFIG.to_json())
    document["exports"][0]["limits"]["surprise"] = 1
    return document


def test_exchange_id_tells_the_version_with_its_commit(volume: _native.Volume) -> None:
    none = bytes(8)
    call = struct.pack(">6I", 1, 0, 2, 100_003, 4, 1) + 2 * none
    owner = bytes(8) + struct.pack(">I4s", 4, b"test")
    compound = struct.pack(">4I", 0, 1, 1, 42) + owner + struct.pack(">3I", 0, 0, 0)
    record = call + compound
    with socket.create_connection(("127.0.0.1", volume.port), timeout=10) as connection:
        connection.sendall(struct.pack(">I", 1 << 31 | len(record)) + record)
        reply = connection.recv(4096)
    assert f"iocurve {_native.VERSION}".encode() in reply
    assert re.fullmatch(r"\d+\.\d+\.\d+(\+[0-9a-f]{12})?", _native.VERSION)
