"""Rules of an export: which clients may use it, and as whom."""

import os
import socket
import stat
from pathlib import Path
from typing import Any

import pytest

from bench.servers import volume as serve
from goldens import DATA, cases, matches
from iocurve.foundation.errors import DialectError
from iocurve.targets.target import VolumeTarget
from iocurve.volume import config
from iocurve.volume.config import ClientRule, ExportRules, handle_key, parse_client, reachable_host
from iocurve.volume.serve import greeting
from iocurve.volume.spec import ExportSpec, VolumeSpec, parse_export, read_spec, spec_of, volume_of
from programs import iocurve

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("runtime")]

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root is squashed, and only root can ask for it")


def write_to(url: str, refused: str | None = None) -> None:
    """A load on an export; ``refused`` is in the error of one that is not allowed."""
    options = ("--name=t", "--rw=write", "--bs=64k", "--size=256k", "--ioengine=nfs", f"--nfs_url={url}")
    done = iocurve("fio", *options)
    assert done.returncode == (refused is not None), done.stderr
    assert (refused or "") in done.stderr.lower()


@cases("volume/clients")
def test_clients_are_addresses_and_networks(text: str, rule: dict[str, Any]) -> None:
    assert parse_client(text) == ClientRule(**rule)


@pytest.mark.parametrize("text", ["", "10.1.0.0/33", "host", "10.1.0.0/16:rx", ":ro", "10.1"])
def test_what_is_no_client_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not an address or a network"):
        parse_client(text)
    with pytest.raises(DialectError, match=r"--export /a:allow=.*: allow: "):
        parse_export(f"/a:allow={text}")


def test_rules_are_written_in_three_ways() -> None:
    allowed: dict[str, Any] = dict.fromkeys(("read_only", "secure_ports", "all_squash", "suid", "dev"), True)
    clients = ("10.1.0.0/16", "10.2.0.1:ro")
    expected = ExportSpec(path="/a", allow=clients, anonuid=7, anongid=8, sync=False, **allowed)
    flags = "read_only=true,secure_ports=true,all_squash=true,anonuid=7,anongid=8,suid=true,dev=true,sync=false"
    assert parse_export(f"/a:allow=10.1.0.0/16,{flags},allow=10.2.0.1:ro") == expected
    file = DATA / "volume/rules.toml"
    assert read_spec(file) == VolumeSpec(listen="0.0.0.0", max_connections=100, export=(expected,))
    found = expected.rules()
    assert found.clients == (parse_client("10.1.0.0/16"), parse_client("10.2.0.1:ro"))
    assert (found.squash, found.anonuid, found.anongid) == ("all", 7, 8)
    assert (read_spec(file).config().exports[0].rules, read_spec(file).config().connections_max) == (found, 100)


def test_a_profile_has_a_short_name_and_a_default() -> None:
    names = [ExportSpec(profile=name).profile_name for name in ("premium", "anf-premium", "unlimited", None)]
    assert names == ["anf-premium", "anf-premium", "unlimited", "anf-ultra"]
    assert ExportSpec(throughput="1GiB").profile_name == "unlimited"


def test_a_volume_reads_the_specification_that_another_process_writes(tmp_path: Path) -> None:
    spec = ExportSpec(allow=("10.1.0.0/16", "::1:ro"), read_only=True, root_squash=False, anonuid=7, iops=5, sync=False)
    whole = VolumeSpec(export=(spec,))
    (file := tmp_path / "v.json").write_text(whole.to_json())
    assert read_spec(file) == whole


def test_root_is_squashed_unless_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert ExportSpec().rules() == ExportRules(squash="root", anonuid=65534, anongid=65534)
    assert ExportSpec(root_squash=False).rules().squash == "none"
    with pytest.raises(DialectError, match="--all-squash: squashing everybody squashes root, too"):
        spec_of({"all_squash": "true", "root_squash": "false"})
    # A server that is not root owns all files that it makes.
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(os, "getegid", lambda: 100)
    assert config.anonymous_user() == (1000, 100)


def test_serving_beyond_this_machine_takes_the_word() -> None:
    with pytest.raises(DialectError, match=r"address: 0\.0\.0\.0 can be reached from other machines.*listen"):
        volume_of([ExportSpec()], {"address": "0.0.0.0"})
    assert volume_of([ExportSpec()], {"address": "127.0.0.9"}).config().address == "127.0.0.9"
    assert volume_of([ExportSpec()], {"listen": "0.0.0.0"}).config().address == "0.0.0.0"
    refused = iocurve("volume", "serve", "--address", "0.0.0.0")
    assert refused.returncode == 2
    assert "use listen = 0.0.0.0" in refused.stderr


def test_the_announcement_names_those_who_may_come(tmp_path: Path) -> None:
    spec = volume_of([parse_export("/a:allow=10.1.0.0/16,allow=10.2.0.1:ro"), ExportSpec(path="/b")], {"listen": "::"})
    lines = list(greeting(spec, 2049))
    assert any(line.startswith("clients: 10.1.0.0/16, 10.2.0.1/32 (read-only); root becomes") for line in lines)
    assert "warning: anyone who can reach :: may use /b; name the clients with --allow" in lines
    assert not any("may use /a" in line for line in lines)
    assert all(("nconnect=8" in line) == ("mount -t nfs" in line) for line in lines)
    azure = list(greeting(volume_of([ExportSpec(profile="azure-files-v1")], {}), 2049))
    mounts = [line.partition(": ")[2] for line in azure if "mount -t nfs" in line]
    matches("volume#announcement names", mounts)
    tmp_path.chmod(0o700)
    foreign = ExportSpec(store=str(tmp_path), anonuid=os.getuid() + 1, anongid=os.getgid() + 1)
    closed = volume_of([foreign], {})
    assert any("cannot write to" in line for line in greeting(closed, 2049))
    assert not any("warning" in line for line in greeting(volume_of([foreign.replace(anonuid=os.getuid())], {}), 2049))


@cases("volume/the_announced_host_is_as_urls")
def test_the_announced_host_is_as_urls_write_it(address: str, host: str) -> None:
    assert reachable_host(address) == host


@pytest.mark.parametrize("everything", ["0.0.0.0", "::"])
def test_a_volume_on_all_addresses_announces_one_that_can_be_reached(everything: str) -> None:
    host = reachable_host(everything)
    assert host not in ("0.0.0.0", "[::]", "::")
    family = socket.AF_INET6 if ":" in everything else socket.AF_INET
    with socket.create_server((everything, 0), family=family) as server:
        socket.create_connection((host.strip("[]"), server.getsockname()[1]), timeout=10).close()
    (url, *_) = greeting(volume_of([ExportSpec()], {"listen": everything}), 2049)
    assert url.startswith(f"nfs://{host}:2049/vol ")


def test_the_key_of_handles_stays_and_is_secret() -> None:
    key = handle_key()
    assert (handle_key(), len(key)) == (key, 32)
    file = Path(os.environ["XDG_STATE_HOME"]) / "iocurve" / "handle-key"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [path.name for path in file.parent.iterdir()] == ["handle-key"]


def test_clients_that_are_not_allowed_are_not_served() -> None:
    with serve("--profile=unlimited", "--allow", "10.1.0.0/16") as server:
        write_to(server.url, refused="")
    with serve("--profile=unlimited", "--allow", "127.0.0.0/8:ro", "10.1.0.0/16") as server:
        write_to(server.url, refused="read-only")


def test_a_volume_that_listens_on_every_ipv6_address_has_clients_of_both_versions_of_ip() -> None:
    # A client of IPv4 arrives as ::ffff:127.0.0.1 there.
    for rules, refused_4, refused_6 in (
        ((), None, None),
        (("--allow", "127.0.0.0/8", "::1:ro"), None, "read-only"),
        (("--allow", "::1"), "127.0.0.1", None),
    ):
        with serve("--profile=unlimited", "--listen", "::", *rules) as server:
            place = f":{server.port}{server.export}"
            write_to(f"nfs://127.0.0.1{place}", refused_4)
            write_to(f"nfs://[::1]{place}", refused_6)


def test_a_run_works_with_the_defaults() -> None:
    with serve("--profile=unlimited") as server:
        write_to(server.url)


@needs_root
def test_root_is_the_anonymous_user_in_a_served_directory(tmp_path: Path) -> None:
    (directory := tmp_path / "srv").mkdir(mode=0o755)
    with serve("--profile=unlimited", "--store", str(directory)) as server:
        write_to(server.url, refused="")
        directory.chmod(0o777)
        write_to(server.url)
    [made] = directory.iterdir()
    assert (made.stat().st_uid, made.stat().st_gid) == (65534, 65534)
    with serve("--profile=unlimited", "--store", str(directory), "--no-root-squash") as server:
        made.unlink()
        write_to(server.url)
    [made] = directory.iterdir()
    assert made.stat().st_uid == 0


@needs_root
def test_a_run_of_root_writes_to_its_own_directory(tmp_path: Path) -> None:
    with VolumeTarget.of(f"volume:unlimited?store={tmp_path}").opened() as served:
        write_to(served.text)
    [made] = tmp_path.iterdir()
    assert made.stat().st_uid == 0


def test_a_private_volume_serves_no_other_users_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    own = ExportSpec(store="/srv").for_own_runs()
    assert (own.root_squash, own.secure_ports) == (False, True)
    assert ExportSpec().for_own_runs() == ExportSpec(), "memory has no user's files"
    squashing = ExportSpec(store="/srv", all_squash=True)
    assert squashing.for_own_runs() == squashing


def test_a_volume_says_who_reaches_it_and_which_stores_overlap(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    exports = [ExportSpec(path=f"/{name}", store=str(tmp_path / path)) for name, path in (("a", "a"), ("b", "a/b"))]
    text = "\n".join(greeting(VolumeSpec(export=tuple(exports), listen="0.0.0.0"), 2049))
    assert "warning: on 0.0.0.0, every address of this machine, nothing is encrypted" in text
    assert f"warning: {tmp_path}/a/b of /b is inside {tmp_path}/a of /a" in text
    alone = "\n".join(greeting(VolumeSpec(export=(exports[1],)), 2049))
    assert "encrypted" not in alone
    assert "inside" not in alone
