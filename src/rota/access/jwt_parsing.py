"""Parsing the text of a token: bounded and strict.

Anything ambiguous is refused: repeated keys, NaN, padding, other encodings.
"""

from __future__ import annotations

import base64
import json
import re
from typing import Any

import jwt
import msgspec

from rota.errors import InvalidTokenError

LONGEST_TOKEN = 8 * 1024
_LONGEST_KEY_ID = 255
# The only algorithms that a token can ask for.
OWN_ALGORITHM = "HS256"
PROVIDER_ALGORITHMS = frozenset({"RS256", "ES256", "EdDSA"})
NOT_VALID = "the token is not valid"
_SHAPE = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")
_ALGORITHMS = {name: jwt.get_algorithm_by_name(name) for name in (OWN_ALGORITHM, *PROVIDER_ALGORITHMS)}


class Header(msgspec.Struct, frozen=True):
    """What a token says about its signature. Keys that it contains or points at are ignored."""

    algorithm: str
    key_id: str | None


def check_shape(token: str) -> None:
    """Raises InvalidTokenError unless it is short enough and three parts of base64url; before parsing."""
    if len(token) > LONGEST_TOKEN or not _SHAPE.fullmatch(token):
        raise InvalidTokenError(NOT_VALID)


def read_header(token: str) -> Header:
    """The header of a token that has the right shape."""
    fields = read_object(_decoded(token.partition(".")[0]))
    algorithm, key_id = fields.get("alg"), fields.get("kid")
    # `crit` lists extensions that must be understood, and we know none; nor `b64`.
    if not isinstance(algorithm, str) or "crit" in fields or "b64" in fields:
        raise InvalidTokenError(NOT_VALID)
    if "kid" in fields and not (isinstance(key_id, str) and 0 < len(key_id) <= _LONGEST_KEY_ID):
        raise InvalidTokenError(NOT_VALID)
    return Header(algorithm, key_id)


def read_claims(token: str, *, key: Any, algorithm: str) -> dict[str, Any]:
    """The claims, once the signature is verified with this key and algorithm.

    jwt.decode would read the header again and examine the key each time, which takes longer than verifying.
    """
    signed, _, signature = token.rpartition(".")
    if not _ALGORITHMS[algorithm].verify(signed.encode(), key, _decoded(signature)):
        raise InvalidTokenError(NOT_VALID)
    return read_object(_decoded(signed.partition(".")[2]))


def read_object(data: bytes) -> dict[str, Any]:
    """A JSON object that has only one meaning; raises InvalidTokenError."""
    try:
        found = json.loads(data.decode(), object_pairs_hook=_once, parse_constant=_refuse)
    except (ValueError, RecursionError):
        raise InvalidTokenError(NOT_VALID) from None
    if not isinstance(found, dict):
        raise InvalidTokenError(NOT_VALID)
    return found


def _decoded(part: str) -> bytes:
    try:
        data = base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))
    except ValueError:
        raise InvalidTokenError(NOT_VALID) from None
    # The unused bits at the end could hold anything, so that one token had many forms.
    if base64.urlsafe_b64encode(data).rstrip(b"=").decode() != part:
        raise InvalidTokenError(NOT_VALID)
    return data


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key occurs twice")
    return found


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")
