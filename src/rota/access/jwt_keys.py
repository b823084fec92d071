"""The keys that are known now, and when to look for others.

Verifying never waits while the key is known. Keys are looked at again every few minutes, so that one that was taken out
goes out of use here as well. A token that names an unknown key has them looked at sooner: a provider may have begun to
sign with a new one. Whoever makes up key ids gets no more out of this than one look every few seconds, shared by all
that wait for it; and only so many may wait.

A provider that is away leaves the known keys in use, for a day. Not for longer: whoever could keep us from the provider
could else keep a stolen key in use that was taken out there.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable

from rota.access.jwt_key_set import Key, KeysError, KeySet
from rota.access.jwt_sources import Source
from rota.errors import KeysUnavailableError
from rota.telemetry import get_logger

LOAD_SECONDS = 5.0
KEPT_SECONDS = 24 * 3600.0
MOST_WAITING = 100
JITTER = 0.1
_log = get_logger("identity")


class KeyRing:
    """Keys of one source."""

    def __init__(
        self,
        source: Source,
        *,
        load_seconds: float = LOAD_SECONDS,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._source = source
        self.origin = source.name
        self._load_seconds = load_seconds
        self._monotonic = monotonic
        self._keys: KeySet | None = None
        self._confirmed_at = float("-inf")
        self._looked_at = float("-inf")
        self._look_task: asyncio.Task[None] | None = None
        self._waiting = 0
        self._failing = False
        self._told: str | None = None

    @property
    def current(self) -> KeySet | None:
        """The keys to verify with: always the same object until they change. None when there are none to rely on."""
        if self._monotonic() - self._confirmed_at > KEPT_SECONDS:
            return None
        return self._keys

    async def find(self, key_id: str | None, algorithm: str) -> tuple[KeySet, Key] | None:
        """The key that fits, and the set it is from; None if there is none. Raises KeysUnavailableError."""
        keys = self.current
        if keys is None or not keys.knows(key_id):
            await self._look_for_unknown()
            keys = self.current
        if keys is None:
            raise KeysUnavailableError
        key = keys.find(key_id, algorithm)
        return None if key is None else (keys, key)

    async def run(self) -> None:
        """Looks at the keys again and again until cancelled."""
        while True:
            await self.tick()
            pause = self._source.retry_seconds if self._failing else self._source.pause_seconds
            await asyncio.sleep(pause * (1 + random.uniform(-JITTER, JITTER)))  # noqa: S311 - spreads load

    async def tick(self) -> None:
        """One look at the source, together with whoever waits for one."""
        if self._look_task is None:
            self._look_task = asyncio.create_task(self._look(), name="identity-keys")
            self._look_task.add_done_callback(self._looked)
        # Not awaited itself: who waits may be cancelled, and the others still want it.
        await asyncio.wait({self._look_task})

    async def close(self) -> None:
        """Ends a look that is under way."""
        if task := self._look_task:
            task.cancel()
            await asyncio.wait({task})

    async def _look_for_unknown(self) -> None:
        resting = self._monotonic() - self._looked_at < self._source.least_seconds
        if (self._look_task is None and resting) or self._waiting >= MOST_WAITING:
            return
        self._waiting += 1
        try:
            await self.tick()
        finally:
            self._waiting -= 1

    def _looked(self, _task: asyncio.Task[None]) -> None:
        self._look_task = None
        self._looked_at = self._monotonic()

    async def _look(self) -> None:
        try:
            async with asyncio.timeout(self._load_seconds):
                found = await self._source.load()
        except TimeoutError:
            self._fail(f"{self._source.name} did not answer within {self._load_seconds:g} s")
        except KeysError as error:
            self._fail(str(error))
        except Exception:  # noqa: BLE001 - whoever waits must not fail for it, nor the loop end; it is logged whole
            _log.exception("looking for keys failed", source=self._source.name)
            self._failing = True
        else:
            self._take(found)

    def _fail(self, error: str) -> None:
        self._failing = True
        outcome = "no token of the provider is accepted" if self.current is None else "the known ones stay in use"
        if outcome != self._told:
            _log.warning(f"keys for tokens can't be had; {outcome}", error=error)
        self._told = outcome

    def _take(self, found: KeySet | None) -> None:
        if self._told:
            _log.info("keys for tokens can be had again", source=self._source.name)
        self._failing = False
        self._told = None
        self._confirmed_at = self._monotonic()
        if found is None or found == self._keys:
            return
        self._keys = found
        level = _log.info if found.keys else _log.warning
        level("keys for tokens have changed", source=self._source.name, usable=len(found.keys))
