"""The commands as data, and ``iocurve --help``: it lists them without loading what parses and runs them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from iocurve.dialects.registry import REGISTRY

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

SUMMARY = "Measures how much I/O a volume sustains, plots latency against load, and finds the bottleneck."

EXIT_STATUS = """\
Exit status: 0 everything was done; 1 something could not be done, or a measurement is incomplete; \
2 an error in the command line, a job file or a target, nothing was run (iocurve fio: 1, as fio); \
3 the job that was explained cannot run on this machine; 4 a check of --fail-if failed, or a row of doctor is red; \
5 no check failed, and the interval of a checked value spans its bound, or doctor's worst row is yellow; \
130 Ctrl-C; 143 TERM; 129 HUP."""


class Command(NamedTuple):
    """An entry of ``iocurve --help``; a tuple, which loads nothing."""

    name: str
    implementation: str
    """Module and function or group below ``iocurve.cli``."""
    help: str
    """The action, in one sentence."""
    example: str
    """A command line; tests parse it."""
    takes: str = ""
    """The arguments in the line of usage, where one may be left out; by default the parser writes it."""
    has_subcommands: bool = False
    """The implementation is an ``App`` with its own help text."""
    prints_help: bool = False
    """The implementation gets ``--help`` as an argument."""

    @property
    def path(self) -> str:
        """Import path for the parser."""
        return f"iocurve.cli.{self.implementation}"


def _dialect(name: str, example: str) -> Command:
    """Listed here; ``iocurve.cli`` runs dialects before this module is loaded."""
    return Command(name, f"dialects:{name}", f"Run {REGISTRY[name].runs}.", example)


GROUPS = {
    "Measure": (
        Command(
            "envelope",
            "measure:envelope",
            "Measure a target's read and write mixes, and its latency under load.",
            "iocurve envelope /mnt/data",
            takes="[TARGET]",
        ),
        Command(
            "run",
            "measure:run",
            "Run a scenario (a published methodology) or a job file (TOML).",
            "iocurve run azure-disk --target /mnt/data --quick",
        ),
        Command(
            "knee",
            "measure:find_knee",
            "Find the smallest queue depth that reaches full throughput (the knee).",
            "iocurve knee 'nfs://10.0.0.4/vol?nconnect=8' --size 10GiB",
        ),
        Command(
            "max",
            "measure:find_max",
            "Find the highest rate that meets a latency limit (open loop).",
            "iocurve max /mnt/data --p99 2ms",
        ),
        Command(
            "curve",
            "measure:draw_curve",
            "Plot latency against IOPS in even steps up to the target's maximum (open loop).",
            "iocurve curve /mnt/data --steps 20",
        ),
    ),
    "Advise": (
        Command(
            "observe",
            "observe:observe",
            "Watch the I/O of applications on a mount or device, without adding any.",
            "iocurve observe /mnt/data --profile anf-premium --quota 4TiB",
        ),
        Command(
            "doctor",
            "doctor:doctor",
            "Check the tuning of this client, with the exact fixes.",
            "iocurve doctor /mnt/data --profile anf-premium",
            takes="[TARGET]",
        ),
        Command(
            "size",
            "size:size",
            "Size volumes, disks and clients for a load, or print what a configuration delivers.",
            "iocurve size --throughput 4500MiB/s --latency 1ms --bs 64k",
        ),
        Command(
            "predict",
            "jobs:predict",
            "Predict what a service level makes of a job, with its traps, without running it.",
            "iocurve predict fio job.fio --profile anf-premium --quota 4TiB --latency 1ms",
            takes="COMMAND...",
        ),
        Command(
            "twin",
            "jobs:write_twin",
            "Write a profile that behaves like a measured target, for iocurve volume serve and predict.",
            "iocurve twin iocurve-report --out twin.toml",
            takes="RESULT",
        ),
        Command(
            "prove",
            "prove:prove",
            "Verify whether a volume meets its service level; write a page for the supplier.",
            "iocurve prove 'nfs://10.0.0.4/vol?nconnect=8' --profile anf-premium --quota 2TiB",
        ),
    ),
    "Run other tools' jobs, unmodified": (
        _dialect("fio", "iocurve fio --name=r --rw=randread --size=1g --directory=/mnt"),
        _dialect("vdbench", "iocurve vdbench -f parameters.txt -o output"),
        _dialect("mdtest", "iocurve mdtest -n 1000 -F -d /mnt/data --np 8"),
        _dialect("elbencho", "iocurve elbencho -d -w -r -F -D -t 8 -n 4 -N 100 -s 1m 'nfs://10.0.0.4/vol'"),
        _dialect("diskspd", "iocurve diskspd -b4K -r -o32 -t4 -d30 -c1G test.dat"),
    ),
    "Scenarios and targets": (
        Command(
            "scenario",
            "measure:scenario_commands",
            "List, show and run published methodologies.",
            "iocurve scenario show azure-disk",
            has_subcommands=True,
        ),
        Command(
            "volume",
            "volume:app",
            "Serve an NFS volume with a service level; change it and watch it.",
            "iocurve volume serve --profile anf-ultra --quota 4TiB",
            has_subcommands=True,
        ),
        Command(
            "profile",
            "volume:profile_commands",
            "List and show service levels of volumes.",
            "iocurve profile show anf-ultra",
            has_subcommands=True,
        ),
        Command(
            "cluster",
            "cluster:app",
            "Use many machines at once: check, start and try a cluster of agents.",
            "iocurve cluster check /mnt/volume",
            has_subcommands=True,
        ),
        Command(
            "disk",
            "disk:app",
            "List and show the disks that can be emulated; restart the virtual machine of one.",
            "iocurve disk show premium-ssd-p30",
            has_subcommands=True,
        ),
    ),
    "Jobs and results": (
        Command(
            "clean",
            "clean:remove_leftovers",
            "Remove the files that interrupted runs left on a target.",
            "iocurve clean /mnt/data",
        ),
        Command(
            "why",
            "why:explain_limits",
            "Print the bottleneck of each point of a result; test it with one change.",
            "iocurve why iocurve-report --confirm",
        ),
        Command(
            "import",
            "result:import_results",
            "Import results of fio, vdbench, DiskSpd, elbencho or mdtest.",
            "iocurve import fio-output.json --out old-run",
        ),
        Command(
            "check",
            "checks:check_result",
            "Check the points of a result, for a pipeline.",
            "iocurve check iocurve-report --fail-if 'p99 > 2ms where depth <= 16'",
        ),
        Command("report", "result:rewrite_report", "Write the report of a result again.", "iocurve report result.json"),
        Command(
            "article",
            "result:write_article",
            "Write a benchmark page of a volume from results, in Markdown and HTML.",
            "iocurve article iocurve-report --out article",
            takes="RESULTS...",
        ),
        Command(
            "compare",
            "compare:compare_results",
            "Compare results: faster, slower, no difference, or inconclusive.",
            "iocurve compare before after",
            takes="BASE [OTHERS...]",
        ),
        Command(
            "history",
            "compare:show_history",
            "Show values over a directory of results, and the runs at which they changed.",
            "iocurve history nightly --html history.html",
        ),
        Command(
            "ab",
            "ab:ab",
            "Compare two targets, or two commands, by interleaved runs.",
            "iocurve ab --target /mnt/a --target /mnt/b",
            takes="[COMMANDS...]",
        ),
        Command(
            "differ",
            "differ:differ",
            "Show in which fields two commands differ, and measure what each field is worth.",
            "iocurve differ 'fio --name=a --rw=randread --size=1g' 'elbencho -r -t 1 -s 1g file' --target /mnt/data",
            takes="A B",
        ),
        Command(
            "result",
            "result:app",
            "Print a result over time or as metrics; add the records of lost agents to it.",
            "iocurve result series iocurve-report --every 10s",
            has_subcommands=True,
        ),
        Command(
            "explain",
            "jobs:explain",
            "Print the plan of a job and its warnings without running it.",
            "iocurve explain fio job.fio",
            has_subcommands=True,
        ),
        Command(
            "convert",
            "jobs:convert",
            "Convert a fio, vdbench or DiskSpd job to a job file (TOML).",
            "iocurve convert -o job.toml fio job.fio",
            prints_help=True,
        ),
        Command(
            "schema",
            "jobs:print_schema",
            "Print the JSON schema of job files, or of results.",
            "iocurve schema > job.schema.json",
        ),
        Command(
            "completion",
            "commands:print_completion",
            "Print the completion script of a shell.",
            "iocurve completion bash >> ~/.bash_completion",
        ),
    ),
}
"""The commands in the order of ``iocurve --help``, by purpose."""
COMMANDS = [command for commands in GROUPS.values() for command in commands]

_FLAGS = (("--help (-h)", "Display this message and exit."), ("--version", "Display application version."))
_COLUMNS_DEFAULT = 80
_NAME_COLUMNS = 10
"""Least width of the names of commands."""
_NAME, _EXAMPLE, _END = "\x1b[1;36m", "\x1b[2m", "\x1b[0m"


def overview(columns: int, *, styled: bool) -> str:
    """The text of ``iocurve --help``, with lines of this width, in the styles of a terminal or plain."""
    boxes = [
        (title, [(command.name, command.help, command.example) for command in commands])
        for title, commands in GROUPS.items()
    ]
    boxes.append(("Help", [(flag, text, "") for flag, text in _FLAGS]))
    lines = ["Usage: iocurve COMMAND", "", *_wrapped(SUMMARY, columns), ""]
    for title, entries in boxes:
        lines += _box(title, entries, columns, styled=styled)
    return "\n".join((*lines, "", *_wrapped(EXIT_STATUS, columns)))


def terminal() -> tuple[int, bool]:
    """The width of stdout, and True if it shows styles."""
    said = os.environ.get("COLUMNS", "")
    try:
        columns = os.get_terminal_size(1).columns
    except OSError:
        return int(said) if said.isdigit() else _COLUMNS_DEFAULT, False
    return int(said) if said.isdigit() else columns, not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _box(title: str, entries: Iterable[tuple[str, str, str]], columns: int, *, styled: bool) -> Iterator[str]:
    """A frame around names with what they do, and an example below each."""
    rows = list(entries)
    name_columns = max(_NAME_COLUMNS, *(len(name) for name, _, _ in rows))
    text_columns = max(columns - name_columns - 6, 1)

    def line(name: str, text: str, style: str) -> str:
        left, right = name.ljust(name_columns), text.ljust(text_columns)
        if styled:
            left, right = f"{_NAME}{left}{_END}", f"{style}{right}{_END}" if style else right
        return f"│ {left}  {right} │"

    yield f"╭─ {title} ".ljust(columns - 1, "─") + "╮"
    for name, text, example in rows:
        first, *others = _wrapped(text, text_columns)
        yield line(name, first, "")
        yield from (line("", each, "") for each in others)
        yield from (line("", each, _EXAMPLE) for each in _wrapped(example, text_columns))
    yield "╰".ljust(columns - 1, "─") + "╯"


def _wrapped(text: str, columns: int) -> list[str]:
    """Lines of at most ``width`` characters, broken at spaces; a longer word has a line."""
    lines: list[str] = []
    for word in text.split():
        if lines and len(lines[-1]) + 1 + len(word) <= columns:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines
