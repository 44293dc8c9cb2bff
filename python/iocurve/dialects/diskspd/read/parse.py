"""Reads a DiskSpd command line into a profile, and collects every error with its position."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

import msgspec
from msgspec.structs import replace

from iocurve.dialects.base import CLIENTS_MAX, DASHES, ClusterRequest, PathMapping, printable, typed
from iocurve.dialects.diskspd.read.options import OPTIONS, WITH_PROFILE, ProfileDraft
from iocurve.dialects.diskspd.read.profile import Profile, TargetParameters, TimeSpan
from iocurve.dialects.diskspd.read.profile_xml import read_profile
from iocurve.dialects.diskspd.read.rules import Findings
from iocurve.foundation.errors import COMMAND_LINE, Diagnostic, Where
from iocurve.job.disk_mounts import DiskMount

_WELL_FORMED = re.compile(
    r"\?|:\d+|a(g?\d+(,g?\d+)*|g)?|[bBcfT]\d+[kmgtb]?(:\d+[kmgtb]?)?|f[rst]+|[CdDFijIoOPtwWz]\d*|g\d+i?|h|l|L|n|N[vni]"
    r"|p|R[a-z]+|r\d*[kmgtb]?|rs\d+|rd(pct|abs)[\d/:kmgtb]+|si?(\d+[kmgtb]?)?|S[bhmruw]*|vs?|x|X[^/]+|e[A-Zpqcs][A-Z_]*"
    r"|y[sfrpe].*|Z(r|\d+[kmgtb]?(,.+)?)?",
    re.ASCII | re.IGNORECASE,
)
"""Well-formed flags. An argument that starts with a slash and does not match is a path."""

_NEVER_BARE = tuple("bBcFfgiIjotTw")
"""Flags that need a value."""


class ParsedFlags(Findings, kw_only=True):
    """A command line that was read."""

    profile: Profile
    out: Path | None = None
    """Directory for result.json and the report (--out, iocurve's own)."""
    disks: list[DiskMount] = msgspec.field(default_factory=list)
    """Values of --disk (iocurve's own)."""
    cluster: ClusterRequest | None = None
    """--clients and --on (iocurve's own)."""
    mappings: list[PathMapping] = msgspec.field(default_factory=list)
    """Values of --map-target (iocurve's own)."""


class _Argument(msgspec.Struct, frozen=True):
    """A command-line argument."""

    text: str
    where: Where

    @property
    def is_flag(self) -> bool:
        """True if it begins with '-', or with '/' and is a well-formed flag."""
        if self.text.startswith("/"):
            letter = self.text[1:2]
            return letter in OPTIONS and _WELL_FORMED.fullmatch(self.text[1:]) is not None
        return self.text.startswith("-")

    @property
    def has_dash(self) -> bool:
        """True if it is a flag with a typographic dash in place of the hyphen."""
        return self.text[:1] in tuple(DASHES) and _WELL_FORMED.fullmatch(self.text[1:]) is not None

    def takes_next(self, value: _Argument) -> bool:
        """True if the next argument is this flag's value, wrongly separated by a space."""
        return (
            self.text[1:] in _NEVER_BARE
            and value.text[:1].isdigit()
            and _WELL_FORMED.fullmatch(self.text[1:] + value.text) is not None
        )

    def error(self, text: str) -> Diagnostic:
        return Diagnostic(f"{printable(self.text, 60)}: {text}", self.where)


def parse(arguments: Sequence[str], directory: Path, fresh_seed: Callable[[], int]) -> ParsedFlags:
    """Reads a command line (without ``diskspd``); an XML profile's path starts from ``directory``."""
    parsed = ParsedFlags(profile=Profile(command_line=" ".join(("diskspd", *typed(arguments)))))
    words = [
        _Argument(text, Where(COMMAND_LINE, number, option=text)) for number, text in enumerate(arguments, start=1)
    ]
    words = _without_own_options(words, parsed)
    flags, targets = _split(words, parsed)
    draft = ProfileDraft(fresh_seed)
    # Read -b first: sizes in blocks depend on it, wherever it stands.
    for word in sorted(flags, key=lambda word: word.text[1:2] != "b"):
        _apply(word, draft, parsed)
    parsed.notes += draft.notes
    _check_beside_profile(flags, draft, parsed)
    if draft.xml_path is None:
        _finish(draft, targets, parsed)
    else:
        _finish_with_xml(draft, targets, directory / draft.xml_path, parsed)
    _map_targets(parsed)
    return parsed


def _map_targets(parsed: ParsedFlags) -> None:
    used: set[PathMapping] = set()
    for span in parsed.profile.time_spans:
        for target in span.targets:
            target.path = _mapped(target.path, parsed.mappings, used)
            if target.buffer_path:
                target.buffer_path = _mapped(target.buffer_path, parsed.mappings, used)
    parsed.errors += [
        Diagnostic(f"--map-target {mapping.origin}=… matches no target", mapping.where)
        for mapping in parsed.mappings
        if mapping not in used
    ]


def _mapped(path: str, mappings: list[PathMapping], used: set[PathMapping]) -> str:
    """The path by the first mapping that matches it, which is added to ``used``; else the path itself."""
    for mapping in mappings:
        goal = _by_mapping(mapping, path)
        if goal is not None:
            used.add(mapping)
            return goal
    return path


def _by_mapping(mapping: PathMapping, path: str) -> str | None:
    """The path on Linux; None if the mapping does not match. As on Windows, case does not matter.

    A mapping replaces its path, a directory above it, or every path that its pattern matches.
    """
    origin, name = _comparable(mapping.origin), _comparable(path)
    prefix = origin.rstrip("*")
    if not re.search(r"[*?]", prefix) and (origin.endswith("*") or name.startswith(prefix.rstrip("/") + "/")):
        return _below(mapping.goal, path[len(prefix) :]) if name.startswith(prefix) and name != prefix else None
    if name == origin or (re.search(r"[*?]", origin) and fnmatchcase(name, origin.replace("[", "[[]"))):
        # Below a directory with a pattern ("?:\\*"), each path keeps what the last * stands for.
        ahead = prefix.count("/")
        if origin.endswith("/*") and "*" not in prefix:
            return _below(mapping.goal, "/".join(path.replace("\\", "/").split("/")[ahead:]))
        return mapping.goal
    return None


def _below(goal: str, rest: str) -> str:
    return "/".join((goal.rstrip("/"), rest.replace("\\", "/").lstrip("/")))


def _comparable(path: str) -> str:
    return path.replace("\\", "/").lower()


def _without_own_options(words: Sequence[_Argument], parsed: ParsedFlags) -> list[_Argument]:
    """Takes out iocurve's own options, which may stand anywhere."""
    kept = []
    rest = iter(words)
    for word in rest:
        name, equals, value = word.text.partition("=")
        if name in ("--disk", "--map-target"):
            if not equals and (following := next(rest, None)):
                value = following.text
            try:
                if name == "--disk":
                    parsed.disks.append(DiskMount.of(value, word.where))
                elif mapping := PathMapping.of(value, word.where):
                    parsed.mappings.append(mapping)
                else:
                    raise ValueError(r"--map-target takes FROM=TO, such as --map-target 'H:\*=/data'")
            except ValueError as error:
                parsed.errors.append(Diagnostic(str(error), word.where))
        elif name in ("--clients", "--on"):
            _apply_cluster(word, value, parsed)
        elif name != "--out":
            kept.append(word)
        elif not equals or not value or "\0" in value:
            parsed.errors.append(word.error("needs a directory name: --out=DIR"))
        else:
            parsed.out = Path(value)
    return kept


def _apply_cluster(word: _Argument, value: str, parsed: ParsedFlags) -> None:
    before = parsed.cluster or ClusterRequest()
    if word.text.startswith("--on"):
        if not value:
            parsed.errors.append(word.error("needs a cluster: --on=auto, --on=10.0.0.4:6379"))
        parsed.cluster = replace(before, address=value)
    elif value.isdecimal() and 1 <= int(value[:6]) <= CLIENTS_MAX:
        parsed.cluster = replace(before, count=int(value))
    else:
        parsed.errors.append(word.error(f"needs a number of agents from 1 to {CLIENTS_MAX}: --clients=12"))


def _split(words: Sequence[_Argument], parsed: ParsedFlags) -> tuple[list[_Argument], list[_Argument]]:
    """Splits the arguments into flags and targets. As in DiskSpd no flag may follow a target."""
    flags: list[_Argument] = []
    targets: list[_Argument] = []
    for word in words:
        if word.has_dash:
            text = (
                f"this begins with the dash '{word.text[0]}'; flags begin with '-' (write ./ before the name of a file)"
            )
            parsed.errors.append(word.error(text))
        elif flags and not targets and flags[-1].takes_next(word):
            flag = flags.pop()
            parsed.errors.append(flag.error(f"write the value without a space: {flag.text}{word.text}"))
        elif not word.is_flag:
            targets.append(word)
        elif targets:
            text = f"flags must come before the first target ({printable(targets[0].text, 60)})"
            parsed.errors.append(word.error(text))
        else:
            flags.append(word)
    return flags, targets


def _apply(word: _Argument, draft: ProfileDraft, parsed: ParsedFlags) -> None:
    letter, value = word.text[1:2], word.text[2:]
    effect = OPTIONS.get(letter)
    if effect is None:
        parsed.errors.append(_unknown(word))
        return
    draft.name, draft.where, draft.block_bytes = printable(word.text, 60), word.where, draft.target.block_bytes
    try:
        draft.text = _text(value)
        effect(draft)
    except ValueError as error:
        parsed.errors.append(word.error(str(error)))


def _text(value: str) -> str:
    """Refuses zero bytes, which end file names, and text that is not Unicode."""
    if "\0" in value or any("\ud800" <= letter <= "\udfff" for letter in value):
        raise ValueError("is not text (UTF-8)")
    return value


def _unknown(word: _Argument) -> Diagnostic:
    letter = word.text[1:2]
    if letter.swapcase() in OPTIONS:
        return word.error(f"there is no flag -{letter}; did you mean -{letter.swapcase()}? Flags are case-sensitive")
    if letter == "-":
        return word.error("a flag is a single letter followed by its value, such as -b4K; see iocurve diskspd --help")
    return word.error(f"there is no flag -{letter}" if letter else "a flag needs a letter")


def _check_beside_profile(flags: Sequence[_Argument], draft: ProfileDraft, parsed: ParsedFlags) -> None:
    if draft.xml_path is None:
        return
    for word in flags:
        if word.text[1:2] in OPTIONS.keys() - WITH_PROFILE:
            text = "cannot be combined with an XML profile (-X), which sets it; -W, -d, -C, -R, -v and -z can"
            parsed.errors.append(word.error(text))


def _finish(draft: ProfileDraft, targets: Sequence[_Argument], parsed: ParsedFlags) -> None:
    if not targets and not parsed.errors:
        hint = "name a file after the flags: iocurve diskspd -c1G -b4K -r -d10 testfile.dat"
        parsed.errors.append(Diagnostic("there is no target", None, hint))
    draft.span.targets = [_with_path(draft.target, word, parsed) for word in targets]
    draft.profile.time_spans = [draft.span]
    _store(draft.profile, parsed)


def _finish_with_xml(draft: ProfileDraft, targets: Sequence[_Argument], path: Path, parsed: ParsedFlags) -> None:
    replacements = [_with_path(TargetParameters(), word, parsed).path for word in targets]
    xml = read_profile(path, replacements)
    parsed.errors += xml.errors
    parsed.notes += xml.notes
    _override(xml.profile, draft.profile)
    for span in xml.profile.time_spans:
        _override(span, draft.span)
    _store(xml.profile, parsed)


def _override(to: Profile | TimeSpan, said: Profile | TimeSpan) -> None:
    """Takes over the fields that the command line sets."""
    for name in said.positions:
        setattr(to, name, getattr(said, name))
    to.positions |= said.positions


def _store(profile: Profile, parsed: ParsedFlags) -> None:
    profile.command_line = parsed.profile.command_line
    parsed.profile = profile


def _with_path(target: TargetParameters, word: _Argument, parsed: ParsedFlags) -> TargetParameters:
    try:
        path = _text(word.text)
        if not path:
            raise ValueError("a target needs a name")
    except ValueError as error:
        parsed.errors.append(word.error(str(error)))
        path = "?"
    return dataclasses.replace(target, path=path, positions=target.positions | {"path": word.where})
