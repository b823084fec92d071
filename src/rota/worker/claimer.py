"""Claiming: as much as there is room for, and the broker's records compared with what the worker holds."""

from __future__ import annotations

import asyncio

from rota.errors import DatabaseUnavailableError
from rota.service import Service
from rota.telemetry import get_logger
from rota.worker.slots import Slots

_log = get_logger("worker")


class Claimer(Service):
    """Claims when it is woken: there may be work, or there is room again."""

    interval_seconds = None

    def __init__(self, slots: Slots, *, stalled_seconds: float) -> None:
        super().__init__()
        self._slots = slots
        self._lease = slots.lease
        self._broker = slots.broker
        self._stalled_seconds = stalled_seconds
        self._turned_at = slots.monotonic()
        self._unanswered = False
        # A claim whose answer is under way would look lost to a comparison, and be forgotten by a drain.
        self._claiming = asyncio.Lock()

    async def tick(self) -> int:
        """Claims once; returns how many runs."""
        self._turned_at = self._slots.monotonic()
        if self._unanswered:
            self._unanswered = False
            await self.reconcile()
        room = self._slots.room()
        if not room or not self._lease.is_kept or self._slots.draining or not self._slots.clock.is_set:
            return 0
        async with self._claiming:
            if self._slots.draining:
                return 0
            worker_id, self._unanswered = self._lease.worker_id, True
            claims = await self._broker.claim(room)
            self._unanswered = False
            if self._lease.worker_id != worker_id:
                return 0  # the worker was declared lost meanwhile: others have them
            self._slots.take(claims)
        if len(claims) >= room:
            self.wake()
        return len(claims)

    async def reconcile(self) -> None:
        """Hands back what is claimed in our name and we do not hold: the answer to a claim was lost."""
        async with self._claiming:
            try:
                await self._broker.reconcile(self._slots.held)
            except DatabaseUnavailableError as error:
                _log.debug("could not reconcile", error=str(error))

    async def release_waiting(self) -> None:
        """Hands back what has not started, when no claim is under way any more."""
        async with self._claiming:
            self._slots.release_waiting()

    def stalled_for(self) -> float:
        """For how long it has not turned; 0 when it has no reason to, or has turned of late."""
        silent = self._slots.monotonic() - self._turned_at
        may_rest = self._slots.draining or not self._lease.is_kept
        return 0.0 if may_rest or silent < self._stalled_seconds / 2 else silent

    @property
    def is_stalled(self) -> bool:
        """Whether it will not turn again by itself."""
        return self.stalled_for() > self._stalled_seconds
