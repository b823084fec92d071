"""SAQ on Redis."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import uvloop
from redis import asyncio as redis
from saq import CronJob
from saq.queue.redis import RedisQueue

from bench.peers import tallies
from bench.peers.peer import Due, Peer, Variant, at_once, main, program, schedules_wanted, socket_path

IN_FLIGHT = 20
CONCURRENCY = 20
uvloop.install()
queue = RedisQueue(redis.from_url(f"unix://{socket_path()}"))


async def noop(_context: dict[str, Any]) -> None:
    """The task that is counted."""
    tallies.count()


async def started(_context: dict[str, Any], *, index: int, due: float) -> None:
    """The task that has a due time."""
    tallies.started(index, due)


def _each_second(index: int) -> CronJob[Any]:
    async def fired(_context: dict[str, Any]) -> None:
        tallies.fired(index)

    # A schedule is known by its function's name, so each needs a function of its own.
    fired.__qualname__ = f"fired-{index}"
    return CronJob(fired, cron="* * * * * *", ttl=-1)


settings = {
    "queue": queue,
    "functions": [noop, started],
    "concurrency": CONCURRENCY,
    "cron_jobs": [_each_second(index) for index in range(schedules_wanted())],
}


class SaqPeer(Peer):
    """Its command; many jobs at a time."""

    title = "SAQ"
    packages = ("saq", "redis", "hiredis")
    server = "redis"
    keeps = "nothing (ttl -1)"
    settings = (
        f"concurrency {CONCURRENCY}, ttl -1, uvloop; 20 submissions in flight (the default of its connection limit)"
    )
    notes: ClassVar = {
        "submit": "has no bulk submission",
        "delayed": "whole seconds; looks once a second",
    }

    def variants(self) -> list[Variant]:
        """One or two processes."""
        command = [program("saq"), "bench.peers.peer_saq.settings", "--quiet"]
        return [
            Variant(label=f"{count} x {CONCURRENCY} jobs", processes=count, commands=[command] * count)
            for count in (1, 2)
        ]

    async def open(self) -> None:
        """Connects."""
        await queue.connect()

    async def submit(self, count: int) -> None:
        """One by one, some in flight."""
        await at_once((queue.enqueue("noop", ttl=-1) for _ in range(count)), IN_FLIGHT)

    async def submit_at(self, dues: Sequence[Due]) -> None:
        """For whole seconds, rounded up so that it is never early by rounding."""
        await at_once(
            (queue.enqueue("started", index=index, due=due, ttl=-1, scheduled=math.ceil(due)) for index, due in dues),
            IN_FLIGHT,
        )


if __name__ == "__main__":
    main(SaqPeer())
