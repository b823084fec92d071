"""The base of every loop in every process.

`tick()` does one round and returns how much it did; tests await it. The loop repeats at once after a full round, else
after `interval_seconds` with a little jitter (so that a fleet does not run in step), or when woken. A service without
an interval runs only when woken, and again soon after a round that failed.

No exception ends the loop: the error is logged once per outage, and the next round starts from what the database says.
If something that a round waits for is cancelled, the loop continues; it ends only when the loop itself is cancelled.

A process is a `ServiceGroup`: it starts its services together and closes them in reverse order.
"""

from __future__ import annotations

import asyncio
import random
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext, suppress
from types import TracebackType
from typing import Self, TypeVar
from weakref import WeakKeyDictionary

from rota.errors import DatabaseUnavailableError, OverloadedError
from rota.fair_turns import FairTurns
from rota.telemetry import get_logger
from rota.time_limits import time_limit

AGAIN_SECONDS = 0.2  # after a failed round of a service that has no interval
LONGEST_STRETCH_SECONDS = 0.005  # of a computation on the event loop
_COSTLY_BYTES = 8 * 1024  # of JSON take about that long, whatever is in it
_LONGEST_WAIT_SECONDS = 30.0  # for a turn
_CHEAP_STEP: AbstractAsyncContextManager[None] = nullcontext()
_log = get_logger("service")
Item = TypeVar("Item")


class Service(ABC):
    """A loop around `tick()`."""

    interval_seconds: float | None = 1.0  # None: only when woken
    jitter: float = 0.1  # share of the pause; 0 for heartbeats
    # If a round did at least this much, the next follows at once; 0: after every successful round; None: never.
    full_round: int | None = None

    def __init__(self) -> None:
        self._woken = asyncio.Event()
        self._failure: str | None = None  # of the last round

    @property
    def name(self) -> str:
        """The name in logs and of the asyncio task."""
        return type(self).__name__.lower()

    @property
    def pause_seconds(self) -> float | None:
        """The pause before the next round unless woken; None: until woken."""
        return self.interval_seconds

    async def open(self) -> None:  # noqa: B027 - most services need none
        """Prepares what the rounds need; called before the first round, until it succeeds."""

    @abstractmethod
    async def tick(self) -> int:
        """One round; returns how many things it did."""

    async def close(self) -> None:  # noqa: B027 - most services need none
        """Undoes `open`; called once, when the loop ends."""

    def wake(self) -> None:
        """Makes the next round start now."""
        self._woken.set()

    async def catch_up(self) -> int:
        """Ticks until there is nothing left to do now; returns how many things were done."""
        done = 0
        while True:
            self._woken.clear()
            step = await self.tick()
            done += step
            if not self._woken.is_set() and (self.full_round is None or step < self.full_round):
                return done

    async def run(self) -> None:
        """Ticks until cancelled."""
        try:
            while await self._guarded(self.open) is None and not is_cancelled():
                await self._rest()
            while not is_cancelled():
                self._woken.clear()
                done = await self._guarded(self.tick)
                if done is None or self.full_round is None or done < self.full_round:
                    await self._rest()
        finally:
            await self._guarded(self.close)

    async def _rest(self) -> None:
        if is_cancelled():
            return  # a round has swallowed it
        try:
            pause = self.pause_seconds
        except Exception as error:  # noqa: BLE001 - a fault in there must not end the loop either
            self._note_failure(error)
            pause = None
        if pause is None and self._failure is not None:
            pause = AGAIN_SECONDS
        if pause is None:
            await self._woken.wait()
            return
        pause *= 1 + random.uniform(-self.jitter, self.jitter)  # noqa: S311 - spreads load
        with suppress(TimeoutError):
            # Not wait_for: before 3.12 it swallows a cancellation that arrives just as the wait ends.
            async with time_limit(pause):
                await self._woken.wait()

    async def _guarded(self, step: Callable[[], Awaitable[int | None]]) -> int | None:
        """Returns what the step did; None if it failed. A repeated failure is logged once."""
        try:
            done = await step() or 0
        except DatabaseUnavailableError as error:
            if self._failure is None:
                _log.warning("the database is out of reach; trying again", service=self.name, error=str(error))
            self._failure = DatabaseUnavailableError.__name__
            return None
        except asyncio.CancelledError as error:
            if is_cancelled():
                raise
            self._note_failure(error)
            return None
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the loop must survive a failed round
            self._note_failure(error)
            return None
        if self._failure is not None:
            _log.info("works again", service=self.name)
        self._failure = None
        return done

    def _note_failure(self, error: BaseException) -> None:
        try:
            failure = f"{type(error).__name__}: {error}"
        except Exception:  # noqa: BLE001 - even an error that can't be shown is one that the loop survives
            failure = type(error).__name__
        if failure != self._failure:
            _log.error("a round failed; the next one starts afresh", service=self.name, exc_info=error)
        self._failure = failure


def is_cancelled() -> bool:
    """Whether this task itself is cancelled, and not only something that it waits for."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


class Breather:
    """Lets everything else on the event loop go on during a long computation that is made in small steps.

    Of all long computations one makes a step at a time, and tenants take turns: others wait for one step, not for one
    of each.
    """

    def __init__(self) -> None:
        self._rested_at = time.monotonic()

    async def breathe(self) -> None:
        """Between two steps."""
        if time.monotonic() - self._rested_at > LONGEST_STRETCH_SECONDS:
            await asyncio.sleep(0)
            turns = await _take_turn()
            asyncio.get_running_loop().call_soon(turns.give_back)  # runs when this step is over
            self._rested_at = time.monotonic()


def is_costly(size_bytes: int) -> bool:
    """Whether reading so much JSON keeps everything else waiting for long."""
    return size_bytes > _COSTLY_BYTES


def costly_step(size_bytes: int) -> AbstractAsyncContextManager[None]:
    """Wraps the reading of so much JSON, which can't be made in smaller steps. It waits for a turn if that is much."""
    return _costly_step() if is_costly(size_bytes) else _CHEAP_STEP


@asynccontextmanager
async def _costly_step() -> AsyncIterator[None]:
    turns = await _take_turn()
    began = time.monotonic()
    try:
        yield
    finally:
        took = time.monotonic() - began
        if took > LONGEST_STRETCH_SECONDS:
            # The next such step waits as long as this one took: half of the time is for everything else.
            asyncio.get_running_loop().call_later(took, turns.give_back)
        else:
            turns.give_back()


_turns_of: WeakKeyDictionary[asyncio.AbstractEventLoop, FairTurns] = WeakKeyDictionary()


async def _take_turn() -> FairTurns:
    turns = _turns_of.setdefault(asyncio.get_running_loop(), FairTurns(1))
    try:
        await turns.take(_LONGEST_WAIT_SECONDS)
    except TimeoutError:
        raise OverloadedError("too many large requests are being read; try again in a moment") from None
    return turns


async def in_turns(items: Iterable[Item]) -> AsyncIterator[Item]:
    """The items, with time for the rest of the event loop between them.

    Heartbeats run on the same loop: a round that computes for seconds would cost the process its leases.
    """
    breather = Breather()
    for item in items:
        await breather.breathe()
        yield item


class ServiceGroup:
    """Services that run together: started in order, each in its own task, and closed in reverse."""

    def __init__(self, services: Iterable[Service] = ()) -> None:
        self._services = list(services)
        self._tasks: dict[Service, asyncio.Task[None]] = {}
        self._running = False

    @property
    def services(self) -> tuple[Service, ...]:
        return tuple(self._services)

    def add(self, service: Service) -> None:
        """Adds a service; it starts with the others, or now if they run."""
        self._services.append(service)
        if self._running:
            self._start(service)

    async def stop(self, service: Service) -> None:
        """Stops and removes one service."""
        if service in self._services:
            self._services.remove(service)
        await self._end(service)

    async def run(self) -> None:
        async with self:
            await asyncio.get_running_loop().create_future()

    async def __aenter__(self) -> Self:
        self._running = True
        for service in self._services:
            self._start(service)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._running = False
        for service in reversed(self.services):
            await self._end(service)

    def _start(self, service: Service) -> None:
        self._tasks[service] = asyncio.get_running_loop().create_task(service.run(), name=service.name)

    async def _end(self, service: Service) -> None:
        if task := self._tasks.pop(service, None):
            task.cancel()
            await asyncio.wait({task})
