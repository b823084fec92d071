"""Text that comes from tasks and strangers, made fit for the database; and names that were mistyped."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


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
