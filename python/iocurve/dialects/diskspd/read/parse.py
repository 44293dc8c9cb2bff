"""A DiskSpd command line becomes a profile; everything that is wrong in it is found at once."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from iocurve.dialects.diskspd.read.options import OPTIONS, Draft
from iocurve.dialects.diskspd.read.profile import Profile, Target, TimeSpan
from iocurve.dialects.diskspd.read.profile_xml import read_profile
from iocurve.errors import COMMAND_LINE, Mistake, Where
from iocurve.job.disk_mounts import DiskMount
from iocurve.job.model import PlanNote

_WELL_FORMED = re.compile(
    r"\?|:\d+|a(g?\d+(,g?\d+)*|g)?|[bBcfT]\d+[kmgtb]?(:\d+[kmgtb]?)?|f[rst]+|[CdDFijIoOPtwWz]\d*|g\d+i?|h|l|L|n|N[vni]"
    r"|p|R[a-z]+|r\d*[kmgtb]?|rs\d+|rd(pct|abs)[\d/:kmgtb]+|si?(\d+[kmgtb]?)?|S[bhmruw]*|vs?|x|X[^/]+|e[A-Zpqcs][A-Z_]*"
    r"|y[sfrpe].*|Z(r|\d+[kmgtb]?(,.+)?)?",
    re.ASCII | re.IGNORECASE,
)
"""Flags without a mistake: what begins with a slash and is none of them is a path."""

_DASHES = tuple("\u2010\u2011\u2012\u2013\u2014\u2212")
"""What word processors make of a hyphen."""

_NEVER_BARE = tuple("bBcFfgiIjotTw")
"""Flags that mean nothing without a value."""


@dataclass
class Parsed:
    """What was written."""

    profile: Profile
    out: Path | None = None
    """Directory for result.json and the report (--out, iocurve's own)."""
    disks: list[DiskMount] = field(default_factory=list)
    """What --disk, iocurve's own, says."""
    mistakes: list[Mistake] = field(default_factory=list)
    notes: list[PlanNote] = field(default_factory=list)


@dataclass(frozen=True)
class _Word:
    """One argument."""

    text: str
    where: Where

    @property
    def is_flag(self) -> bool:
        """Begins with '-', or with '/' where that cannot be a path of this machine."""
        if self.text.startswith("/"):
            letter = self.text[1:2]
            return letter in OPTIONS and _WELL_FORMED.fullmatch(self.text[1:]) is not None
        return self.text.startswith("-")

    @property
    def has_dash(self) -> bool:
        """Is a flag but for a dash in place of the hyphen."""
        return self.text[:1] in _DASHES and _WELL_FORMED.fullmatch(self.text[1:]) is not None

    def lacks(self, value: _Word) -> bool:
        """Whether the next word was meant to be the value of this flag."""
        return (
            self.text[1:] in _NEVER_BARE
            and value.text[:1].isdigit()
            and _WELL_FORMED.fullmatch(self.text[1:] + value.text) is not None
        )

    def mistake(self, text: str) -> Mistake:
        return Mistake(f"{_shown(self.text)}: {text}", self.where)


def parse(arguments: Sequence[str], directory: Path, fresh_seed: Callable[[], int]) -> Parsed:
    """Reads a command line (without ``diskspd``); an XML profile's path starts from ``directory``."""
    parsed = Parsed(Profile(command_line=" ".join(("diskspd", *arguments))))
    words = [_Word(text, Where(COMMAND_LINE, number, option=text)) for number, text in enumerate(arguments, start=1)]
    words = _without_own_options(words, parsed)
    flags, targets = _split(words, parsed)
    draft = Draft(fresh_seed)
    # Sizes in blocks count blocks of -b, wherever that stands.
    for word in sorted(flags, key=lambda word: word.text[1:2] != "b"):
        _apply(word, draft, parsed)
    parsed.notes += draft.notes
    _check_beside_profile(flags, draft, parsed)
    if draft.xml_path is None:
        _finish(draft, targets, parsed)
    else:
        _finish_with_xml(draft, targets, directory / draft.xml_path, parsed)
    return parsed


def _without_own_options(words: Sequence[_Word], parsed: Parsed) -> list[_Word]:
    """iocurve's own options may stand anywhere."""
    kept = []
    for word in words:
        name, equals, value = word.text.partition("=")
        if name == "--disk":
            try:
                parsed.disks.append(DiskMount.of(value, word.where))
            except ValueError as error:
                parsed.mistakes.append(Mistake(str(error), word.where))
        elif name != "--out":
            kept.append(word)
        elif not equals or not value or "\0" in value:
            parsed.mistakes.append(word.mistake("needs the name of a directory: --out=DIR"))
        else:
            parsed.out = Path(value)
    return kept


def _split(words: Sequence[_Word], parsed: Parsed) -> tuple[list[_Word], list[_Word]]:
    """Flags, then targets: as in DiskSpd no flag may follow a target."""
    flags: list[_Word] = []
    targets: list[_Word] = []
    for word in words:
        if word.has_dash:
            text = f"this begins with '{word.text[0]}', a dash; flags begin with '-' (write ./ before such a file)"
            parsed.mistakes.append(word.mistake(text))
        elif flags and not targets and flags[-1].lacks(word):
            flag = flags.pop()
            parsed.mistakes.append(flag.mistake(f"the value follows at once, without a space: {flag.text}{word.text}"))
        elif not word.is_flag:
            targets.append(word)
        elif targets:
            text = f"flags must come before the first target ({_shown(targets[0].text)})"
            parsed.mistakes.append(word.mistake(text))
        else:
            flags.append(word)
    return flags, targets


def _apply(word: _Word, draft: Draft, parsed: Parsed) -> None:
    letter, value = word.text[1:2], word.text[2:]
    option = OPTIONS.get(letter)
    if option is None:
        parsed.mistakes.append(_unknown(word))
        return
    draft.where = word.where
    notes_before = len(draft.notes)
    try:
        option.effect(draft, _text(value))
    except ValueError as error:
        parsed.mistakes.append(word.mistake(str(error)))
    draft.notes[notes_before:] = [
        replace(note, text=f"{_shown(word.text)}: {note.text}") for note in draft.notes[notes_before:]
    ]


def _text(value: str) -> str:
    """File names end at a zero byte, and plans are Unicode text."""
    if "\0" in value or any("\ud800" <= letter <= "\udfff" for letter in value):
        raise ValueError("is not text (UTF-8)")
    return value


def _unknown(word: _Word) -> Mistake:
    letter = word.text[1:2]
    if letter.swapcase() in OPTIONS:
        return word.mistake(f"there is no flag -{letter}; did you mean -{letter.swapcase()}? Flags are case-sensitive")
    if letter == "-":
        return word.mistake(
            "flags are single letters with their value behind them, such as -b4K; iocurve diskspd --help"
        )
    return word.mistake(f"there is no flag -{letter}" if letter else "a flag needs a letter")


def _check_beside_profile(flags: Sequence[_Word], draft: Draft, parsed: Parsed) -> None:
    if draft.xml_path is None:
        return
    for word in flags:
        option = OPTIONS.get(word.text[1:2])
        if option is not None and not option.with_profile:
            text = "cannot stand beside an XML profile (-X), which says it; -W, -d, -C, -R, -v and -z can"
            parsed.mistakes.append(word.mistake(text))


def _finish(draft: Draft, targets: Sequence[_Word], parsed: Parsed) -> None:
    if not targets and not parsed.mistakes:
        hint = "name a file after the flags: iocurve diskspd -c1G -b4K -r -d10 testfile.dat"
        parsed.mistakes.append(Mistake("there is no target", None, hint))
    span = draft.span
    span.targets = [_named(draft.target, word, parsed) for word in targets]
    draft.profile.time_spans = [span]
    _take(draft, parsed)


def _finish_with_xml(draft: Draft, targets: Sequence[_Word], path: Path, parsed: Parsed) -> None:
    replacements = [_named(Target(), word, parsed).path for word in targets]
    reading = read_profile(path, replacements)
    parsed.mistakes += reading.mistakes
    parsed.notes += reading.notes
    draft.profile = reading.profile
    for span in draft.profile.time_spans:
        _override(span, draft)
    _take(draft, parsed)


def _named(target: Target, word: _Word, parsed: Parsed) -> Target:
    try:
        path = _text(word.text)
        if not path:
            raise ValueError("the name of a target is missing")
    except ValueError as error:
        parsed.mistakes.append(word.mistake(str(error)))
        path = "?"
    return replace(target, path=path, said=target.said | {"path": word.where})


def _override(span: TimeSpan, draft: Draft) -> None:
    for name, value in draft.overrides.items():
        setattr(span, name, value)
        span.said[name] = draft.span.said[name]


def _take(draft: Draft, parsed: Parsed) -> None:
    for name, value in draft.profile_overrides.items():
        setattr(draft.profile, name, value)
    draft.profile.said |= draft.profile_said
    draft.profile.command_line = parsed.profile.command_line
    parsed.profile = draft.profile


def _shown(text: str) -> str:
    """Without what would garble a terminal, and not longer than a line."""
    clean = "".join(letter if letter.isprintable() else "?" for letter in text)
    return clean if len(clean) <= 60 else clean[:57] + "…"
