"""Information that scripts ask fio for before a run: version, engines, options."""

from __future__ import annotations

import pytest

from goldens import cases
from iocurve.dialects.fio import command as fio
from iocurve.dialects.fio.information import information
from iocurve.foundation.errors import DialectError
from iocurve.measure import jobs


@cases("fio/questions")
def test_a_question_is_answered(arguments: str, expected: str | None) -> None:
    assert information(arguments.split()) == expected


def test_engines_and_options_stand_one_a_line_for_grep(capsys: pytest.CaptureFixture[str]) -> None:
    assert jobs.run(fio.DIALECT, ["--enghelp"]) is None
    assert capsys.readouterr().out.splitlines()[:3] == ["Available IO engines:", "\tpsync", "\tsync"]
    assert "rwmixread               : supported" in (information(["--cmdhelp"]) or "").splitlines()


@pytest.mark.parametrize(
    ("argument", "expected"),
    [
        ("--cmdhelp=blocksise", "unknown option 'blocksise'. Did you mean blocksize?"),
        ("--enghelp=rbd", "ioengine 'rbd' is not supported; use psync, "),
        ("--enghelp=libaio,hipri", "ioengine=libaio has no option 'hipri'"),
    ],
)
def test_a_name_that_is_not_known_is_an_error(argument: str, expected: str) -> None:
    with pytest.raises(DialectError) as refusal:
        information([argument])
    assert str(refusal.value).startswith(f"command line, argument 1 ({argument}): {expected}")
