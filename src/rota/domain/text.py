"""Text that comes from tasks and strangers, made fit for the database."""

from __future__ import annotations


def clean_text(text: str) -> str:
    """Text that PostgreSQL takes: no NUL, no lone surrogates."""
    return text.replace("\x00", "\ufffd").encode("utf-8", "replace").decode("utf-8")
