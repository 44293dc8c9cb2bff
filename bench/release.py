"""The parts of a release that are no build: its checks, and the documents next to wheels and source distribution.

python -m bench.release check            the tree is clean, CHANGELOG.md has the version, no tag has it elsewhere
python -m bench.release documents DIST   SBOM, licences (in the wheels, too), lock, man page, completions, checksums
python -m bench.release tag              tags the commit; nothing else does
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from cyclopts import App

from iocurve.cli.commands import app
from iocurve.cli.listing import EXIT_STATUS, GROUPS, SUMMARY

ROOT = Path(__file__).parent.parent
SHELLS = {"bash": "iocurve.bash", "zsh": "_iocurve", "fish": "iocurve.fish"}
OPTION = re.compile(r"^\* `(?P<names>[^`]+)`: *(?P<meaning>.*)$", re.MULTILINE)
LICENCES = "THIRD-PARTY-LICENCES.txt"
LICENCE_FILES = re.compile(r"(LICEN[CS]E|COPYING|NOTICE|UNLICENSE)", re.IGNORECASE)


def version() -> str:
    """The version of Cargo.toml."""
    document = tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))
    return str(document["workspace"]["package"]["version"])


def git(*arguments: str) -> str:
    """The output of a git command."""
    ran = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=True)
    return ran.stdout.strip()


# ---- checks


def refusals(changelog: str, status: str, tagged: str | None, head: str, number: str) -> Iterator[str]:
    """The reasons not to release; ``tagged`` is the commit of the version's tag."""
    if status:
        yield f"the working tree has changes: {', '.join(line[3:] for line in status.splitlines()[:5])}"
    if not re.search(rf"^## {re.escape(number)} \(\d{{4}}-\d\d-\d\d\)$", changelog, re.MULTILINE):
        yield f"CHANGELOG.md has no heading: ## {number} (YYYY-MM-DD)"
    if tagged is not None and tagged != head:
        yield f"v{number} is the tag of another commit ({tagged[:12]}); raise the version in Cargo.toml"


def check() -> int:
    """Prints what is missing; the exit status is 1 if anything is."""
    number = version()
    tagged = git("rev-list", "-n", "1", f"v{number}") if git("tag", "--list", f"v{number}") else None
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    found = list(refusals(changelog, git("status", "--porcelain"), tagged, git("rev-parse", "HEAD"), number))
    for reason in found:
        print(f"release: {reason}", file=sys.stderr)
    return 1 if found else 0


# ---- what is shipped


@dataclass(frozen=True)
class Crate:
    """A crate that is linked into the native module."""

    name: str
    version: str
    licence: str
    directory: Path
    checksum: str | None
    """SHA-256 of Cargo.lock; None for our own."""


def crates() -> list[Crate]:
    """The crates that the native module is linked from: neither build nor test dependencies."""
    command = ["cargo", "metadata", "--format-version=1", "--locked", "--offline", "--filter-platform"]
    command += ["x86_64-unknown-linux-gnu", "--manifest-path", str(ROOT / "Cargo.toml")]
    metadata = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    lock = tomllib.loads((ROOT / "Cargo.lock").read_text(encoding="utf-8"))
    checksums = {(one["name"], one["version"]): one.get("checksum") for one in lock["package"]}
    waiting = [one for one, package in packages.items() if package["name"] == "iocurve-py"]
    linked: set[str] = set()
    while waiting:
        one = waiting.pop()
        if one not in linked:
            linked.add(one)
            waiting += [
                dependency["pkg"]
                for dependency in nodes[one]["deps"]
                if any(kind["kind"] is None for kind in dependency["dep_kinds"])
            ]
    found = [packages[one] for one in linked]
    return sorted((_crate(one, checksums) for one in found), key=lambda crate: (crate.name, crate.version))


def _crate(package: Mapping[str, Any], checksums: Mapping[tuple[str, str], str | None]) -> Crate:
    directory = Path(package["manifest_path"]).parent
    key = (package["name"], package["version"])
    return Crate(*key, package["license"] or "unknown", directory, checksums[key])


def sbom(linked: list[Crate], commit: str) -> dict[str, object]:
    """A CycloneDX document of the native module."""
    components = [
        {
            "type": "library",
            "name": crate.name,
            "version": crate.version,
            "purl": f"pkg:cargo/{crate.name}@{crate.version}",
            "licenses": [{"expression": crate.licence.replace("/", " OR ")}],
            "hashes": [{"alg": "SHA-256", "content": crate.checksum}] if crate.checksum else [],
        }
        for crate in linked
    ]
    name = {"type": "application", "name": "iocurve", "version": f"{version()}+{commit}"}
    return {"bomFormat": "CycloneDX", "specVersion": "1.5", "metadata": {"component": name}, "components": components}


def _licence_files(directory: Path) -> Iterator[Path]:
    for path in directory.iterdir():
        if LICENCE_FILES.match(path.name):
            yield from path.iterdir() if path.is_dir() else [path]


def licences(linked: list[Crate]) -> str:
    """The licence texts of all crates of others, each text once."""
    by_text: dict[str, list[str]] = {}
    for crate in linked:
        for path in sorted(_licence_files(crate.directory)) if crate.checksum else ():
            text = path.read_text(encoding="utf-8", errors="replace").strip()
            by_text.setdefault(text, []).append(f"{crate.name} {crate.version} ({crate.licence}): {path.name}")
    parts = ["\n".join((*sorted(names), "", text)) for text, names in by_text.items()]
    return f"\n\n{'-' * 78}\n\n".join(parts) + "\n"


def add_licences(wheel: Path, text: str) -> None:
    """Adds the licence texts of the crates to a wheel, with its row in RECORD."""
    with zipfile.ZipFile(wheel) as old:
        files = {one: old.read(one) for one in old.infolist()}
    record = next(one for one in files if one.filename.endswith(".dist-info/RECORD"))
    name = f"{record.filename.removesuffix('RECORD')}licenses/{LICENCES}"
    digest = urlsafe_b64encode(sha256(text.encode()).digest()).decode().rstrip("=")
    rows = [row for row in files[record].decode().splitlines() if not row.startswith(name)]
    files[record] = "\n".join((f"{name},sha256={digest},{len(text.encode())}", *rows, "")).encode()
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as new:
        for one, content in files.items():
            if one.filename != name:
                new.writestr(one, content)
        new.writestr(name, text)


# ---- manual


def manual() -> str:
    """The man page: commands by purpose, with their options."""
    parts = [f'.TH IOCURVE 1 "" "iocurve {version()}" "User Commands"', ".SH NAME"]
    parts += [f"iocurve \\- {_roff(SUMMARY[0].lower() + SUMMARY[1:].rstrip('.'))}", ".SH SYNOPSIS"]
    parts += [".B iocurve", "COMMAND [OPTIONS]"]
    for title, commands in GROUPS.items():
        parts.append(f".SH {_roff(title.upper())}")
        for command in commands:
            parts += [".SS " + _roff(f"iocurve {command.name}"), _roff(command.help), ".PP", "Example:"]
            parts += [f".B {_roff(command.example)}"]
            if not (command.prints_help or command.implementation.startswith("dialects:")):
                parts += _options(app[command.name])
    return "\n".join((*parts, ".SH EXIT STATUS", _roff(EXIT_STATUS.removeprefix("Exit status: ")))) + "\n"


def _options(command: App) -> Iterator[str]:
    names = [name for name in command if not name.startswith("-")]
    if names:
        yield ".PP\nCommands: " + _roff(", ".join(names)) + "."
        return
    text = re.sub(r"\n {2,}(?=\S)", " ", command.generate_docs("markdown", recursive=False))
    for found in OPTION.finditer(text):
        yield f".TP\n.B {_roff(found['names'])}\n{_roff(found['meaning'].replace('`', '').replace('*', ''))}"


def _roff(text: str) -> str:
    """A text without what roff would read as its own."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{text}" if text.startswith((".", "'")) else text


# ---- all together


def write_documents(directory: Path) -> None:
    """Writes everything next to the wheels, and the checksums of all files last."""
    directory.mkdir(exist_ok=True)
    linked = crates()
    document = json.dumps(sbom(linked, git("rev-parse", "--short=12", "HEAD")), indent=1)
    (directory / "iocurve.cdx.json").write_text(document + "\n", encoding="utf-8")
    texts = licences(linked)
    (directory / LICENCES).write_text(texts, encoding="utf-8")
    for wheel in directory.glob("*.whl"):
        add_licences(wheel, texts)
    shutil.copy(ROOT / "requirements-user.lock", directory)
    (directory / "iocurve.1").write_text(manual(), encoding="utf-8")
    for shell, name in SHELLS.items():
        text = app.generate_completion(prog_name="iocurve", shell=shell)  # type: ignore[arg-type]
        (directory / name).write_text(text, encoding="utf-8")
    files = [path for path in sorted(directory.iterdir()) if path.name != "SHA256SUMS"]
    sums = "".join(f"{sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files)
    (directory / "SHA256SUMS").write_text(sums, encoding="utf-8")
    print("\n".join(path.name for path in files))


def tag() -> int:
    """Tags the commit with the version."""
    git("tag", "--annotate", f"v{version()}", "--message", f"iocurve {version()}")
    print(f"v{version()}: git push origin v{version()} publishes it")
    return 0


def main() -> int:
    """The command line above."""
    parser = argparse.ArgumentParser(prog="python -m bench.release")
    parser.add_argument("step", choices=("check", "documents", "tag"))
    parser.add_argument("directory", type=Path, nargs="?", default=ROOT / "dist")
    asked = parser.parse_args()
    if asked.step == "documents":
        write_documents(asked.directory)
        return 0
    steps: dict[str, Callable[[], int]] = {"check": check, "tag": tag}
    return steps[asked.step]()


if __name__ == "__main__":
    sys.exit(main())
