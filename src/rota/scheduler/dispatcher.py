"""The dispatcher: sends events to destinations.

One scheduler, the owner of SWEEPING_SHARD, does it for the whole installation. For every destination a position says
up to which event its deliveries are made. Events count in the order of their numbers, and none before it is certain
that no lower one can still appear (store/events/settled.py). One statement makes the deliveries of some events and
moves the position, if that is where it was read; so an event becomes a delivery once, however often its maker dies.

Sending. A destination is claimed before anything is sent to it: the claim needs the shard at its present epoch, ends by
itself, and has a number that every record names. What is sent and not recorded, because the process died in between, is
sent again under the same message id. So each event arrives at least once, and receivers tell repeats by the id.

Order. Messages of a destination go one after the other, in the order of events. One that fails is tried again later,
and the next one goes before it; when two in a row fail, the destination as a whole rests. When it answers again,
everything that waits is sent at once, again in order.

Isolation. Every destination is served by a task of its own with a time limit on every step, so a slow or broken one
delays no other. At most WINDOW deliveries of a destination wait; behind that its position stays, and events wait in
their table.

While nothing happens this service sleeps: it is woken when events are recorded, and looks for itself every few seconds,
or seldom where there are no destinations.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

from rota.destinations.attempts import DeliveryAttempt
from rota.destinations.messages import message_of
from rota.destinations.sender import EventSender
from rota.domain.events import Subscription
from rota.errors import DatabaseUnavailableError
from rota.scheduler.set_aside import SetAside
from rota.scheduler.shard_service import AWAKE_SECONDS, ShardService
from rota.scheduler.sweeper import SWEEPING_SHARD
from rota.store.deliver import Deliveries
from rota.store.events import Events
from rota.store.events.settled import EVENTS_PER_PAGE, SettledEvents
from rota.telemetry import get_logger

WINDOW = 500  # deliveries of a destination that wait
GIVE_UP_SECONDS = 3 * 86400.0
_PER_ROUND = 20  # messages to one destination before others that wait for a task get their turn
_MOST_AT_ONCE = 32  # destinations
_FAILURES_IN_A_ROW = 2
_FIRST_RETRY_SECONDS = 5.0
_LONGEST_RETRY_SECONDS = 900.0
_IDLE_SECONDS = 4.5
_DEAF_SECONDS = 1.0  # where wake-ups can't be heard
_UNUSED_SECONDS = 30.0  # without destinations
_CLOSE_SECONDS = 5.0
_log = get_logger("destinations")


class Dispatcher(ShardService):
    """Turns events into deliveries and sends them, in the scheduler that owns SWEEPING_SHARD."""

    interval_seconds = 0.25

    def __init__(
        self,
        *,
        deliveries: Deliveries,
        events: Events,
        sender: EventSender,
        is_listening: Callable[[], bool],
        **shared: Any,
    ) -> None:
        super().__init__(**shared)
        self._deliveries = deliveries
        self._settled = SettledEvents(events)
        self._sender = sender
        self._is_listening = is_listening
        self._epoch: int | None = None  # of the shard, while it is ours
        self._sending: dict[UUID, asyncio.Task[None]] = {}
        self._aside = SetAside("a destination can't be served and is set aside")
        self._next_look = _UNUSED_SECONDS

    @property
    def pause_seconds(self) -> float:
        """Short for a while after a wake-up: one is told for all that is recorded within half of that time."""
        is_awake = time.monotonic() < self._roused_at + AWAKE_SECONDS or self._settled.waits
        return self.interval_seconds if is_awake else self._next_look

    async def serve(self, owned: Mapping[int, int]) -> int:
        """Returns how many deliveries were made."""
        epoch = owned.get(SWEEPING_SHARD)
        if epoch is None:
            self._epoch, self._next_look = None, _IDLE_SECONDS
            return 0
        destinations = await self._deliveries.at_work()
        if not destinations:
            self._epoch, self._next_look = None, _UNUSED_SECONDS
            return 0
        if epoch != self._epoch:
            await self._settled.begin()
            self._epoch = epoch
        else:
            await self._settled.skip()
        made = await self._make_all(destinations)
        if made:
            destinations = await self._deliveries.at_work()
        self._start_sending(destinations, epoch)
        self._next_look = self._look_in(destinations)
        return made

    async def close(self) -> None:
        """Lets what is being sent come to its end, or it would be sent again."""
        await super().close()
        if self._sending:
            _, late = await asyncio.wait(self._sending.values(), timeout=_CLOSE_SECONDS)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    async def _make_all(self, destinations: list[Any]) -> int:
        made = 0
        self._aside.begin()
        for row in destinations:
            if self._aside.passes_over(row["id"]):
                continue
            try:
                made += await self._make(row)
            except DatabaseUnavailableError:
                raise
            except Exception as error:  # noqa: BLE001 - one bad destination must not stop the others
                self._aside.add(row["id"], error, destination=row["name"], namespace=row["namespace"])
        return made

    async def _make(self, row: Any) -> int:
        """Gives a destination the events behind its position, as far as they are settled and it has room."""
        wanted = Subscription(row["namespace"], row["name"], row["kinds"], row["least_severity"])
        position, room, made = row["position"], WINDOW - row["pending"], 0
        while position < self._settled.position and room > 0:
            events = await self._deliveries.events(position, self._settled.position, EVENTS_PER_PAGE)
            chosen = [event["id"] for event in events if wanted.wants(event)]
            last = events[-1]["id"] if len(events) == EVENTS_PER_PAGE else self._settled.position
            if len(chosen) > room:
                chosen = chosen[:room]
                last = chosen[-1]
            made += await self._deliveries.make(row["id"], chosen, read_at=position, position=last)
            position, room = last, room - len(chosen)
        return made

    def _start_sending(self, destinations: list[Any], epoch: int) -> None:
        for row in sorted(destinations, key=lambda row: row["due_in"] or 0.0):
            is_due = row["due_in"] is not None and row["due_in"] <= 0
            if is_due and row["id"] not in self._sending and len(self._sending) < _MOST_AT_ONCE:
                task = asyncio.create_task(self._serve_one(row["id"], row["name"], epoch), name=f"to {row['name']}")
                self._sending[row["id"]] = task

    async def _serve_one(self, destination_id: UUID, name: str, epoch: int) -> None:
        """Sends some of what waits for a destination."""
        try:
            claimed = await self._deliveries.claim(destination_id, SWEEPING_SHARD, epoch)
            if claimed is not None:
                await self._send_some(claimed, epoch)
        except DatabaseUnavailableError as error:
            _log.debug("the database is out of reach; sending again later", destination=name, error=str(error))
        except Exception as error:  # noqa: BLE001 - logged without words of others, which may show an address
            _log.error("sending failed and is tried again", destination=name, error=type(error).__name__)
        finally:
            del self._sending[destination_id]
            self.wake()  # there may be more

    async def _send_some(self, claimed: Any, epoch: int) -> None:
        failed_in_a_row = 0
        for row in await self._deliveries.due(claimed["id"], _PER_ROUND):
            if self._leases.owned.get(SWEEPING_SHARD) != epoch:
                break  # another scheduler sends now
            attempt = await self._attempt(claimed, row)
            failed_in_a_row = 0 if attempt.is_delivered else failed_in_a_row + 1
            if not await self._record(claimed, row, attempt):
                return
            if failed_in_a_row == _FAILURES_IN_A_ROW:
                break
        failures = claimed["failures"] + 1 if failed_in_a_row else 0
        delay = backoff_seconds(failures) if failures else 0.0
        await self._deliveries.release(claimed, failures=failures, delay_seconds=delay)

    async def _attempt(self, claimed: Any, row: Any) -> DeliveryAttempt:
        if row["kind"] is None:
            return DeliveryAttempt(error="the event is no longer kept")
        return await self._sender.send(claimed, message_of(claimed["id"], row))

    async def _record(self, claimed: Any, row: Any, attempt: DeliveryAttempt) -> bool:
        is_over = attempt.is_delivered or row["kind"] is None or row["age"] > GIVE_UP_SECONDS
        if is_over and not attempt.is_delivered:
            _log.warning("a message is given up", destination=claimed["name"], event_id=row["id"], error=attempt.error)
        return await self._deliveries.record(
            claimed,
            row["id"],
            answer=attempt.answer,
            error=attempt.error,
            delay_seconds=None if is_over else backoff_seconds(row["attempts"] + 1),
        )

    def _look_in(self, destinations: list[Any]) -> float:
        """Seconds until the next look: when something is due, at the latest after the usual pause."""
        usual = _IDLE_SECONDS if self._is_listening() else _DEAF_SECONDS
        waiting = (
            row["due_in"] for row in destinations if row["due_in"] is not None and row["id"] not in self._sending
        )
        soonest: float = min([usual, *waiting])
        return max(self.interval_seconds, soonest)


def backoff_seconds(failures: int) -> float:
    """The pause after this many failures: doubled each time, up to a quarter of an hour, and never in step."""
    pause: float = min(_FIRST_RETRY_SECONDS * 2 ** min(failures - 1, 20), _LONGEST_RETRY_SECONDS)
    return pause * random.uniform(0.8, 1.2)  # noqa: S311 - spreads load
