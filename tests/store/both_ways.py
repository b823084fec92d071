"""Two databases that are treated alike: one through batches and reports, one through the functions for transactions.

What is then written in each, and what was answered, can be compared: ids and times, which can't be equal, are shown by
what they stand for.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import asyncpg
import msgspec
from catalog import differences

from engine import Engine, report
from rota.blobs import Blobs
from rota.contract.jobs import BatchJobIn, Submitted
from rota.domain.ids import find_job_id, shard_of
from rota.domain.rights import Caller
from rota.domain.run import Claim
from rota.errors import RotaError
from rota.gateway.local import LocalGateway, request_of
from rota.gateway.protocol import OutgoingJob
from rota.gateway.transaction import KnownFunctions, submit_within
from rota.service import ServiceGroup
from rota.store.postgres.database import Database
from rota.store.report.task_transactions import ClaimLostError, TaskTransactions

SHARDS = 64
_CALLER = Caller("default", "ada")
# Whatever takes place in a test takes place within half of it; times that a test chooses are apart by multiples of it.
_ONE_MOMENT = timedelta(minutes=1)
_TABLES = """
SELECT relname FROM pg_class
 WHERE relnamespace = 'rota'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition
   AND relname <> 'migrations'"""
_CHOSEN = "SELECT job_id FROM rota.chosen_ids WHERE chosen_id = $1"
_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?\+00:00")

# An object (a row, an answer), and what each of its fields is.
Record = dict[str, dict[str, str]]


class Side:
    """One of the two databases, and what has happened in it. `sets`: jobs that are alike are submitted as a set."""

    sets = True

    def __init__(self, database: Database, url: str, now: datetime) -> None:
        self.engine = Engine(database, url, None)
        self.url = url
        self.connection: Any = None
        self._broker: Any = None
        self._now = now
        self._names: dict[str, str] = {}
        self._claims: dict[int, str] = {}
        self._answers: Record = {}
        self._calls = 0

    async def submit(self, jobs: Sequence[Mapping[str, Any]], clock: timedelta = timedelta()) -> None:
        """Submits them together, from a program whose clock differs by so much from the database's."""
        self._calls += 1
        wanted = [_decode(job, self._now) for job in jobs]
        for number, answer in enumerate(await self._submit(wanted, self._now + clock), 1):
            if isinstance(answer, Submitted):
                self._name(await self._digits(answer.job_id), "job")
                told = {field: getattr(answer, field) for field in Submitted.__struct_fields__}
            else:
                told = {"error": type(answer).__name__, "message": str(answer)}
            self._answers[f"answer {self._calls}.{number}"] = {
                field: self._shown(value) for field, value in told.items() if value is not None
            }

    async def _digits(self, job_id: str) -> str:
        """The digits of the id that was generated for a job."""
        found = find_job_id(job_id) or await self.connection.fetchval(_CHOSEN, job_id)
        digits: str = found.hex
        return digits

    async def claim(self, count: int) -> list[Claim]:
        """A worker takes so many runs."""
        self._broker = self.engine.broker()
        worker_id = await self.engine.join(self._broker, "rota.echo")
        self._name(worker_id.hex, "worker")
        claims = await self._broker.claim(count)
        assert len(claims) == count
        for claim in claims:
            self._claims[claim.number] = f"claim {len(self._claims) + 1}"
        return claims

    async def succeed(self, claim: Claim, **result: str) -> None:
        """The attempt succeeds; the answer is whether its claim was current."""
        self._calls += 1
        began = (self._now - 2 * _ONE_MOMENT).timestamp()
        current = await self._succeed(claim, began, **result)
        self._answers[f"answer {self._calls}"] = {"current": str(current)}

    async def fail(self, claim: Claim, outcome: Any) -> None:
        """The attempt ends in another way."""
        await self._broker.report([report(claim, outcome)])

    async def record(self) -> Record:
        """All answers, and all rows of all tables."""
        found = {name: dict(fields) for name, fields in self._answers.items()}
        for (table,) in await self.connection.fetch(_TABLES):
            rows = await self.connection.fetch(f"SELECT to_jsonb(t)::text FROM rota.{table} AS t")
            shown = sorted((self._row(json.loads(row[0])) for row in rows), key=lambda row: sorted(row.items()))
            found |= {f"{table} {number}": row for number, row in enumerate(shown, 1)}
        return found

    async def _submit(self, jobs: Sequence[BatchJobIn], now: datetime) -> Sequence[Submitted | RotaError]:
        raise NotImplementedError

    async def _succeed(self, claim: Claim, began: float, **result: str) -> bool:
        raise NotImplementedError

    def _name(self, digits: str, kind: str) -> None:
        self._names.setdefault(digits, f"<{kind} {len(self._names) + 1}>")

    def _row(self, row: dict[str, Any]) -> dict[str, str]:
        if "shard" in row and "id" in row and row["shard"] == shard_of(UUID(row["id"]), SHARDS):
            row["shard"] = "<of its id>"
        if "ready_at" in row and datetime.fromisoformat(row["ready_at"]) < datetime.fromisoformat(row["run_at"]):
            row["ready_at"] = "<before it is due>"
        return {
            column: self._claims[value] if column == "claim" and value in self._claims else self._shown(value)
            for column, value in row.items()
            if value is not None
        }

    def _shown(self, value: Any) -> str:
        text = value if isinstance(value, str) else json.dumps(value)
        if _MOMENT.fullmatch(text):
            return f"<{round((datetime.fromisoformat(text) - self._now) / _ONE_MOMENT):+} min>"
        for digits, name in self._names.items():
            text = text.replace(digits, name).replace(str(UUID(digits)), name)
        return text.replace("\n", "\\n")


class Batches(Side):
    """Through the gateway of the API and of workers, and the worker's reports."""

    def __init__(self, database: Database, url: str, now: datetime, blobs: Blobs) -> None:
        super().__init__(database, url, now)
        self.gateway = LocalGateway(
            database=database,
            shards=SHARDS,
            payload_limit_bytes=10 * 1024 * 1024,
            blobs=blobs,
            now=lambda: self._clock,
        )
        self._clock = now

    async def _submit(self, jobs: Sequence[BatchJobIn], now: datetime) -> Sequence[Submitted | RotaError]:
        self._clock = now
        if self.sets:
            return await self.gateway.for_caller(_CALLER).submit([OutgoingJob.of(job) for job in jobs])
        return await self.gateway.submit([request_of(job) for job in jobs], _CALLER)

    async def _succeed(self, claim: Claim, began: float, **result: str) -> bool:
        told = msgspec.structs.replace(report(claim, **result), started=began, ended=time.time())
        receipt = await self._broker.report([told])
        assert not receipt.rejected
        return claim.number not in receipt.fenced


class Functions(Side):
    """Through the functions that are called in transactions: rota.submit_v1, submit_set_v1 and complete_v1."""

    async def _submit(self, jobs: Sequence[BatchJobIn], now: datetime) -> Sequence[Submitted | RotaError]:
        known = KnownFunctions()
        known.sets = None if self.sets else False
        async with self.connection.transaction():
            return await submit_within(self.connection, [OutgoingJob.of(job) for job in jobs], _CALLER, now, known)

    async def _succeed(
        self, claim: Claim, began: float, result: str | None = None, result_blob: str | None = None
    ) -> bool:
        transactions = TaskTransactions(self.url, size=1)
        try:
            async with transactions.begin(claim, plain=False) as transaction:
                await transaction.complete(began, result, result_blob)
        except ClaimLostError:
            return False
        finally:
            await transactions.close()
        return True


@asynccontextmanager
async def both_sides(urls: tuple[str, str], now: datetime, directory: Path) -> AsyncIterator[tuple[Batches, Functions]]:
    """The two sides, on databases that are alike."""
    async with AsyncExitStack() as stack:
        databases = []
        for url in urls:
            databases.append(await Database.connect(url, size=4))
            stack.push_async_callback(databases[-1].close)
        batches = Batches(databases[0], urls[0], now, Blobs.open(str(directory / "blobs")))
        functions = Functions(databases[1], urls[1], now)
        for side in (batches, functions):
            side.connection = await asyncpg.connect(side.url)
            stack.push_async_callback(side.connection.close)
        await stack.enter_async_context(ServiceGroup(batches.gateway.services))
        yield batches, functions


async def compare(sides: Iterable[Side], allowed: Mapping[str, str]) -> str:
    """How the sides differ, apart from what is allowed: `answer 1.1 status`, or `*` for a whole row, and the reason.

    An exception that is not needed is shown as well.
    """
    ours, theirs = [await side.record() for side in sides]
    needless = []
    for place, why in allowed.items():
        name, _, field = place.rpartition(" ")
        if _take(ours, name, field) == _take(theirs, name, field):
            needless.append(f"{place}: both are the same, the exception is not needed ({why})")
    return "\n".join([*needless, differences(_lines(ours), _lines(theirs))]).strip()


def _take(record: Record, name: str, field: str) -> Any:
    return record.pop(name, None) if field == "*" else record.get(name, {}).pop(field, None)


def _lines(record: Record) -> dict[str, list[str]]:
    return {name: [f"{field}: {value}" for field, value in fields.items()] for name, fields in record.items()}


def _decode(job: Mapping[str, Any], now: datetime) -> BatchJobIn:
    """A job as programs submit it; a time is given as the distance from now."""
    fields = {name: (now + value).isoformat() if isinstance(value, timedelta) else value for name, value in job.items()}
    return msgspec.json.decode(json.dumps(fields, ensure_ascii=False), type=BatchJobIn)
