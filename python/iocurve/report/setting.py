"""The opening of a report: its heading, its targets, the aim of a scenario, the question of a search."""

from __future__ import annotations

from iocurve.analysis.findings import search_load
from iocurve.analysis.limits import volume_description
from iocurve.result.document import Result, ScenarioFacts, SearchFacts, TargetFacts
from iocurve.units import MB, MIB, capitalised, format_number, sentence


def heading(result: Result) -> str:
    """The name of the result; of a search, whose name has the target as well, the search and its load."""
    return f"{capitalised(result.kind)}: {search_load(result, result.search)}" if result.search else result.name


def targets(result: Result) -> list[tuple[str, str, str]]:
    """Name in the scenario (empty for a single target), address, and how it is emulated (empty for a real one)."""
    named = result.scenario.targets if result.scenario else {}
    if len(named) > 1:
        return [(name, facts.address, _emulation(facts)) for name, facts in named.items()]
    return [("", result.target.address, _emulation(result.target))]


def tools(result: Result) -> str:
    """The tools that measured the imported points: ``fio 3.33``; empty without such points."""
    return ", ".join(dict.fromkeys(point.imported.tool for point in result.points if point.imported))


def setting(result: Result) -> list[str]:
    """The aim and the form of the scenario, then the question of the search and how it ended."""
    return [
        *(_scenario(result.scenario) if result.scenario else ()),
        *(_search(result.search) if result.search else ()),
    ]


def incomplete_reason(result: Result) -> str:
    """The reason why points are missing or cut short, as a sentence; empty where the run is complete."""
    return sentence(result.incomplete_reason or ("" if result.state == "finished" else "no reason is recorded"))


def emulation_label(result: Result) -> str:
    """Names the emulated targets of a result; empty where all targets are real."""
    facts = result.scenario.targets.values() if result.scenario else [result.target]
    named = [
        _EMULATED[one.kind].format(what=one.address if result.scenario else volume_description(one) or "no limits")
        for one in facts
        if one.kind in _EMULATED
    ]
    return "emulated target: " + " and ".join(dict.fromkeys(named)) if named else ""


_EMULATED = {"embedded_volume": "embedded NFS volume ({what})", "emulated_disk": "disk ({what})"}


def _emulation(target: TargetFacts) -> str:
    """``emulated: embedded NFS volume (ultra, 4 TiB, 512 MiB/s)``; a disk is described by its address."""
    if target.kind == "embedded_volume":
        level = volume_description(target)
        return f"emulated: embedded NFS volume ({', '.join(filter(None, (level, *_limits(target)))) or 'no limits'})"
    return f"emulated disk ({', '.join(_limits(target)) or 'no limits'})" if target.kind == "emulated_disk" else ""


def _limits(target: TargetFacts) -> list[str]:
    """The limits for reads and writes together; disks are sold in MB/s."""
    throughput, is_disk = target.throughput_bytes_per_s, target.kind == "emulated_disk"
    return [
        *([f"{target.iops:,} IOPS"] if target.iops else []),
        *(
            [f"{format_number(throughput / (MB if is_disk else MIB), 5)} {'MB' if is_disk else 'MiB'}/s"]
            if throughput
            else []
        ),
    ]


def _scenario(scenario: ScenarioFacts) -> list[str]:
    shortened = [f"Not the full scenario: {'; '.join(scenario.shortened)}."] if scenario.shortened else []
    return [*filter(None, (scenario.question, " ".join(scenario.why.split()))), *shortened]


def _search(search: SearchFacts) -> list[str]:
    return [
        f"{capitalised(search.question)} ({search.workload}).",
        f"The search stopped: {search.stopped}.",
        *(f"{capitalised(remark)}." for remark in search.remarks),
    ]
