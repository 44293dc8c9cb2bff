"""An article of results: a benchmark page of a volume, in Markdown and HTML, in the form that suppliers use.

It has nothing that the results do not hold: values with their intervals, the limits that were found with their
confidence, and the commands and plans from which each value can be measured again.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from string import Template

import msgspec

from iocurve._native import VERSION
from iocurve.analysis import Reading
from iocurve.analysis.families import PointFamily
from iocurve.analysis.headlines import rate_bounds, rate_text
from iocurve.analysis.load_names import workers_of
from iocurve.engine.plan import AioEngine, FixedBlocks, NfsEngine, SyncEngine, UringEngine, Worker
from iocurve.foundation.errors import ResultError
from iocurve.foundation.units import SECOND_NS, capitalised, format_latency, sentence
from iocurve.report import loads
from iocurve.report.cells import ReportFigure, rate, rate_unit, slug
from iocurve.report.conditions import Folded, conditions, emulation_label, heading, incomplete_reason, setting
from iocurve.report.figures import family_figures
from iocurve.report.page import rendered, write_charts
from iocurve.report.table import Table, escaped
from iocurve.result.document import Point
from iocurve.result.document_file import write_atomically

METHOD = (
    "Rates are over the time in which all workers of a point ran. Latency is from submission to completion; for "
    "operations at a set rate, from the moment each was due. Percentiles come from the merged histograms of a point.",
    "Intervals are 95 % intervals of the mean, from repeated runs of a point or from the intervals of one run. A value "
    "without one was measured too briefly to have one.",
    "A bottleneck is named with the confidence of its evidence; one that is only possible was not shown by a change.",
)
NOT_SET_UP = ("Run", "Load")
"""Headings of conditions that are part of the tests."""
LEFT_OUT = ("Seeds", "Idle daemons", "Longest idle gap")
SEARCHES = ("knee", "curve")
"""A result of ``max`` has its limit in a sentence, and not as an option."""
PARTS = ("title", "summary", "method", "setup", "tests", "limits", "appendix")
"""Names that a template may use, each after a dollar sign."""


class Section(msgspec.Struct, frozen=True):
    """A heading with what is below it."""

    heading: str
    level: int = 2
    sentences: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    figure: ReportFigure | None = None
    """Its charts and its table."""

    @property
    def slug(self) -> str:
        """The place of the section in links."""
        return slug(self.heading)


class Article(msgspec.Struct, frozen=True):
    """The sections of an article by part."""

    title: str
    label: str
    """Names the emulated targets; empty where all targets are real."""
    parts: dict[str, list[Section]]


def article(readings: Sequence[Reading], tuning: Sequence[Sequence[str]] = ()) -> Article:
    """The article of results, in their order; ``tuning`` has the rows of ``iocurve doctor``."""
    labels = [emulation_label(one.result) for one in readings]
    names = dict.fromkeys(heading(one.result) for one in readings)
    return Article(
        title=f"Performance benchmarks: {', '.join(names)}",
        label="; ".join(dict.fromkeys(filter(None, labels))),
        parts={
            "summary": [_summary(readings)],
            "method": [_method(readings)],
            "setup": [_setup(one, several=len(readings) > 1) for one in readings] + _tuned(tuning),
            "tests": [section for one in readings for section in _tests(one)],
            "limits": [_limits(readings), *_caveats(readings)],
            "appendix": [_appendix(readings)],
        },
    )


# ---- parts


def _summary(readings: Sequence[Reading]) -> Section:
    found: list[str] = []
    for one in readings:
        result = one.result
        found.append(f"{heading(result)}, measured on {result.created:%-d %B %Y} with iocurve {result.iocurve}.")
        if result.state != "finished":
            found.append(f"The measurement is incomplete: {incomplete_reason(result)}")
        found += [*one.sentences, *filter(None, [sentence(one.trust[1])])]
    return Section("Testing summary", sentences=tuple(found))


def _method(readings: Sequence[Reading]) -> Section:
    settings = [text for one in readings for text in setting(one.result)]
    return Section("Test method", sentences=(*dict.fromkeys(settings), *METHOD))


def _setup(reading: Reading, *, several: bool) -> Section:
    rows = [
        (name if title == "Machine" else f"{title}: {name}", fact.text if isinstance(fact, Folded) else fact)
        for title, facts in conditions(reading.result).items()
        if title not in NOT_SET_UP
        for name, fact in facts.items()
        if name not in LEFT_OUT
    ]
    title = f"Test configuration: {heading(reading.result)}" if several else "Test configuration"
    return Section(title, figure=_tabled(Table(("component", "configuration"), rows, sentences=("configuration",))))


def _tuned(rows: Sequence[Sequence[str]]) -> list[Section]:
    if not rows:
        return []
    told = "As iocurve doctor found it: green is as recommended, yellow and red are not."
    return [Section("Tuning of the client", 3, (told,), (), _tabled(Table(("setting", "of", "found", "state"), rows)))]


def _tests(reading: Reading) -> Iterator[Section]:
    """A section for each family: the commands, its charts, what was measured in two sentences, and its table."""
    yield Section(f"Tests: {heading(reading.result)}", sentences=_load(reading))
    for family in reading.families:
        lines = _commands(reading, family.name) + _fio_lines(family.members)
        first, *others = family_figures(family, reading)
        told = (*results_of(family), first.caption)
        yield Section(first.title, 3, tuple(filter(None, told)), tuple(lines[:FIO_LINES_MAX]), first)
        yield from (Section(one.title, 4, tuple(filter(None, [one.caption])), (), one) for one in others)


def _load(reading: Reading) -> tuple[str, ...]:
    facts = conditions(reading.result)["Load"]
    return tuple(
        f"{name}: {fact.summary if isinstance(fact, Folded) else fact}."
        for name, fact in facts.items()
        if name not in LEFT_OUT
    )


def results_of(family: PointFamily) -> tuple[str, ...]:
    """Two sentences: the highest rate of a family and the lowest, each with its interval, latency and bottleneck."""
    unit = rate_unit(family)
    ordered = sorted(family.members, key=lambda member: rate(member.summary(), unit))
    best, least = ordered[-1], ordered[0]
    told = [f"The highest rate is {_rate_at(family, best, unit)}."]
    if least is not best:
        told.append(f"The lowest rate is {_rate_at(family, least, unit)}.")
    return tuple(told)


def _rate_at(family: PointFamily, member: Point, unit: str) -> str:
    summary, bounds = member.summary(), rate_bounds(member, unit)
    percentiles = [(f"p{percent}", summary.latency.percentile(percent)) for percent in (50, 99)]
    latencies = [f"{name} {format_latency(value)}" for name, value in percentiles if value == value]
    facts = [bounds or "no interval", *latencies]
    limit = f", limited by: {member.limit.label}" if member.limit else ", the bottleneck is not known"
    noisy = ", noisy: other work disturbed it" if member.noise else ""
    return f"{rate_text(summary, unit)} {unit} at {loads.place(family, member)} ({', '.join(facts)}){limit}{noisy}"


def _limits(readings: Sequence[Reading]) -> Section:
    rows = [
        (group.text, group.confidence, "; ".join(group.points), group.next_step)
        for one in readings
        for group in one.limit_groups
    ]
    columns = ("limit", "confidence", "points", "next step")
    return Section("Limits found", figure=_tabled(Table(columns, rows, sentences=("limit", "points", "next step"))))


def _caveats(readings: Sequence[Reading]) -> list[Section]:
    doubts = tuple(dict.fromkeys(sentence(text) for one in readings for text in one.doubts))
    return [Section("Caveats", 3, doubts)] if doubts else []


def _appendix(readings: Sequence[Reading]) -> Section:
    """The commands of all results, and of each point its plan in short."""
    rows = [_planned(point) for one in readings for point in one.result.points if point.plan.groups]
    told = (
        "Each value can be measured again with these commands. The result.json of a run has every plan, with its seeds "
        "and histograms.",
    )
    commands = tuple(line for one in readings for line in _commands(one))
    columns = ("point", "workers", "depth of each", "files of each", "time s", "first seed")
    return Section(
        "Appendix: measure each value again", 2, told, commands, _tabled(Table(columns, rows, numbers=columns[1:]))
    )


def _planned(point: Point) -> tuple[str, ...]:
    workers = [worker for group in point.plan.groups for worker in group.workers]
    first, depths = workers[0], [worker.depth for worker in workers]
    return (
        point.name,
        str(len(workers)),
        "–".join(dict.fromkeys(map(str, (min(depths), max(depths))))),
        str(len(first.files)),
        f"{point.summary().window_ns / SECOND_NS:.3g}",
        str(first.seed),
    )


def _tabled(table: Table) -> ReportFigure:
    return ReportFigure("", "", "", (), table)


# ---- commands

FIO_LINES_MAX = 24
"""Most commands of one test."""


def _commands(reading: Reading, family: str = "") -> list[str]:
    """The command that measures a result, or one of its families; none where the result does not hold its words."""
    result, scenario = reading.result, reading.result.scenario
    if result.search and result.kind in SEARCHES:
        return [shlex.join(["iocurve", result.kind, result.target.address, "--workload", result.search.workload])]
    if scenario is None:
        return []
    targets = scenario.targets.items()
    named = [f"{name}={one.address}" if len(targets) > 1 else one.address for name, one in targets]
    words = ["iocurve", "run", scenario.name, *(word for one in named for word in ("--target", one))]
    words += ["--quick"] if scenario.form == "short" else []
    return [shlex.join([*words, *(["--points", family] if family else [])])]


def _fio_lines(points: Iterable[Point]) -> list[str]:
    """The points as fio's command lines, each once, as far as fio has words for them."""
    return list(dict.fromkeys(filter(None, map(fio_line, points))))


def fio_line(point: Point) -> str:
    """The load of a point as fio runs it on a mounted volume; empty where fio's options do not tell it whole."""
    workers = workers_of(point)
    first = workers[0] if workers else None
    if first is None or any(not _is_alike(worker, first) for worker in workers):
        return ""
    kinds = {operation.kind: operation for operation in first.operations}
    blocks = {operation.blocks for operation in first.operations if isinstance(operation.blocks, FixedBlocks)}
    random = {operation.random_percent for operation in first.operations}
    is_plain = kinds.keys() <= {"read", "write"} and len(blocks) == 1 and random in ({0}, {100})
    if not is_plain or first.end.runtime_ns is None:
        return ""
    name = "rw" if len(kinds) == 2 else next(iter(kinds))
    words = {
        "name": "test",
        "directory": "MOUNT",
        "rw": f"rand{name}" if random == {100} else name,
        **({"rwmixread": f"{kinds['read'].share}"} if len(kinds) == 2 else {}),
        "bs": f"{next(iter(blocks)).bytes}",
        "iodepth": f"{first.depth}",
        "numjobs": f"{len(workers)}",
        "size": f"{sum(file.bytes for file in first.files)}",
        "runtime": f"{first.end.runtime_ns // SECOND_NS or 1}",
        **({"ramp_time": f"{first.ramp_ns // SECOND_NS}"} if first.ramp_ns >= SECOND_NS else {}),
        "ioengine": "libaio",
        "direct": f"{int(_is_direct(first))}",
        "randrepeat": f"{int(first.access.passes == 'same')}",
    }
    flags = ["time_based", "group_reporting", *(["norandommap"] if first.access.cover == "independent" else [])]
    return shlex.join(["fio", *(f"--{key}={value}" for key, value in words.items()), *(f"--{flag}" for flag in flags)])


def _is_alike(worker: Worker, first: Worker) -> bool:
    """True for a worker that differs from the first in its files and seed alone, and needs no options of its kind."""
    special = (worker.disk, worker.tree, worker.replay, worker.think, worker.rate, worker.flow)
    paced = any(operation.rate for operation in worker.operations)
    return not paced and special == (None,) * len(special) and _shape(worker) == _shape(first)


def _shape(worker: Worker) -> tuple[object, ...]:
    return worker.operations, worker.depth, worker.end, worker.ramp_ns, len(worker.files), worker.files[0].bytes


def _is_direct(worker: Worker) -> bool:
    """iocurve's own NFS client has no page cache."""
    engine = worker.engine
    if isinstance(engine, SyncEngine | AioEngine | UringEngine):
        return engine.open.direct
    return isinstance(engine, NfsEngine)


# ---- forms


def html(made: Article) -> str:
    """The page, which needs nothing but itself."""
    sections = [section for part in made.parts.values() for section in part]
    return rendered("article.html", title=made.title, version=VERSION, label=made.label, sections=sections)


def markdown(made: Article, images: dict[str, list[str]], template: str = "") -> str:
    """The article in Markdown; ``images`` has the files of each section's charts by its slug.

    ``template`` has a part at each of ``PARTS`` after a dollar sign. Raises ``ResultError`` for another name.
    """
    parts = {name: "\n".join(_lines(part, images)) for name, part in made.parts.items()}
    parts["title"] = escaped(made.title)
    label = f"{capitalised(sentence(made.label))}\n\n" if made.label else ""
    whole = template or f"# $title\n\n{label}" + "\n".join(f"${name}" for name in PARTS[1:])
    try:
        return Template(whole).substitute(parts).rstrip() + "\n"
    except (KeyError, ValueError) as error:
        names = ", ".join(f"${name}" for name in PARTS)
        raise ResultError(f"the template of an article has {error}; it may use {names}, and $$ for a dollar") from None


def _lines(sections: Iterable[Section], images: dict[str, list[str]]) -> Iterator[str]:
    for section in sections:
        yield f"{'#' * section.level} {escaped(section.heading)}\n"
        if section.commands:
            yield "\n".join(["```sh", *section.commands, "```", ""])
        yield from (f"![{escaped(section.heading)}]({file})\n" for file in images.get(section.slug, ()))
        yield from (f"{escaped(text)}\n" for text in section.sentences)
        if section.figure and section.figure.table.rows:
            yield "\n".join([*section.figure.table.markdown(), ""])


def write(made: Article, directory: Path, template: str = "") -> list[Path]:
    """Writes ``article.md`` with its charts as SVG, and ``article.html``; gives the paths. Raises ``ResultError``."""
    written: list[Path] = []
    images: dict[str, list[str]] = {}
    for section in (section for part in made.parts.values() for section in part if section.figure):
        charts = section.figure.charts if section.figure else ()
        files = write_charts(charts, section.slug, made.label, directory, ("svg",))
        images[section.slug] = [file.name for file in files]
        written += files
    for name, text in (("article.md", markdown(made, images, template)), ("article.html", html(made))):
        write_atomically(directory / name, text.encode())
        written.append(directory / name)
    return written
