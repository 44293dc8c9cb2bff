"""Doctor's rows on captured and composed hosts, and what it writes."""

import contextlib
import http.server
import json
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from bench.servers import Server
from data import synthetic
from goldens import Golden, cases, data, matches, present, rows
from iocurve.advice.doctor import fixes, gain, nfs
from iocurve.advice.doctor import host as hosts
from iocurve.advice.doctor.bundle import bundle
from iocurve.advice.doctor.checks import CHECKS, Diagnosis, DoctorRow, Judgement, TunedSetting
from iocurve.advice.doctor.diagnose import Known, diagnose
from iocurve.advice.doctor.host import Bundle, ClientMount, HostFiles, mounts
from iocurve.analysis.compare import Difference
from iocurve.cli.commands import run
from iocurve.engine.plan import NfsEngine
from iocurve.foundation.errors import IocurveError, ResultError, TargetError
from iocurve.foundation.units import MIB, TIB
from iocurve.report.table import Table, code
from iocurve.result.paired import RateRatio
from iocurve.targets.nfs_url import parse_nfs_url
from iocurve.volume.profile_limits import resolve
from programs import awaited, completed, printed

HOSTS = Path(__file__).parent / "hosts"
NOTHING = Known()


def examined(source: Bundle, subject: str | None = None, known: Known = NOTHING) -> Diagnosis:
    return diagnose(HostFiles.of_bundle(source), subject, known)


def row_of(diagnosis: Diagnosis, check: str, subject: str | None = None) -> DoctorRow:
    return next(row for row in diagnosis.rows if row.check == check and subject in (None, row.subject))


def tree(source: Bundle, root: Path) -> Path:
    """The files of a bundle as a directory."""
    for directory, names in source.directories.items():
        for name in names:
            (root / directory).mkdir(parents=True, exist_ok=True)
            if not any(path.startswith(f"{directory}/{name}/") for path in source.texts):
                (root / directory / name).touch()
    for path, content in source.texts.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(content)
    return root


def host_of(name: str) -> Bundle:
    """A captured host, or one composed from the documented formats of /proc and /sys."""
    return Bundle.load(HOSTS / f"{name}.json")


HOST_NAMES = [name for name, _ in rows("doctor/hosts")]


def test_every_host_has_expected_rows() -> None:
    assert {path.stem for path in HOSTS.glob("*.json")} == set(HOST_NAMES)


@cases("doctor/hosts")
def test_rows_of_a_host(name: str, golden: Golden) -> None:
    found = examined(host_of(name))
    golden.check({f"{row.check} {row.subject}": row.state for row in found.rows if row.state != "green"})
    assert all(row.fix and row.undo for row in found.rows if row.state != "green")
    assert not any(row.fix or row.undo for row in found.rows if row.state == "green")


def test_a_tunnel_and_the_kernels_encryption_are_named_and_no_other_process() -> None:
    host = HostFiles.of_bundle(host_of("composed-tunnelled"))
    found = diagnose(host, None, NOTHING)
    assert row_of(found, "nfs.encryption", "/mnt/a").found == "127.0.0.1:2049 is a tunnel: stunnel4"
    assert row_of(found, "nfs.encryption", "/mnt/b").found.startswith("xprtsec=tls")
    assert "proc/78/comm" not in bundle(host, None).texts
    encrypted = next(one for one in nfs_mounts(host_of("composed-tunnelled")) if one.point == "/mnt/b")
    assert parse_nfs_url(nfs.url(encrypted)).tls is not None


def test_the_scenarios_of_shared_connections_are_told_apart() -> None:
    told = {
        f"scenario_{number}": row_of(examined(host), "nfs.nconnect_shared", "/mnt/b").found
        for number in (1, 2, 3)
        for host in [host_of(f"composed-scenario-{number}")]
    }
    matches("doctor/the_scenarios_of_shared_connections_are_told", told)


@cases("doctor/rows")
def test_a_check_has_its_row(
    host: str, subject: str | None, known: dict[str, Any], check: str, row: str | None, golden: Golden
) -> None:
    found = row_of(examined(host_of(host), subject, Known(**known)), check, row)
    golden.check([found.state, found.found, found.fix])


def fixed(found: Diagnosis) -> list[str]:
    return [part for row in found.rows if row.fix for part in row.fix.split("; ")]


@pytest.mark.parametrize("name", HOST_NAMES)
def test_no_fix_undoes_another(name: str) -> None:
    """Each mount has one line, whichever row prints it; the file of module options has one content, that of --fix."""
    found = examined(host_of(name))
    lines = {part for part in fixed(found) if part.startswith("mount -t")}
    assert len(lines) == len({line.split()[-1].rstrip(":") for line in lines})
    wanted = fixes.files(found).get(fixes.MODPROBE)
    written = {part.removeprefix("for later boots ") for part in fixed(found) if f"> /{fixes.MODPROBE}" in part}
    made = {
        subprocess.run(["sh", "-c", one.partition(" > ")[0]], capture_output=True).stdout.decode() for one in written
    }
    assert made == ({wanted} if wanted else set())


def nfs_mounts(source: Bundle) -> list[ClientMount]:
    return [one for one in mounts(HostFiles.of_bundle(source)) if isinstance(one, ClientMount)]


def test_a_mount_line_has_the_options_of_all_rows() -> None:
    mount = nfs_mounts(host_of("captured-nfs3-soft"))[0]
    small = replace(mount, options={**mount.options, "rsize": "65536", "wsize": "65536"})
    judged = [one for _, _, one in nfs.joined([("s", "/m", nfs._transfer_size(small)), ("h", "/m", nfs._hard(small))])]
    first, second = (one.fix for one in judged if isinstance(one, Judgement))
    assert first == second
    words = first.partition("mount -t nfs -o ")[2].partition(" ")[0].split(",")
    assert {"rsize=262144", "wsize=262144", "hard"} <= set(words)
    assert "soft" not in words


def test_a_volume_that_carries_more_than_the_machine_sends_needs_several_clients() -> None:
    known = Known("anf-premium", 8, resolve("anf-premium", 40 * TIB).caps, "D32s_v5")
    row = row_of(examined(host_of("captured-nfs3-one"), "/mnt", known), "machine.vm_size")
    assert row.state == "yellow"
    assert row.found.endswith("the volume carries 2,560 MiB/s, this machine sends 1,907")
    assert row.fix == "2 clients of this size, or a size with more network bandwidth"


@pytest.mark.parametrize("subject", ["/dev/sdc1", "sdc", "/data", "/data/file"])
def test_subjects_on_a_captured_host(subject: str) -> None:
    found = examined(host_of("composed-bad-stripe"), subject)
    assert {row.subject for row in found.rows if row.check == "disk.scheduler"} >= {"sdc"}


@pytest.mark.parametrize("subject", ["/dev/sdz", "/nowhere"])
def test_a_subject_that_is_not_on_the_host_is_an_error(subject: str) -> None:
    with pytest.raises(TargetError, match=subject):
        examined(host_of("composed-bad-stripe"), subject)


@pytest.mark.parametrize("name", ["captured-nfs3-lost", "captured-virtio"])
def test_a_directory_with_the_files_gives_the_same_rows_as_the_bundle(name: str, tmp_path: Path) -> None:
    source = host_of(name)
    assert diagnose(HostFiles(tree(source, tmp_path)), None, Known()) == examined(source)


def test_a_bundle_keeps_the_rows_and_no_name_or_address(tmp_path: Path) -> None:
    host = HostFiles(tree(host_of("composed-scenario-2"), tmp_path))
    before, made = diagnose(host, None, Known()), bundle(host, None)
    after = examined(Bundle.from_json(made.pretty()))
    assert [(row.check, row.state) for row in after.rows] == [(row.check, row.state) for row in before.rows]
    matches("doctor#bundle keeps", [mount.server for mount in nfs_mounts(made)])
    written = made.to_json()
    assert not [word for word in ("contoso", "fabrikam", "52.239", "EF34", "/mnt/a", "share0") if word in written]


def test_the_counters_of_a_mount_are_read_whole() -> None:
    (mount,) = nfs_mounts(host_of("captured-nfs3-four"))
    assert [one.slots_max for one in mount.transports] == [8, 8, 8, 8]
    read = mount.operations["READ"]
    assert (read.operations, read.timeouts, read.queue_ms, read.rtt_ms) == (11_429, 0, 2_607, 19_497)
    assert (mount.bytes[4], mount.open_connections) == (11_429 * 8192, 4)


def test_the_fixes_are_shown_as_a_diff_and_undone_by_the_kept_files(tmp_path: Path) -> None:
    root = tree(host_of("captured-nfs3-lost"), tmp_path)
    (root / fixes.SYSCTL).parent.mkdir(parents=True)
    (root / fixes.SYSCTL).write_text("vm.swappiness = 1\n")
    host = HostFiles(root)
    wanted = fixes.files(diagnose(host, None, Known("anf-premium", 8)))
    assert set(wanted) == {nfs.UDEV_NFS, fixes.SYSCTL, fixes.MODPROBE}
    assert "-vm.swappiness = 1\n" in fixes.diff(host, wanted)
    assert len(fixes.write(root, wanted)) == 3
    assert 'ATTR{read_ahead_kb}="15360"' in (root / nfs.UDEV_NFS).read_text()
    assert (root / fixes.SYSCTL).with_name("90-iocurve.conf.before-iocurve").read_text() == "vm.swappiness = 1\n"
    assert fixes.diff(HostFiles(root), wanted) == ""
    assert fixes.write(root, wanted) == []


@pytest.mark.slow
def test_exit_status_output_and_files(tmp_path: Path) -> None:
    def checked(name: str, *more: str, status: int) -> str:
        return printed("doctor", "--from", str(HOSTS / f"{name}.json"), *more, status=status)

    document = json.loads(checked("captured-nfs3-four", "--json", status=4))
    assert document["rows"][0]["check"] == "nfs.read_ahead"
    assert "1 row to look at" in checked("captured-virtio", "--markdown", str(tmp_path / "rows.md"), status=5)
    assert "| yellow | mount options | / | discard |" in (tmp_path / "rows.md").read_text()
    assert checked("captured-nfs3-eight-tuned", status=0).endswith("nothing to change\n")


@pytest.mark.slow
def test_a_root_writes_a_bundle_and_shows_the_fix(tmp_path: Path) -> None:
    root, written = tree(host_of("captured-nfs3-one"), tmp_path / "host"), str(tmp_path / "b.json")
    words = ["doctor", "/mnt", "--root", str(root), "--fix", "--profile", "anf-premium"]
    shown = printed(*words, "--bundle", written, status=4)
    assert "+options sunrpc tcp_max_slot_table_entries=128" in shown
    assert not (root / fixes.MODPROBE).exists()
    assert printed("doctor", "--from", written, status=4).startswith("/mnt: 1 red")
    printed(*words, "--yes", status=4)
    assert (root / fixes.MODPROBE).exists()


@cases("doctor/errors")
def test_errors(arguments: str, message: str) -> None:
    with pytest.raises(IocurveError, match=message):
        run(["doctor", "--vm", "D8s_v5", *arguments.replace("HOSTS", str(HOSTS)).split()])


def test_a_file_that_is_no_bundle_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "b.json").write_text("{}")
    with pytest.raises(ResultError, match="is not a bundle"):
        Bundle.load(tmp_path / "b.json")


def test_instance_metadata_is_asked_for_and_its_names_are_left_out() -> None:
    class Service(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.headers["Metadata"] == "true" else 400)
            self.end_headers()
            self.wfile.write(data("advice/instance_metadata.json").encode())

        def log_message(self, *_: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Service) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        found = hosts.azure_instance(f"http://127.0.0.1:{server.server_port}/")
    assert found == hosts.Instance(
        vm_size="Standard_D8s_v5",
        location="westeurope",
        os_disk_caching="ReadWrite",
        data_disks=(hosts.DataDisk(lun=0, caching="None", size_gib=1024),),
    )


@pytest.mark.parametrize("reply", ["", "[]", "{}", "not JSON", '{"vmSize": "x", "storageProfile": {"dataDisks": [1]}}'])
def test_other_replies_are_no_instance(reply: str) -> None:
    assert hosts.parse_instance(reply) is None


def setting_row(path: str) -> DoctorRow:
    setting = TunedSetting(path=path, now="128", wanted="15360", load="rw=read bs=64k direct=0")
    texts = dict.fromkeys(("found", "why", "source"), "")
    return DoctorRow(check="nfs.read_ahead", title="read-ahead", subject="/mnt", state="red", setting=setting, **texts)


@pytest.mark.slow
def test_before_and_after_take_turns_and_the_setting_is_put_back(tmp_path: Path) -> None:
    (tmp_path / "setting").write_text("128")
    (tmp_path / "data").mkdir()
    load = gain.DoctorLoad(tmp_path / "data", MIB, 20_000_000, 3)
    found = gain.measure(setting_row("setting"), load, tmp_path / "out", tmp_path, quiet=True)
    assert found.difference is not None
    assert found.text.startswith("read-ahead of /mnt, 15360 instead of 128: ")
    row = setting_row("setting")
    several = row.replace(setting=present(row.setting).replace(candidates=("256", "512")))
    best = gain.search(several, load, tmp_path / "search", tmp_path, quiet=True)
    assert [one.row.setting.wanted for one in best.gains if one.row.setting] == ["256", "512"]
    assert best.value in ("128", "256", "512")
    assert f"the best read-ahead of /mnt for this load: {best.value}" in best.text
    assert (tmp_path / "setting").read_text() == "128"
    assert list((tmp_path / "data").iterdir()) == []


def test_the_smallest_of_values_that_are_as_good_is_the_best() -> None:
    row = setting_row("setting")

    def gained(value: str, percent: float, verdict: str) -> gain.TuningGain:
        speed = RateRatio(1 + percent / 100, 1.01 if verdict == "faster" else 0.9, 2.0)
        one = Difference("", "", 1, "", "iops", 100, 100 + percent, speed, 0.95)
        tuned = row.replace(setting=present(row.setting).replace(wanted=value))
        return gain.TuningGain(tuned, synthetic.result([]), one)

    seen = [("256", 20, "faster"), ("1024", 140, "faster"), ("4096", 145, "faster"), ("15360", 2, "inconclusive")]
    assert gain.BestSetting(row, tuple(gained(*each) for each in seen)).value == "1024"
    none = gain.BestSetting(row, (gained("256", 9, "inconclusive"),))
    assert (none.value, "128 (as it is)" in none.text) == ("128", True)


def test_other_load_does_not_decide_the_exit_status() -> None:
    busy = examined(host_of("composed-bad-stripe"))
    assert row_of(busy, "machine.load").state == "red"
    only = busy.replace(rows=tuple(row for row in busy.rows if row.check == "machine.load" or row.state == "green"))
    assert (only.state, fixes.status(only)) == ("red", 0)


def test_a_server_whose_slots_and_read_ahead_no_source_states_gets_no_figure_of_another() -> None:
    found = examined(host_of("composed-lossy"))
    assert row_of(found, "nfs.slots").state == "green"
    assert "no source states the best for this server" in row_of(found, "nfs.read_ahead").found
    known = examined(host_of("composed-lossy"), None, Known("anf-premium"))
    assert row_of(known, "nfs.slots").state == "red"
    assert "no source" not in row_of(known, "nfs.read_ahead").found


def test_a_setting_is_put_back_after_an_interrupt(tmp_path: Path) -> None:
    file = tmp_path / "setting"
    file.write_text("128")
    with contextlib.suppress(KeyboardInterrupt), gain.put_back_at_end([(file, "128")]):
        gain.apply(file, "15360")
        raise KeyboardInterrupt
    assert file.read_text() == "128"


def test_a_setting_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(TargetError, match="cannot be set to 1"):
        gain.apply(tmp_path / "nowhere/setting", "1")


def test_a_mount_is_measured_by_its_url_below_the_directory() -> None:
    rows = {row.check: row for row in examined(host_of("captured-nfs3-soft"), "/mnt").rows}
    load = gain.DoctorLoad(Path("/mnt/data 1"), MIB, 20_000_000, 3)
    url, size = "nfs://10.0.0.1:14049/export1/data%201", "--size=1048576 --runtime=0.02 --unlink=1 --time_based"
    assert load.commands(rows["nfs.nconnect"]) == tuple(
        f"fio --name=doctor --ioengine=nfs '--nfs_url={url}?vers=3&nconnect={number}' --rw=randread --bs=64k "
        f"--iodepth=64 {size}"
        for number in (1, 8)
    )
    assert load.commands(rows["nfs.transfer_size"]) == tuple(
        f"fio --name=doctor --ioengine=nfs '--nfs_url={url}?vers=3&nconnect=1&rsize={rsize}' --rw=read --bs=1m "
        f"--iodepth=4 {size}"
        for rsize in (65_536, 262_144)
    )
    matches("doctor#mount measured", gain.gain_of(rows["nfs.nconnect"]))
    session = present(
        row_of(examined(host_of("captured-nfs41-four"), "/mnt", Known("anf-ultra")), "nfs.session_slots").setting
    )
    assert session.urls == tuple(
        f"nfs://10.0.0.1:14049/export1?vers=4.1&nconnect=4&slots={slots}" for slots in (64, 180)
    )


@pytest.mark.slow
def test_settings_that_need_another_mount_are_measured_by_the_own_client(volume: Server, tmp_path: Path) -> None:
    source = f"nfs://127.0.0.1:{volume.port}{volume.export}"
    row = row_of(examined(host_of("composed-nvme"), f"{source}?nconnect=2"), "nfs.nconnect")
    assert row.state == "green"
    few = row_of(examined(host_of("composed-nvme"), f"{source}?nconnect=1&vers=4.1"), "nfs.nconnect")
    found = gain.measure(few, gain.DoctorLoad(None, MIB, 20_000_000, 3), tmp_path / "out", quiet=True)
    engines = [point.plan.groups[0].workers[0].engine for point in found.result.points]
    assert [engine.mount.nconnect for engine in engines if isinstance(engine, NfsEngine)] == [1, 8]
    assert found.difference is not None


def test_files_of_this_machine_are_read_in_parts() -> None:
    # Linux refuses to read 4 MiB of /proc/sys at once.
    path = "proc/sys/kernel/osrelease"
    assert HostFiles().text(path) == Path("/", path).read_text()


@pytest.mark.slow
def test_a_setting_is_put_back_although_the_process_is_killed(tmp_path: Path) -> None:
    (file := tmp_path / "setting").write_text("128")
    # The guardian has this pipe as its stderr: the end of the file says that it has ended.
    ran = completed([sys.executable, "-c", data("scripts/killed_with_a_setting.txt"), str(file)])
    assert (ran.returncode, file.read_text()) == (-signal.SIGKILL, "128")


@pytest.mark.slow
def test_a_termination_of_measure_puts_the_setting_back(tmp_path: Path) -> None:
    (setting := tmp_path / "setting").write_text("128")
    (tmp_path / "data").mkdir()
    with subprocess.Popen([sys.executable, "-c", data("scripts/doctor_of_one_setting.txt"), str(tmp_path)]) as ran:
        awaited(lambda: ran.poll() is not None or setting.read_text() == "15360", "the setting is not changed")
        ran.send_signal(signal.SIGTERM)
        ran.wait(timeout=60)
    assert (ran.returncode, setting.read_text()) == (128 + signal.SIGTERM, "128")
    assert list((tmp_path / "data").iterdir()) == []


def test_the_page_has_the_table_of_all_checks() -> None:
    rows = [(code(one.name), one.title, one.rule, one.why, one.source) for one in CHECKS.values()]
    table = Table(("check", "what", "green, yellow, red", "why", "source"), rows)
    assert "\n".join(table.markdown()) + "\n" in (HOSTS.parent.parent / "docs/doctor.md").read_text()


def test_every_check_has_a_row_on_some_host() -> None:
    found = [examined(host_of(name), None, Known(vm="D8s_v5")) for name in HOST_NAMES]
    seen = {row.check for one in found for row in one.rows}
    assert seen == set(CHECKS)
