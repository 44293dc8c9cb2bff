"""The matrix of faults is run by hand (``make faults``); here is what of it takes seconds."""

from __future__ import annotations

from pathlib import Path

from bench.faults import journals
from bench.faults.victims import volume_process


def test_journals_survive_kills_of_client_and_volume(tmp_path: Path) -> None:
    with volume_process(tmp_path) as volume:
        kills = list(journals.kills(volume, tmp_path, count=9))
    assert [kill.fault for kill in kills] == [""] * 9
    assert sum(kill.had_journal for kill in kills) >= 3
