"""Procrastinate on PostgreSQL."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import ClassVar

from procrastinate import App, PsycopgConnector

from bench.peers import tallies
from bench.peers.peer import (
    BATCH,
    SERVER_URL,
    Due,
    Peer,
    Variant,
    at_once,
    in_batches,
    main,
    own_worker,
    schedules_wanted,
    setting,
)

IN_FLIGHT = 20
CONCURRENCY = 10
app = App(connector=PsycopgConnector(conninfo=setting(SERVER_URL), min_size=4, max_size=CONCURRENCY + 4))


@app.task(name="noop")
async def noop() -> None:
    """The task that is counted."""
    tallies.count()


@app.task(name="started")
async def started(index: int, due: float) -> None:
    """The task that has a due time."""
    tallies.started(index, due)


@app.task(name="fired")
async def fired(timestamp: int, index: int) -> None:  # noqa: ARG001 - the library gives the time
    """The task of a schedule."""
    tallies.fired(index)


for _number in range(schedules_wanted()):
    app.periodic(cron="* * * * * */1", periodic_id=str(_number), task_kwargs={"index": _number})(fired)


class ProcrastinatePeer(Peer):
    """Its worker takes one job per statement, so the concurrency is what helps."""

    title = "Procrastinate"
    packages = ("procrastinate", "psycopg", "psycopg-binary")
    server = "postgres"
    bulk = True
    keeps = "the job's row and an event row per change of state"
    settings = (
        f"concurrency {CONCURRENCY}, LISTEN, fetch poll 50 ms, pool of {CONCURRENCY + 4}, psycopg's C part, uvloop; "
        "batch_defer in batches of 1,000"
    )
    notes: ClassVar = {"delayed": "a due time wakes nobody: workers find it by polling"}

    def variants(self) -> list[Variant]:
        """One or two processes."""
        return [
            Variant(label=f"{count} x {CONCURRENCY} jobs", processes=count, commands=[own_worker(self)] * count)
            for count in (1, 2)
        ]

    async def prepare(self) -> None:
        """Its schema."""
        async with app.open_async():
            await app.schema_manager.apply_schema_async()

    async def open(self) -> None:
        """Connects."""
        await app.open_async()

    async def submit(self, count: int) -> None:
        """In batches."""
        for start in range(0, count, BATCH):
            await noop.batch_defer_async(*({} for _ in range(start, min(count, start + BATCH))))

    async def submit_at(self, dues: Sequence[Due]) -> None:
        """A batch has one time, so jobs of the same time go together and others one by one."""
        same = [list(group) for _, group in itertools.groupby(dues, key=lambda pair: pair[1])]
        if len(same) == len(dues):
            await at_once((_at(due).defer_async(index=index, due=due) for index, due in dues), IN_FLIGHT)
            return
        for group in same:
            for batch in in_batches(group):
                await _at(batch[0][1]).batch_defer_async(*({"index": index, "due": due} for index, due in batch))

    async def work(self) -> None:
        """The same as its command, but on uvloop."""
        async with app.open_async():
            await app.run_worker_async(concurrency=CONCURRENCY, fetch_job_polling_interval=0.05)


def _at(due: float):  # type: ignore[no-untyped-def] # noqa: ANN202 - the library does not export the type
    return started.configure(schedule_at=datetime.fromtimestamp(due, UTC))


if __name__ == "__main__":
    main(ProcrastinatePeer())
