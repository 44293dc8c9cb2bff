"""Opens a page in headless Chromium and reports its behaviour."""

import json
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

TIMEOUT_S = 60
BROWSER = "not an origin"
"""Initiator of the browser's own requests; those of a page have its origin."""


@dataclass(frozen=True)
class Visit:
    """Observations of a page while it was open."""

    dom: str
    """The document after its scripts have run."""
    console: list[str]
    """All console messages, errors included."""
    requests: list[str]
    """URLs that the page, not the browser itself, requested."""


def visit(page: Path | str, scratch: Path) -> Visit:
    """Opens a file, or a URL of this machine until it loads nothing more. Skips the test without Chromium."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip("needs Debian's chromium")
    log = scratch / "net.json"
    switches = (
        *("headless=new", "no-sandbox", "disable-gpu", "disable-quic", "no-first-run", "disable-sync"),
        *("disable-background-networking", "disable-component-update", "enable-logging=stderr", "dump-dom"),
        # The browser's own requests are blocked: no test may connect beyond this machine.
        *(
            "proxy-server=127.0.0.1:9",
            "virtual-time-budget=10000",
            f"log-net-log={log}",
            f"user-data-dir={scratch}/user",
        ),
    )
    ended = subprocess.run(
        [chromium, *(f"--{switch}" for switch in switches), page if isinstance(page, str) else page.as_uri()],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=True,
    )
    # The browser's own pages (chrome://) log there, too, on a slow machine.
    lines = [line for line in ended.stderr.splitlines() if ":CONSOLE:" in line and "source: chrome://" not in line]
    return Visit(ended.stdout, lines, _requests(log))


def _requests(log: Path) -> list[str]:
    events = json.loads(log.read_text(encoding="utf-8"))["events"]
    parameters = [event.get("params", {}) for event in events]
    return [each["url"] for each in parameters if "url" in each and each.get("initiator", BROWSER) != BROWSER]
