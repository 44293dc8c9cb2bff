"""The rows of the matrix: what is broken, how the run is to end, and what looks at it afterwards."""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bench.faults import injected, loads, machine, scenarios
from bench.faults.network import Link
from bench.faults.seen import Seen

GOES_ON = "goes on; exit 0"
KEEPS = "ends with an error that says why; what was measured is kept"
STOPS = "ends as by Ctrl-C; what was measured is kept"
STAYS = "files stay; the next run says how to remove them"
NAMES = "ends; operation, file and offset named"
FINDS = "each found and named"
COMPLAINS = "no stack trace; exit not 0"


@dataclass(frozen=True)
class Row:
    """One thing that breaks."""

    name: str
    broken: str
    expected: str
    run: Callable[[Path], Seen]


def rows(kill_count: int) -> tuple[Row, ...]:
    """All rows; the journals are killed so often."""
    return (*_loads(), *_scenarios(), *_storage(), *_outputs(), *_verified(), _journals(kill_count))


def _loads() -> tuple[Row, ...]:
    def row(name: str, broken: str, disturb: Callable[[loads.Scene], None]) -> Row:
        return Row(name, broken, GOES_ON, partial(loads.load, disturb))

    def link(name: str, broken: str, disturb: Callable[[Link], object]) -> Row:
        return Row(name, broken, GOES_ON, partial(loads.networked, disturb))

    return (
        row("server-restart", "volume killed (-9), started again after 1 s", loads.restart),
        row("server-hang", "volume stopped (SIGSTOP) for 5 s", loads.hang),
        row("network-hang", "nothing passes for 5 s, connections stay", loads.hold_traffic),
        row("reset-each", "every connection reset, one by one", loads.reset_each),
        Row("half-open", "the server's ends of all connections vanish without a word", GOES_ON, loads.half_open),
        row("delay", "20 ms each way", loads.delay),
        link("link-down", "the link of the network is down for 3 s", loads.link_down),
        link("packet-loss", "a short queue drops packets of every burst", Link.lose_packets),
        Row("clock-step", "the time of day is set back by an hour", "goes on for 6 s; exit 0", loads.clock_step),
        row("client-stopped", "client stopped (SIGSTOP) for 3 s", loads.stop_client),
        Row("server-gone", "volume killed (-9) and not started again", KEEPS, loads.server_gone),
    )


def _scenarios() -> tuple[Row, ...]:
    def sent(name: str, number: signal.Signals) -> Row:
        return Row(name, number.name, STOPS, partial(scenarios.signalled, number))

    return (
        Row("server-gone-points", "the same in a scenario, after its first point", KEEPS, scenarios.server_gone),
        Row("restart-between", "the same, and started again after 3 s", GOES_ON, scenarios.server_restarts),
        sent("interrupt", signal.SIGINT),
        sent("terminate", signal.SIGTERM),
        sent("hang-up", signal.SIGHUP),
        Row("client-killed", "client killed (-9)", STAYS, scenarios.client_killed),
        Row("out-of-memory", "the memory limit of the client's cgroup is reached", STAYS, scenarios.out_of_memory),
    )


def _storage() -> tuple[Row, ...]:
    def fails(name: str, fault: str, symbol: str, message: str) -> Row:
        return Row(name, f"a WRITE fails ({symbol})", NAMES, partial(injected.fails, fault, message))

    return (
        fails("write-fails", "eio=1e-4", "EIO", "Input/output error"),
        fails("volume-full", "enospc=1e-4", "ENOSPC", "No space left on device"),
        Row("export-read-only", "the export becomes read-only (EROFS)", NAMES, machine.export_read_only),
        Row("permission-lost", "another user owns the file from now on (EACCES)", NAMES, machine.permission_lost),
        Row(
            "file-system-read-only",
            "local files: ext4 turns read-only after a disk error (EROFS)",
            NAMES,
            machine.file_system_read_only,
        ),
    )


def _outputs() -> tuple[Row, ...]:
    return (
        Row(
            "report-full",
            "the file system of the report is full",
            "table and result.json are there; exit 1",
            machine.report_full,
        ),
        Row("stdout-full", "stdout is /dev/full", COMPLAINS, partial(machine.stdout_to, "/dev/full")),
        Row("stdout-closed", "stdout is closed", COMPLAINS, partial(machine.stdout_to, "&-")),
        Row("plain-terminal", "10 columns, LANG=C", "the table in ASCII; exit 0", machine.plain_terminal),
    )


def _verified() -> tuple[Row, ...]:
    def row(name: str, fault: str, broken: str, kind: str) -> Row:
        return Row(name, broken, FINDS, partial(injected.verified, fault, kind))

    return (
        row("bit-flips", "flip-bit=1e-6", "1e-6 of the bits read are flipped", "flipped_bits"),
        row("torn-writes", "torn-write=0.01", "1 % of WRITEs torn", "torn_write"),
        row("lost-writes", "lost-write=0.01", "1 % of WRITEs lost", "lost_write"),
        row("stale-reads", "stale-read=0.01", "1 % of READs stale", "stale_read"),
        row("misdirected-writes", "misdirected-write=0.01", "1 % of WRITEs misdirected", "lost_write"),
    )


def _journals(kill_count: int) -> Row:
    return Row(
        "journals",
        f"client, volume or both killed (-9), {kill_count} times at any moment",
        "recovery finds every acknowledged write, and reports none falsely",
        partial(injected.journals_survive, kill_count),
    )
