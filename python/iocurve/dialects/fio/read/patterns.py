"""Reads fio's patterns: a sequence of ``"text"``, ``0xdeadbeef``, ``-12``, ``%o`` and ``'file'``."""

from __future__ import annotations

import re

from iocurve.dialects.fio.read.values import Context

MAX_BYTES = 64 << 10
_OFFSET = "o" * 16
"""Placeholder for the 8 bytes of a block's offset."""
_HEXADECIMAL = re.compile(r"0[xX]((?:(?!0[xX])[0-9a-fA-F])+)")
_DECIMAL = re.compile(r"[+-]?\d{1,10}", re.ASCII)


def pattern(text: str, context: Context, *, with_offsets: bool) -> str:
    """The pattern in hexadecimal, as plans hold it. Raises ``ValueError``."""
    parts, rest = [], text.strip()
    while rest:
        part, rest = _first(rest, context, with_offsets)
        parts.append(part)
    found = "".join(parts)
    if not found:
        raise ValueError(f'{context.option} needs a pattern such as 0xdeadbeef or "text"')
    if len(found) > 2 * MAX_BYTES:
        raise ValueError(f"{context.option}: a pattern may have at most {MAX_BYTES} bytes")
    return found


def _first(text: str, context: Context, with_offsets: bool) -> tuple[str, str]:
    """Splits the text into its first part, in hexadecimal, and the rest."""
    if text[0] in "\"'":
        inner, closing, rest = text[1:].partition(text[0])
        if not closing:
            raise ValueError(f"{context.option}: {text} has no closing {text[0]}")
        content = inner.encode() if text[0] == '"' else _file(inner, context)
        return content.hex(), rest
    if text.startswith("%o"):
        if not with_offsets:
            raise ValueError(f"{context.option} does not take %o; only verify_pattern does")
        return _OFFSET, text[2:]
    return _number(text, context)


def _number(text: str, context: Context) -> tuple[str, str]:
    found = _HEXADECIMAL.match(text)
    if found:
        digits = found[1]
        return digits.zfill(len(digits) + len(digits) % 2).lower(), text[found.end() :]
    # A decimal number ends where a hexadecimal one begins: -100xab is -10 and 0xab.
    end = text.lower().find("0x")
    found = _DECIMAL.match(text[:end] if end > 0 else text)
    if not found or not -(2**31) <= int(found[0]) < 2**31:
        hint = "write numbers as 12 or 0xff, text as \"abc\", files as 'name'"
        raise ValueError(f"{context.option}: '{text}' is not a pattern ({hint})")
    value = int(found[0]) % 2**32
    return value.to_bytes(max(1, (value.bit_length() + 7) // 8), "little").hex(), text[found.end() :]


def _file(name: str, context: Context) -> bytes:
    try:
        with (context.directory / name).open("rb") as file:
            content = file.read(MAX_BYTES)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ValueError(f"{context.option}: '{name}' cannot be read: {reason}") from None
    if not content:
        raise ValueError(f"{context.option}: '{name}' is empty")
    return content
