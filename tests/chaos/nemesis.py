"""Faults, one after the other, chosen by a seed: what is killed, paused, restarted, cut or held, and for how long."""

from __future__ import annotations

import asyncio
import random
import signal
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import asyncpg
from ground import Ground

FLOWS = ("workflow_runs", "workflow_nodes", "workflow_maps", "flow_notes", "flow_waits")
GONE = (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)


class Nemesis:
    """Works on a ground until its time is over; `done` counts what it did."""

    def __init__(self, ground: Ground, seed: int) -> None:
        self._ground = ground
        self._chance = random.Random(seed)
        self.done: dict[str, int] = {}
        self._faults: list[tuple[int, Callable[[], Awaitable[None]]]] = [
            (6, self.kill_a_process),
            (5, self.pause_a_process),
            (2, self.drain_a_worker),
            (3, self.cut_connections),
            (3, self.hold_rows),
            (2, self.lock_a_table),
            (2, self.read_for_long),
            (1, self.restart_the_database),
            (1, self.crash_the_database),
            (1, self.restart_the_pooler),
        ]

    async def run(self, seconds: float) -> None:
        """Two faults at a time at most, with short pauses between them."""
        until = time.monotonic() + seconds
        async with asyncio.TaskGroup() as group:
            for _ in range(2):
                group.create_task(self._strike(until))

    async def _strike(self, until: float) -> None:
        weights, faults = zip(*self._faults, strict=True)
        while time.monotonic() < until:
            (fault,) = self._chance.choices(faults, weights)
            self.done[fault.__name__] = self.done.get(fault.__name__, 0) + 1
            await fault()
            await asyncio.sleep(self._chance.uniform(0.2, 2.5))

    async def kill_a_process(self) -> None:
        """kill -9; the ground starts another one."""
        await self._chance.choice(self._ground.members).kill()

    async def pause_a_process(self) -> None:
        """Stopped for up to 12 seconds, longer than any lease."""
        member = self._chance.choice(self._ground.members)
        with suppress(ProcessLookupError):
            member.send(signal.SIGSTOP)
            try:
                await asyncio.sleep(self._chance.choice([self._chance.uniform(0.2, 2), self._chance.uniform(4, 12)]))
            finally:
                member.send(signal.SIGCONT)

    async def drain_a_worker(self) -> None:
        """As a deployment does it."""
        workers = [member for member in self._ground.members if member.name == "worker"]
        await self._chance.choice(workers).drain()

    async def cut_connections(self) -> None:
        share = self._chance.choice([0.1, 0.5, 1.0])
        cut = (
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
            " WHERE pid <> pg_backend_pid() AND datname = current_database() AND random() < $1"
        )
        await self._on_the_database(lambda sql: sql.execute(cut.replace("$1", str(share))))

    async def hold_rows(self) -> None:
        """A program that holds runs, or what belongs to workflow runs, in an open transaction."""
        table = self._chance.choice(["live_runs", "held_runs", "upcoming_runs", "workflow_runs", "flow_notes"])
        seconds = self._chance.uniform(0.5, 4)

        async def hold(sql: Any) -> None:
            await sql.execute(f"BEGIN; SELECT FROM rota.{table} LIMIT 5 FOR UPDATE SKIP LOCKED")
            await asyncio.sleep(seconds)

        await self._on_the_database(hold)

    async def lock_a_table(self) -> None:
        """As a migration or VACUUM FULL does it."""
        table = self._chance.choice(["live_runs", "held_runs", "upcoming_runs", "finished_runs", "jobs", *FLOWS])
        seconds = self._chance.uniform(0.2, 1.5)

        async def lock(sql: Any) -> None:
            await sql.execute(f"BEGIN; LOCK TABLE rota.{table} IN ACCESS EXCLUSIVE MODE")
            await asyncio.sleep(seconds)

        await self._on_the_database(lock)

    async def read_for_long(self) -> None:
        """A report that keeps a snapshot open."""
        seconds = self._chance.uniform(2, 8)

        async def read(sql: Any) -> None:
            await sql.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
            await sql.fetchval("SELECT count(*) FROM rota.runs")
            await asyncio.sleep(seconds)
            await sql.fetchval("SELECT count(*) FROM rota.runs")

        await self._on_the_database(read)

    async def restart_the_database(self) -> None:
        await self._ground.restart_database(self._chance.uniform(0, 3))

    async def crash_the_database(self) -> None:
        await self._ground.restart_database(self._chance.uniform(0, 2), crash=True)

    async def restart_the_pooler(self) -> None:
        await self._ground.restart_pooler()

    async def _on_the_database(self, do: Callable[[Any], Awaitable[Any]]) -> None:
        """A fault may meet another: the database that is away is no reason to stop."""
        with suppress(*GONE):
            sql = await asyncpg.connect(self._ground.url, timeout=5)
            try:
                async with asyncio.timeout(15):
                    await do(sql)
            finally:
                sql.terminate()  # what it holds ends with it
