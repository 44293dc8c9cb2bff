"""The outcomes of checks as lines, as JUnit XML and as Markdown."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC
from itertools import groupby

from iocurve.analysis.checks import Check, Checks, Verdict
from iocurve.foundation.units import counted
from iocurve.report.table import Table, bold, code, escaped
from iocurve.result.document import Result

_WORDS: dict[Verdict, str] = {"failed": "FAILED", "inconclusive": "INCONCLUSIVE", "passed": "passed"}
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 cannot hold."""
WHOLE = "whole result"
COMPLETE = "the measurement is complete"


def lines(checks: Checks) -> list[str]:
    """A line for each point that failed or is inconclusive, and one for the points of an expression that passed."""
    incomplete = [f"INCOMPLETE  {text}" for text in checks.incomplete]
    return incomplete + [line for expression, group in _groups(checks) for line in _lines(expression, group)]


def _groups(checks: Checks) -> Iterator[tuple[str, list[Check]]]:
    for expression, group in groupby(checks.all, key=lambda check: check.expression):
        yield expression, list(group)


def _lines(expression: str, group: list[Check]) -> Iterator[str]:
    for check in group:
        if check.verdict != "passed":
            subject = f"{check.subject}: " if check.subject else ""
            yield f"{_WORDS[check.verdict]}  {expression}: {subject}{check.text}"
    passed = [check for check in group if check.verdict == "passed"]
    if passed:
        where = "" if passed == [check for check in group if not check.subject] else counted(len(passed), "point")
        yield f"{_WORDS['passed']}  {expression}{f': {where}' if where else ''}"


def junit(checks: Checks, name: str, measured: Result) -> bytes:
    """JUnit XML by the schema of Ant: a test suite for each expression, a test case for each point.

    A failed check is a ``failure``, an inconclusive one an ``error``. ``name`` is that of the result, or of the
    results compared, and the package of all suites; ``measured`` says when and where. Times are 0: checks take none.
    """
    facts = {
        "package": _xml(name),
        "timestamp": measured.created.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S"),
        "hostname": measured.host.hostname if measured.host else "localhost",
        "time": "0",
    }
    root = ET.Element("testsuites")
    if checks.incomplete:
        with _suite(root, COMPLETE, Checks((), checks.incomplete), facts) as suite:
            for why in checks.incomplete:
                case = ET.SubElement(suite, "testcase", classname=COMPLETE, name=WHOLE, time="0")
                ET.SubElement(case, "error", type="incomplete", message=_xml(why))
    for expression, group in _groups(checks):
        with _suite(root, expression, Checks(tuple(group)), facts) as suite:
            for check in group:
                names = {"classname": _xml(expression), "name": _xml(check.subject or WHOLE)}
                case = ET.SubElement(suite, "testcase", names, time="0")
                if check.verdict != "passed":
                    tag = "failure" if check.verdict == "failed" else "error"
                    ET.SubElement(case, tag, type=check.verdict, message=_xml(check.text))
    ET.indent(root)
    text: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return text + b"\n"


@contextmanager
def _suite(root: ET.Element, name: str, checks: Checks, facts: Mapping[str, str]) -> Iterator[ET.Element]:
    """A test suite for the cases of the block, with all that Ant's schema requires before and after them."""
    suite = ET.SubElement(root, "testsuite", {"name": _xml(name), "id": str(len(root)), **facts, **_counts(checks)})
    ET.SubElement(suite, "properties")
    yield suite
    ET.SubElement(suite, "system-out")
    ET.SubElement(suite, "system-err")


def _counts(checks: Checks) -> dict[str, str]:
    missing = len(checks.incomplete)
    counts = {
        "tests": len(checks.all) + missing,
        "failures": len(checks.of("failed")),
        "errors": len(checks.of("inconclusive")) + missing,
    }
    return {name: str(count) for name, count in counts.items()}


def _xml(text: str) -> str:
    return _NOT_XML.sub("\ufffd", text)


def markdown(checks: Checks, name: str) -> bytes:
    """A heading with the counts, and a table of all checks that did not pass, for a comment on a pull request."""
    rows = [
        (code(check.expression), check.subject or WHOLE, bold(_WORDS[check.verdict].lower()), check.text)
        for check in checks.all
        if check.verdict != "passed"
    ]
    parts = [f"### iocurve: {escaped(name)}", ""]
    parts += [f"**incomplete**: {escaped(text)}\n" for text in checks.incomplete]
    parts += [f"**{checks.sentence}**", ""]
    parts += Table(("check", "point", "verdict", "measured"), rows).markdown() if rows else []
    passed = [expression for expression, group in _groups(checks) if all(one.verdict == "passed" for one in group)]
    if passed:
        parts += ["", f"passed: {', '.join(map(code, passed))}"]
    return ("\n".join(parts).rstrip() + "\n").encode()
