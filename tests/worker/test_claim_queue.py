"""The queue of claims starts nothing early, keeps the order, and lets go of what is taken out."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from uuid import uuid4

import pytest

from rota.clock import DatabaseClock
from rota.domain.run import Claim
from rota.worker.claim_queue import ClaimQueue
from support import eventually


def claim(ready_at: float, number: int = 1, priority: int = 0) -> Claim:
    return Claim("default", uuid4(), uuid4(), number, "t", priority, None, None, "{}", None, ready_at, ready_at, 0, 0)


class Due:
    """Takes out what is due, and remembers what came, and when."""

    def __init__(self, clock: DatabaseClock) -> None:
        self.clock = clock
        self.claims: list[Claim] = []
        self.early: list[float] = []
        self.queue = ClaimQueue(clock, self._take, time.monotonic)

    def _take(self) -> None:
        while self.queue.has_due:
            found = self.queue.next()
            early = found.ready - self.clock.now()
            if early > 0:
                self.early.append(early)
            self.claims.append(found)


async def test_nothing_leaves_early_and_the_order_is_that_of_time():
    clock = DatabaseClock()
    due = Due(clock)
    base = clock.now()
    claims = [claim(base + 0.001 * (n * 37 % 200), n) for n in range(200)]
    due.queue.add(claims)
    await eventually(lambda: len(due.claims) == 200)
    assert due.early == []
    assert [found.ready for found in due.claims] == sorted(found.ready for found in claims)
    assert len(due.queue) == 0


async def test_what_is_taken_out_does_not_leave_by_itself():
    clock = DatabaseClock()
    due = Due(clock)
    kept, taken = claim(clock.now() + 0.05, 1), claim(clock.now() + 0.02, 2)
    due.queue.add([kept, taken])
    assert due.queue.remove(2) is taken
    assert due.queue.remove(2) is None
    await eventually(lambda: due.claims)
    assert due.claims == [kept]


async def test_a_clock_that_jumps_forward_is_followed():
    clock = DatabaseClock()
    due = Due(clock)
    due.queue.add([claim(clock.now() + 3600)])
    now = time.monotonic()
    moment = datetime.fromtimestamp(clock.now() + 7200, UTC)
    clock.observe(sent=now, received=now, database_time=moment)
    clock.observe(sent=now, received=now, database_time=moment)
    await eventually(lambda: due.claims, within=5)


async def test_clearing_gives_back_everything_and_stops_the_timer():
    clock = DatabaseClock()
    due = Due(clock)
    due.queue.add([claim(clock.now() + 0.01, n) for n in range(5)])
    assert len(due.queue.clear()) == 5
    await asyncio.sleep(0.05)
    assert due.claims == []


@pytest.mark.parametrize(("in_turns", "order"), [(False, [3, 2, 1]), (True, [2, 1, 3])])
async def test_in_turns_what_became_due_earlier_goes_first_whatever_comes_later(in_turns, order):
    clock = DatabaseClock()
    moments = iter(range(100))
    queue = ClaimQueue(clock, lambda: None, lambda: float(next(moments)), in_turns=in_turns)
    now = clock.now()
    queue.add([claim(now - 1, 1), claim(now - 1, 2, priority=1)])
    queue.add([claim(now, 3, priority=2)])
    assert [queue.next().number for _ in range(3)] == order
