"""Celery on Redis."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, ClassVar

from celery import Celery

from bench.peers import tallies
from bench.peers.peer import Command, Due, Peer, Variant, main, program, schedules_wanted, socket_path

app = Celery("bench", broker=f"redis+socket://{socket_path()}")
app.conf.update(
    task_acks_late=True,
    task_ignore_result=True,
    worker_prefetch_multiplier=128,
    worker_enable_remote_control=False,
    broker_connection_retry_on_startup=True,
    beat_schedule={
        f"every-{index}": {"task": "fired", "schedule": 1.0, "args": (index,)} for index in range(schedules_wanted())
    },
)


@app.task(name="noop")
def noop() -> None:
    """The task that is counted."""
    tallies.count()


@app.task(name="started")
def started(index: int, due: float) -> None:
    """The task that has a due time."""
    tallies.started(index, due)


@app.task(name="fired")
def fired(index: int) -> None:
    """The task of a schedule."""
    tallies.fired(index)


class CeleryPeer(Peer):
    """The solo pool runs tasks in the worker's own process; with tasks this short it is twice as fast as prefork.

    With prefork, with threads, and with any number of processes in the pool, the one process that reads from Redis is
    what limits it: about 800 jobs a second where two solo workers do 1,100.
    """

    title = "Celery"
    packages = ("celery", "kombu", "redis", "hiredis")
    server = "redis"
    bulk = True
    keeps = "nothing (results ignored)"
    settings = (
        "acks_late, ignore_result, prefetch multiplier 128, solo pool (for due times 4 threads), no gossip, mingle, "
        "heartbeat or remote control; one producer, in batches"
    )
    aligned = False
    notes: ClassVar = {
        "delayed": "with a pool of 4 threads; workers hold all jobs with a future time in memory",
        "schedules": "celery beat, one process; interval schedules (crontab has minutes at best)",
    }

    def variants(self) -> list[Variant]:
        """One or two workers."""
        return [Variant(label=f"{count} x solo", processes=count, commands=[_worker()] * count) for count in (1, 2)]

    def timed(self) -> Variant:
        """A pool of threads: a solo worker starts jobs that fall due together very slowly (some 35 a second)."""
        command = _worker()
        command[command.index("solo")] = "threads"
        return Variant(label="4 threads", processes=1, commands=[[*command, "--concurrency", "4"]])

    def for_schedules(self) -> list[Command]:
        """The one beat process."""
        return [[program("celery"), "-A", "bench.peers.peer_celery:app", "beat", "-l", "WARNING", "-s", "{home}/beat"]]

    def submit(self, count: int) -> None:
        """In batches of one producer."""
        with app.producer_pool.acquire(block=True) as producer, producer.batch():
            for _ in range(count):
                noop.apply_async(producer=producer)

    def submit_at(self, dues: Sequence[Due]) -> None:
        """With an ETA."""
        with app.producer_pool.acquire(block=True) as producer, producer.batch():
            for index, due in dues:
                options: dict[str, Any] = {"eta": datetime.fromtimestamp(due, UTC), "producer": producer}
                started.apply_async((index, due), **options)


def _worker() -> Command:
    quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat", "-l", "WARNING"]
    return [program("celery"), "-A", "bench.peers.peer_celery:app", "worker", "--pool", "solo", *quiet]


if __name__ == "__main__":
    main(CeleryPeer())
