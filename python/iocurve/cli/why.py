"""The command that says what limited a result, and tests it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from iocurve.analysis import read
from iocurve.analysis.client_limits import ClientVerdict, client_verdicts, limited_clients, who_of
from iocurve.cli.common import Flag, JsonFlag, ResultPath, TargetText, refuse, show_json
from iocurve.foundation.errors import Diagnostic, DialectError, ResultError
from iocurve.result.document import Limit, Point, Result
from iocurve.result.document_file import RESULT_NAME

CLIENTS_LISTED_MAX = 12


def explain_limits(
    result: ResultPath,
    /,
    *,
    confirm: Flag = False,
    point: str | None = None,
    target: TargetText | None = None,
    json: JsonFlag = False,
) -> int:
    """Print the bottleneck of each point of a result, with the evidence.

    Parameters
    ----------
    confirm
        Repeat the fastest point, or --point, for seconds on separate files, with the changes that would refute its
        bottleneck: twice the depth, half the block size, twice the connections.
    point
        Only the point with this name.
    target
        Target of --confirm. Default: the target of the result.
    """
    if not confirm:
        refuse("this is the target of --confirm; add --confirm", target=target)
    source = result / RESULT_NAME if result.is_dir() else result
    document = Result.read(source)
    judged = _judged(document, point)
    if not confirm:
        of_clients = [client_verdicts(one, document.target_of(one)) for one, _ in judged]
        if json:
            rows = [_record(*pair) | _clients(found) for pair, found in zip(judged, of_clients, strict=True)]
            show_json(rows)
        else:
            lines = list(_grouped_lines(judged))
            several = len(judged) > 1
            for (one, _), found in zip(judged, of_clients, strict=True):
                of_point = list(_client_lines(found))
                lines += [f"agents of {one.name}:", *of_point] if several and of_point else of_point
            print("\n".join(lines))
            if point is None and (twice := read(document).twice):
                print("\n" + "\n".join(twice.lines))
        return 0
    chosen, verdict = max(judged, key=lambda pair: pair[0].summary().iops)
    return _confirmed(document, chosen, verdict, str(target) if target is not None else None, json=json)


def _judged(document: Result, name: str | None) -> list[tuple[Point, Limit]]:
    verdicts = zip(document.points, read(document).verdicts, strict=True)
    judged = [(point, verdict) for point, verdict in verdicts if verdict and name in (None, point.name)]
    if not judged:
        names = ", ".join(point.name for point in document.points)
        what = f"--point {name}: there is no such point" if name else "nothing was measured"
        raise DialectError([Diagnostic(f"{what}; points: {names or 'none'}")])
    return judged


def _confirmed(document: Result, point: Point, verdict: Limit, target: str | None, *, json: bool) -> int:
    from iocurve.measure.confirm import confirm
    from iocurve.targets.target import parse

    if point.imported:
        raise ResultError(
            f"{point.name} was imported from {point.imported.tool}: there is no plan that could be repeated"
        )
    facts = document.target_of(point)
    found = confirm(point.replace(limit=verdict), parse(target or facts.address), facts)
    if json:
        again = found.verdict.to_builtins() if found.verdict else None
        following = found.next_limit.to_builtins() if found.next_limit else None
        told = {"outcome": found.outcome, "evidence_now": list(found.evidence), "verdict_now": again}
        show_json(_record(point, verdict) | told | {"next_limit": following})
        return 0
    print("\n".join(_lines(point, verdict)))
    print(f"  {found.outcome}: {'; '.join(found.evidence) or 'the load could not be changed'}")
    # A confirmed verdict needs nothing from the repeated point, whose own figures often tell no limit.
    is_open = found.outcome == "confirmed" and found.verdict and found.verdict.confidence == "none"
    if found.verdict and found.verdict.code != verdict.code and not is_open:
        print(f"  measured again: {_brief(found.verdict)}")
    if found.next_limit:
        print(f"  the next limit: {_brief(found.next_limit)}")
    return 0


def _brief(verdict: Limit) -> str:
    """A verdict without its evidence."""
    if verdict.confidence == "none":
        return f"{verdict.short_name}: {verdict.text}"
    return f"{verdict.text} ({verdict.confidence})"


def _record(point: Point, verdict: Limit) -> dict[str, object]:
    return {"point": point.name, "series": point.family, **verdict.to_builtins()}


def _clients(verdicts: Sequence[ClientVerdict]) -> dict[str, object]:
    """The verdict on each agent; nothing without a cluster."""
    each = [{"client": one.client.name, **one.limit.to_builtins()} for one in verdicts]
    return {"clients": each} if each else {}


def _client_lines(verdicts: Sequence[ClientVerdict]) -> Iterator[str]:
    """A line for each of a few agents, one that counts many."""
    if len(verdicts) > CLIENTS_LISTED_MAX:
        yield f"  {limited_clients(verdicts, len(verdicts))}"
        return
    for one in verdicts:
        yield f"  {who_of([one], len(verdicts))}: {one.limit.label}: {one.limit.text}"


def _grouped_lines(judged: Sequence[tuple[Point, Limit]]) -> Iterator[str]:
    """The verdicts; points with the same one are listed together, with the evidence of the fastest."""
    groups: dict[tuple[str, str, str], list[tuple[Point, Limit]]] = {}
    for point, verdict in judged:
        groups.setdefault((verdict.label, verdict.text, verdict.next_step), []).append((point, verdict))
    for (label, text, next_step), group in groups.items():
        fastest, verdict = max(group, key=lambda pair: pair[0].summary().iops)
        if len(group) == 1:
            yield from _lines(fastest, verdict)
            continue
        yield f"{label}: {text}"
        yield f"  {len(group)} points: {', '.join(point.name for point, _ in group)}"
        yield from (f"  {fastest.name}: {evidence}" for evidence in verdict.evidence)
        if next_step:
            yield f"  next: {next_step}"


def _lines(point: Point, verdict: Limit) -> list[str]:
    lines = [f"{point.name}: {verdict.label}: {verdict.text}"]
    lines += [f"  {evidence}" for evidence in verdict.evidence]
    return lines + ([f"  next: {verdict.next_step}"] if verdict.next_step else [])
