"""Processes in ``/proc``, and cargo as a process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

LINTED = ("env", f"RUSTC_WORKSPACE_WRAPPER={Path(__file__).parents[1]}/.ci/rustc-clippy", "cargo")
"""cargo as ``make compile`` runs it: what that compiled is not compiled again, without lints."""


def descendants(ancestor: int) -> Iterator[tuple[str, list[str]]]:
    """The processes that a process has started, and those that these have: command line and fields of ``stat``.

    The fields are those after the name of the command (proc(5)): state, parent, ….
    """
    found = dict(_processes())
    for pid, (line, words) in found.items():
        parent = int(words[1])
        while parent in found and parent != ancestor:
            parent = int(found[parent][1][1])
        if parent == ancestor and pid != ancestor:
            yield line, words


def session_cpu_s(session: int) -> float:
    """User and system time of the processes of a session."""
    stats = [words for _, (_, words) in _processes() if int(words[3]) == session]
    return sum(int(words[11]) + int(words[12]) for words in stats) / os.sysconf("SC_CLK_TCK")


def _processes() -> Iterator[tuple[int, tuple[str, list[str]]]]:
    for process in Path("/proc").iterdir():
        if not process.name.isdecimal():
            continue
        try:
            line = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            words = (process / "stat").read_text(errors="replace").rpartition(")")[2].split()
        except OSError:
            continue
        yield int(process.name), (line, words)
