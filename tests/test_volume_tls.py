"""TLS of a volume and of the NFS client (RFC 9289), with Python's ``ssl`` and ``openssl s_client`` as peers."""

import re
import shutil
import socket
import ssl
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import pytest

from bench.servers import free_ports
from bench.servers import volume as serve
from goldens import cases, present
from iocurve.foundation.errors import DialectError
from iocurve.foundation.serving import make_certificate
from iocurve.targets.nfs_url import nfs_address, parse_nfs_url, with_parameters
from iocurve.targets.target import NfsTarget
from iocurve.volume.serve import greeting
from iocurve.volume.spec import VolumeSpec, spec_of, volume_of
from programs import iocurve, volume_here

pytestmark = pytest.mark.slow

AUTH_TLS = 7
NFS = 100003
CALL = struct.Struct(">IIIIII")


@pytest.fixture(scope="module")
def encrypted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a volume with TLS, which trusts its certificate."""
    state = tmp_path_factory.mktemp("state")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("run")))
        patch.setenv("XDG_STATE_HOME", str(state))
        with serve("--profile=unlimited", "--tls") as server:
            (certificate,) = state.glob("iocurve/volume-tls/*/certificate.pem")
            yield f"nfs://127.0.0.1:{server.port}{server.export}?tls&ca={certificate}"


def null_call(flavor: int, version: int = 3, procedure: int = 0) -> bytes:
    """A call of the NFS program without arguments, as a record."""
    body = CALL.pack(1, 0, 2, NFS, version, procedure) + struct.pack(">IIII", flavor, 0, 0, 0)
    return struct.pack(">I", 1 << 31 | len(body)) + body


def reply(connection: socket.socket) -> bytes:
    """The body of the next record."""
    (mark,) = struct.unpack(">I", connection.recv(4, socket.MSG_WAITALL))
    return connection.recv(mark & 0x7FFFFFFF, socket.MSG_WAITALL)


def port_and_authority(url: str) -> tuple[int, str]:
    found = present(re.fullmatch(r"nfs://127\.0\.0\.1:(\d+)/vol\?tls&ca=(.+)", url))
    return int(found[1]), unquote(found[2])


READ = ("--rw=read", "--size=64k")
VERIFIED = ("--rw=randwrite", "--verify=crc32c", "--do_verify=1")


def fio(directory: Path, url: str, *options: str) -> subprocess.CompletedProcess[str]:
    return iocurve("fio", "--name=t", *options, "--ioengine=nfs", f"--nfs_url={url}", cwd=directory)


def verified(directory: Path, url: str, *options: str) -> None:
    ran = fio(directory, url, *VERIFIED, *options)
    assert (ran.returncode, "err= 0" in ran.stdout) == (0, True), ran.stderr


@pytest.mark.parametrize("version", [3, 4])
def test_python_shakes_hands_as_the_rfc_has_it(encrypted: str, version: int) -> None:
    port, authority = port_and_authority(encrypted)
    context = ssl.create_default_context(cafile=authority)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.set_alpn_protocols(["sunrpc"])
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(null_call(AUTH_TLS, version))
        assert reply(connection) == struct.pack(">IIIII", 1, 1, 0, 0, 8) + b"STARTTLS" + bytes(4)
        with context.wrap_socket(connection, server_hostname="127.0.0.1") as sealed:
            assert (sealed.version(), sealed.selected_alpn_protocol()) == ("TLSv1.3", "sunrpc")
            sealed.sendall(null_call(0, version))
            assert sealed.recv(100) == struct.pack(">IIIIIII", 1 << 31 | 24, 1, 1, 0, 0, 0, 0)
            # A second question within TLS is no question any more.
            sealed.sendall(null_call(AUTH_TLS, version))
            assert b"STARTTLS" not in sealed.recv(100)


def test_another_protocol_is_refused_and_openssl_is_served(encrypted: str) -> None:
    port, authority = port_and_authority(encrypted)
    context = ssl.create_default_context(cafile=authority)
    context.set_alpn_protocols(["http/1.1"])
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection, pytest.raises(ssl.SSLError):
        context.wrap_socket(connection, server_hostname="127.0.0.1")
    words = ["openssl", "s_client", "-connect", f"127.0.0.1:{port}", "-alpn", "sunrpc", "-CAfile", authority]
    told = subprocess.run(words, input=b"", capture_output=True, check=True, timeout=60).stdout.decode()
    assert "ALPN protocol: sunrpc" in told
    assert "Verify return code: 0 (ok)" in told
    assert "TLSv1.3" in told


def test_without_tls_a_client_is_told_to_use_it(encrypted: str, tmp_path: Path) -> None:
    port, authority = port_and_authority(encrypted)
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(null_call(0) + null_call(1, procedure=1))
        assert reply(connection) == struct.pack(">IIIIII", 1, 1, 0, 0, 0, 0)
        # MSG_DENIED, AUTH_ERROR, AUTH_TOOWEAK
        assert reply(connection) == struct.pack(">IIIII", 1, 1, 1, 1, 5)
    no_file = (f"?tls&ca={authority}x", "no certificate can be read there")
    for query, told in (("", "add tls to the URL"), ("?tls", "ca=FILE"), no_file):
        for version in ("", "&vers=4.1"):
            ran = fio(tmp_path, f"nfs://127.0.0.1:{port}/vol{query or '?uid=0'}{version}", *READ)
            assert (ran.returncode != 0, told in ran.stderr) == (True, True), ran.stderr


@pytest.mark.parametrize("parameters", ["", "&vers=4.1", "&nconnect=4", "&vers=4.1&nconnect=3"])
@pytest.mark.parametrize("bs", ["4k", "37k", "1m"])
def test_verified_loads_run_through_it(encrypted: str, parameters: str, bs: str, tmp_path: Path) -> None:
    size = "--size=24m" if bs == "1m" else "--size=2m"
    verified(tmp_path, f"{encrypted}{parameters}", f"--bs={bs}", "--iodepth=16", size)


@pytest.fixture
def tunnel(encrypted: str, tmp_path: Path) -> Iterator[int]:
    """The port of stunnel, which connects to the volume by TLS, as mounts of Azure Files and EFS do."""
    program = shutil.which("stunnel4") or shutil.which("stunnel")
    if program is None:
        pytest.skip("needs Debian's stunnel4")
    (port, authority), accepts = port_and_authority(encrypted), free_ports()
    settings = ["foreground = yes", "pid =", "[nfs]", "client = yes", f"accept = 127.0.0.1:{accepts}"]
    settings += [f"connect = 127.0.0.1:{port}", f"CAfile = {authority}", "verifyPeer = yes", "sslVersionMin = TLSv1.3"]
    (tmp_path / "stunnel.conf").write_text("\n".join(settings) + "\n")
    with subprocess.Popen([program, tmp_path / "stunnel.conf"], stderr=subprocess.PIPE, text=True) as process:
        try:
            assert any("Configuration successful" in line for line in present(process.stderr))
            yield accepts
        finally:
            process.terminate()


@pytest.mark.parametrize("parameters", ["", "?vers=4.1&nconnect=2"])
def test_a_verified_load_runs_through_stunnel(tunnel: int, parameters: str, tmp_path: Path) -> None:
    url = f"nfs://127.0.0.1:{tunnel}/vol{parameters}"
    verified(tmp_path, url, "--bs=64k", "--size=2m", "--iodepth=8")


@pytest.mark.parametrize("version", ["", "&vers=4.1"])
def test_a_volume_takes_the_certificates_that_it_trusts_and_a_client_says_which_it_refuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    for name in ("known", "unknown"):
        key, certificate = tmp_path / f"{name}.key", tmp_path / f"{name}.certificate"
        make_certificate(key, certificate, ["DNS:client"], "basicConstraints=critical,CA:FALSE")
        (tmp_path / f"{name}.pem").write_text(key.read_text() + certificate.read_text())
    with volume_here({"tls": True, "tls_clients": str(tmp_path / "known.certificate")}) as server:
        (authority,) = tmp_path.glob("iocurve/volume-tls/*/certificate.pem")
        url = f"nfs://127.0.0.1:{server.port}/vol?tls&ca={authority}{version}"
        for shown, told in (
            (f"&certificate={tmp_path}/known.pem", ""),
            (f"&certificate={tmp_path}/unknown.pem", "the server refuses this certificate"),
            ("", "the server demands a certificate of its clients"),
        ):
            ran = fio(tmp_path, f"{url}{shown}", *READ)
            assert (ran.returncode != 0, told in ran.stderr) == (told != "", True), ran.stderr


def test_a_server_without_tls_is_named(tmp_path: Path) -> None:
    with volume_here() as server:
        ran = fio(tmp_path, f"nfs://127.0.0.1:{server.port}/vol?tls", *READ)
    assert ran.returncode != 0
    assert "does not offer TLS (RFC 9289)" in ran.stderr or "certificate authorities" in ran.stderr


@cases("volume/tls_urls")
def test_urls_say_whom_to_trust(url: str, error: str) -> None:
    if error:
        with pytest.raises(DialectError, match=re.escape(error)):
            NfsTarget.of(url)
        return
    mount = NfsTarget.of(url).mount(1)
    assert mount.tls == parse_nfs_url(nfs_address(mount)).tls == parse_nfs_url(with_parameters(url, {"uid": 5})).tls
    assert (ca := present(mount.tls).ca) is None or Path(ca).is_absolute()


def test_keys_are_kept_and_a_file_of_the_user_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    spec = VolumeSpec(export=(spec_of({}),), tls=True)
    made = present(spec.tls_files())
    assert (Path(made.key).stat().st_mode & 0o77, spec.tls_files()) == (0, made)
    assert spec.replace(listen="127.0.0.2").tls_files() != made
    assert next(greeting(spec, 5)).startswith(f"nfs://127.0.0.1:5/vol?tls&ca={made.certificate} ")
    own = present(volume_of([spec_of({})], {"tls": True, "tls_certificate": "/etc/mine.pem"}).tls_files())
    assert own.key == own.certificate == "/etc/mine.pem"
    mutual = spec.replace(tls_clients="/etc/authorities.pem")
    assert mutual.tls_files() == made.replace(clients="/etc/authorities.pem")
    assert any("xprtsec=mtls" in line for line in greeting(mutual, 5))
    for name in ("tls_certificate", "tls_clients"):
        with pytest.raises(DialectError, match="add tls"):
            volume_of([spec_of({})], {name: "/etc/mine.pem"})
