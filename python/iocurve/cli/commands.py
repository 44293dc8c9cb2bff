"""Parses and runs the commands of ``listing``. A command's module is loaded when it runs or prints its help."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, get_args

from cyclopts import (
    App,
    CoercionError,
    CycloptsError,
    MissingArgumentError,
    Parameter,
    RepeatArgumentError,
    UnknownCommandError,
    UnknownOptionError,
    UnusedCliTokensError,
    ValidationError,
)

from iocurve._native import VERSION
from iocurve.cli import listing
from iocurve.cli.common import PARAMETERS, example, shown_default, usage
from iocurve.dialects.registry import REGISTRY
from iocurve.foundation.errors import Diagnostic, DialectError, nearest, options_written_as
from iocurve.measure import interrupts

app = App(
    name="iocurve",
    group_parameters=PARAMETERS,
    default_parameter=Parameter(show_default=shown_default),
    version=VERSION,
)
for _command in listing.COMMANDS:
    app.command(
        _command.path,
        name=_command.name,
        help=_command.help,
        **({} if _command.has_subcommands else {"help_epilogue": example(_command.example)}),
        **({"help_flags": ()} if _command.prints_help else {}),
        **({"usage": usage(_command.name, _command.takes)} if _command.takes else {}),
    )


SYNONYMS: Mapping[str, str] = {
    "--iodepth": "--iodepth-max",
    "--level": "--profile",
    "--no-probe": "--no-confirm",
    "--patience": "--search-time",
    "--ramp": "--ramp-time",
    "--repeats": "--retries",
    "--rounds": "--runs",
    "--seconds": "--runtime",
    "--short": "--quick",
    "--target": "TARGET",
}
"""Words of earlier versions, of fio and of other commands, and what stands for them where a command lacks them."""
UNLIMITED: Mapping[str, Sequence[str]] = {
    "--quick": ("volume:unlimited",),
    "--profile": ("--profile", "unlimited"),
    "TARGET": ("volume:unlimited",),
}
"""``--unlimited`` of earlier versions, by a name that the command has: one that measures takes it as its target."""


def run(arguments: Sequence[str]) -> int:
    """Parses and runs a command; gives its exit status. Raises ``DialectError`` for an error in the command line."""
    arguments = _in_own_words(arguments)
    _require_values(arguments)
    try:
        command, bound, _ = app.parse_args(arguments, print_error=False, exit_on_error=False)
    except CycloptsError as error:
        raise DialectError([refused(error)]) from None
    interrupts.install()
    with options_written_as(_option_of(arguments)):
        return command(*bound.args, **bound.kwargs) or 0


def _in_own_words(arguments: Sequence[str]) -> list[str]:
    """A command line in which synonyms are the options of its command; job lines of other tools stay as they are."""
    words = list(arguments)
    old = {*SYNONYMS, "--unlimited"}
    if not any(word.partition("=")[0] in old for word in words) or words[0] in ("explain", "convert"):
        return words
    known = _names_of(words)
    found: list[str] = []
    before = ""
    for word in words:
        name, equals, value = word.partition("=")
        own = SYNONYMS.get(name, "")
        if "--seconds" in (name, before) and "--runtime" in known and (value or word).replace(".", "", 1).isdecimal():
            # A number of seconds, which had no unit.
            word, value = f"{word}s", f"{value}s"
        before = word
        if word == "--unlimited":
            found += next((meant for own, meant in UNLIMITED.items() if own in known), [word])
        elif name in known or own not in known:
            found.append(word)
        elif own.startswith("--"):
            found.append(f"{own}{equals}{value}")
        else:
            found += [value] if equals else []
    return found


def _names_of(arguments: Sequence[str]) -> set[str]:
    """The options and arguments of the command of a line."""
    found = app
    for word in app.parse_commands(arguments)[0]:
        found = found[word]
    return {name for argument in found.assemble_argument_collection() for name in argument.names}


def _option_of(arguments: Sequence[str]) -> Callable[[str], str | None]:
    """Gives the option of a field if the command of this line takes it."""

    def option_of(field: str) -> str | None:
        name = f"--{field.replace('_', '-')}"
        return name if name in _names_of(arguments) else None

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
    if isinstance(error, RepeatArgumentError):
        return f"{error.token.keyword or _name(error)} is given twice"
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
