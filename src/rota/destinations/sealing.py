"""Seals what is secret of a destination before it is stored: its address and the secrets that sign.

The key is not in the database: it is ROTA_DESTINATION_KEY, or a file in the home. So a copy of the database shows no
more of an address than is meant to be seen, and can't sign. Several keys may be given: the first seals, all open.
What was sealed belongs to one destination and opens for no other.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from datetime import datetime
from uuid import UUID

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from rota.errors import SetupError
from rota.private_files import kept_secret
from rota.settings import Settings

_NONCE_BYTES = 12
_PURPOSE = b"rota destinations"


class SealError(Exception):
    """What was sealed can't be opened with our keys."""


class SigningSecret(msgspec.Struct, frozen=True):
    """A secret that signs webhooks, until it has been replaced for long enough (None: not replaced)."""

    text: str
    until: datetime | None = None

    def __repr__(self) -> str:
        return "SigningSecret(…)"


class DestinationSecrets(msgspec.Struct, frozen=True):
    """What is secret of a destination."""

    url: str
    signing: tuple[SigningSecret, ...] = ()

    def __repr__(self) -> str:
        return "DestinationSecrets(…)"


class Sealer:
    """Seals and opens; asks for its keys when it first needs them."""

    def __init__(self, keys: Callable[[], Sequence[str]]) -> None:
        self._keys = keys
        self._ciphers: tuple[AESGCM, ...] = ()

    @classmethod
    def of(cls, settings: Settings) -> Sealer:
        def keys() -> Sequence[str]:
            return settings.destination_key or (kept_secret(settings.home / "destination.key"),)

        return cls(keys)

    def seal(self, destination_id: UUID, what: DestinationSecrets) -> bytes:
        nonce = secrets.token_bytes(_NONCE_BYTES)
        return nonce + self._known[0].encrypt(nonce, msgspec.json.encode(what), destination_id.bytes)

    def open(self, destination_id: UUID, sealed: bytes) -> DestinationSecrets:
        """Raises SealError if none of our keys sealed it, for this destination."""
        for cipher in self._known:
            try:
                text = cipher.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], destination_id.bytes)
            except InvalidTag:
                continue
            return msgspec.json.decode(text, type=DestinationSecrets)
        raise SealError(
            "it was sealed with another key: give API servers and schedulers the same ROTA_DESTINATION_KEY, "
            "or set its address again"
        )

    @property
    def _known(self) -> tuple[AESGCM, ...]:
        if not self._ciphers:
            self._ciphers = tuple(AESGCM(_derived(key)) for key in self._keys())
            if not self._ciphers:
                raise SetupError("there is no key for destinations: set ROTA_DESTINATION_KEY")
        return self._ciphers


def _derived(key: str) -> bytes:
    return HKDF(algorithm=SHA256(), length=32, salt=None, info=_PURPOSE).derive(key.encode())
