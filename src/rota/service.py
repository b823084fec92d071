"""The one shape of every service: constants, `tick()`, and a loop that this base owns.

`tick()` does one round and returns how much it did; tests await it. The loop repeats at once while a round was full,
else after `interval` with a little jitter (so that a fleet does not move in step), or when woken. An error ends the
round, is logged, and the loop goes on: the next round starts from what the database says.
"""

from __future__ import annotations

import asyncio
import random
from abc import ABC, abstractmethod
from contextlib import suppress

from rota.errors import DatabaseUnavailableError
from rota.telemetry import get_logger

JITTER = 0.1
_log = get_logger("service")


class Service(ABC):
    """A loop around `tick()`."""

    interval_seconds: float = 1.0
    full_round: int | None = None

    def __init__(self) -> None:
        self._woken = asyncio.Event()
        self._broken = False

    @property
    def name(self) -> str:
        """As it appears in logs and task names."""
        return type(self).__name__.lower()

    @property
    def pause_seconds(self) -> float:
        """How long to wait for the next round, if nobody wakes us."""
        return self.interval_seconds

    @abstractmethod
    async def tick(self) -> int:
        """One round; returns how many things it did."""

    def wake(self) -> None:
        """Makes the next round start now."""
        self._woken.set()

    async def catch_up(self) -> int:
        """Rounds until nothing more is to be done at this moment; returns how many things were done."""
        done = 0
        while True:
            self._woken.clear()
            step = await self.tick()
            done += step
            if not self._woken.is_set() and (self.full_round is None or step < self.full_round):
                return done

    async def run(self) -> None:
        """Ticks until cancelled."""
        while True:
            self._woken.clear()
            done = await self._guarded_tick()
            if self.full_round is not None and done >= self.full_round:
                continue
            pause = self.pause_seconds * (1 + random.uniform(-JITTER, JITTER))  # noqa: S311 - spreads load
            with suppress(TimeoutError):
                # Not wait_for: where the wait ends just then, it would swallow a cancellation (before Python 3.12).
                async with asyncio.timeout(pause):
                    await self._woken.wait()

    async def _guarded_tick(self) -> int:
        try:
            done = await self.tick()
        except DatabaseUnavailableError as error:
            if not self._broken:
                _log.warning("the database is out of reach; trying again", service=self.name, error=str(error))
            self._broken = True
            return 0
        except Exception:  # noqa: BLE001 - the loop must outlive a round that failed; it is logged whole
            _log.exception("a round failed; the next one starts afresh", service=self.name)
            return 0
        if self._broken:
            _log.info("the database is back", service=self.name)
        self._broken = False
        return done
