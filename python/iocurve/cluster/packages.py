"""The Python packages that an agent needs, as an archive for hosts that have nothing but Python.

They are those that this program runs with, so a host needs no index, no compiler and no permission to install. Modules
in machine code fit Python of the same minor version on the same kind of processor.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from functools import cached_property
from hashlib import sha256
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path, PurePosixPath

import msgspec

import iocurve
from iocurve._native import VERSION
from iocurve.cluster.ray_options import cluster_directory
from iocurve.foundation.errors import RunError

NOT_CARRIED = frozenset({"altair", "vl-convert-python"})
"""Packages that draw charts: an agent draws none."""
_LEFT_OUT = frozenset({"__pycache__", "jars", "rllib", "tune", "serve", "cpp", "tests"})
"""Directories of packages that an agent never loads."""


def wheel(version: str, machine: str) -> str:
    """The name of the file that ``make wheel`` builds for a kind of processor; it lacks the version's commit."""
    return f"iocurve-{version.partition('+')[0]}-cp311-abi3-manylinux_2_28_{machine}.whl"


def installation() -> str:
    """The command that installs iocurve with Ray here: no index has the package, so it says the file."""
    return f"pip install './{wheel(VERSION, os.uname().machine)}[scale]' (make wheel builds the file)"


class Packages(msgspec.Struct, frozen=True, dict=True):
    """Files by their path below a directory of ``sys.path``."""

    files: dict[str, Path]
    name: str = "packages"

    @cached_property
    def key(self) -> str:
        """A name that changes with the content: sizes and times of change stand for it."""
        digest = sha256()
        for name, path in sorted(self.files.items()):
            found = path.lstat()
            digest.update(f"{name} {found.st_size} {found.st_mtime_ns}\n".encode())
        return f"{self.name}-{digest.hexdigest()[:16]}"

    def archive(self) -> Path:
        """The archive (tar, gzip), which is kept until the packages change. Raises ``RunError``."""
        directory = cluster_directory() / "packages"
        path = directory / f"{self.key}.tar.gz"
        if path.exists():
            return path
        made = directory / f".{self.key}.{os.getpid()}"
        try:
            directory.mkdir(parents=True, exist_ok=True)
            for old in directory.glob(f"{self.name}-*.tar.gz"):
                old.unlink(missing_ok=True)
            with tarfile.open(made, "w:gz", compresslevel=1) as archive:
                for name, source in sorted(self.files.items()):
                    archive.add(source, name)
            made.rename(path)
        except OSError as error:
            made.unlink(missing_ok=True)
            raise RunError(f"the packages for the hosts cannot be written to {directory}: {error}") from None
        return path


def own_version() -> str:
    """The minor version of this Python: ``3.11``."""
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def interpreter() -> Path | None:
    """An archive (tar, gzip) of a Python of this minor version that runs anywhere; uv has it, or downloads it.

    None where there is no uv here, or where it has none. Raises ``RunError`` where the archive cannot be written.
    """
    uv = shutil.which("uv", path=f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}")
    if uv is None:
        return None
    find = [uv, "python", "find", "--managed-python", "--no-project", "--system", own_version()]
    installing = [uv, "python", "install", "--no-bin", own_version()]
    for command in (installing, find):
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        if ran.returncode:
            return None
    root = Path(ran.stdout.strip()).resolve().parent.parent
    files = {str(path.relative_to(root)): path for path in root.rglob("*") if not path.is_dir() or path.is_symlink()}
    return Packages({name: path for name, path in files.items() if "__pycache__" not in name}, "python").archive()


def needed() -> Packages:
    """The packages that an agent needs. Raises ``RunError`` if one is not installed."""
    files: dict[str, Path] = {}
    package = Path(iocurve.__file__).parent
    for path in package.rglob("*"):
        if path.is_file() and not _LEFT_OUT.intersection(path.parts[-2:-1]):
            files[f"iocurve/{path.relative_to(package)}"] = path
    for one in _required("iocurve", {"scale"}, {}).values():
        if one.name == "iocurve":
            continue
        for file in one.files or ():
            parts = PurePosixPath(file).parts
            # Scripts of a package lie outside of it ("../../../bin").
            if ".." not in parts and not _LEFT_OUT.intersection(parts):
                files[str(file)] = Path(str(file.locate()))
    return Packages({name: path for name, path in files.items() if path.is_file()})


def _required(name: str, extras: set[str], found: dict[str, Distribution]) -> dict[str, Distribution]:
    """A distribution with all that it requires, by name."""
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    try:
        one = found[canonicalize_name(name)] = distribution(name)
    except PackageNotFoundError:
        raise RunError(f"many machines need the package {name}, which is not installed: {installation()}") from None
    for text in one.requires or ():
        required = Requirement(text)
        wanted = [{"extra": extra} for extra in extras or {""}]
        applies = required.marker is None or any(map(required.marker.evaluate, wanted))
        if applies and canonicalize_name(required.name) not in found.keys() | NOT_CARRIED:
            _required(required.name, required.extras, found)
    return found
