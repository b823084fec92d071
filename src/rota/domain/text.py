"""Text that comes from tasks and strangers, made fit for the database; and names that were mistyped."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches

MARK = "\ufffd"
# Control characters of both sets, separators that some readers take for line breaks, and what overrides or isolates the
# direction of writing up to the end of a line. A tab and a line feed are left to whoever calls.
_HIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_ALL_HIDDEN = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def clean_text(text: str) -> str:
    """Text that PostgreSQL takes: no NUL, no lone surrogates."""
    return text.replace("\x00", "\ufffd").encode("utf-8", "replace").decode("utf-8")


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The one of these names that was probably meant, if any comes close; a name without its module is close enough."""
    names = sorted(set(known))
    if close := get_close_matches(word, names, n=1, cutoff=0.75):
        return close[0]
    short = [name for name in names if name.rpartition(".")[2] == word.rpartition(".")[2]]
    return short[0] if short else None


def strip_control(text: str) -> str:
    """The text with a mark in the place of what a terminal would obey; tabs and line feeds stay."""
    return _HIDDEN.sub(MARK, text)


def escape_control(text: str) -> str:
    """The text on one line, with an escape in the place of what a terminal would obey."""
    return _ALL_HIDDEN.sub(lambda match: match[0].encode("unicode_escape").decode(), text)
