"""Credentials of a cluster: a token, and with TLS a certificate that all its machines share."""

from __future__ import annotations

import os
import secrets
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from iocurve.cluster.ray_options import cluster_directory
from iocurve.foundation.errors import RunError

TOKEN = "token"
KEY = "tls-key.pem"
CERTIFICATE = "tls-certificate.pem"
_DAYS = "36500"
"""Machines whose clock is wrong must accept the certificate, too; its key is removed with the cluster."""


def make_token(directory: Path) -> None:
    """Makes the token of a cluster; only its owner can read it."""
    _write_private(directory / TOKEN, secrets.token_hex(32))


def make_certificate(directory: Path, addresses: Iterable[str]) -> None:
    """Makes a key and a certificate for these addresses, which also is its own authority. Raises ``RunError``."""
    names = ",".join(f"IP:{address}" for address in addresses)
    words = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    words += ["-days", _DAYS, "-subj", "/CN=iocurve", "-addext", f"subjectAltName={names}"]
    words += ["-keyout", str(directory / KEY), "-out", str(directory / CERTIFICATE)]
    _write_private(directory / KEY, "")
    try:
        made = subprocess.run(words, capture_output=True, text=True, check=False)
    except OSError:
        raise RunError("--tls needs the program openssl: apt-get install openssl") from None
    if made.returncode:
        raise RunError(f"--tls: openssl made no certificate: {made.stderr.strip().splitlines()[-1]}")


def files(directory: Path) -> dict[str, str]:
    """The files by name, for a machine that is to join."""
    found = (directory / name for name in (TOKEN, KEY, CERTIFICATE))
    return {path.name: path.read_text(encoding="utf-8") for path in found if path.exists()}


def environment(directory: Path, made_in: Path | None = None) -> dict[str, str]:
    """Ray's variables for a cluster whose files are in ``directory``, where ``made_in`` has the same files here."""
    variables = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(directory / TOKEN)}
    if ((made_in or directory) / CERTIFICATE).exists():
        certificate = str(directory / CERTIFICATE)
        variables |= {"RAY_USE_TLS": "1", "RAY_TLS_SERVER_CERT": certificate, "RAY_TLS_CA_CERT": certificate}
        variables |= {"RAY_TLS_SERVER_KEY": str(directory / KEY)}
    return variables


def user_token_path() -> Path:
    """The file with the token of the clusters that this user starts by the printed commands."""
    return cluster_directory() / TOKEN


def made_user_token() -> Path:
    """The file, made if there is none."""
    path = user_token_path()
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        make_token(path.parent)
    return path


def user_environment(variables: Mapping[str, str]) -> dict[str, str]:
    """Ray's variables for a cluster that iocurve did not start: the user's own, otherwise the token if there is one.

    The mode is always set: without it Ray makes a token in the home directory and then asks every node for it.
    """
    if variables.get("RAY_AUTH_MODE"):
        return {}
    if user_token_path().exists():
        return {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(user_token_path())}
    return {"RAY_AUTH_MODE": "disabled"}


@contextmanager
def applied(variables: Mapping[str, str]) -> Iterator[None]:
    """Sets variables of the environment while the context lasts. Ray reads some of them when it is loaded."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _write_private(path: Path, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
