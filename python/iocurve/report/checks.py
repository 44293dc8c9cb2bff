"""The outcomes of checks as lines, as JUnit XML and as Markdown."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from itertools import groupby

from iocurve.analysis.checks import Check, Checks, Verdict
from iocurve.foundation.units import counted
from iocurve.report.table import Table, bold, code, escaped

_WORDS: dict[Verdict, str] = {"failed": "FAILED", "cannot_tell": "CANNOT TELL", "passed": "passed"}
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 cannot hold."""
WHOLE = "whole result"
COMPLETE = "the measurement is complete"


def lines(checks: Checks) -> list[str]:
    """A line for each point that failed or cannot be told, and one for the points of an expression that passed."""
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


def junit(checks: Checks, name: str) -> bytes:
    """JUnit XML: a test suite for each expression, a test case for each point.

    A failed check is a ``failure``, one that cannot be told an ``error``. ``name`` is that of the result.
    """
    root = ET.Element("testsuites", {"name": _xml(name), **_counts(checks)})
    if checks.incomplete:
        suite = ET.SubElement(root, "testsuite", {"name": COMPLETE, **_counts(Checks((), checks.incomplete))})
        for why in checks.incomplete:
            case = ET.SubElement(suite, "testcase", classname=COMPLETE, name=WHOLE)
            ET.SubElement(case, "error", type="incomplete", message=_xml(why))
    for expression, group in _groups(checks):
        suite = ET.SubElement(root, "testsuite", {"name": _xml(expression), **_counts(Checks(tuple(group)))})
        for check in group:
            case = ET.SubElement(suite, "testcase", classname=_xml(expression), name=_xml(check.subject or WHOLE))
            if check.verdict != "passed":
                tag = "failure" if check.verdict == "failed" else "error"
                ET.SubElement(case, tag, type=check.verdict, message=_xml(check.text))
    ET.indent(root)
    text: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return text + b"\n"


def _counts(checks: Checks) -> dict[str, str]:
    missing = len(checks.incomplete)
    counts = {
        "tests": len(checks.all) + missing,
        "failures": len(checks.of("failed")),
        "errors": len(checks.of("cannot_tell")) + missing,
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
