"""Signatures of webhooks, as the Standard Webhooks specification has them (https://www.standardwebhooks.com)."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Iterable

from rota.errors import BadInputError

PREFIX = "whsec_"
_LEAST_BYTES, _MOST_BYTES = 24, 64


def new_secret() -> str:
    return PREFIX + base64.b64encode(secrets.token_bytes(_LEAST_BYTES)).decode()


def check_secret(text: str) -> None:
    """Raises BadInputError for what can't be a secret."""
    try:
        size = len(_key(text))
    except binascii.Error:
        size = 0
    if not text.startswith(PREFIX) or not _LEAST_BYTES <= size <= _MOST_BYTES:
        words = f"must be {PREFIX} and {_LEAST_BYTES} to {_MOST_BYTES} bytes in base64; leave it out and one is made"
        raise BadInputError(words, field="secret")


def signed_headers(message_id: str, timestamp: int, body: bytes, signing: Iterable[str]) -> dict[str, str]:
    """The headers that let a receiver check a message, with a signature for each secret."""
    content = f"{message_id}.{timestamp}.".encode() + body
    signatures = (hmac.new(_key(secret), content, hashlib.sha256).digest() for secret in signing)
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": " ".join("v1," + base64.b64encode(one).decode() for one in signatures),
    }


def _key(text: str) -> bytes:
    return base64.b64decode(text.removeprefix(PREFIX), validate=True)
