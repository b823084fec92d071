"""The claimer: claims as many runs as there is room for, and reconciles with the broker's records."""

from __future__ import annotations

import asyncio

from rota.errors import DatabaseUnavailableError
from rota.service import Service
from rota.telemetry import get_logger
from rota.worker.slots import Slots

_log = get_logger("worker")


class Claimer(Service):
    """Claims when woken, because there may be work or there is room again."""

    interval_seconds = None

    def __init__(self, slots: Slots, *, stalled_seconds: float) -> None:
        super().__init__()
        self._slots = slots
        self._lease = slots.lease
        self._broker = slots.broker
        self._stalled_seconds = stalled_seconds
        self._turned_at = slots.monotonic()
        self._unanswered = False
        # Reconciling or draining while a claim is in flight would miss its runs.
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
                return 0  # declared lost meanwhile: other workers get these runs
            self._slots.take(claims)
        if len(claims) >= room:
            self.wake()
        return len(claims)

    async def reconcile(self) -> None:
        """Releases runs claimed in our name that we don't hold because the answer to a claim was lost."""
        async with self._claiming:
            try:
                await self._broker.reconcile(self._slots.held)
            except DatabaseUnavailableError as error:
                _log.debug("could not reconcile", error=str(error))

    async def release_waiting(self) -> None:
        """Releases runs that have not started, once no claim is in flight."""
        async with self._claiming:
            self._slots.release_waiting()

    def stalled_for(self) -> float:
        """Seconds since the last round; 0 if that was recent or there is no reason for one."""
        silent = self._slots.monotonic() - self._turned_at
        is_idle = self._slots.draining or not self._lease.is_kept
        return 0.0 if is_idle or silent < self._stalled_seconds / 2 else silent

    @property
    def is_stalled(self) -> bool:
        """Whether the loop hangs and the worker needs a restart."""
        return self.stalled_for() > self._stalled_seconds
