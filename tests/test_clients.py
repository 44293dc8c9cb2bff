"""Several clients on one machine: each with its own address and its own bandwidth."""

from __future__ import annotations

import json
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import pytest

from bench.servers import Server
from bench.servers import volume as serve
from data.synthetic import capped
from goldens import data, present
from iocurve.analysis.limits import limit_of
from iocurve.engine import plan as planned
from iocurve.engine.outcome import Outcome, WorkerOutcome
from iocurve.foundation.units import KIB, MIB, MILLISECOND_NS, SECOND_NS
from iocurve.measure import local
from iocurve.measure.scenario import runner
from iocurve.measure.scenario.cases import Cases
from iocurve.measure.scenario.document import load
from iocurve.report.progress import NoView
from iocurve.result.document import Point, TargetFacts
from iocurve.result.summary import Totals, summarise
from iocurve.targets import opened_target as place
from iocurve.targets import target as targets
from iocurve.volume import control
from plans import READ, WRITE, file_plan, nfs_engine, plan_of, worker

pytestmark = pytest.mark.slow

EGRESS = 20 * MIB
TRIES = 3
"""A limit makes up for no moment in which a busy machine does not run its client; a wrong limit fails every try."""

SCENARIO = data("scenarios/clients.toml")


@pytest.fixture(autouse=True)
def runtime(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A private directory for control sockets, apart from other volumes of this machine."""
    directory = tmp_path_factory.mktemp("run")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(directory))
    return directory


def three_clients(server: Server, operation: planned.OperationPlan, runtime_ns: int) -> planned.Plan:
    """Each client has two connections and 64 KiB blocks."""
    mount = nfs_engine(server.url, nconnect=2).mount
    block = operation.replace(blocks=planned.FixedBlocks(bytes=64 * KIB))
    return plan_of(
        *(
            worker(
                planned.NfsEngine(mount=mount.replace(source=source(number))),
                "",
                jobnum=number,
                files=(file_plan(f"f{number}", 2 * MIB),),
                operations=(block,),
                ramp_ns=500 * MILLISECOND_NS,
                end=planned.End(runtime_ns=runtime_ns, bytes=None, operations=None),
            )
            for number in (1, 2, 3)
        )
    )


def source(number: int) -> str:
    return str(IPv4Address("127.0.1.0") + number)


def total(plan: planned.Plan, outcome: Outcome, kind: str) -> Totals:
    assert outcome.state == "finished"
    return summarise("all", plan, outcome.workers).kinds[kind]


def rate(plan: planned.Plan, of_one: WorkerOutcome) -> float:
    """Bytes per second of a worker with one kind of operation."""
    (kind,) = summarise("one", plan, [of_one]).kinds.values()
    return kind.bytes_per_s


def stats(server: Server) -> dict[str, Any]:
    with control.Client(str(server.port)) as client:
        found: dict[str, Any] = json.loads(client.stats().to_json())
        return found


def test_clients_write_at_their_egress_and_read_without_a_cap() -> None:
    with serve("--unlimited", "--client-egress", "20MiB") as server:
        plan = three_clients(server, WRITE, 2 * SECOND_NS)
        for _ in range(TRIES):
            outcome = local.run(plan)
            each = [rate(plan, of_one) for of_one in outcome.workers]
            if each == pytest.approx([EGRESS] * 3, rel=0.02):
                break
        assert each == pytest.approx([EGRESS] * 3, rel=0.02)
        assert total(plan, outcome, "write").bytes_per_s == pytest.approx(3 * EGRESS, rel=0.02)
        facts = capped(TargetFacts(kind="embedded_volume", address=""), client_bandwidth_write_bytes_per_s=EGRESS)
        limit = present(limit_of(Point(name="p", family="f", axes={}, plan=plan, outcome=outcome), facts))
        assert limit.text == "3 of 3 clients at the egress of 20 MiB/s that a client has for writes"
        before = stats(server)["exports"][0]
        plan = three_clients(server, READ, 100 * MILLISECOND_NS)
        plan = without_layout(plan)
        assert total(plan, local.run(plan), "read").operations > 0
        after = stats(server)
        waited_ns = after["exports"][0]["throttled_ns"] - before["throttled_ns"]
        # At 20 MiB/s each of the eight would wait for 25 ms; threads whose clocks differ wait for a few microseconds.
        assert waited_ns < MILLISECOND_NS * (after["exports"][0]["reads"] - before["reads"])
        addresses = {client["address"]: client for client in after["clients"]}
        assert all(addresses[str(source(number))]["writes"] > 0 for number in (1, 2, 3))


def without_layout(plan: planned.Plan) -> planned.Plan:
    """The layout writes the files."""
    (group,) = plan.groups
    workers = [one.replace(files=(file_plan(one.files[0].path, 2 * MIB, layout="reserve"),)) for one in group.workers]
    return plan_of(*workers)


@pytest.mark.alone
def test_a_scenario_s_clients_have_an_address_each_and_reach_the_egress_of_the_target(tmp_path: Path) -> None:
    (tmp_path / "three.toml").write_text(SCENARIO)
    scenario = load(str(tmp_path / "three.toml"))
    target = targets.parse("volume:unlimited?client_egress=160Mb")
    request = runner.Request(scenario, scenario.full, "full", {"volume": target}, probe=False)
    result = runner.carry_out(request, NoView(), lambda _: None)
    (point,) = result.points
    engines = [one.engine for one in point.plan.groups[0].workers]
    mounts = [engine.mount.source for engine in engines if isinstance(engine, planned.NfsEngine)]
    assert mounts == [source(number) for number in (1, 1, 2, 2, 3, 3)]
    assert point.summary().bytes_per_s == pytest.approx(3 * 160e6 / 8, rel=0.05)
    limit = present(limit_of(point, result.target))
    assert limit.code == "client_egress"
    assert [note.code for note in result.notes] == ["clients_stand_in"]


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("nfs://127.0.0.1:2049/a", ["127.0.1.1", "127.0.1.1", "127.0.1.2", "127.0.1.2", "127.0.1.3", "127.0.1.3"]),
        ("nfs://localhost/a", ["127.0.1.1", "127.0.1.1", "127.0.1.2", "127.0.1.2", "127.0.1.3", "127.0.1.3"]),
        ("nfs://10.0.0.5/a", [None] * 6),
        ("nfs://[::1]/a", [None] * 6),
        (".", [None] * 6),
    ],
)
def test_only_a_server_on_loopback_sees_many_clients(tmp_path: Path, target: str, expected: list[str | None]) -> None:
    (tmp_path / "three.toml").write_text(SCENARIO)
    scenario = load(str(tmp_path / "three.toml"))
    with place.opened(targets.parse(target)) as there:
        (case,) = Cases(scenario, scenario.full, {"volume": there}, "tag").all()
    assert [section.target.nfs_source for section in case.job.sections] == expected


def test_the_system_chooses_the_address_of_a_single_client(tmp_path: Path) -> None:
    (tmp_path / "one.toml").write_text(SCENARIO.replace("clients = 3", "clients = 1"))
    scenario = load(str(tmp_path / "one.toml"))
    with place.opened(targets.parse("nfs://127.0.0.1/a")) as there:
        (case,) = Cases(scenario, scenario.full, {"volume": there}, "tag").all()
    assert [section.target.nfs_source for section in case.job.sections] == [None, None]
