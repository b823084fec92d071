"""Sanitises untrusted text for the database and terminals, and finds mistyped names."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches

MARK = "\ufffd"
# For a regular expression's set: controls (also those of C1), line separators, changes of the writing direction, and
# characters without width. Two names that look the same must be the same.
UNSEEN = r"\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
# Control characters, line separators and changes of the writing direction; tab and line feed are only in _ALL_HIDDEN.
_HIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_ALL_HIDDEN = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def clean_text(text: str) -> str:
    """Text that PostgreSQL takes: no NUL, no lone surrogates."""
    return text.replace("\x00", MARK).encode("utf-8", "replace").decode("utf-8")


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known name that was probably meant, if any is close; the module part may be missing."""
    names = sorted(set(known))
    if close := get_close_matches(word, names, n=1, cutoff=0.75):
        return close[0]
    short = [name for name in names if name.rpartition(".")[2] == word.rpartition(".")[2]]
    return short[0] if short else None


def strip_control(text: str) -> str:
    """Replaces control characters by a mark; tabs and line feeds stay."""
    return _HIDDEN.sub(MARK, text)


def escape_control(text: str) -> str:
    """Escapes control characters, so that the text stays on one line."""
    return _ALL_HIDDEN.sub(lambda match: match[0].encode("unicode_escape").decode(), text)
