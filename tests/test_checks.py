"""The expressions of ``--fail-if``, and what they say of points."""

import contextlib
import json
import random
import re
import shlex
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from bench.truth import compared_runs
from data import synthetic
from goldens import Golden, cases, matches, rows
from iocurve.analysis.check_expressions import comparisons, parse_all
from iocurve.analysis.check_names import Vocabulary
from iocurve.analysis.check_values import Value
from iocurve.analysis.checks import Check, Checks, check, check_changes, compared
from iocurve.analysis.compare import NAMES, compare
from iocurve.foundation.errors import DialectError
from iocurve.foundation.units import SECOND_NS, parse_count
from iocurve.report import checks as reports
from iocurve.result.document import Finding, Interval, Limit, Point, Result, SearchFacts
from programs import status_of

US = 1000


def point(name: str, depth: int, latency_us: int, *, rates: tuple[int, ...] = (100,) * 20, errors: int = 0) -> Point:
    """Reads that take 1 µs to ``latency_us``, in seconds of given rates."""
    values = {value * latency_us * US // 1000: sum(rates) // 1000 for value in range(1, 1001)}
    kinds = {"read": synthetic.kind(values, 4096, errors=errors)}
    window_ns = (0, len(rates) * SECOND_NS)
    worker = synthetic.worker_outcome(kinds, window_ns=window_ns, intervals=synthetic.intervals(rates))
    axes: dict[str, Any] = {"depth": depth, "order": "random"}
    planned = synthetic.plan([synthetic.worker_plan()])
    return synthetic.point(planned, worker, name=name, family="random-4k", axes=axes)


def checked(result: Result, *expressions: str) -> list[tuple[str, str, str]]:
    found = check(result, parse_all(expressions, Vocabulary.of(result))).all
    return [(one.subject, one.verdict, one.text) for one in found]


@pytest.fixture(scope="module")
def depths() -> Result:
    return synthetic.result([point("depth 1", 1, 1000), point("depth 16", 16, 3000, errors=2)])


@cases("checks/errors")
def test_errors_point_at_the_column(text: str, column: int, says: str) -> None:
    known = Vocabulary(kinds=frozenset({"read"}), axes=frozenset({"depth"}), families=frozenset({"random-4k"}))
    with pytest.raises(DialectError, match=re.escape(says)) as caught:
        parse_all([text], known)
    assert f"--fail-if '{text}', column {column}: " in str(caught.value)


def test_any_text_is_read_or_refused() -> None:
    parts = [one for (one,) in rows("checks/parts")]
    chance = random.Random(1)
    texts = [" ".join(chance.choices(parts, k=chance.randrange(8))) for _ in range(1000)]
    for text in [*texts, *(text.replace(" ", "") for text in texts)]:
        with contextlib.suppress(DialectError):
            parse_all([text], Vocabulary(changes=frozenset(NAMES)))


def test_all_errors_are_listed() -> None:
    with pytest.raises(DialectError) as caught:
        parse_all(["p99 > 2", "iops < 1", "x < 1"], Vocabulary())
    assert len(caught.value.errors) == 2


@cases("checks/conditions")
def test_conditions_hold_for_points(depths: Result, text: str, verdicts: list[str]) -> None:
    assert [verdict for _, verdict, _ in checked(depths, text)] == verdicts


def test_a_failure_tells_by_how_much(depths: Result) -> None:
    matches("checks#failure tells", checked(depths, "p99 > 2ms where depth == 16"))
    assert checked(depths, "errors > 0 where depth == 16") == [("depth 16", "failed", "errors 2 is above 0")]


def test_a_far_value_is_a_multiple_of_its_bound(depths: Result) -> None:
    assert checked(depths, "p99 > 1us where depth == 16")[0][2].startswith("p99 2.97 ms is 2,972 times 1us (95 %")


def verdicts(one: Point, *expressions: str) -> list[str]:
    return [verdict for _, verdict, _ in checked(synthetic.result([one]), *expressions)]


def test_an_interval_that_spans_the_bound_is_inconclusive() -> None:
    one = point("reads", 1, 1000, rates=(90, 110, 100, 105, 95) * 8)
    ((_, verdict, text),) = checked(synthetic.result([one]), "iops < 100.5")
    assert verdict == "inconclusive"
    told = r"iops 100 IOPS \(95 %: .*\): the interval spans 100\.5; measure for about \d+ min \d+ s more"
    assert re.fullmatch(told, text)
    # One part that does not hold decides, whatever the other is.
    expressions = ("iops < 80", "iops < 120", "iops < 100.5 and errors > 0", "iops < 100.5 or errors == 0")
    assert verdicts(one, *expressions) == ["passed", "failed", "passed", "failed"]


def test_a_limit_has_its_code_and_its_short_name(depths: Result) -> None:
    limit = Limit(code="cpu_contention", short_name="CPU contention", text="the processors are busy")
    result = depths.replace(points=tuple(one.replace(limit=limit) for one in depths.points[:1]))
    for text in (
        'limited_by == "others_cpu"',
        'limited_by == "foreign_cpu"',
        'limited_by == "cpu_contention" and limited_by_confidence == "likely"',
    ):
        ((_, verdict, why),) = checked(result, text)
        assert verdict == "failed"
        assert why.startswith('limited_by is "cpu_contention"')


def test_the_findings_of_a_search_are_checked_once(depths: Result) -> None:
    knee = Finding(name="knee", unit="in flight", figure=Interval(value=20, low=15, high=25))
    rate = Finding(name="highest rate", unit="IOPS", figure=Interval(value=1000, low=None, high=1500))
    facts = SearchFacts(question="?", workload="rw=randread", findings=(knee, rate), stopped="found")
    result = depths.replace(search=facts)
    matches("checks#findings search", checked(result, "knee < 32", "highest_rate < 2k", "knee < 20"))


@cases("checks/bounds")
def test_bounds_belong_to_intervals(relation: str, low: float, high: float, expected: bool | None) -> None:
    (expression,) = parse_all([f"concurrency_achieved {relation} 2"], Vocabulary())
    (comparison,) = comparisons(expression.condition)
    assert compared(comparison, Value((low + high) / 2, low, high)) is expected


def test_the_worst_verdict_counts() -> None:
    passed, unknown = Check("a", "p", "passed", ""), Check("a", "q", "inconclusive", "why")
    parts = (passed, unknown, Check("b", "p", "failed", "why"))
    assert [Checks(parts[:count]).verdict for count in (1, 2, 3)] == ["passed", "inconclusive", "failed"]
    assert Checks((passed, unknown)).sentence == "2 checks: 1 inconclusive, 1 passed"


@pytest.mark.parametrize(("text", "count"), [("950", 950), ("12.8k", 12_800), ("1.05M", 1_050_000), ("2 K", 2000)])
def test_counts_take_thousands(text: str, count: float) -> None:
    assert parse_count(text) == count


def some_checks() -> Checks:
    return Checks(tuple(Check(*row) for row in rows("checks/found")))


def test_each_failing_point_has_a_line() -> None:
    matches("checks/each_failing_point_has_a_line", reports.lines(some_checks()))


def test_junit_has_a_suite_for_each_expression() -> None:
    root = ET.fromstring(reports.junit(some_checks(), "nightly", synthetic.result([])))
    # Ant's schema: attributes of each suite, none of the root, and these parts in this order.
    assert not root.attrib
    for number, suite in enumerate(root):
        assert {"name", "id", "package", "timestamp", "hostname", "tests", "failures", "errors", "time"} == {
            *suite.attrib
        }
        assert (suite.get("id"), suite.get("package"), suite.get("time")) == (str(number), "nightly", "0")
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", suite.get("timestamp", ""))
        first, *parts, out, error = (part.tag for part in suite)
        assert (first, {*parts}, out, error) == ("properties", {"testcase"}, "system-out", "system-err")
        assert all({*case.attrib} == {"name", "classname", "time"} for case in suite.iter("testcase"))
    matches("checks#junit suite expression", [(suite.get("name"), suite.get("tests")) for suite in root])
    cases = [(case.get("name"), [part.tag for part in case]) for case in root.iter("testcase")]
    assert cases == [("reads | 1", ["failure"]), ("reads | 2", []), ("whole result", ["error"]), ("reads \ufffd", [])]


def test_markdown_escapes_what_a_table_would_read() -> None:
    text = reports.markdown(some_checks(), "<b>nightly</b>").decode()
    assert text.startswith("### iocurve: \\<b\\>nightly\\</b\\>\n\n**4 checks: 1 failed, 1 inconclusive, 2 passed**\n")
    assert '| `p99 > 2ms` | reads \\| 1 | **failed** | p99 3 ms is 50 % above 2ms; limited_by is "depth" |' in text
    assert text.endswith("\npassed: `errors > 0`\n")


@cases("checks/commands")
def test_a_command_with_checks_has_a_status(
    depths: Result, tmp_path: Path, capfd: pytest.CaptureFixture[str], words: str, status: int, golden: Golden
) -> None:
    depths.write(tmp_path / "result.json")
    assert status_of(*shlex.split(words.format(here=tmp_path))) == status
    said = capfd.readouterr()
    golden.check([text.replace(str(tmp_path), "{here}").splitlines() for text in (said.out, said.err)])


def test_checks_are_written_to_files(depths: Result, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    depths.write(tmp_path / "result.json")
    files = ["--junit", str(tmp_path / "j.xml"), "--markdown", str(tmp_path / "m.md")]
    assert status_of("check", str(tmp_path), "--fail-if", "errors > 0", *files) == 4
    assert [suite.get("failures") for suite in ET.parse(tmp_path / "j.xml").getroot()] == ["1"]
    assert "| `errors > 0` | depth 16 |" in (tmp_path / "m.md").read_text()
    assert capfd.readouterr().out == "FAILED  errors > 0: depth 16: errors 2 is above 0\npassed  errors > 0: 1 point\n"
    assert status_of("check", str(tmp_path), "--fail-if", "errors > 0", "--junit", f"{tmp_path}/none/j.xml") == 2


def test_other_tools_commands_take_checks(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    fio = ["fio", "--name=r", "--rw=write", "--size=64k", f"--filename={tmp_path}/f"]
    assert status_of(*fio, "--fail-if", "write.operations < 17", "--output-format=json") == 4
    said = capfd.readouterr()
    assert json.loads(said.out)["jobs"][0]["jobname"] == "r"
    assert said.err.endswith("FAILED  write.operations < 17: r: write.operations 16 is 5.88 % below 17\n")
    assert status_of(*fio, "--fail-if", "read.p99 > 2ms") == 1
    assert status_of(*fio, "--fail-if") == 1


STEADY = compared_runs.Load("steady", 8, 1e6, 0.3, 0.0, 0.01)


@pytest.fixture(scope="module")
def slower() -> list[Result]:
    """Results of which the second takes 1.25 times as long for each operation."""
    return [
        compared_runs.result([compared_runs.point(STEADY, 20, speed, np.random.default_rng(seed))])
        for seed, speed in ((1, 1.0), (2, 0.8))
    ]


@cases("checks/changes")
def test_changes_are_checked_with_their_intervals(slower: list[Result], text: str, verdict: str) -> None:
    known = replace(Vocabulary.of(slower[1]), changes=frozenset(NAMES))
    (one,) = check_changes(compare(*slower), parse_all([text], known)).all
    assert (one.verdict, one.subject) == (verdict, "" if "no point" in one.text else "steady")


@cases("checks/unknown_changes")
def test_a_change_that_is_not_known_is_an_error(text: str, says: str) -> None:
    with pytest.raises(DialectError, match=re.escape(says)):
        parse_all([text], Vocabulary(changes=frozenset(NAMES)))


@pytest.mark.slow
def test_a_comparison_fails(slower: list[Result], tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    paths = [tmp_path / "a.json", tmp_path / "b.json"]
    for path, result in zip(paths, slower, strict=True):
        result.write(path)
    results = [str(path) for path in paths]
    assert status_of("compare", *results, "--fail-if", "p99 change > 5%", "--junit", f"{tmp_path}/j.xml") == 4
    assert "\nFAILED  p99 change > 5%: steady: p99 change 2" in capfd.readouterr().out
    assert status_of("compare", *results, "--fail-if", "p99 change > 5%", "--markdown", f"{tmp_path}/c.md") == 4
    text = (tmp_path / "c.md").read_text(encoding="utf-8")
    assert text.index("| steady | IOPS |") < text.index("| `p99 change > 5%` | steady | **failed** | p99 change 2")
    capfd.readouterr()
    assert status_of("compare", *results, "--fail-if", "p99 change > 90%", "--json") == 0
    assert json.loads(capfd.readouterr().out)["differences"]
    assert status_of("check", results[0], "--fail-if", "p99 change > 5%") == 2
    words = ["ab", "--target", "volume:unlimited", "--target", "volume:anf-ultra", "--fail-if"]
    assert status_of(*words, "p99 change > 5") == 2
    assert status_of("ab", "fio a.fio", "fio b.fio", "--fail-if", "p99 change > 5") == 2
    assert capfd.readouterr().err.count("'5' has no unit; write 5%") == 2


def with_kind(one: Point, **changes: Any) -> Point:
    operations = one.outcome.workers[0].operations
    return synthetic.with_worker(one, operations={name: kind.replace(**changes) for name, kind in operations.items()})


@cases("checks/lower_bounds")
def test_lower_bounds_of_latencies_pass_no_check(
    changes: dict[str, Any], response: dict[str, int], expected: dict[str, str]
) -> None:
    """Of 2,000 operations of up to 1 ms, two for each µs, and the number of each response latency in ns."""
    latency = synthetic.latency({int(value): count for value, count in response.items()}) if response else None
    one = with_kind(point("depth 1", 1, 1000), response=latency, **changes)
    assert dict(zip(expected, verdicts(one, *expected), strict=True)) == expected


def test_a_percentile_of_few_independent_operations_is_bounded_by_the_largest_of_all() -> None:
    # The p99 rises and falls with the rate: the run has 40 intervals, and far fewer independent operations than 368.
    means = {number: {"mean_ns": 1e5 if number // 10 % 2 else 2e5} for number in range(40)}
    calm = synthetic.with_reads(point("depth 1", 1, 1000, rates=(100,) * 40), means)
    matches("checks#percentile few", verdicts(calm, "p99 > 100s", "p99 > 0.995ms"))


def test_a_check_of_too_few_operations_says_how_much_longer_to_measure() -> None:
    ((_, verdict, text),) = checked(synthetic.result([point("depth 1", 1, 1000)]), "p99.9 > 2ms")
    assert verdict == "inconclusive"
    # 3,688 operations have one above their p99.9 with a probability of 97.5 %; 2,000 took 20 s.
    assert text.endswith(
        "2,000 operations are too few for an upper bound of p99.9, which takes 3,688; measure for about 17 s more"
    )
