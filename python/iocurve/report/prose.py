"""Sentences from fragments of text."""

from __future__ import annotations


def capitalised(text: str) -> str:
    """The text with a capital first letter; the rest stays as it is."""
    return text[:1].upper() + text[1:]


def sentence(text: str) -> str:
    """The text with a capital and one full stop; empty text stays empty."""
    return f"{capitalised(text.removesuffix('.'))}." if text else ""
