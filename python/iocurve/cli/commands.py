"""All commands as data. A command's module is loaded when the command runs or prints its help."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal, get_args

import msgspec
from cyclopts import (
    App,
    CoercionError,
    CycloptsError,
    Group,
    MissingArgumentError,
    Parameter,
    UnknownCommandError,
    UnknownOptionError,
    UnusedCliTokensError,
    ValidationError,
)
from cyclopts.help import ColumnSpec, DefaultFormatter, HelpEntry
from rich.console import Group as Lines
from rich.text import Text

from iocurve.cli.common import PARAMETERS, example, shown_default, usage
from iocurve.dialects.registry import REGISTRY
from iocurve.foundation.errors import Diagnostic, DialectError, nearest, options_written_as
from iocurve.measure import interrupts
from iocurve.result.version import iocurve_version

if TYPE_CHECKING:
    from rich.console import RenderableType

EXIT_STATUS = """\
Exit status: 0 everything was done; 1 something could not be done, or a measurement is incomplete; \
2 an error in the command line, a job file or a target, nothing was run; \
3 the job that was explained cannot run on this machine; 4 a check of --fail-if failed, or a row of doctor is red; \
5 no check failed, and the interval of a checked value spans its bound, or doctor's worst row is yellow; \
130 Ctrl-C; 143 TERM; 129 HUP."""


class Command(msgspec.Struct, frozen=True):
    """An entry of ``iocurve --help``."""

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
            "iocurve run azure-disk --target /mnt/data --short",
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
            takes="[SUBJECT]",
        ),
        Command(
            "size",
            "size:size",
            "Size volumes, disks and clients for a load, or print what a configuration carries.",
            "iocurve size --throughput 4500MiB/s --latency 1ms --bs 64k",
        ),
        Command(
            "prove",
            "prove:prove",
            "Measure whether a volume keeps what was promised; write a page for the supplier.",
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
            "Use many machines at once: check, start and try a cluster of load clients.",
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
            "Print what limited each point of a result; test it with one change.",
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
            "compare",
            "compare:compare_results",
            "Compare results: faster, slower, no difference, or cannot tell.",
            "iocurve compare before after",
            takes="BASE [OTHERS...]",
        ),
        Command(
            "history",
            "compare:show_history",
            "Show figures over a directory of results, and the runs at which they changed.",
            "iocurve history nightly --html history.html",
        ),
        Command(
            "ab",
            "ab:ab",
            "Measure two targets, or run two commands, in turns, and compare them.",
            "iocurve ab --target /mnt/a --target /mnt/b",
            takes="[COMMANDS...]",
        ),
        Command(
            "result",
            "result:app",
            "Print a result over time or as metrics; add the records of lost load clients to it.",
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


EXAMPLES = {command.name: command.example for commands in GROUPS.values() for command in commands}


def _described(entry: HelpEntry) -> RenderableType:
    """The sentence of a command, with its example below."""
    return Lines(entry.description, Text(EXAMPLES[entry.positive_names[0]], "dim"))


_COLUMNS = (
    ColumnSpec(renderer=lambda entry: entry.positive_names[0], style="bold cyan", min_width=10),
    ColumnSpec(renderer=_described),
)

app = App(
    name="iocurve",
    group_parameters=PARAMETERS,
    default_parameter=Parameter(show_default=shown_default),
    help="Measures how much I/O a volume carries, plots latency against load, and says what limits it.",
    help_epilogue=EXIT_STATUS,
    version=iocurve_version,
)
_HELP = Group("Help", sort_key=len(GROUPS))
for _flag in ("--help", "--version"):
    app[_flag].group = _HELP
for _order, (_title, _commands) in enumerate(GROUPS.items()):
    _group = Group(_title, sort_key=_order, help_formatter=DefaultFormatter(column_specs=_COLUMNS))
    for _place, _command in enumerate(_commands):
        app.command(
            _command.path,
            name=_command.name,
            help=_command.help,
            **({} if _command.has_subcommands else {"help_epilogue": example(_command.example)}),
            **({"help_flags": ()} if _command.prints_help else {}),
            **({"usage": usage(_command.name, _command.takes)} if _command.takes else {}),
            group=_group,
            sort_key=_place,
        )


def run(arguments: Sequence[str]) -> int:
    """Parses and runs a command; gives its exit status. Raises ``DialectError`` for an error in the command line."""
    _require_values(arguments)
    try:
        command, bound, _ = app.parse_args(arguments, print_error=False, exit_on_error=False)
    except CycloptsError as error:
        raise DialectError([refused(error)]) from None
    interrupts.install()
    with options_written_as(_option_of(arguments)):
        return command(*bound.args, **bound.kwargs) or 0


def _option_of(arguments: Sequence[str]) -> Callable[[str], str | None]:
    """Gives the option of a field if the command of this line takes it."""

    def option_of(field: str) -> str | None:
        found = app
        for word in app.parse_commands(arguments)[0]:
            found = found[word]
        name = f"--{field.replace('_', '-')}"
        return name if any(name in argument.names for argument in found.assemble_argument_collection()) else None

    return option_of


def _require_values(arguments: Sequence[str]) -> None:
    """Refuses empty arguments, most of which are shell variables that are not set. Raises ``DialectError``.

    Words of another tool follow its rules.
    """
    ours = [] if arguments[:1] == ["convert"] else arguments
    if arguments[:1] == ["explain"] and any(word in REGISTRY for word in arguments[1:2]):
        ours = []
    for number, word in enumerate(ours, 1):
        name, equals, value = word.partition("=")
        if not word or (name.startswith("--") and equals and not value):
            what = f"{name} is empty" if name else f"argument {number} is empty"
            raise DialectError([Diagnostic(f"{what}; is a shell variable not set?")])


def print_completion(shell: Literal["bash", "zsh", "fish"], /) -> int:
    """Print the completion script of a shell.

    Parameters
    ----------
    shell
        In bash, source the script; in zsh, put it into a directory of fpath as _iocurve; in fish, into
        ~/.config/fish/completions/iocurve.fish.
    """
    print(app.generate_completion(prog_name="iocurve", shell=shell))
    return 0


# ---- errors of the parser in our words: what is wrong with which option or argument, and what to write

_TYPES = {int: "a whole number", float: "a number", bool: "yes or no; a flag takes no value"}
_BOUNDS = {">=": "at least", ">": "more than", "<=": "at most", "<": "less than"}


def refused(error: CycloptsError) -> Diagnostic:
    """An error of the parser of commands as a message with a hint."""
    words = " ".join(("iocurve", *(error.command_chain or ())))
    hint = f"{words} --help"
    if isinstance(error, UnknownOptionError):
        # Names of arguments are capital letters. A similar option has another meaning.
        name = (error.token.keyword or error.token.value).removeprefix("--").upper()
        if any(name in argument.names for argument in error.argument_collection):
            return Diagnostic(f"--{name.lower()} is no option of {words}", hint=f"give its value alone: {words} {name}")
    return Diagnostic(_text(error, words), hint=hint)


def _text(error: CycloptsError, words: str) -> str:
    if isinstance(error, UnknownOptionError):
        return _unknown_option(error)
    if isinstance(error, UnknownCommandError):
        return _unknown_command(error, words)
    if isinstance(error, UnusedCliTokensError):
        return f"{words} takes no further argument: {' '.join(error.unused_tokens or ())}"
    if isinstance(error, MissingArgumentError):
        name = error.keyword or _name(error)
        return f"{name} needs a value" if name.startswith("-") else f"{name} is missing"
    if isinstance(error, CoercionError):
        return _not_converted(error)
    if isinstance(error, ValidationError) and error.argument:
        value = error.argument.value if not error.argument.tokens else error.argument.tokens[0].value
        text = error.exception_message.removesuffix(".")
        if bound := re.fullmatch(r"Must be (>=|>|<=|<) (\S+)", text):
            text = f"it must be {_BOUNDS[bound[1]]} {bound[2]}"
        return f"{_name(error)} {value}: {text}"
    return re.sub(r"(?<!\.)\.$", "", str(error))


def _name(error: CycloptsError) -> str:
    """The option as it was written, or the argument in capital letters."""
    argument = error.argument
    assert argument is not None
    written = [token.keyword for token in argument.tokens if token.keyword]
    return written[0] if written else argument.name


def _unknown_option(error: UnknownOptionError) -> str:
    written = (error.token.keyword or error.token.value).partition("=")[0]
    known = [name for argument in error.argument_collection if argument.parse for name in argument.names]
    close = nearest(written, known)
    return f"unknown option {written}" + (f"; did you mean {close}?" if close else "")


def _unknown_command(error: UnknownCommandError, words: str) -> str:
    [token, *_] = error.unused_tokens or [""]
    known = [name for name in error.app or App() if not name.startswith("-")]
    if token.startswith("-"):
        return f"unknown option {token}"
    close = nearest(token, known)
    return f"{words} has no command '{token}'; " + (f"did you mean {close}?" if close else f"it has {', '.join(known)}")


def _not_converted(error: CoercionError) -> str:
    name = error.token.keyword if error.token and error.token.keyword else _name(error)
    if error.msg is not None:
        return f"{name}: {error.msg}"
    value, kind = error.token.value if error.token else "", error.target_type
    choices = [str(choice) for choice in get_args(kind)]
    if kind in _TYPES:
        return f"{name}: '{value}' is not {_TYPES[kind]}"
    close = nearest(value, choices)
    return f"{name}: '{value}' is not one of {', '.join(choices)}" + (f"; did you mean {close}?" if close else "")
