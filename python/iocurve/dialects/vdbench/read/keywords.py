"""Vdbench's keywords as a table: how a value is read, and whether it is honoured, accepted with a note, or refused.

Names are those of vdbench 5.04.06. A keyword may be cut to a unique beginning of two letters; underscores do not count.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches

from iocurve.dialects.vdbench.read import values
from iocurve.dialects.vdbench.read.values import Reader
from iocurve.job.model import Level


@dataclass(frozen=True)
class Keyword:
    """One keyword of one kind of definition."""

    name: str
    read: Reader = values.words
    aliases: tuple[str, ...] = ()
    note: str | None = None
    """It has no effect here, and why."""
    level: Level = "info"
    """Of the note."""
    refused: str | None = None
    """It cannot be honoured, and why."""
    loop: bool = False
    """Several values are several runs."""


def _on(name: str, read: Reader, *aliases: str) -> Keyword:
    return Keyword(name, read, aliases)


def _noted(why: str, *names: str, level: Level = "info") -> list[Keyword]:
    return [Keyword(name, note=why, level=level) for name in names]


def _refused(why: str, *names: str) -> list[Keyword]:
    return [Keyword(name, refused=why) for name in names]


def _loop(name: str, read: Reader, *aliases: str) -> Keyword:
    also = (f"for{name}", *aliases, *(f"for{alias}" for alias in aliases))
    return Keyword(name, read, also, loop=True)


_JAVA = "there is no Java here"
_ONE_MACHINE = "hosts run as workers on this machine"
_COMMAND = "commands are not run"
_REPLAY = "replay of traces is not there"
_DEDUP_SETS = "duplicates are drawn, they do not come in sets"
_NO_RESET = "resets of buses and LUNs are Solaris only"

_GENERAL = [
    _on("concatenatesds", values.yes_or_no),
    _on("compratio", values.ratio, "compression"),
    _on("dedupratio", values.ratio),
    _on("formatsds", values.yes_or_no),
    _on("journal", values.words),
    _on("loop", values.text),
    _on("validate", values.words),
    *_noted("nothing is aborted for a skew that was not reached", "abortfailedskew", level="warning"),
    *_noted("there are no auxiliary reports", "auxreport"),
    *_noted("what is compressible is decided by chance", "compressionseed"),
    *_noted("directories of file system workloads", "createanchors"),
    *_noted("the engine decides when errors end a run; all are counted", "dataerrors"),
    *_noted("there are no debug settings", "debug", "misc"),
    *_noted("a duplicate is a whole transfer", "dedupunit"),
    *_noted(_DEDUP_SETS, "dedupsets", "deduphotsets", "dedupflipflop", "deduptype", level="warning"),
    *_noted(_COMMAND, "startcmd", "endcmd", level="warning"),
    *_noted("files are laid out by the engine", "formatxfersize"),
    *_noted("workers report through memory", "heartbeaterror", "timeout"),
    *_noted("the buckets are vdbench's own", "histogram"),
    *_noted(_JAVA, "iosperjvm", "port", "psrset"),
    *_noted("threads are not adjusted", "fwdthreadadjust"),
    *_noted("system messages are not scanned", "messagescan"),
    *_noted("Ctrl-C ends a run, a file does not", "monitor", level="warning"),
    *_noted("every report is written", "report", "reportruntotals"),
    *_noted("nothing is sent to Swat", "swat"),
    *_noted("file names are taken as written", "unix2windows"),
    *_refused("patterns from files are not there yet", "pattern", "patternbuffer"),
    *_refused("there is no trace of addresses", "showlba"),
]
_HD = [
    _on("clients", values.count(1, 10_000)),
    _on("system", values.text),
    *_noted(_JAVA, "jvms"),
    *_noted(_ONE_MACHINE, "shell", "user", "vdbench", "master"),
    *_noted("nothing is mounted", "mount", level="warning"),
]
_RG = _refused(_REPLAY, "devices")
_SD = [
    _on("lun", values.text),
    _on("host", values.words, "hd"),
    _on("size", values.size),
    _on("count", values.words),
    _on("threads", values.count()),
    _on("openflags", values.words),
    _on("align", values.size_or_zero),
    _on("offset", values.size_or_zero),
    _on("range", values.band),
    _on("hitarea", values.size_or_zero),
    _on("dedupratio", values.ratio),
    _on("journal", values.text),
    *_noted(_DEDUP_SETS, "dedupsets", "deduphotsets", "dedupflipflop", level="warning"),
    *_noted("a duplicate is a whole transfer", "dedupunit"),
    *_noted("statistics of Solaris", "instance", "kstat"),
    *_noted(_NO_RESET, "resetbus", "resetlun", level="warning"),
    *_refused(_REPLAY, "replay"),
    *_refused("streams belong to the workload since vdbench 5.04: wd=…,streams=N", "streams"),
]
_WD = [
    _on("sd", values.words),
    _on("host", values.words, "hd"),
    _on("xfersize", values.blocks, "xfersizes"),
    _on("rdpct", values.percentage, "readpct"),
    _on("writepct", values.percentage),
    _on("rhpct", values.percentage),
    _on("whpct", values.percentage),
    _on("seekpct", values.seek_one),
    _on("skew", values.percentage),
    _on("iorate", values.rate),
    _on("range", values.band),
    _on("hotband", values.band),
    _on("stride", values.pair),
    _on("streams", values.words),
    _on("threads", values.count()),
    _on("openflags", values.words),
    *_noted("workloads do not wait for one another", "priority", level="warning"),
]
_RD = [
    _on("wd", values.words),
    _on("sd", values.words),
    _on("fwd", values.words),
    Keyword("iorate", values.rates, ("iorates",)),
    Keyword("fwdrate", values.rates, ("fwdrates",)),
    _on("curve", values.series(1, 1000)),
    _on("stopcurve", values.one_number),
    _on("distribution", values.words),
    _on("elapsed", values.time_ns),
    _on("interval", values.time_ns),
    _on("warmup", values.time_ns),
    _on("pause", values.time_ns),
    _on("maxdata", values.size),
    _on("maxdataread", values.size),
    _on("maxdatawritten", values.size),
    _on("openflags", values.words),
    _on("format", values.words),
    _loop("xfersize", values.series(512, 2**31), "xfersizes"),
    _loop("threads", values.series(1, 1_000_000)),
    _loop("rdpct", values.percentages, "readpct"),
    _loop("rhpct", values.percentages),
    _loop("whpct", values.percentages),
    _loop("seekpct", values.seeks),
    _loop("hitarea", values.series(0)),
    _loop("compratio", values.ratios, "compression"),
    _loop("depth", values.words),
    _loop("width", values.words),
    _loop("files", values.words),
    _loop("sizes", values.words, "size"),
    _loop("totalsize", values.words),
    _loop("wss", values.words, "workingsetsize"),
    _loop("operations", values.words, "operation"),
    *_noted(_COMMAND, "startcmd", "endcmd", level="warning"),
    *_noted("nothing is mounted", "mount", level="warning"),
    *_refused(_REPLAY, "replay"),
    *_refused("the skew belongs to the workloads: wd=…,skew=N", "skew"),
]
_FILE_SYSTEMS = [
    Keyword("sizes", aliases=("size",)),
    Keyword("wss", aliases=("workingsetsize",)),
    Keyword("host", aliases=("hd",)),
    *map(Keyword, ("anchor", "cleanup", "count", "depth", "distribution", "files", "shared", "totalsize", "width")),
    *map(Keyword, ("dedupratio", "dedupsets", "dedupunit", "deduphotsets", "dedupflipflop")),
    *map(Keyword, ("journal", "log", "openflags")),
]
_FILE_WORKLOADS = [
    Keyword("host", aliases=("hd",)),
    Keyword("operation", aliases=("operations",)),
    Keyword("rdpct", aliases=("readpct",)),
    Keyword("xfersizes", aliases=("xfersize",)),
    *map(Keyword, ("fileio", "fileselect", "fsd", "openflags", "skew", "stopafter", "target", "threads")),
]
TABLE: dict[str, list[Keyword]] = {
    "general": _GENERAL,
    "hd": [Keyword("hd"), *_HD],
    "rg": [Keyword("rg", refused=_REPLAY), *_RG],
    "sd": [Keyword("sd"), *_SD],
    "wd": [Keyword("wd"), *_WD],
    "rd": [Keyword("rd"), *_RD],
    "fsd": [Keyword("fsd"), *_FILE_SYSTEMS],
    "fwd": [Keyword("fwd"), *_FILE_WORKLOADS],
}
"""By kind of definition."""


def _index(keywords: Iterable[Keyword]) -> dict[str, Keyword]:
    return {name: keyword for keyword in keywords for name in (keyword.name, *keyword.aliases)}


_INDEX = {kind: _index(keywords) for kind, keywords in TABLE.items()}


def find(kind: str, written: str) -> Keyword:
    """The keyword that is meant. Raises ``ValueError`` with a hint."""
    index = _INDEX[kind]
    word = written.lower().replace("_", "")
    if word in index:
        return index[word]
    names = [name for name in index if len(word) >= 2 and name.startswith(word)]
    meant = {index[name].name: index[name] for name in names}
    if len(meant) == 1:
        return next(iter(meant.values()))
    if meant:
        raise ValueError(f"'{written[:40]}' may be {' or '.join(sorted(names))}")
    raise ValueError(f"{_where_it_belongs(kind, word, written)}{_hint(index, word)}")


def _where_it_belongs(kind: str, word: str, written: str) -> str:
    others = [other for other in TABLE if other != kind and word in _INDEX[other]]
    if others and kind != "general":
        place = "general parameters, before all definitions" if others[0] == "general" else f"{others[0]}="
        return f"'{written[:40]}' is no parameter of {kind}=; it belongs to {place}"
    if others:
        return f"'{written[:40]}' belongs to {others[0]}=, and no {others[0]}= comes before it"
    return f"unknown parameter '{written[:40]}'" + ("" if kind == "general" else f" of {kind}=")


def _hint(index: dict[str, Keyword], word: str) -> str:
    close = get_close_matches(word, index, n=1)
    return f"; did you mean {close[0]}?" if close else ""
