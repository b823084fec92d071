"""Secrets stay out of what people can read: logs, errors, results."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

MASK = "***"
# Parts of a secret of several lines (a key in PEM form) that are worth hiding alone: logs are written line by line.
LEAST_PART = 8


class Mask:
    """Replaces secrets by `***`, in the longest form in which they occur."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        forms = {form for secret in secrets for form in _forms(secret)}
        longest_first = sorted(forms, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest_first))) if forms else None
        self.longest = len(longest_first[0]) if forms else 0

    def __call__(self, text: str) -> str:
        """The text without secrets."""
        return text if self._pattern is None else self._pattern.sub(MASK, text)


def _forms(secret: str) -> Iterable[str]:
    yield secret
    yield json.dumps(secret)[1:-1]
    yield json.dumps(secret, ensure_ascii=False)[1:-1]
    for line in secret.splitlines():
        if len(line.strip()) >= LEAST_PART:
            yield line.strip()
