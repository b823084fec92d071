"""What the routes work with: the store's doors, the clock, and the group committer."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from datetime import datetime
from uuid import UUID

from rota.api.budget import BodyBudget
from rota.api.definitions import Preparer
from rota.api.submitting import GroupCommitter
from rota.clock import DatabaseClock
from rota.errors import DatabaseUnavailableError
from rota.store.database import Database
from rota.store.jobs import Jobs
from rota.store.listening import READY, SCHEDULE, WORKER
from rota.store.notifying import Notifier
from rota.store.runs import Runs
from rota.store.shards import Shards
from rota.store.submissions import Submissions
from rota.store.workers import Workers

CLOCK_SECONDS = 5.0


class Services:
    """Made once per process; every route gets it."""

    def __init__(self, *, database: Database, notifier: Notifier, shards: int, payload_limit_bytes: int) -> None:
        self.database = database
        self.body_budget = BodyBudget()
        self.clock = DatabaseClock()
        self.submissions = Submissions(database)
        self.committer = GroupCommitter(submissions=self.submissions, notifier=notifier, now=self.clock.now_datetime)
        self.preparer = Preparer(shards=shards, payload_limit_bytes=payload_limit_bytes, now=self.clock.now_datetime)
        self.jobs = Jobs(database)
        self.runs = Runs(database)
        self.workers = Workers(database)
        self.shards = Shards(database)
        self._notifier = notifier

    @property
    def now(self) -> datetime:
        """The database's time."""
        return self.clock.now_datetime()

    def tell_workers(self, workers: set[UUID]) -> None:
        """Hints to workers that they are asked something."""
        for worker_id in workers:
            self._notifier.hint(WORKER, str(worker_id))

    def tell_pools(self, pools: set[str]) -> None:
        """Hints that runs became ready."""
        for pool in pools:
            self._notifier.hint(READY, pool)

    def tell_schedulers(self) -> None:
        """Hints that a schedule changed."""
        self._notifier.hint(SCHEDULE)

    async def run(self) -> None:
        """Commits submissions and follows the database's clock until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.committer.run(), name="committer")
            group.create_task(self._follow_clock(), name="clock")

    async def set_clock(self) -> None:
        """One measurement of the database's clock."""
        sent = time.monotonic()
        moment = await self.database.fetch_value("database_time")
        self.clock.observe(sent=sent, received=time.monotonic(), database_time=moment)

    async def _follow_clock(self) -> None:
        while True:
            # Without an answer the clock keeps its last measurement; /readyz says that the database is away.
            with suppress(DatabaseUnavailableError):
                await self.set_clock()
            await asyncio.sleep(CLOCK_SECONDS)
