"""Keys and sessions in force, remembered for a second.

Authority. A key is what the database says it is. What was read there is believed for FRESH_SECONDS, counted from before
the question was sent; so a key is looked up about once a second, however many requests come with it. The operation that
revokes a key waits as long before answering: once the answer is there, no server takes the key any more, whatever
messages were lost on the way. A server that was paused asks anew, since its memory has gone stale by then.

Lookups that come together are one statement, and only one is under way at a time: a flood of made-up keys costs the
database one statement after the other, not one each.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import time
from collections.abc import Callable, Mapping
from uuid import UUID

import msgspec

from rota.domain.rights import Identity
from rota.errors import RotaError
from rota.service import Service
from rota.store.access.api_keys import ApiKeys, KnownCredential
from rota.telemetry import get_logger

FRESH_SECONDS = 1.0
_MOST_REMEMBERED = 10_000
KEY_PREFIX = "rota_"
SESSION_PREFIX = "rotasession_"
_PREFIX_BYTES = 5
_SECRET_BYTES = 32
_log = get_logger("keyring")


class Secret(msgspec.Struct, frozen=True):
    """A new key's text, which is shown once, and what is kept of it."""

    text: str
    prefix: str
    hash: bytes


def make_secret(kind: str = KEY_PREFIX) -> Secret:
    """A new one: what it is, what to find it by, and 256 random bits."""
    prefix = kind + secrets.token_hex(_PREFIX_BYTES)
    text = f"{prefix}_{secrets.token_urlsafe(_SECRET_BYTES)}"
    return Secret(text, prefix, digest(text))


def digest(text: str) -> bytes:
    """What is kept of a secret."""
    return hashlib.sha256(text.encode()).digest()


class _Remembered(msgspec.Struct, frozen=True):
    known: KnownCredential
    asked_at: float


class CredentialCache(Service):
    """Knows who a key or a session stands for; one tick is one lookup for all that wait."""

    interval_seconds = None
    full_round = 1

    def __init__(self, keys: ApiKeys, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._keys = keys
        self._monotonic = monotonic
        self._remembered: dict[bytes, _Remembered] = {}
        self._wanted: dict[bytes, asyncio.Future[KnownCredential | None]] = {}
        self._used: set[UUID] = set()

    async def identify(self, text: str, *, authorities: Mapping[str, bytes]) -> Identity | None:
        """Who this is; None for an unknown or ended credential. A session of the admin token or a JWT needs the
        authority it was made under."""
        key = digest(text)
        remembered = self._remembered.get(key)
        if remembered is not None and self._monotonic() - remembered.asked_at < FRESH_SECONDS:
            known: KnownCredential | None = remembered.known
        else:
            known = await self._find(key)
        if known is None:
            return None
        if known.authority is not None and known.authority != authorities.get(known.identity.kind):
            return None
        return known.identity

    def forget(self) -> None:
        """Asks anew about everything."""
        self._remembered.clear()

    async def _find(self, key: bytes) -> KnownCredential | None:
        if (waiting := self._wanted.get(key)) is None:
            waiting = self._wanted[key] = asyncio.get_running_loop().create_future()
            # Those who waited may have hung up by the time the database fails to answer.
            waiting.add_done_callback(lambda done: done.cancelled() or done.exception())
            self.wake()
        return await asyncio.shield(waiting)

    async def tick(self) -> int:
        """Looks up all credentials that are waited for; while none is, notes which keys were used."""
        wanted, self._wanted = self._wanted, {}
        if wanted:
            await self._look_up(wanted)
        if self._used and not self._wanted:
            await self._note_use()
        return len(wanted)

    async def _look_up(self, wanted: dict[bytes, asyncio.Future[KnownCredential | None]]) -> None:
        asked_at = self._monotonic()
        try:
            found = await self._keys.find(list(wanted))
        except Exception as error:  # noqa: BLE001 - raised in every request that waits for it
            for waiting in wanted.values():
                waiting.set_exception(error)
            return
        if len(self._remembered) + len(found) > _MOST_REMEMBERED:
            self._remembered.clear()
        for key, waiting in wanted.items():
            known = found.get(key)
            if known is None:
                self._remembered.pop(key, None)
            else:
                self._remembered[key] = _Remembered(known, asked_at)
                if known.unused:
                    self._used |= {known.id, known.identity.key_id or known.id}
            waiting.set_result(known)

    async def _note_use(self) -> None:
        used, self._used = self._used, set()
        try:
            await self._keys.note_use(list(used))
        except RotaError as error:
            _log.warning("could not note that keys were used", error=str(error))
