"""Wake-ups: who may have something to do after a commit, told by NOTIFY in a transaction of its own.

Each is sent at most once per tick, however often it is asked for. One that can't be sent is dropped: receivers also
poll.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from uuid import UUID

from rota.errors import DatabaseUnavailableError
from rota.fair_turns import OURSELVES, act_for
from rota.telemetry import get_logger

READY = "rota_ready"  # payload: the pool in which runs became ready
WORKER = "rota_worker"  # payload: the id of the worker that is asked something; empty: all of them
GATE = "rota_gate"  # payload: empty; a run came to its gates, or one with policies left its place
SCHEDULE = "rota_schedule"  # payload: empty; a job was made or changed, or a run was given back
_TICK_SECONDS = 0.005
_log = get_logger("wakeups")


class WakeUps:
    """Gathers wake-ups and sends them together."""

    def __init__(self, notify: Callable[[str, Sequence[str]], Awaitable[None]], *, enabled: bool) -> None:
        self._notify = notify
        self._enabled = enabled
        self._pending: dict[str, set[str]] = defaultdict(set)
        self._sending: asyncio.Task[None] | None = None

    def __call__(
        self,
        *,
        pools: Iterable[str] = (),
        workers: Iterable[UUID] = (),
        every_worker: bool = False,
        gates: bool = False,
        schedules: bool = False,
    ) -> None:
        """Wakes workers of these pools, these workers, or schedulers for gates or schedules, within a tick."""
        if not self._enabled:
            return
        for channel, payloads in (
            (READY, set(pools)),
            (WORKER, {*map(str, workers), *([""] if every_worker else ())}),
            (GATE, {""} if gates else set()),
            (SCHEDULE, {""} if schedules else set()),
        ):
            if payloads:
                self._pending[channel] |= payloads
        if self._pending and (self._sending is None or self._sending.done()):
            self._sending = asyncio.create_task(self._send(), name="wakeups")

    async def _send(self) -> None:
        act_for(OURSELVES)  # not for the tenant whose request came first: it sends for all of them
        while self._pending:
            pending, self._pending = self._pending, defaultdict(set)
            for channel, payloads in pending.items():
                try:
                    await self._notify(channel, sorted(payloads))
                except DatabaseUnavailableError as error:
                    _log.debug("wake-up not sent", channel=channel, error=str(error))
                except Exception:  # noqa: BLE001 - the others must not wait until the next one is asked for
                    _log.exception("wake-up not sent", channel=channel)
            await asyncio.sleep(_TICK_SECONDS)
