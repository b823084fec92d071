"""Wake-ups: who may have something to do after a commit, told by NOTIFY in a transaction of its own.

One that is alone goes at once; those that come in quick succession are gathered and sent together, once per tick. One
that can't be sent is dropped: receivers also poll.

Ends of runs are told only while clients wait for some (AWAITED), so they cost nothing otherwise. Every session of the
database can listen, so an announcement doesn't name its runs: it carries marks, which only help those who know the run.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from hashlib import blake2b
from uuid import UUID

from rota.errors import DatabaseUnavailableError
from rota.fair_turns import OURSELVES, act_for
from rota.telemetry import get_logger

READY = "rota_ready"  # payload: the pool in which runs became ready
WORKER = "rota_worker"  # payload: the id of the worker that is asked something; empty: all of them
GATE = "rota_gate"  # payload: empty; a run came to its gates, or one with policies left its place
FLOW = "rota_flow"  # payload: empty; the run of a node ended, or a workflow run is to be looked at
SCHEDULE = "rota_schedule"  # payload: empty; a job was made or changed, or a run was given back
AWAITED = "rota_awaited"  # payload: "now"; clients wait for runs: for a while, tell when some end
ENDED = "rota_ended"  # payload: the marks of runs that ended, with spaces between; empty: look which ones
TASKS = "rota_tasks"  # payload: empty; a worker joined that may have announced other tasks
EVENTS = "rota_events"  # payload: empty; events were recorded, or destinations changed
# How long ends are told after the last AWAITED. Servers repeat it in less than half the time while clients wait.
AWAITED_SECONDS = 3.0
MOST_MARKS = 100  # in one announcement; to look is cheaper then, and a payload has its limit
ARCHIVE = "archive"  # payload of SCHEDULE: a day is to be archived or restored, and nothing else
SOON = "soon"  # payload of SCHEDULE: a run was made that is due in a moment, and nothing else
# Schedulers that sleep look at what comes up at least this often: a run that is due later needs no wake-up.
SOON_SECONDS = 10.0
_SOON_PAUSE_SECONDS = 0.5  # one that hears of it stays awake for longer (scheduler/shard_service.py)
_EVENTS_PAUSE_SECONDS = 0.5  # likewise (scheduler/dispatcher.py)
_TICK_SECONDS = 0.005
# Within this time a second wake-up makes a crowd, which is gathered for a whole tick.
_ALONE_SECONDS = 0.002
_MARK_BYTES = 8
_log = get_logger("wakeups")


class WakeUps:
    """Gathers wake-ups and sends them together."""

    _awaited_until = -math.inf

    def __init__(self, notify: Callable[[str, Sequence[str]], Awaitable[None]], *, enabled: bool) -> None:
        self._notify = notify
        self._enabled = enabled
        self._pending: dict[str, set[str]] = defaultdict(set)
        self._asked = 0  # how many are gathered in `_pending`
        self._sending: asyncio.Task[None] | None = None
        self._told_soon_at = -math.inf
        self._told_events_at = -math.inf

    @property
    def ends_are_awaited(self) -> bool:
        """Whether to tell of ends."""
        return time.monotonic() < self._awaited_until

    def note_awaited(self) -> None:
        """Clients wait for runs: ends are told for a while."""
        self._awaited_until = time.monotonic() + AWAITED_SECONDS

    def __call__(
        self,
        *,
        pools: Iterable[str] = (),
        workers: Iterable[UUID] = (),
        every_worker: bool = False,
        gates: bool = False,
        flows: bool = False,
        schedules: bool = False,
        awaited: bool = False,
        ended: Collection[tuple[str, UUID]] = (),
        soon: bool = False,
        tasks: bool = False,
        events: bool = False,
        archive: bool = False,
    ) -> None:
        """Wakes workers of these pools, these workers, schedulers for gates, workflows, schedules or runs that are
        due within SOON_SECONDS, processes that end runs, those that wait for these runs (each with its namespace),
        those that know announced tasks, the one that sends events, or those that archive, within a tick."""
        if not self._enabled:
            return
        told = False
        for channel, payloads in (
            (READY, set(pools)),
            (WORKER, {*map(str, workers), *([""] if every_worker else ())}),
            (GATE, {""} if gates else set()),
            (FLOW, {""} if flows else set()),
            (SCHEDULE, {""} if schedules else set()),
            (SCHEDULE, {SOON} if soon and self._must_tell_soon() else set()),
            (SCHEDULE, {ARCHIVE} if archive else set()),
            (AWAITED, {"now"} if awaited else set()),
            (ENDED, _marks(ended)),
            (TASKS, {""} if tasks else set()),
            (EVENTS, {""} if events and self._must_tell_events() else set()),
        ):
            if payloads:
                self._pending[channel] |= payloads
                told = True
        self._asked += told
        if told and (self._sending is None or self._sending.done()):
            self._sending = asyncio.create_task(self._send(), name="wakeups")

    def _must_tell_soon(self) -> bool:
        now = time.monotonic()
        if now < self._told_soon_at + _SOON_PAUSE_SECONDS:
            return False
        self._told_soon_at = now
        return True

    def _must_tell_events(self) -> bool:
        now = time.monotonic()
        if now < self._told_events_at + _EVENTS_PAUSE_SECONDS:
            return False
        self._told_events_at = now
        return True

    async def _send(self) -> None:
        act_for(OURSELVES)  # not for the tenant whose request came first: it sends for all of them
        while self._pending:
            pending, self._pending, self._asked = self._pending, defaultdict(set), 0
            for channel, payloads in pending.items():
                try:
                    await self._notify(channel, _joined(payloads) if channel == ENDED else sorted(payloads))
                except DatabaseUnavailableError as error:
                    _log.debug("wake-up not sent", channel=channel, error=str(error))
                except Exception:  # noqa: BLE001 - the others must not wait until the next one is asked for
                    _log.exception("wake-up not sent", channel=channel)
            await asyncio.sleep(_ALONE_SECONDS)
            if self._asked > 1:
                await asyncio.sleep(_TICK_SECONDS - _ALONE_SECONDS)


def mark_of(namespace: str, run_id: UUID) -> str:
    """What an announcement says of a run: nothing to those who don't know its id."""
    return blake2b(run_id.bytes + namespace.encode(), digest_size=_MARK_BYTES).hexdigest()


def _marks(ended: Collection[tuple[str, UUID]]) -> set[str]:
    return {mark_of(*run) for run in ended} if len(ended) <= MOST_MARKS else {""}


def _joined(marks: Collection[str]) -> list[str]:
    return [" ".join(sorted(marks)) if "" not in marks and len(marks) <= MOST_MARKS else ""]
