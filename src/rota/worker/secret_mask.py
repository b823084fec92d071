"""Masks secrets in what people can read: logs, errors and results."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

import msgspec

_MASK = "***"
# Lines of a multi-line secret (a PEM key) are masked one by one if they are at least this long.
_LEAST_PART = 8


class Mask:
    """Replaces secrets by `***`, longest form first, also where they are encoded for an address or a form.

    Other encodings, such as base64, are not recognised.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        forms = {form for secret in secrets for form in _forms(secret)}
        longest_first = sorted(forms, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(_pattern, longest_first))) if forms else None
        self.longest = max(map(_longest, forms), default=0)

    def __call__(self, text: str) -> str:
        return text if self._pattern is None else self._pattern.sub(_MASK, text)

    def in_json(self, text: str) -> str:
        """Masks JSON text so that it stays JSON: value by value where plain masking would break it."""
        masked = self(text)
        try:
            msgspec.json.decode(masked)
        except msgspec.DecodeError:
            return msgspec.json.encode(self._in_value(msgspec.json.decode(text))).decode()
        return masked

    def _in_value(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {self(name): self._in_value(inner) for name, inner in value.items()}
        if isinstance(value, list):
            return [self._in_value(inner) for inner in value]
        text = value if isinstance(value, str) else json.dumps(value)
        masked = self(text)
        return value if masked == text else masked


def _pattern(form: str) -> str:
    """Matches the text as it is, and with any of its characters but letters and digits percent-encoded: programs differ
    in which they encode."""
    return "".join(sign if _is_plain(sign) else f"(?:{_encodings(sign)})" for sign in form)


def _encodings(sign: str) -> str:
    encoded = "".join(f"%{byte:02x}" for byte in sign.encode("utf-8", "surrogatepass"))
    # The encoded form first: of %25, the plain one would match only a part.
    return "|".join([f"(?i:{encoded})", re.escape(sign), *([r"\+"] if sign == " " else [])])


def _longest(form: str) -> int:
    return sum(1 if _is_plain(sign) else 3 * len(sign.encode("utf-8", "surrogatepass")) for sign in form)


def _is_plain(sign: str) -> bool:
    return sign.isascii() and sign.isalnum()


def _forms(secret: str) -> Iterable[str]:
    yield secret
    yield json.dumps(secret)[1:-1]
    yield json.dumps(secret, ensure_ascii=False)[1:-1]
    for line in secret.splitlines():
        if len(line.strip()) >= _LEAST_PART:
            yield line.strip()
