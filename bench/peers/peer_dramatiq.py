"""Dramatiq on Redis."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import ClassVar

import dramatiq
from dramatiq.brokers.redis import RedisBroker

from bench.peers import tallies
from bench.peers.peer import Command, Due, Peer, Variant, main, program, socket_path

WAKE_UP = "10"  # milliseconds after which an idle consumer looks again; a second by default
PREFETCH = "1000"  # messages a process takes ahead; two per thread by default
THREADS = "4"
broker = RedisBroker(url=f"unix://{socket_path()}")
dramatiq.set_broker(broker)


@dramatiq.actor(actor_name="noop")
def noop() -> None:
    """The task that is counted."""
    tallies.count()


@dramatiq.actor(actor_name="started")
def started(index: int, due: float) -> None:
    """The task that has a due time."""
    tallies.started(index, due)


class DramatiqPeer(Peer):
    """Its command, with processes and threads as its documentation shows them."""

    title = "Dramatiq"
    packages = ("dramatiq", "redis", "hiredis")
    server = "redis"
    keeps = "nothing (no result backend)"
    settings = f"{THREADS} threads per process, prefetch {PREFETCH}, worker timeout {WAKE_UP} ms, default middleware"
    environment: ClassVar = {"dramatiq_worker_timeout": WAKE_UP, "dramatiq_queue_prefetch": PREFETCH}
    schedules = False
    notes: ClassVar = {
        "submit": "has no bulk submission",
        "delayed": "workers hold jobs with a future time in memory",
        "schedules": "no schedules of its own; its documentation refers to APScheduler",
    }

    def variants(self) -> list[Variant]:
        """One or two processes."""
        return [
            Variant(label=f"{count} x {THREADS} threads", processes=count, commands=[_worker(count)])
            for count in (1, 2)
        ]

    def submit(self, count: int) -> None:
        """One by one."""
        for _ in range(count):
            noop.send()

    def submit_at(self, dues: Sequence[Due]) -> None:
        """With a delay in milliseconds, rounded up so that it is never early by rounding."""
        for index, due in dues:
            started.send_with_options(args=(index, due), delay=math.ceil((due - time.time()) * 1000))


def _worker(processes: int) -> Command:
    return [program("dramatiq"), "bench.peers.peer_dramatiq:broker", "-p", str(processes), "-t", THREADS]


if __name__ == "__main__":
    main(DramatiqPeer())
