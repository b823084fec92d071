"""Valid keys and sessions, cached for a second.

The database has the authority. An entry is used for FRESH_SECONDS, counted from before the lookup was sent, so a key is
looked up about once a second at any load. Revoking a key takes as long before it is answered: from then on no server
accepts the key, whatever messages were lost. A server that was paused looks up again, as its entries are stale by then.

Concurrent lookups share one statement, and one statement runs at a time: a flood of made-up keys does not flood the
database.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple
from uuid import UUID

import msgspec

from rota.domain.rights import Identity
from rota.errors import DatabaseUnavailableError, RotaError
from rota.service import Service
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


class CredentialCache(Service):
    """Knows the identity of a key or session; one tick is one lookup for all that wait."""

    interval_seconds = None
    full_round = 1

    def __init__(self, keys: ApiKeys, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._keys = keys
        self._monotonic = monotonic
        self._remembered: dict[bytes, Belief] = {}
        self._wanted: dict[bytes, asyncio.Future[Belief | None]] = {}
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
            belief = await self._find(key)
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

    async def _find(self, key: bytes) -> Belief | None:
        if (waiting := self._wanted.get(key)) is None:
            waiting = self._wanted[key] = asyncio.get_running_loop().create_future()
            # No request may be left to see the exception.
            waiting.add_done_callback(lambda done: done.cancelled() or done.exception())
            self.wake()
        return await asyncio.shield(waiting)

    async def tick(self) -> int:
        """Looks up all credentials that are waited for; when there are none, records which keys were used."""
        wanted, self._wanted = self._wanted, {}
        if wanted:
            await self._look_up(wanted)
        if self._used and not self._wanted:
            await self._note_use()
        return len(wanted)

    async def _look_up(self, wanted: dict[bytes, asyncio.Future[Belief | None]]) -> None:
        asked_at = self._monotonic()
        # If the lookup is cancelled, waiting requests get this error, so that none waits for ever.
        failure: Exception | None = DatabaseUnavailableError("the server was stopped while it looked up a key")
        try:
            found = await self._keys.find(list(wanted))
            failure = None
        except Exception as error:  # noqa: BLE001 - raised in every request that waits for it
            failure = error
            return
        finally:
            if failure is not None:
                for waiting in wanted.values():
                    waiting.set_exception(failure)
        if len(self._remembered) + len(found) > _MOST_REMEMBERED:
            self._remembered.clear()
        for key, waiting in wanted.items():
            known = found.get(key)
            belief = None
            if known is None:
                self._remembered.pop(key, None)
            else:
                belief = self._remembered[key] = Belief(key, known, asked_at)
                if known.unused:
                    self._used |= {known.id, known.identity.key_id or known.id}
            waiting.set_result(belief)

    async def _note_use(self) -> None:
        used, self._used = self._used, set()
        try:
            await self._keys.note_use(list(used))
        except RotaError as error:
            _log.warning("could not record that keys were used", error=str(error))
