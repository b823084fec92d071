"""TaskIQ on Redis streams, its broker with acknowledgements."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import ClassVar

from taskiq import TaskiqScheduler
from taskiq_redis import ListRedisScheduleSource, RedisStreamBroker

from bench.peers import tallies
from bench.peers.peer import Command, Due, Peer, Variant, at_once, main, program, socket_path

IN_FLIGHT = 20
broker = RedisStreamBroker(f"unix://{socket_path()}")
source = ListRedisScheduleSource(f"unix://{socket_path()}")
scheduler = TaskiqScheduler(broker, [source])


@broker.task(task_name="noop")
async def noop() -> None:
    """The task that is counted."""
    tallies.count()


@broker.task(task_name="started")
async def started(index: int, due: float) -> None:
    """The task that has a due time."""
    tallies.started(index, due)


@broker.task(task_name="fired")
async def fired(index: int) -> None:
    """The task of a schedule."""
    tallies.fired(index)


class TaskiqPeer(Peer):
    """ListQueueBroker would be faster, but loses what a worker had when it dies, so it is not comparable."""

    title = "TaskIQ"
    packages = ("taskiq", "taskiq-redis", "redis", "hiredis")
    server = "redis"
    keeps = "the stream entry (no maxlen set); no result"
    settings = "RedisStreamBroker, ack when saved, --no-parse, 100 tasks at a time, uvloop; 20 submissions in flight"
    aligned = False
    notes: ClassVar = {
        "submit": "has no bulk submission",
        "delayed": "taskiq scheduler, one process; looks once a second, whole seconds",
        "schedules": "taskiq scheduler, one process; interval schedules (cron has minutes at best)",
    }

    def variants(self) -> list[Variant]:
        """One or two processes."""
        return [Variant(label=f"{count} x 100 tasks", processes=count, commands=[_worker(count)]) for count in (1, 2)]

    def for_delayed(self) -> list[Command]:
        """The scheduler, which reads new schedules as often as it can."""
        options = ["--update-interval", "1", "--log-level", "WARNING"]
        return [[program("taskiq"), "scheduler", "bench.peers.peer_taskiq:scheduler", *options]]

    def for_schedules(self) -> list[Command]:
        """The scheduler; these schedules stay as they are, so it need not read them again."""
        return [[program("taskiq"), "scheduler", "bench.peers.peer_taskiq:scheduler", "--log-level", "WARNING"]]

    async def prepare(self) -> None:
        """The consumer group must be there before the first message."""
        await broker.startup()

    async def open(self) -> None:
        """Connects."""
        await broker.startup()

    async def submit(self, count: int) -> None:
        """One by one, some in flight."""
        await at_once((noop.kiq() for _ in range(count)), IN_FLIGHT)

    async def submit_at(self, dues: Sequence[Due]) -> None:
        """As schedules that fire once."""
        await at_once(
            (started.schedule_by_time(source, datetime.fromtimestamp(due, UTC), index, due) for index, due in dues),
            IN_FLIGHT,
        )

    async def schedule(self, count: int) -> None:
        """Stored in Redis."""
        await at_once((fired.schedule_by_interval(source, 1, index) for index in range(count)), IN_FLIGHT)


def _worker(processes: int) -> Command:
    options = ["--workers", str(processes), "--no-parse", "--log-level", "WARNING"]
    return [program("taskiq"), "worker", "bench.peers.peer_taskiq:broker", *options]


if __name__ == "__main__":
    main(TaskiqPeer())
