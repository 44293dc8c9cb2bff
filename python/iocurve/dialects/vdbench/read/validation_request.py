"""Reads data validation and journals: ``-v``, ``-j``, ``validate=``, ``journal=``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from iocurve.errors import Where
from iocurve.job.model import PlanNote


@dataclass(frozen=True)
class ValidationRequest:
    """Data validation requested by the command line and the general parameters."""

    active: bool = False
    preread: bool = True
    """True if a block is read and verified before it is overwritten."""
    read_after_write: bool = False
    journal: bool = False
    recover: bool = False
    recover_only: bool = False
    notes: tuple[PlanNote, ...] = field(default=())


class ValidationReader:
    """Reads -v, -j, validate= and journal= into a request. Raises ``ValueError`` for unsupported values."""

    def __init__(self, request: ValidationRequest | None = None) -> None:
        self.request = request or ValidationRequest()

    def option(self, option: str, letters: str, where: Where) -> None:
        """Reads ``-vrw``, ``-jr``."""
        table = _VALIDATE_LETTERS if option == "v" else _JOURNAL_LETTERS
        self._set(active=True, journal=self.request.journal or option == "j")
        for letter in letters:
            if letter not in table:
                raise ValueError(f"'{letter}' is not one of {', '.join(table)}")
            self._word(f"-{option}{letter}", table[letter], where)

    def words(self, keyword: str, words: Sequence[str], where: Where) -> None:
        """Reads ``validate=(yes,no_preread)``, ``journal=recover``."""
        is_journal = keyword == "journal"
        table = _JOURNAL_WORDS if is_journal else _VALIDATE_WORDS
        for word in words:
            lower = word.lower().replace("_", "")
            if lower == "no":
                self._set(**({"journal": False, "recover": False} if is_journal else {"active": False}))
                return
            found = [name for name in table if name.startswith(lower.partition("=")[0])]
            exact = [name for name in found if name == lower]
            if len(exact or found) != 1:
                raise ValueError(f"'{word[:40]}' is not one of no, {', '.join(table)}")
            self._set(active=True, journal=self.request.journal or is_journal)
            self._word(f"{keyword}={word}", table[(exact or found)[0]], where)

    def _word(self, written: str, meaning: str, where: Where) -> None:
        if meaning in _REFUSED:
            raise ValueError(f"{written} is not supported: {_REFUSED[meaning]}")
        if meaning in _NOTED:
            note = PlanNote("no_effect", f"{written} has no effect: {_NOTED[meaning]}", where)
            self._set(notes=(*self.request.notes, note))
        elif meaning == "nopreread":
            self._set(preread=False)
        elif meaning == "readafterwrite":
            self._set(read_after_write=True)
        elif meaning == "recover":
            self._set(recover=True)
        elif meaning == "only":
            self._set(recover_only=True)

    def _set(self, **changes: object) -> None:
        self.request = replace(self.request, **changes)  # type: ignore[arg-type]


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
_VALIDATE_WORDS = {
    word: word
    for word in (
        *("yes", "readafterwrite", "nopreread", "time", "xfersize", "reportdedupsets"),
        *("ignorezeroreads", "continueoldmap"),
    )
}
_JOURNAL_WORDS = {
    word: word for word in ("yes", "recover", "only", "maponly", "noflush", "skipreadall", "ignorepending", "max")
}
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
