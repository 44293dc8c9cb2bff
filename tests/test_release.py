"""The parts of a release, and the checks that keep one back."""

import re
import tomllib
import zipfile
from base64 import urlsafe_b64encode
from hashlib import sha256
from pathlib import Path

import pytest

from bench import release
from goldens import cases
from iocurve.cli.commands import app
from iocurve.cli.listing import COMMANDS


@cases("bench/refusals")
def test_a_release_is_refused_with_the_reason(
    changelog: str, status: str, tagged: str | None, reasons: list[str]
) -> None:
    assert list(release.refusals(changelog, status, tagged, "head", "1.2.3")) == reasons


@pytest.mark.slow
def test_the_sbom_and_the_licences_have_each_linked_crate() -> None:
    linked = release.crates()
    names = {crate.name for crate in linked}
    assert {"iocurve-py", "iocurve-engine", "iocurve-volume", "pyo3", "serde_json"} <= names
    assert not names & {"proptest", "criterion", "iocurve-contract"}
    lock = tomllib.loads((release.ROOT / "Cargo.lock").read_text(encoding="utf-8"))
    locked = {(one["name"], one["version"]) for one in lock["package"]}
    assert {(crate.name, crate.version) for crate in linked} <= locked
    assert all(crate.licence != "unknown" for crate in linked)
    document = release.sbom(linked, "abc")
    assert document["metadata"] == {
        "component": {"type": "application", "name": "iocurve", "version": f"{release.version()}+abc"}
    }
    text = release.licences(linked)
    assert [crate.name for crate in linked if crate.checksum and f"{crate.name} {crate.version} (" not in text] == []


def test_a_wheel_gets_the_licences_of_its_crates_and_is_whole(tmp_path: Path) -> None:
    wheel = tmp_path / "iocurve.whl"
    with zipfile.ZipFile(wheel, "w") as file:
        file.writestr("iocurve/_native.abi3.so", "x")
        file.writestr("iocurve-1.dist-info/RECORD", "iocurve/_native.abi3.so,,\n")
    for text in ("MIT", "MIT and Apache"):
        release.add_licences(wheel, text)
    with zipfile.ZipFile(wheel) as file:
        name = "iocurve-1.dist-info/licenses/THIRD-PARTY-LICENCES.txt"
        assert file.namelist() == ["iocurve/_native.abi3.so", "iocurve-1.dist-info/RECORD", name]
        assert file.read(name) == b"MIT and Apache"
        digest = urlsafe_b64encode(sha256(b"MIT and Apache").digest()).decode().rstrip("=")
        rows = file.read("iocurve-1.dist-info/RECORD").decode().splitlines()
        assert rows == [f"{name},sha256={digest},14", "iocurve/_native.abi3.so,,"]


def test_the_man_page_has_each_command_and_option() -> None:
    page = release.manual().replace("\\-", "-")
    for command in COMMANDS:
        assert f"\n.SS iocurve {command.name}\n" in page
    options = [name for one in app["envelope"].assemble_argument_collection() for name in one.names]
    assert [name for name in options if name.startswith("--") and not re.search(rf"^\.B .*{name}\b", page, re.M)] == []
