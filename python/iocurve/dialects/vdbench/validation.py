"""Data validation and journals: ``-v``, ``-j``, ``validate=``, ``journal=``.

Every block that is written carries a header and a checksum; how often it was written is remembered in a file beside
(a map, one for each SD), and every read is compared with both. A journal is a map that stays, so that a later
run can verify what an earlier one wrote.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from iocurve.dialects.vdbench.read.definitions import Definitions
from iocurve.dialects.vdbench.runs import Run
from iocurve.dialects.vdbench.world import Storage, World
from iocurve.engine.plan import BlockRange, Blocks, BlockSplit, FixedBlocks, Verify, VerifyMap
from iocurve.errors import Mistake, TargetError, Where
from iocurve.job.model import PlanNote

SUFFIX = ".iocurve-map"
_MAGIC = b"ioCmap1\n"
_TEMPORARY = Path("a temporary directory")
"""Stands for the directory of maps that last for one invocation, until that begins."""
_READ_BYTES = 1 << 20
"""Of one operation of a recovery, at most."""


@dataclass(frozen=True)
class Asked:
    """What the command line and the general parameters ask for together."""

    active: bool = False
    preread: bool = True
    """Whether a block is read and compared before it is written again."""
    read_after_write: bool = False
    journal: bool = False
    recover: bool = False
    recover_only: bool = False
    notes: tuple[PlanNote, ...] = field(default=())


class Reader:
    """Gathers options and words; raises ``ValueError`` where one cannot be had."""

    def __init__(self, asked: Asked | None = None) -> None:
        self.asked = asked or Asked()

    def option(self, option: str, letters: str, where: Where) -> None:
        """``-vrw``, ``-jr``."""
        table = _VALIDATE_LETTERS if option == "v" else _JOURNAL_LETTERS
        self._set(active=True, journal=self.asked.journal or option == "j")
        for letter in letters:
            if letter not in table:
                raise ValueError(f"'{letter}' is none of {', '.join(table)}")
            self._word(f"-{option}{letter}", table[letter], where)

    def words(self, keyword: str, words: Sequence[str], where: Where) -> None:
        """``validate=(yes,no_preread)``, ``journal=recover``."""
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
                raise ValueError(f"'{word[:40]}' is none of no, {', '.join(table)}")
            self._set(active=True, journal=self.asked.journal or is_journal)
            self._word(f"{keyword}={word}", table[(exact or found)[0]], where)

    def _word(self, written: str, meant: str, where: Where) -> None:
        if meant in _REFUSED:
            raise ValueError(f"{written} is not supported: {_REFUSED[meant]}")
        if meant in _NOTED:
            note = PlanNote("no_effect", f"{written} has no effect: {_NOTED[meant]}", where)
            self._set(notes=(*self.asked.notes, note))
        elif meant == "nopreread":
            self._set(preread=False)
        elif meant == "readafterwrite":
            self._set(read_after_write=True)
        elif meant == "recover":
            self._set(recover=True)
        elif meant == "only":
            self._set(recover_only=True)

    def _set(self, **changes: object) -> None:
        self.asked = replace(self.asked, **changes)  # type: ignore[arg-type]


_VALIDATE_LETTERS = {
    **{
        "r": "readafterwrite",
        "2": "readafterwrite",
        "w": "nopreread",
        "t": "time",
        "q": "quick",
        "c": "continueoldmap",
    },
}
_JOURNAL_LETTERS = {
    **{"r": "recover", "o": "only", "m": "maponly", "n": "noflush", "2": "readafterwrite", "t": "time"},
    **{"i": "ignorepending", "s": "skipreadall"},
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
    "time": "when a block was last read or written is not kept",
    "quick": "the whole block is compared",
    "xfersize": "which sizes a block was written with is not kept",
    "reportdedupsets": "blocks with headers of their own are no duplicates",
    "maponly": "a journal is a map and nothing else",
    "noflush": "the map stays in memory until the system writes it, which a crash of iocurve survives",
    "max": "a map never grows",
}
_REFUSED = {
    "continueoldmap": "vdbench itself has given it up; -jr goes on with a journal",
    "ignorezeroreads": "a block of zeros that was written otherwise is wrong",
    "ignorepending": "of a write that was under way either outcome is right, which needs no exception",
    "skipreadall": "a recovery reads every block that was written",
}


@dataclass(frozen=True)
class Validation:
    """How what runs write is compared."""

    asked: Asked
    interval_bytes: int
    """Length of a block with a header: what divides all transfers."""
    directory: Path = _TEMPORARY

    def verify(self, storage: Sequence[Storage], luns: Sequence[str], *, take_over: bool = False) -> Verify:
        """For a worker on these SDs."""
        return Verify(
            method="crc32c",
            interval_bytes=self.interval_bytes,
            read_back=False,
            map=VerifyMap(
                paths=tuple(str(self.path(one, lun)) for one, lun in zip(storage, luns, strict=True)),
                before_write=self.asked.preread and not take_over,
                after_write=self.asked.read_after_write,
                take_over=take_over,
            ),
        )

    def path(self, storage: Storage, lun: str) -> Path:
        """The map of an SD's LUN."""
        several = list(dict.fromkeys(storage.luns.values()))
        name = storage.name if len(several) == 1 else f"{storage.name}-{several.index(lun) + 1}"
        directory = storage.journal if self.asked.journal and storage.journal else self.directory
        return Path(directory) / f"{name}{SUFFIX}"

    def read_bytes(self, whole: int) -> int:
        """Of one operation of a recovery: blocks together, as far as they fill the SD."""
        size = self.interval_bytes
        while size * 2 <= _READ_BYTES and (whole // self.interval_bytes * self.interval_bytes) % (size * 2) == 0:
            size *= 2
        return size

    def maps(self, world: World) -> Iterator[tuple[Storage, str, Path]]:
        """All SDs with their LUNs and maps."""
        for storage in world.storage.values():
            for lun in dict.fromkeys(storage.luns.values()):
                yield storage, lun, self.path(storage, lun)

    def begin(self, world: World) -> None:
        """Journals begin anew; what is no map of ours is left alone. Raises ``TargetError``."""
        for _, _, path in self.maps(world):
            try:
                if path.is_file() and _is_ours(path):
                    path.unlink()
            except OSError as error:
                raise TargetError(f"the journal {path} cannot be begun: {error.strerror}") from None


def validation(found: Definitions, world: World, runs: Sequence[Run], asked: Asked, cwd: Path) -> Validation | None:
    """None where nothing is validated."""
    if not asked.active:
        return None
    sizes = [storage.offset for storage in world.storage.values()]
    sizes += [storage.align for storage in world.storage.values()]
    sizes += [int(run.loops["xfersize"]) for run in runs if "xfersize" in run.loops]
    for workload in found.by_kind["wd"] or [found.defaults["wd"]]:
        sizes += _sizes(workload.get("xfersize", FixedBlocks(bytes=4096)))
    return Validation(asked, math.gcd(*sizes), cwd if asked.journal else _TEMPORARY)


def mistakes(found: Definitions, world: World, asked: Asked) -> Iterator[Mistake]:
    """What cannot be validated."""
    if not asked.active:
        return
    luns = Counter((host, lun) for storage in world.storage.values() for host, lun in storage.luns.items())
    for storage in world.storage.values():
        if any(luns[pair] > 1 for pair in storage.luns.items()):
            text = f"sd={storage.name}: its lun is another SD's, too, which data validation cannot tell apart"
            yield Mistake(text, storage.where, "give each SD a lun of its own")
        if storage.offset % 512 or storage.align % 512:
            text = f"sd={storage.name}: with data validation offset= and align= are multiples of 512"
            yield Mistake(text, storage.where)
    for workload in found.by_kind["wd"]:
        if "stride" in workload.values:
            yield Mistake("stride= together with data validation is not there", workload.place("stride"))
    if asked.recover and found.general.get("formatsds"):
        yield Mistake("formatsds=yes would write over what the journal is to verify", found.general.place("formatsds"))


def _sizes(blocks: Blocks) -> list[int]:
    if isinstance(blocks, BlockRange):
        return [blocks.low, blocks.step]
    return [part.bytes for part in blocks.parts] if isinstance(blocks, BlockSplit) else [blocks.bytes]


def _is_ours(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(_MAGIC)) in (_MAGIC, b"")
