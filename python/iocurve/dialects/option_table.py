"""Reads command lines by a table of options: ``-n 4``, ``-n4``, ``-CTr``, ``--size=4k`` (mdtest and elbencho)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

from iocurve.dialects.base import DASHES, typographic_dash
from iocurve.foundation.errors import COMMAND_LINE, Diagnostic, Where, nearest

_TRUE, _FALSE = ("", "1", "true", "yes", "on"), ("0", "false", "no", "off")


class TableOption(msgspec.Struct, frozen=True):
    """An option: its effect on the values of a command line."""

    effect: Callable[[OptionReader, str], None]
    """Raises ``ValueError`` with what is wrong, and a hint as second argument."""
    takes_value: bool = True


def sets(name: str, read: Callable[[str], object]) -> TableOption:
    """An option that sets a field to its value, which ``read`` reads."""
    return TableOption(lambda reader, text: reader.values.update({name: read(text)}))


def flag(name: str, *, value: object = True) -> TableOption:
    """An option without a value that sets a field."""
    return TableOption(lambda reader, _: reader.values.update({name: value}), takes_value=False)


def adds(name: str, value: str) -> TableOption:
    """An option without a value that adds to the set in a field."""

    def effect(reader: OptionReader, _: str) -> None:
        before = reader.values.get(name)
        reader.values[name] = (before if isinstance(before, frozenset) else frozenset()) | {value}

    return TableOption(effect, takes_value=False)


def refused(text: str, hint: str, *, takes_value: bool = True) -> TableOption:
    """An option that is not supported."""

    def effect(_reader: OptionReader, _value: str) -> None:
        raise ValueError(text, hint)

    return TableOption(effect, takes_value)


def ignored(*, takes_value: bool) -> TableOption:
    """An option that changes nothing."""
    return TableOption(lambda _reader, _value: None, takes_value)


class OptionReader(msgspec.Struct):
    """A command line while it is read, by a table of options with their dashes."""

    program: str
    options: Mapping[str, TableOption]
    letters: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Options by their short form."""
    operand: Callable[[OptionReader, str], None] | None = None
    """Effect of a word that is no option; None: each word is one."""
    unsupported: Mapping[str, tuple[str, str]] = msgspec.field(default_factory=dict)
    """By the start of their names, options that are not supported: why, and what is."""
    joins_values: bool = True
    """An option with a value may end a group of letters: ``-wt4``."""
    values: dict[str, object] = msgspec.field(default_factory=dict)
    """Fields that options have set."""
    errors: list[Diagnostic] = msgspec.field(default_factory=list)
    where: Where | None = None
    """The word, or the line of a file, that is read."""

    def read(self, arguments: Sequence[str]) -> None:
        """Reads a command line, and notes every error."""
        words = enumerate(arguments, 1)
        for number, argument in words:
            self.where = Where(COMMAND_LINE, number, argument=argument)
            for name, value in self._split(argument):
                option = self.options.get(name)
                if option and option.takes_value and value is None:
                    value = next(words, (0, None))[1]
                    if value is None:
                        self.error(f"{argument} needs a value")
                        return
                self.apply(name, value or "")

    def apply(self, name: str, value: str) -> None:
        """Applies one option with its dashes."""
        option = self.options.get(name)
        try:
            if option is None:
                self._refuse_unknown(name)
            elif option.takes_value or value.lower() in _TRUE:
                option.effect(self, value)
            elif value.lower() not in _FALSE:
                self.error(f"{name} takes no value")
        except ValueError as error:
            self.error(*error.args)

    def full_name(self, name: str) -> str:
        """The option of which ``name`` is an unambiguous start."""
        longer = [each for each in self.options if each.startswith(name)]
        return longer[0] if name not in self.options and len(longer) == 1 else name

    def error(self, text: str, hint: str | None = None) -> None:
        """Notes an error in the word that is read."""
        self.errors.append(Diagnostic(text, self.where, hint))

    def _split(self, argument: str) -> Iterator[tuple[str, str | None]]:
        """Options of a word with their values: ``-wt4`` has two."""
        if argument.startswith("--") and len(argument) > 2:
            name, equals, value = argument.partition("=")
            yield self.full_name(name), value if equals else None
        elif argument.startswith("-") and len(argument) > 1:
            yield from self._split_letters(argument)
        elif wrong := typographic_dash(argument):
            self.error(wrong, f"write -{argument.lstrip(DASHES)[:40]} or --{argument.lstrip(DASHES)[:40]}")
        elif self.operand:
            try:
                self.operand(self, argument)
            except ValueError as error:
                self.error(*error.args)
        else:
            self.error(f"'{argument}' is not an option of {self.program}", "options begin with -")

    def _split_letters(self, argument: str) -> Iterator[tuple[str, str | None]]:
        for number, letter in enumerate(argument[1:], 1):
            name = self.letters.get(letter, f"-{letter}")
            option = self.options.get(name)
            takes_value = option is not None and option.takes_value
            if number > 1 and not self.joins_values and (option is None or takes_value):
                self.error(f"-{letter} cannot be one of the flags {argument}", "write it apart")
            elif takes_value:
                yield name, argument[number + 1 :].removeprefix("=") or None
                return
            elif option is None:
                self._refuse_unknown(name)
                return
            else:
                yield name, None

    def _refuse_unknown(self, name: str) -> None:
        for start, (text, hint) in self.unsupported.items():
            if name.startswith(start):
                self.error(f"{name}: {text}", hint)
                return
        known = [each[2:] for each in self.options if each.startswith("--")]
        close = nearest(name[2:42], known) if name.startswith("--") else None
        hint = f"did you mean --{close}?" if close else f"iocurve {self.program} --help"
        self.error(f"{self.program} has no option {name[:42]}", hint)
