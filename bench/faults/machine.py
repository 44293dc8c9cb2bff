"""Rights, file systems and outputs that fail while a run goes on."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from bench.faults.loads import BREAK_AFTER_SECONDS, arguments, local_arguments
from bench.faults.scenarios import scenario
from bench.faults.seen import CannotRunError, Seen, left_on
from bench.faults.victims import Client, VolumeProcess, volume_process

_FILE_SYSTEM_BYTES = 64 << 20
_REPORT_BYTES = 512 << 10
"""Room for result.json; the page is larger."""


def export_read_only(directory: Path) -> Seen:
    """Starts the volume again with a read-only export."""

    def forbid(volume: VolumeProcess) -> None:
        volume.kill()
        volume.start("--read-only")

    return _refused(forbid, "Read-only file system", directory)


def permission_lost(directory: Path) -> Seen:
    """Gives the data file to root, who is another user for a client that is squashed."""
    if os.geteuid() != 0:
        raise CannotRunError("giving files away needs root")

    def give_away(volume: VolumeProcess) -> None:
        os.chown(volume.files / "data", 0, 0)
        (volume.files / "data").chmod(0o600)

    return _refused(give_away, "Permission denied", directory, ("--all-squash",))


def _refused(
    forbid: Callable[[VolumeProcess], None], message: str, directory: Path, options: Sequence[str] = ()
) -> Seen:
    with volume_process(directory, options) as volume:
        volume.files.chmod(0o777)
        client = Client(directory, arguments(volume.url(), "--rw=randwrite"))
        time.sleep(BREAK_AFTER_SECONDS)
        forbid(volume)
        ended = client.wait()
        seen = Seen.of(ended, volume.files)
        seen.expect_error(ended, f"of data: {message}")
        return seen


def file_system_read_only(directory: Path) -> Seen:
    """Reports an error to a separate ext4, which then turns read-only."""
    with _ext4(directory) as (mounted, device):
        client = Client(directory, local_arguments(mounted, "--rw=randwrite"))
        time.sleep(BREAK_AFTER_SECONDS)
        Path(f"/sys/fs/ext4/{device}/trigger_fs_error").write_text("1")
        ended = client.wait()
        seen = Seen.of(ended, mounted)
        seen.expect_error(ended, "/data: Read-only file system")
        return seen


def report_full(directory: Path) -> Seen:
    """Writes the report to a file system on which its page does not fit."""
    report = directory / "report"
    report.mkdir()
    with _mounted(("-t", "tmpfs", "-o", f"size={_REPORT_BYTES}", "tmpfs"), report), volume_process(directory) as volume:
        ended = Client(directory, scenario(volume.url())).wait()
        seen = Seen.of(ended, volume.files)
        seen.expect(ended.status == 1, f"exit {ended.status}: {ended.last_line}")
        seen.expect_error(ended, "report.html cannot be written: No space left on device")
        seen.expect_report(directory, ended, ("result.json",))
        seen.expect("random-4k-mix" in ended.output, "the table is missing")
        return seen


def stdout_to(place: str, directory: Path) -> Seen:
    """Runs a job whose stdout cannot be written."""
    with volume_process(directory) as volume:
        job = arguments(volume.url())
        shown = " ".join(word for word in job if not word.startswith("--output"))
        ended = Client(directory, [], prefix=("sh", "-c", f'"$0" {shown} >{place}')).wait()
        seen = Seen.of(ended, volume.files)
        seen.expect_error(ended, "stdout cannot be written")
        return seen


def plain_terminal(directory: Path) -> Seen:
    """Runs a scenario for a terminal that is narrow and knows ASCII only."""
    environment = {"COLUMNS": "10", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    with volume_process(directory) as volume:
        ended = Client(directory, scenario(volume.url()), environment).wait()
        seen = Seen.of(ended, volume.files)
        seen.expect_success(ended)
        seen.expect((ended.output + ended.error).isascii(), "a character that the terminal does not know")
        seen.expect_report(directory, ended)
        seen.expect(left_on(volume) == [], "files are left")
        return seen


@contextmanager
def _ext4(directory: Path) -> Iterator[tuple[Path, str]]:
    """A new ext4 in a file: its directory, and the name of its device."""
    image, mounted = directory / "image", directory / "mounted"
    mounted.mkdir()
    with image.open("wb") as file:
        file.truncate(_FILE_SYSTEM_BYTES)
    _run("mkfs.ext4", "-q", "-e", "remount-ro", str(image))
    with _mounted(("-o", "loop", str(image)), mounted):
        device = Path(_run("findmnt", "-n", "-o", "SOURCE", str(mounted)).strip()).name
        if not Path(f"/sys/fs/ext4/{device}/trigger_fs_error").exists():
            raise CannotRunError("this kernel's ext4 has no trigger_fs_error")
        yield mounted, device


@contextmanager
def _mounted(arguments: Sequence[str], directory: Path) -> Iterator[None]:
    """A file system that is mounted while the context lasts."""
    _run("mount", *arguments, str(directory))
    try:
        yield
    finally:
        _run("umount", str(directory))


def _run(*command: str) -> str:
    """The output of a command. Raises ``CannotRunError``."""
    try:
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout
    except FileNotFoundError:
        raise CannotRunError(f"{command[0]} is missing") from None
    except subprocess.CalledProcessError as error:
        raise CannotRunError(f"{command[0]}: {error.stderr.strip()}") from None
