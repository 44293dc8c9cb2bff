"""Several clients on one machine, each with its own address; limits of each agent and of all together."""

import json
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from bench.servers import Server
from bench.servers import volume as serve
from data import synthetic
from data.synthetic import capped, kind, plan, worker_outcome, worker_plan
from goldens import Golden, cases, data, matches, present
from iocurve.analysis import read
from iocurve.analysis.client_limits import client_verdicts, fairness_of
from iocurve.analysis.limits import limit_of, verdict_of, with_verdicts, without_verdicts
from iocurve.engine import plan as planned
from iocurve.engine.outcome import WorkerOutcome
from iocurve.engine.plan import NfsEngine
from iocurve.foundation.units import KIB, MIB, MILLISECOND_NS, SECOND_NS
from iocurve.measure import local
from iocurve.measure.scenario import runner
from iocurve.measure.scenario.cases import Cases
from iocurve.measure.scenario.document import load as scenario_of
from iocurve.report.conditions import conditions
from iocurve.report.figures import shared
from iocurve.report.progress import NoView
from iocurve.report.table import clients_table
from iocurve.result.document import (
    ClientOutcome,
    ClusterFacts,
    IdleCost,
    Limit,
    MachineUse,
    Point,
    Result,
    TargetFacts,
)
from iocurve.result.summary import Totals, summarise
from iocurve.targets import opened_target as place
from iocurve.targets import target as targets
from iocurve.volume import control
from plans import READ, WRITE, file_plan, nfs_engine, plan_of, worker
from programs import printed

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("runtime")]

EGRESS = 20 * MIB
TRIES = 3
"""A limit makes up for no moment in which a busy machine does not run its client; a wrong limit fails every try."""

SCENARIO = data("scenarios/clients.toml")


def three_clients(
    server: Server, operation: planned.OperationPlan, runtime_ns: int, layout: planned.Layout = "fill"
) -> planned.Plan:
    """Each client has two connections and 64 KiB blocks; a layout writes the files, but for a reserved one."""
    mount = nfs_engine(server.url, nconnect=2).mount
    block = operation.replace(blocks=planned.FixedBlocks(bytes=64 * KIB))
    return plan_of(
        *(
            worker(
                planned.NfsEngine(mount=mount.replace(source=source(number))),
                "",
                jobnum=number,
                files=(file_plan(f"f{number}", 2 * MIB, layout=layout),),
                operations=(block,),
                ramp_ns=500 * MILLISECOND_NS,
                end=planned.End(runtime_ns=runtime_ns, bytes=None, operations=None),
            )
            for number in (1, 2, 3)
        )
    )


def source(number: int) -> str:
    return str(IPv4Address("127.0.1.0") + number)


def total(plan: planned.Plan, *workers: WorkerOutcome) -> Totals:
    """The total of workers with one kind of operation."""
    assert {worker.state for worker in workers} == {"finished"}
    (kind,) = summarise("some", plan, workers).kinds.values()
    return kind


def stats(server: Server) -> dict[str, Any]:
    with control.Client(str(server.port)) as client:
        found: dict[str, Any] = json.loads(client.stats().to_json())
        return found


def test_clients_write_at_their_egress_and_read_without_a_cap() -> None:
    with serve("--profile=unlimited", "--client-egress", "20MiB") as server:
        plan = three_clients(server, WRITE, 2 * SECOND_NS)
        for _ in range(TRIES):
            outcome = local.run(plan)
            each = [total(plan, worker).bytes_per_s for worker in outcome.workers]
            if each == pytest.approx([EGRESS] * 3, rel=0.02):
                break
        assert each == pytest.approx([EGRESS] * 3, rel=0.02)
        assert total(plan, *outcome.workers).bytes_per_s == pytest.approx(3 * EGRESS, rel=0.02)
        facts = capped(TargetFacts(kind="embedded_volume", address=""), client_bandwidth_write_bytes_per_s=EGRESS)
        limit = present(limit_of(Point(name="p", family="f", axes={}, plan=plan, outcome=outcome), facts))
        assert limit.text == "3 of 3 clients at the egress of 20 MiB/s that a client has for writes"
        before = stats(server)["exports"][0]
        plan = three_clients(server, READ, 100 * MILLISECOND_NS, layout="reserve")
        assert total(plan, *local.run(plan).workers).operations > 0
        after = stats(server)
        waited_ns = after["exports"][0]["throttled_ns"] - before["throttled_ns"]
        # At 20 MiB/s each of the eight would wait for 25 ms; threads whose clocks differ wait for a few microseconds.
        assert waited_ns < MILLISECOND_NS * (after["exports"][0]["reads"] - before["reads"])
        addresses = {client["address"]: client for client in after["clients"]}
        assert all(addresses[str(source(number))]["writes"] > 0 for number in (1, 2, 3))


@pytest.mark.alone
def test_a_scenario_s_clients_have_an_address_each_and_reach_the_egress_of_the_target(tmp_path: Path) -> None:
    (tmp_path / "three.toml").write_text(SCENARIO)
    scenario = scenario_of(str(tmp_path / "three.toml"))
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
    assert "clients_stand_in" in {note.code for note in result.notes}


def sources_of(directory: Path, target: str, text: str) -> list[str | None]:
    """The addresses of the clients of a scenario's only point."""
    (directory / "clients.toml").write_text(text)
    scenario = scenario_of(str(directory / "clients.toml"))
    with place.opened(targets.parse(target)) as there:
        (case,) = Cases(scenario, scenario.full, {"volume": there}, "tag").all()
    return [section.target.nfs_source for section in case.job.sections]


@cases("targets/loopback_addresses")
def test_only_a_server_on_loopback_sees_many_clients(tmp_path: Path, target: str, expected: list[str | None]) -> None:
    assert sources_of(tmp_path, target, SCENARIO) == expected


def test_the_system_chooses_the_address_of_a_single_client(tmp_path: Path) -> None:
    one = SCENARIO.replace("clients = 3", "clients = 1")
    assert sources_of(tmp_path, "nfs://127.0.0.1/a", one) == [None, None]


# ---- limits of clients


BLOCK = 64 * 1024
FREE = TargetFacts(kind="nfs", address="nfs://server/vol")
BUSY = MachineUse(busy_share=0.97, cpus=2)
IDLE = MachineUse(busy_share=0.2, cpus=2)
OWN_CPU = "all 2 processors of the client more than 95% busy"


def client(number: int, machine: MachineUse = IDLE) -> ClientOutcome:
    """``vm1``, ``vm2``, … on separate machines."""
    name = f"vm{number + 1}"
    host = synthetic.HOST.replace(hostname=name)
    return ClientOutcome(client=number, name=name, host=host, state="finished", machine=machine)


def at(*clients: tuple[int, MachineUse], depth: int = 1000, kinds: str = "read") -> Point:
    """One second of 64 KiB blocks of 1 ms on each client: the number of blocks, and the use of its machine."""
    worker = worker_plan([(kinds, 100)], block_bytes=BLOCK, depth=depth, nconnect=1)
    assert isinstance(worker.engine, NfsEngine)
    worker = worker.replace(engine=NfsEngine(mount=worker.engine.mount.replace(source=None)))
    outcomes = [
        worker_outcome({kinds: kind({1_000_000: blocks}, BLOCK)}, number=number)
        for number, (blocks, _) in enumerate(clients)
    ]
    found = tuple(client(number, machine) for number, (_, machine) in enumerate(clients))
    machine = max((machine for _, machine in clients), key=lambda one: one.busy_share)
    planned = plan([worker.replace(client=number) for number in range(len(clients))])
    return synthetic.point(planned, *outcomes, machine=machine, clients=found)


def group_and_clients(point: Point, target: TargetFacts) -> tuple[Limit, list[tuple[str, str]]]:
    verdict = present(verdict_of(point, target))
    return verdict, [(one.limit.code, one.limit.text) for one in client_verdicts(point, target)]


@cases("analysis/client_limits")
def test_agents_and_their_group_have_a_limit(
    agents: list[tuple[int, str]], limits: dict[str, int], load: dict[str, Any], golden: Golden
) -> None:
    """Of each agent the blocks, and the state of its machine."""
    machines = {"idle": IDLE, "busy": BUSY}
    point = at(*((blocks, machines[state]) for blocks, state in agents), **load)
    golden.check(group_and_clients(point, capped(FREE, **limits)))


def test_the_volume_s_limit_is_that_of_every_client_that_has_none_of_its_own() -> None:
    third = 8192 // 3
    verdict, each = group_and_clients(at((third, IDLE), (third, BUSY), (third + 1, IDLE)), synthetic.VOLUME)
    cap = "at the volume's limit of 512 MiB/s (ultra, 4 TiB)"
    assert (verdict.code, verdict.text, verdict.confidence) == ("volume_throughput", cap, "certain")
    common = ("volume_throughput", f"{cap}, which 3 clients share")
    assert each == [common, ("client_cpu", OWN_CPU), common]
    assert verdict.evidence[-1] == f"client 2 of 3 (vm2): {OWN_CPU}"
    quiet, _ = group_and_clients(at((third, IDLE), (third, IDLE), (third + 1, IDLE)), synthetic.VOLUME)
    assert quiet.evidence[-1] == "no client is limited by itself"


def test_a_client_that_measured_nothing_has_no_verdict() -> None:
    point = at((100, IDLE), (0, IDLE))
    assert [one.number for one in client_verdicts(point, FREE)] == [1]
    [judged] = with_verdicts(synthetic.result([point], target=FREE)).points
    assert [one.limit is None for one in judged.clients] == [False, True]
    assert without_verdicts(judged) == point


def test_fairness_names_the_slowest_and_the_fastest_client() -> None:
    point = at((100, IDLE), (50, IDLE), (100, IDLE))
    matches("measure#fairness", fairness_of(point))
    [judged] = with_verdicts(synthetic.result([point], target=FREE)).points
    assert judged.fairness == fairness_of(point)
    lost = point.clients[1].replace(state="lost")
    without = present(fairness_of(point.replace(clients=(point.clients[0], lost, point.clients[2]))))
    assert (without.jain_index, without.slowest) == (1.0, 0)
    assert fairness_of(point.replace(clients=())) is None


def document() -> Result:
    point = at((100, IDLE), (50, BUSY), (100, IDLE))
    idle = IdleCost(
        client="vm1", seconds=1.0, daemon_share=0.005, daemon_processors=(0,), longest_gap_ns=310_000, gap_share=0.004
    )
    cluster = ClusterFacts(framework="Ray 2.0", idle=(idle, idle.replace(client="vm2", longest_gap_ns=90_000)))
    return with_verdicts(synthetic.result([point], target=FREE).replace(cluster=cluster))


def test_verdicts_and_fairness_are_in_table_report_and_answers(tmp_path: Path) -> None:
    result = document()
    limited = "client 2 of 3: client's CPU; 2 of 3 clients: inconclusive"
    out = Console(width=150, color_system=None)
    with out.capture() as captured:
        out.print(present(clients_table(result)))
    shown = captured.get()
    assert shown.split("\n")[1].split("  ")[0] == "p"
    for cell in ("3 of 3", "vm2: 3.1 MiB/s", "vm1: 6.2 MiB/s", "0.926", limited):
        assert cell in shown
    group, each = shared(read(result))
    assert group.table.rows == (("p", "vm2: 3.1 MiB/s", "vm1: 6.2 MiB/s", limited, "3 of 3", "250", "15.6", "0.926"),)
    matches("measure#verdicts fairness", [(row[1], row[-1]) for row in each.table.rows])
    assert clients_table(synthetic.envelope()) is None
    result.write(tmp_path / "result.json")
    assert Result.read(tmp_path / "result.json") == result
    lines = printed("why", str(tmp_path)).splitlines()
    assert f"  client 2 of 3 (vm2): client's CPU (likely): {OWN_CPU}" in lines


def test_conditions_tell_the_cost_of_the_cluster() -> None:
    matches("client_limits/conditions_tell_the_cost_of_the_cluster", conditions(document())["Cluster"])
    assert "Cluster" not in conditions(synthetic.envelope())
