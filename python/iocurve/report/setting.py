"""The opening sentences of a report: the aim of a scenario, the question and the answer of a search."""

from __future__ import annotations

from iocurve.report.prose import capitalised, sentence
from iocurve.result.document import Finding, Result, ScenarioFacts, SearchFacts
from iocurve.units import format_number


def setting(result: Result) -> list[str]:
    """The aim and the form of the scenario, then the question and the findings of the search."""
    return [
        *(_scenario(result.scenario) if result.scenario else ()),
        *(_search(result.search) if result.search else ()),
    ]


def incomplete_reason(result: Result) -> str:
    """The reason why points are missing or cut short, as a sentence; empty where the run is complete."""
    return sentence(result.incomplete_reason or ("" if result.state == "finished" else "no reason is recorded"))


def _scenario(scenario: ScenarioFacts) -> list[str]:
    shortened = [f"Not the full scenario: {'; '.join(scenario.shortened)}."] if scenario.shortened else []
    return [" ".join(scenario.why.split()), *shortened]


def _search(search: SearchFacts) -> list[str]:
    return [
        f"{capitalised(search.question)} ({search.workload}).",
        *map(_finding, search.findings),
        f"The search stopped: {search.stopped}.",
        *(f"{capitalised(remark)}." for remark in search.remarks),
    ]


def _finding(finding: Finding) -> str:
    bounds = f" ({finding.figure.bounds_text})" if finding.figure.bounds_text else ""
    figure = f"{format_number(finding.figure.value)} {finding.unit}".rstrip()
    return f"{capitalised(finding.name)}: {figure}{bounds}."
