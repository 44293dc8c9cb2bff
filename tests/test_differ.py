"""Two command lines: the fields in which they differ, and what each is worth on a target."""

import json
import math
import random
from collections.abc import Callable, Mapping
from itertools import combinations
from pathlib import Path

import pytest

from data import synthetic
from goldens import Golden, cases
from iocurve.advice import differ, predict
from iocurve.advice.differ import Design, Switched, differences, interaction, share, sides
from iocurve.foundation.errors import IocurveError
from iocurve.result.document import Result
from programs import iocurve

FIO = "fio --name=a --rw=randread --bs=4k --size=16m --directory={} --ioengine=libaio"
DISKSPD = "diskspd -b8K -d5 -o32 -t2 -r -w30 -c16M {}/x"


# ---- the fields


def _texts(first: str, second: str) -> list[tuple[str, ...]]:
    lines = [line.replace("FIO", FIO).replace("DISKSPD", DISKSPD).format("/nowhere") for line in (first, second)]
    return [(one.name, *one.texts, *map(str, one.defaults)) for one in differences(*sides(lines))]


@cases("advice/fields_of_commands")
def test_fields_are_told_in_the_words_of_fio_with_defaults(first: str, second: str, golden: Golden) -> None:
    golden.check(_texts(first, second))


def test_each_command_is_told_in_its_own_words() -> None:
    found = {name: texts for name, *texts in _texts("FIO --rw=randrw", "DISKSPD")}
    assert found["iodepth"] == ["iodepth=1", "-o32", "True", "False"]
    assert found["bs"] == ["bs=4KiB", "-b8KiB", "False", "False"]
    # Options that only fio has go by the name of the field.
    assert found["random"][:2] == ["norandommap=once", "cover=independent"]


@cases("advice/not_compared")
def test_what_cannot_be_compared_is_refused(second: str, why: str, tmp_path: Path) -> None:
    run = "rd={},wd=wd1,iorate=max,elapsed=4,interval=1"
    runs = "\n".join(run.format(name) for name in ("a", "b"))
    (tmp_path / "two").write_text(f"sd=sd1,lun={tmp_path}/x,size=1m\nwd=wd1,sd=sd1,xfersize=4k,rdpct=100\n{runs}\n")
    with pytest.raises(IocurveError, match=why):
        sides([FIO.format(tmp_path), second.format(tmp_path)])


def test_results_stand_for_the_commands_that_measured_them(tmp_path: Path) -> None:
    measured, imported = str(tmp_path / "measured"), str(tmp_path / "imported")
    line = [*FIO.format(tmp_path).split(), "--iodepth=8", "--direct=1"]
    assert iocurve(*line, "--number_ios=64", "--out", measured).returncode == 0
    options = dict(word[2:].split("=") for word in line[1:]) | {"bs": "16k", "number_ios": "8"}
    read = {"total_ios": 8, "io_bytes": 131_072, "runtime": 1, "bw_bytes": 131_072_000, "iops": 8_000}
    document = {"fio version": "fio-3.33", "jobs": [{"jobname": "a", "job options": options, "read": read}]}
    (tmp_path / "fio.json").write_text(json.dumps(document))
    assert iocurve("import", str(tmp_path / "fio.json"), "--out", imported).returncode == 0
    found = json.loads(iocurve("differ", measured, imported, "--json").stdout)
    assert {one["name"]: one["texts"][1] for one in found["differences"]} == {
        "bs": "bs=16KiB",
        "operations": "number_ios=8",
    }
    own = Result.read(Path(measured)).points[0].summary().bytes_per_s
    assert (found["measured"]["unit"], found["measured"]["rates"]) == ("MiB/s", [own, 131_072_000.0])
    shown = iocurve("differ", measured, imported).stdout
    assert f"measured: A {own / 2**20:,.1f} MiB/s, B 125.0 MiB/s: B is {131_072_000 / own:.2f} × A" in shown
    assert "measured:" not in iocurve("differ", measured, " ".join(line)).stdout


def test_a_command_may_be_longer_than_a_name_of_a_file() -> None:
    line = f"fio --name=a --rw=read --size=4k{' --randrepeat=0' * 20}"
    assert [side.text for side in sides([line, line])] == [line, line]


def test_a_result_without_its_job_is_refused(tmp_path: Path) -> None:
    (tmp_path / "result.json").write_bytes(synthetic.fio_run().document())
    with pytest.raises(IocurveError, match="does not keep its job; name the command that was measured"):
        sides([str(tmp_path), FIO.format(tmp_path)])


def test_a_file_of_elbencho_is_a_load_to_compare(tmp_path: Path) -> None:
    """Its files need not be there, and options that it was not given are not told from its defaults."""
    line = f"elbencho -r -t 1 -s 1m -b 16k --rand --iodepth 4 {tmp_path}/y"
    found = {one.name: one for one in differences(*sides([f"{FIO.format(tmp_path)} --size=1m", line]))}
    assert [found[name].texts for name in ("bs", "iodepth")] == [
        ("bs=4KiB", "--block 16KiB"),
        ("iodepth=1", "--iodepth 4"),
    ]
    assert found["files"].defaults == (True, False)
    with pytest.raises(IocurveError, match="a thread uses several files"):
        sides([line, f"{line} {tmp_path}/z"])
    threads = {one.name: one for one in differences(*sides([f"{FIO.format(tmp_path)} --numjobs=4", f"{line} -t 4"]))}
    assert threads["files"].texts[1].endswith(", --size 256KiB, offset_increment=256KiB")
    assert "numjobs" not in threads


LATENCY_1MS = predict.service("premium", "1TiB", latency="1ms")


def test_a_service_level_lets_factors_be_expected(tmp_path: Path) -> None:
    """64 MiB/s cap 64 in flight; 4 in flight reach 4,000 IOPS, which are 15.6 or 62.5 MiB/s."""
    line = f"{FIO.format(tmp_path)} --direct=1 --iodepth="
    found = differ.expected(*sides([f"{line}4", f"{line}64 --bs=16k"]), LATENCY_1MS)
    of = {"bs": 2.0, "iodepth": math.sqrt(64 / 15.625 * 64 / 62.5), "rest": 1.0, "B / A": 64 / 15.625}
    assert found == pytest.approx(of)
    ran = iocurve("differ", f"{line}4", f"{line}64", "--profile=premium", "--quota=1TiB", "--latency=1ms", "--json")
    assert json.loads(ran.stdout)["expected"] == pytest.approx({"iodepth": 4.096, "rest": 1, "B / A": 4.096})
    assert iocurve("differ", f"{line}4", f"{line}64", "--profile=premium").returncode == 2


def test_a_load_that_is_not_predicted_says_which_option(tmp_path: Path) -> None:
    line = FIO.format(tmp_path)
    with pytest.raises(IocurveError, match="cannot be predicted: thinktime: pauses depend on when operations complete"):
        differ.expected(*sides([line, f"{line} --thinktime=5"]), LATENCY_1MS)


def test_options_of_a_measurement_need_a_target(tmp_path: Path) -> None:
    command = FIO.format(tmp_path)
    done = iocurve("differ", command, command, "--runs", "3")
    assert (done.returncode, done.stdout) == (2, "")
    assert "--runs: nothing is measured without --target" in done.stderr


def test_a_file_is_no_place_for_combinations(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(bytes(2 << 20))
    command = FIO.format(tmp_path)
    done = iocurve("differ", command, command, "--target", str(tmp_path / "x"))
    assert (done.returncode, done.stdout) == (2, "")
    assert "differ measures in a directory or on an NFS export" in done.stderr


# ---- the shares


def _rates(
    factors: Mapping[str, float], pairs: Mapping[tuple[str, str], float], noise: float = 0.0, seed: int = 0
) -> Callable[[Switched], float]:
    drawn = random.Random(seed)

    def rate(switched: Switched) -> float:
        value = math.prod(factors[one] for one in switched)
        value *= math.prod(factor for pair, factor in pairs.items() if set(pair) <= switched)
        return 1000 * value * math.exp(drawn.gauss(0, noise))

    return rate


@pytest.mark.parametrize("count", [1, 2, 3, 4, 6])
def test_factors_are_those_of_the_fields_and_multiply_to_the_gap(count: int) -> None:
    factors = {f"f{number}": 1.1 + 0.2 * number for number in range(count)}
    design = Design.of([*factors], "seed")
    rate = _rates(factors, {})
    rates = {one: rate(one) for one in design.combinations}
    found = {one: math.exp(share(design, one, rates)) for one in factors}
    assert found == pytest.approx(factors)
    assert math.prod(found.values()) == pytest.approx(math.prod(factors.values()))
    assert len(design.combinations) == (2**count if count <= differ.WHOLE_MAX else len(design.combinations))


def test_two_fields_share_what_they_give_together_alone() -> None:
    design = Design.of(["a", "b", "c"], "seed")
    rate = _rates({"a": 2.0, "b": 1.5, "c": 1.0}, {("a", "b"): 0.64})
    rates = {one: rate(one) for one in design.combinations}
    shares = {one: math.exp(share(design, one, rates)) for one in design.fields}
    assert shares == pytest.approx({"a": 2.0 * 0.8, "b": 1.5 * 0.8, "c": 1.0})
    found = {pair: math.exp(interaction(design, pair, rates)) for pair in combinations(design.fields, 2)}
    assert found == pytest.approx({("a", "b"): 0.64, ("a", "c"): 1.0, ("b", "c"): 1.0})


def test_an_interval_holds_the_share_of_a_field() -> None:
    """``python -m bench.truth shares`` counts with more fields, runs and kinds of noise."""
    design, factors = Design.of(["a", "b"], "seed"), {"a": 1.4, "b": 1.1}
    held = 0
    for seed in range(200):
        rate = _rates(factors, {("a", "b"): 0.9}, noise=0.05, seed=seed)
        rounds = [{one: rate(one) for one in design.combinations} for _ in range(7)]
        found = differ.factors(design, rounds, [rate(frozenset("ab")) for _ in rounds], margin=0.05).shares[0].ratio
        held += (found.low or 0) <= 1.4 * math.sqrt(0.9) <= (found.high or math.inf)
    assert 0.92 <= held / 200 <= 0.995


# ---- measured


@pytest.mark.slow
def test_a_gap_is_shared_among_its_fields_on_a_volume(tmp_path: Path) -> None:
    first = "fio --name=a --ioengine=libaio --rw=randread --bs=4k --iodepth=1 --size=4m --direct=0"
    second = "fio --name=b --ioengine=libaio --rw=randread --bs=8k --iodepth=4 --size=4m --direct=1"
    target = "volume:unlimited?latency=4ms"
    options = ["--runs", "3", "--runtime", "300ms", "--ramp-time", "50ms", "--out", str(tmp_path / "out"), "--json"]
    done = iocurve("differ", first, second, "--target", target, *options)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)["attribution"]
    assert found["without_effect"] == ["direct"]
    assert [one["name"] for one in found["factors"]["shares"]] == ["bs", "iodepth"]
    assert (found["unit"], found["is_whole"], found["orders"]) == ("MiB/s", True, 2)
    factors = [one["ratio"]["value"] for one in found["factors"]["shares"]]
    gap = found["rates"][1] / found["rates"][0]
    assert math.prod(factors) * found["factors"]["rest"]["value"] == pytest.approx(found["factors"]["total"]["value"])
    # 8 = 2 × 4 on a machine that is not used by others.
    assert gap > 1
    result = Result.read(tmp_path / "out")
    names = {"A", "A with B's bs", "A with B's iodepth", "A with B's bs, iodepth", "B"}
    assert {point.name for point in result.points} == names
    page = (tmp_path / "out" / "differ.html").read_text(encoding="utf-8")
    assert "Why two commands differ" in page
