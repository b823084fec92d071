"""Submitting straight into the database, from a program that has its address: `rota.App(database=…)`.

What is submitted at the same time is written together, as over HTTP. The connection is opened by the first submission.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import Future
from hashlib import sha256
from typing import Any

import msgspec

from rota.blobs import Blobs
from rota.client.answers import JobResult
from rota.client.errors import AnswerError
from rota.client.retries import RETRIES, Tries
from rota.clock import DatabaseClock
from rota.contract.jobs import BatchJobIn, JobIn, JobSetOut
from rota.contract.workflows import WorkflowRunOut, WorkflowRunStarted
from rota.domain.job import STORED_BYTES
from rota.domain.rights import Caller
from rota.errors import DatabaseUnavailableError, OverloadedError, RotaError, SetupError
from rota.gateway.deliveries import AsyncDelivery
from rota.gateway.local import LocalGateway, request_of
from rota.gateway.problems import problem_of
from rota.gateway.protocol import RunSnapshot
from rota.gateway.requests import SetRequest
from rota.gateway.thread import ThreadGateway
from rota.gateway.workflow_acts import WorkflowAct
from rota.service import ServiceGroup
from rota.settings import Settings
from rota.store.lease import count_shards
from rota.store.postgres.clock_follower import ClockFollower
from rota.store.postgres.database import Database
from rota.store.postgres.embedded import EmbeddedPostgres
from rota.store.schema.migrate import missing_steps

_CONNECTIONS = 4
_TIMEOUT_SECONDS = 30.0
_NOT_NOW = (DatabaseUnavailableError, OverloadedError)
_jobs = msgspec.json.Decoder(JobIn)


class DatabaseGateway(AsyncDelivery):
    """Submits for one caller, with a few connections of its own."""

    def __init__(self, url: str, caller: Caller, patience_seconds: float | None = None) -> None:
        self._database = _DatabaseEndpoint(url, caller, patience_seconds)
        super().__init__(self._database)
        self._caller = caller

    async def look(self, run_id: str, wait_seconds: float) -> RunSnapshot:
        return await (await self._database.local()).look(run_id, wait_seconds, self._caller)

    async def cancel(self, run_id: str) -> None:
        await (await self._database.local()).cancel(run_id, self._caller)

    async def caller(self) -> tuple[str, str]:
        return self._caller.namespace, self._caller.owner

    async def start_workflow(self, workflow: str, inputs: Mapping[str, Any], key: str) -> WorkflowRunStarted:
        return await (await self._database.local()).start_workflow(workflow, inputs, key, self._caller)

    async def act_on_workflow(self, act: WorkflowAct) -> WorkflowRunOut:
        return await (await self._database.local()).act_on_workflow(act, self._caller)

    async def close(self) -> None:
        await self._database.close()


class _DatabaseEndpoint:
    """Writes what is delivered; what can't be written now is tried again."""

    def __init__(self, url: str, caller: Caller, patience_seconds: float | None) -> None:
        self._url = url
        self._caller = caller
        self._patience_seconds = patience_seconds
        self._opening = asyncio.Lock()
        self._local: LocalGateway | None = None
        self._database: Database | None = None
        self._services = ServiceGroup()
        self._is_closed = False

    async def local(self) -> LocalGateway:
        """The gateway on the open database; raises SetupError if it can't be used."""
        if self._local is None:
            async with self._opening:
                if self._is_closed:  # what is tried again must not open it anew
                    raise SetupError("the application was closed meanwhile; the job may have been accepted")
                if self._local is None:
                    await self._open()
        assert self._local is not None  # noqa: S101 - just opened
        return self._local

    async def _open(self) -> None:
        settings = Settings.from_environment()
        database = await Database.connect(self._url, size=_CONNECTIONS, name="rota-app", notify=settings.notify)
        try:
            await _check_schema(database)
            clock = DatabaseClock()
            follower = ClockFollower(database, clock)
            await follower.tick()
            local = LocalGateway(
                database=database,
                shards=await count_shards(database),
                payload_limit_bytes=_largest_payload(self._url, settings),
                blobs=Blobs.open(settings.blobs),
                now=clock.now_datetime,
                lazy=True,
                check_payloads=settings.check_payloads,
            )
            self._services = ServiceGroup([*local.services, follower])
            await self._services.__aenter__()
        except BaseException:
            await database.close()
            raise
        self._database, self._local = database, local

    async def close(self) -> None:
        async with self._opening:
            self._is_closed = True
        database, self._database, self._local = self._database, None, None
        if database is not None:
            await self._services.__aexit__(None, None, None)
            await database.close()

    def tries(self, patience: float | None = None) -> Tries:
        seconds = self._patience_seconds if patience is None else patience
        return Tries(RETRIES, _TIMEOUT_SECONDS, repeatable=True, patience_seconds=seconds)

    async def send_set(
        self,
        job: bytes,
        payloads: Sequence[bytes],
        key: str,
        tries: Tries,
        positions: Sequence[int] | None = None,
    ) -> JobSetOut:
        digest = sha256(job)
        for payload in payloads:
            digest.update(payload)
        array = b"[" + b",".join([payload or b"null" for payload in payloads]) + b"]"
        while True:
            try:
                local = await self.local()
                texts = local.job_builder.payloads(array)
                wanted = SetRequest(_jobs.decode(job), texts, key, digest.digest(), positions)
                return await local.submit_set(wanted, self._caller)
            except _NOT_NOW as error:
                tries.may_have_arrived |= isinstance(error, DatabaseUnavailableError)
                pause = tries.pause_after_refusal()
                if pause is None:
                    raise _answer_of(error) from error
            except SetupError:
                raise
            except RotaError as error:
                raise _answer_of(error) from error
            await asyncio.sleep(pause)

    async def submit_many(self, jobs: Iterable[BatchJobIn], *, patience: float | None = None) -> list[JobResult]:
        requests = [request_of(job) for job in jobs]
        tries = self.tries(patience)
        results: list[Any] = [None] * len(requests)
        places: Sequence[int] = range(len(requests))
        pause: float | None = 0.0
        while pause is not None:
            if pause:
                await asyncio.sleep(pause)
            asked = [requests[place] for place in places]
            try:
                answers: Sequence[Any] = await (await self.local()).submit(asked, self._caller)
            except _NOT_NOW as error:
                answers = [error] * len(asked)
            for place, answer in zip(places, answers, strict=True):
                results[place] = _result_of(answer)
            places = [place for place in places if results[place].is_temporary]
            pause = tries.pause_after_refusal() if places else None
        for place in places:
            results[place].to_repeat = requests[place].job
        return results


class SyncDatabaseGateway(ThreadGateway):
    """The same for code that can't await: an event loop in a thread does the work."""

    def __init__(self, url: str, caller: Caller, patience_seconds: float | None = None) -> None:
        from uvloop import new_event_loop  # noqa: PLC0415 - only where it is needed

        loop = new_event_loop()
        self._thread = threading.Thread(target=loop.run_forever, name="rota-submissions", daemon=True)
        self._thread.start()
        self._inner = asyncio.run_coroutine_threadsafe(_make(url, caller, patience_seconds), loop).result()
        super().__init__(self._inner, loop, self._begin_call)
        self._lock = threading.Lock()
        self._is_closed = False

    def patient(self, seconds: float | None) -> ThreadGateway:
        return self if seconds is None else ThreadGateway(self._inner.patient(seconds), self._loop, self._begin_call)

    def close(self) -> None:
        """Ends what is under way: a loop that has stopped gives no answers."""
        with self._lock:
            if self._is_closed or not self._thread.is_alive():
                return
            self._is_closed = True
        asyncio.run_coroutine_threadsafe(_end(self._inner), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _begin_call(self, asked: Coroutine[Any, Any, Any]) -> Future[Any]:
        with self._lock:
            if self._is_closed:
                asked.close()
                raise RotaError("the application was closed meanwhile")
            return asyncio.run_coroutine_threadsafe(asked, self._loop)


async def _make(url: str, caller: Caller, patience_seconds: float | None) -> DatabaseGateway:
    return DatabaseGateway(url, caller, patience_seconds)


async def _end(gateway: DatabaseGateway) -> None:
    """Closes the gateway, and ends all else on its loop."""
    await gateway.close()
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)


async def _check_schema(database: Database) -> None:
    """Raises SetupError for a schema that is older than this library. A program never changes it."""
    try:
        missing = await missing_steps(database)
    except DatabaseUnavailableError:
        raise  # tried again, as any submission is
    except Exception as error:
        raise SetupError(
            f"The database of App(database=…) has no Rota that this role can use ({error}): start a server there, and "
            "give the role rights (`rota database-roles --server ROLE`)."
        ) from error
    if missing:
        raise SetupError(
            f"The database's schema is older than this library (it lacks {missing[0].number:04} {missing[0].name}): "
            "upgrade the servers first, or run `rota migrate`."
        )


def _largest_payload(url: str, settings: Settings) -> int:
    """Larger ones go to object storage, where workers must find them."""
    shared = settings.blobs_url is not None or url == EmbeddedPostgres(settings.home).url()
    return settings.payload_limit_bytes if shared else min(STORED_BYTES, settings.payload_limit_bytes)


def _answer_of(error: RotaError) -> AnswerError:
    problem = problem_of(error)
    if isinstance(error, DatabaseUnavailableError):
        problem.detail = f"the database does not take the submission: {error}"  # to a program of ours, also why
    return AnswerError(problem.status, msgspec.to_builtins(problem))


def _result_of(answer: Any) -> JobResult:
    if isinstance(answer, RotaError):
        return JobResult(error=problem_of(answer))
    return JobResult(job_id=answer.job_id, status=answer.status, run_id=answer.run_id, duplicate=answer.duplicate)
