"""fio's job options as a table: names, the reader of the value, and the effect in iocurve.

An option is supported (it sets a field of a section, alone or together with other options), has no effect (a note
gives the reason), or is refused with the reason. Each is a row of ``options.txt``, with the reader of its value; here
are those whose effect no row can say. An option that is not listed is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from iocurve.dialects.fio.read import effects, splits, values
from iocurve.dialects.fio.read.draft import Option
from iocurve.dialects.fio.read.values import Context, Reader


def _sets(name: str, field: str, read: Reader[object], *, bare: bool = False) -> Option:
    return Option(name, effects.sets(field, read), (field,), bare=bare)


def _writes_log(name: str, kind: str) -> Option:
    """write_…_log: the prefix of the file name; without a value, the job's name."""

    def prefix(text: str, context: Context) -> str:
        return str(values.text_value(text, context)) if text else ""

    return Option(name, effects.keeps("reporting.logs", kind, prefix), ("log",), bare=True, bare_value="")


_PERCENT = values.integer(0, 100)
_COVER = {True: "independent", False: "once"}
_VERIFY_PATTERN = partial(values.pattern, with_offsets=True)


_SPECIAL = (
    Option("kb_base", effects.set_kb_base),
    Option("ioengine", effects.set_engine, ("engine", "engine_asked")),
    Option(
        "buffered",
        effects.sets("direct", lambda text, context: not values.boolean(text, context)),
        ("direct",),
        boolean=True,
    ),
    Option("filename", effects.add_paths, ("paths",)),
    Option("file_service_type", effects.set_file_select, ("file_select", "file_run")),
    Option(
        "rw", effects.set_direction, ("reads", "writes", "trims", "random", "run_length", "gap_bytes"), ("readwrite",)
    ),
    _sets("rwmixread", "read_percent", lambda text, context: float(_PERCENT(text, context))),
    _sets("rwmixwrite", "read_percent", lambda text, context: 100.0 - _PERCENT(text, context)),
    Option("bs", effects.set_blocks, ("blocks",), ("blocksize",)),
    Option("bsrange", effects.set_block_range, ("blocks",), ("blocksize_range",)),
    Option("bssplit", effects.set_block_split, ("blocks",)),
    Option("ba", effects.sets_per_kind("align_bytes"), ("align_bytes",), ("blockalign",)),
    _sets("norandommap", "cover", lambda text, context: _COVER[values.switch(text, context)], bare=True),
    Option("percentage_random", effects.sets_per_kind("random_percent", 0, 100), ("random_percent",)),
    Option("rate", effects.sets_per_kind("rate_bytes", 0, 2**63), ("rate_bytes",)),
    Option("rate_iops", effects.sets_per_kind("rate_operations", 0), ("rate_operations",)),
    Option("allrandrepeat", effects.set_all_repeatable, ("repeatable",)),
    _sets("wait_for", "wait_for", lambda text, context: (values.text_value(text, context),)),
    Option("buffer_pattern", effects.set_pattern, ("payload_pattern",)),
    Option("dedupe_percentage", effects.set_dedupe, ("payload_dedupe_percent",)),
    Option("verify_pattern", effects.keeps("deferred", "verify_pattern", _VERIFY_PATTERN), ("verify",)),
    Option("verify_state_save", effects.keeps("reporting", "state_save", values.boolean), boolean=True),
    Option("verify_state_load", effects.keeps("reporting", "state_load", values.boolean), boolean=True),
    _sets("cpus_allowed_policy", "cpus_split", values.meaning({"shared": False, "split": True})),
    Option("zonemode", effects.set_zone_mode),
    Option("read_iolog", effects.set_trace, ("replay", "paths")),
    Option("percentile_list", effects.keeps("reporting", "percentiles", values.percentiles)),
    Option("clat_percentiles", effects.keeps("reporting", "completion_percentiles", values.boolean)),
    Option("lat_percentiles", effects.keeps("reporting", "total_percentiles", values.boolean)),
    Option("slat_percentiles", effects.keeps("reporting", "submission_percentiles", values.boolean)),
    Option(
        "unified_rw_reporting",
        effects.keeps("reporting", "mixed", values.meanings("none", "0=none", "mixed", "1=mixed", "both", "2=both")),
    ),
    _writes_log("write_bw_log", "bandwidth"),
    _writes_log("write_lat_log", "latency"),
    _writes_log("write_iops_log", "iops"),
    _writes_log("write_hist_log", "histogram"),
)
"""The supported options whose effect is no row."""


def _reader(written: str) -> Reader[object]:
    """``integer 0 100``: a function of ``values`` or ``splits`` that reads, or makes a reader of limits or words."""
    name, *arguments = written.split()
    found: Callable[..., Reader[object]] = getattr(splits, name, None) or getattr(values, name)
    if name in ("integer", "signed_integer"):
        return found(*map(int, arguments))
    return found(*arguments) if arguments else found


def _row(line: str) -> Option:
    """A line of ``options.txt``."""
    names, way, written, fields, *reasons = line.split(" | ", 4)
    read, named = _reader(written), () if fields == "-" else tuple(fields.split())
    name, *aliases = names.split()
    way, _, bare = way.partition(" ")
    if reasons:
        support = f"{'not supported' if way == 'refused' else 'no effect'}: {reasons[0]}"
        if way == "refused":
            effect = effects.unsupported(reasons[0], named, read)
        else:
            effect = effects.no_effect(reasons[0], named, "warning" if way == "warned" else "info", read)
        return Option(name, effect, (), tuple(aliases), bool(bare), support=support)
    is_boolean = read is values.boolean
    # A 0/1 option that may be written without a value takes any number in fio.
    read = values.switch if bare and is_boolean else read
    if way == "sets":
        effect = effects.sets(named[0], read)
    elif way == "defers":
        effect = effects.keeps("deferred", name, read)
    else:
        effect, named = effects.keeps("reporting.logs", named[0], read), ()
    return Option(name, effect, named, tuple(aliases), bool(bare), boolean=is_boolean)


def _listed() -> Iterator[Option]:
    special = {option.name: option for option in _SPECIAL}
    engines: tuple[str, ...] = ()
    for line in (Path(__file__).parent / "options.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            engines = tuple(line.strip("[]").split())
        elif not line.startswith("#"):
            option = _row(line) if " | " in line else special[line]
            yield replace(option, engines=engines) if engines else option


OPTIONS = tuple(_listed())
"""All options, in the order of --cmdhelp."""

BY_NAME = {name: option for option in OPTIONS for name in (option.name, *option.aliases)}
