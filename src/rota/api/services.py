"""What the routes work with: the store's doors, the clock, and the group committer."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

import msgspec
from msgspec import UNSET

from rota.api.budget import BodyBudget
from rota.api.definitions import Preparer
from rota.api.explaining import Explainer
from rota.api.pressure import Pressure
from rota.api.submitting import GroupCommitter
from rota.api.tailing import LogTail
from rota.blobs import BlobError, Blobs
from rota.clock import DatabaseClock
from rota.domain.ids import day_of, show_job
from rota.domain.job import STORED_BYTES, Submission
from rota.errors import DatabaseUnavailableError
from rota.store.database import Database
from rota.store.jobs import Jobs
from rota.store.listening import GATE, READY, SCHEDULE, WORKER
from rota.store.logs import Logs
from rota.store.notifying import Notifier
from rota.store.pools import Pools
from rota.store.runs import Runs
from rota.store.shards import Shards
from rota.store.submissions import Submissions
from rota.store.waiting import Waiting
from rota.store.workers import Workers

CLOCK_SECONDS = 5.0


class Services:
    """Made once per process; every route gets it."""

    def __init__(
        self,
        *,
        database: Database,
        notifier: Notifier,
        shards: int,
        payload_limit_bytes: int,
        blobs: Blobs,
        most_waiting_per_owner: int | None = None,
    ) -> None:
        self.database = database
        self.blobs = blobs
        self.logs = Logs(database)
        self.tail = LogTail(self.logs)
        self.body_budget = BodyBudget()
        self.clock = DatabaseClock()
        self.submissions = Submissions(database)
        self.pressure = Pressure(Pools(database), now=self.clock.now_datetime, most_per_owner=most_waiting_per_owner)
        self.committer = GroupCommitter(
            submissions=self.submissions, notifier=notifier, now=self.clock.now_datetime, pressure=self.pressure
        )
        self.preparer = Preparer(shards=shards, payload_limit_bytes=payload_limit_bytes, now=self.clock.now_datetime)
        self.jobs = Jobs(database)
        self.runs = Runs(database)
        self.workers = Workers(database)
        self.pools = Pools(database)
        self.waiting = Waiting(database)
        self.explainer = Explainer(waiting=self.waiting, workers=self.workers)
        self.shards = Shards(database)
        self._notifier = notifier

    @property
    def now(self) -> datetime:
        """The database's time."""
        return self.clock.now_datetime()

    def tell_workers(self, workers: set[UUID]) -> None:
        """Hints to workers that they are asked something; what waits behind a run that is cancelled may go on."""
        for worker_id in workers:
            self._notifier.hint(WORKER, str(worker_id))
        self._notifier.hint(GATE)

    def tell_all_workers(self) -> None:
        """Hints to every worker to look what it is asked."""
        self._notifier.hint(WORKER)

    def tell_pools(self, pools: set[str]) -> None:
        """Hints that runs became ready, or came to their gates."""
        for pool in pools:
            self._notifier.hint(READY, pool)
        self._notifier.hint(GATE)

    def tell_schedulers(self) -> None:
        """Hints that a schedule changed."""
        self._notifier.hint(SCHEDULE)

    async def offload(self, item: Submission) -> Submission:
        """A submission whose payload is too large for the database leaves it in object storage, before its commit."""
        key = await self.offload_payload(item.definition.payload or "", item.id)
        if key is None:
            return item
        definition = msgspec.structs.replace(item.definition, payload=None, blob=key)
        return msgspec.structs.replace(item, definition=definition)

    async def offload_payload(self, payload: str, job_id: UUID) -> str | None:
        """Puts a payload into object storage if it is too large for the database; where it is."""
        body = payload.encode()
        if len(body) <= STORED_BYTES:
            return None
        key = f"payloads/{day_of(job_id)}/{show_job(job_id)}-{uuid4().hex[:8]}.json"
        await self.blobs.put(key, body)
        return key

    async def fetch_stored(self, key: str) -> tuple[Any, Any]:
        """A payload or result from object storage; or why it can't be had, in words."""
        try:
            return msgspec.Raw(await self.blobs.get(key)), UNSET
        except BlobError as error:
            return UNSET, str(error)

    async def run(self) -> None:
        """Commits submissions and follows the database's clock until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.committer.run(), name="committer")
            group.create_task(self._follow_clock(), name="clock")
            group.create_task(self.tail.run(), name="tail")
            group.create_task(self.pressure.run(), name="pressure")

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


def is_too_large(item: Submission) -> bool:
    """Whether its payload may be too large for the database; a character has at most four bytes."""
    payload = item.definition.payload
    return payload is not None and len(payload) > STORED_BYTES // 4
