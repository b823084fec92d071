"""Valid keys and sessions, cached for a second.

The database has the authority. An entry is used for FRESH_SECONDS, counted from before the lookup was sent, so a key is
looked up about once a second at any load. Revoking a key takes as long before it is answered: from then on no server
accepts the key, whatever messages were lost. A server that was paused looks up again, as its entries are stale by then.

Concurrent lookups share one statement, and one statement runs at a time: a flood of made-up keys does not flood the
database.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

import msgspec

from rota.domain.rights import Identity
from rota.errors import RotaError
from rota.shared_lookups import SharedLookups
from rota.store.access.api_keys import ApiKeys, KnownCredential
from rota.telemetry import get_logger

FRESH_SECONDS = 1.0
_MOST_REMEMBERED = 10_000
KEY_PREFIX = "rota_"
SESSION_PREFIX = "rotasession_"
_log = get_logger("keyring")


class Secret(msgspec.Struct, frozen=True):
    """A new key: its text, which is shown once, and what is stored."""

    text: str
    prefix: str
    hash: bytes


def make_secret(kind: str = KEY_PREFIX) -> Secret:
    prefix = kind + secrets.token_hex(5)
    text = f"{prefix}_{secrets.token_urlsafe(32)}"
    return Secret(text, prefix, digest(text))


def digest(text: str) -> bytes:
    """What is stored of a secret."""
    return hashlib.sha256(text.encode()).digest()


class Belief(NamedTuple):
    """What a lookup found: a credential that is in force, as of before the lookup was sent."""

    key: bytes
    known: KnownCredential
    asked_at: float


class CredentialCache(SharedLookups[bytes, Belief]):
    """Knows the identity of a key or session; one tick is one lookup for all that wait."""

    most_per_look = _MOST_REMEMBERED  # whose they are is not known yet

    def __init__(self, keys: ApiKeys, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._keys = keys
        self._monotonic = monotonic
        self._remembered: dict[bytes, Belief] = {}
        self._used: set[UUID] = set()

    async def identify(self, text: str, *, authorities: Mapping[str, bytes]) -> Identity | None:
        """The identity of a credential; None if it is unknown or has ended, or the authority of its session changed."""
        belief = await self.find(text, authorities=authorities)
        return None if belief is None else belief.known.identity

    async def find(self, text: str, *, authorities: Mapping[str, bytes]) -> Belief | None:
        """The same with the lookup behind it: while that `holds`, the identity need not be asked for again."""
        key = digest(text)
        belief = self._remembered.get(key)
        if belief is None or not self._is_fresh(belief):
            belief = await self.ask(key)
        if belief is None:
            return None
        known = belief.known
        return belief if known.authority in (None, authorities.get(known.identity.kind)) else None

    def holds(self, belief: Belief) -> bool:
        """Whether a lookup is still believed: it is fresh, and nothing was forgotten or looked up again since."""
        return self._remembered.get(belief.key) is belief and self._is_fresh(belief)

    def _is_fresh(self, belief: Belief) -> bool:
        return self._monotonic() - belief.asked_at < FRESH_SECONDS

    def forget(self) -> None:
        """Looks everything up again."""
        self._remembered.clear()

    async def tick(self) -> int:
        """Looks up all credentials that are waited for; when there are none, records which keys were used."""
        done = await super().tick()
        if self._used and not self.is_asked:
            await self._note_use()
        return done

    async def look(self, questions: Sequence[bytes]) -> Mapping[bytes, Belief]:
        """Finds credentials by their digests, and remembers what it found."""
        asked_at = self._monotonic()
        found = await self._keys.find(questions)
        if len(self._remembered) + len(found) > _MOST_REMEMBERED:
            self._remembered.clear()
        for key in questions:
            known = found.get(key)
            if known is None:
                self._remembered.pop(key, None)
                continue
            self._remembered[key] = Belief(key, known, asked_at)
            if known.unused:
                self._used |= {known.id, known.identity.key_id or known.id}
        return {key: self._remembered[key] for key in found}

    async def _note_use(self) -> None:
        used, self._used = self._used, set()
        try:
            await self._keys.note_use(list(used))
        except RotaError as error:
            _log.warning("could not record that keys were used", error=str(error))
