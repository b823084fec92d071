"""ARQ on Redis."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, ClassVar

import uvloop
from arq import ArqRedis, create_pool, cron
from arq.connections import RedisSettings

from bench.peers import tallies
from bench.peers.peer import Due, Peer, Variant, at_once, main, program, schedules_wanted, socket_path

IN_FLIGHT = 20
uvloop.install()
REDIS = RedisSettings(unix_socket_path=socket_path())


async def noop(_context: dict[str, Any]) -> None:
    """The task that is counted."""
    tallies.count()


async def started(_context: dict[str, Any], index: int, due: float) -> None:
    """The task that has a due time."""
    tallies.started(index, due)


def _each_second(index: int) -> Any:
    async def fired(_context: dict[str, Any]) -> None:
        tallies.fired(index)

    return cron(fired, name=f"every-{index}", second=set(range(60)), microsecond=0)


class WorkerSettings:
    """What the `arq` command reads."""

    functions: ClassVar = [noop, started]
    cron_jobs: ClassVar = [_each_second(index) for index in range(schedules_wanted())]
    redis_settings = REDIS
    max_jobs = 500
    poll_delay = 0.01
    keep_result = 0


LOGGING = {"version": 1, "disable_existing_loggers": False, "loggers": {"arq": {"level": "WARNING"}}}


class ArqPeer(Peer):
    """A worker takes what fits between two polls, so many jobs at a time and short polls are what makes it fast."""

    title = "ARQ"
    packages = ("arq", "redis", "hiredis")
    server = "redis"
    keeps = "nothing (keep_result 0)"
    settings = "max_jobs 500, poll_delay 10 ms, uvloop; 20 submissions in flight"
    notes: ClassVar = {"submit": "has no bulk submission"}

    def __init__(self) -> None:
        self._pool: ArqRedis

    def variants(self) -> list[Variant]:
        """One or two processes."""
        command = [
            program("arq"),
            "bench.peers.peer_arq.WorkerSettings",
            "--custom-log-dict",
            "bench.peers.peer_arq.LOGGING",
        ]
        return [Variant(label=f"{count} x 500 jobs", processes=count, commands=[command] * count) for count in (1, 2)]

    async def open(self) -> None:
        """Connects."""
        self._pool = await create_pool(REDIS)

    async def submit(self, count: int) -> None:
        """One by one, some in flight."""
        await at_once((self._pool.enqueue_job("noop") for _ in range(count)), IN_FLIGHT)

    async def submit_at(self, dues: Sequence[Due]) -> None:
        """Deferred."""
        await at_once(
            (
                self._pool.enqueue_job("started", index, due, _defer_until=datetime.fromtimestamp(due, UTC))
                for index, due in dues
            ),
            IN_FLIGHT,
        )


if __name__ == "__main__":
    main(ArqPeer())
