"""Reads data validation and journals: ``-v``, ``-j``, ``validate=``, ``journal=``."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from iocurve.foundation.errors import Diagnostic, Where
from iocurve.job.model import PlanNote


class ValidationRequest(msgspec.Struct, frozen=True):
    """Data validation requested by the command line and the general parameters."""

    active: bool = False
    preread: bool = True
    """True if a block is read and verified before it is overwritten."""
    read_after_write: bool = False
    journal: bool = False
    recover: bool = False
    recover_only: bool = False
    notes: tuple[PlanNote, ...] = msgspec.field(default=())


def read_letters(
    request: ValidationRequest, option: str, letters: str, where: Where, errors: list[Diagnostic]
) -> ValidationRequest:
    """Adds ``-vrw``, ``-jr`` to a request; adds letters that are unknown or unsupported to ``errors``."""
    table = _VALIDATE_LETTERS if option == "v" else _JOURNAL_LETTERS
    request = replace(request, active=True, journal=request.journal or option == "j")
    for letter in letters:
        try:
            if letter not in table:
                raise ValueError(f"'{letter}' is not one of {', '.join(table)}")
            request = _with_word(request, f"-{option}{letter}", table[letter], where)
        except ValueError as error:
            errors.append(Diagnostic(f"-{option}: {error}", where))
    return request


def read_words(
    request: ValidationRequest, keyword: str, words: Sequence[str], where: Where, errors: list[Diagnostic]
) -> ValidationRequest:
    """Adds ``validate=(yes,no_preread)``, ``journal=recover`` to a request; adds words that are wrong to ``errors``."""
    is_journal = keyword == "journal"
    table = _JOURNAL_WORDS if is_journal else _VALIDATE_WORDS
    for word in words:
        lower = word.lower().replace("_", "")
        if lower == "no":
            return replace(request, journal=False, recover=False) if is_journal else replace(request, active=False)
        found = [name for name in table if name.startswith(lower.partition("=")[0])]
        exact = [name for name in found if name == lower]
        try:
            if len(exact or found) != 1:
                raise ValueError(f"'{word[:40]}' is not one of no, {', '.join(table)}")
            request = replace(request, active=True, journal=request.journal or is_journal)
            request = _with_word(request, f"{keyword}={word}", (exact or found)[0], where)
        except ValueError as error:
            errors.append(Diagnostic(f"{keyword}: {error}", where))
    return request


def _with_word(request: ValidationRequest, written: str, meaning: str, where: Where) -> ValidationRequest:
    """Adds the meaning of a letter or word. Raises ``ValueError`` for unsupported ones."""
    if meaning in _REFUSED:
        raise ValueError(f"{written} is not supported: {_REFUSED[meaning]}")
    if meaning in _NOTED:
        note = PlanNote("no_effect", f"{written} has no effect: {_NOTED[meaning]}", where)
        return replace(request, notes=(*request.notes, note))
    return replace(
        request,
        preread=request.preread and meaning != "nopreread",
        read_after_write=request.read_after_write or meaning == "readafterwrite",
        recover=request.recover or meaning == "recover",
        recover_only=request.recover_only or meaning == "only",
    )


_VALIDATE_LETTERS = {
    "r": "readafterwrite",
    "2": "readafterwrite",
    "w": "nopreread",
    "t": "time",
    "q": "quick",
    "c": "continueoldmap",
}
_JOURNAL_LETTERS = {
    "r": "recover",
    "o": "only",
    "m": "maponly",
    "n": "noflush",
    "2": "readafterwrite",
    "t": "time",
    "i": "ignorepending",
    "s": "skipreadall",
}
_VALIDATE_WORDS = (
    *("yes", "readafterwrite", "nopreread", "time", "xfersize", "reportdedupsets"),
    *("ignorezeroreads", "continueoldmap"),
)
_JOURNAL_WORDS = ("yes", "recover", "only", "maponly", "noflush", "skipreadall", "ignorepending", "max")
_NOTED = {
    "time": "the map does not record times",
    "quick": "the whole block is always verified",
    "xfersize": "the map does not record transfer sizes",
    "reportdedupsets": "blocks with headers differ, so there are no duplicates",
    "maponly": "the journal is always only a map",
    "noflush": "the map is a mapped file: it survives a crash of iocurve, and the system writes it later",
    "max": "the map has a fixed size",
}
_REFUSED = {
    "continueoldmap": "vdbench itself no longer has it; -jr continues with a journal",
    "ignorezeroreads": "a block of zeros in place of written data is an error",
    "ignorepending": "a recovery accepts the old and the new content of a write that was in flight",
    "skipreadall": "a recovery reads every block that was written",
}
