"""Submitting inside the caller's own transaction, through the connection that holds it.

The jobs are checked as in the API and written by a database function with a version in its name, so that this library
and the schema may differ by a release. A connection is recognised by its methods, not its class: no library is
imported, and wrappers work like what they wrap.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec

from rota.contract.jobs import AcceptedJobs, BatchJobIn, JobSetOut, Submitted
from rota.contract.json_rules import hash_request
from rota.domain.ids import show_one_shot, show_run
from rota.domain.job import INLINE_PAYLOAD_BYTES, Recurring, SingleJob, show_job_of
from rota.domain.rights import Caller
from rota.errors import ConflictError, DuplicateError, KeyReusedError, RotaError, SetupError
from rota.gateway.job_builder import JobBuilder, SetShape, refuse_dependencies, refuse_exclusions
from rota.gateway.protocol import OutgoingJob, are_alike
from rota.gateway.requests import Payload
from rota.gateway.set_answers import answers_of
from rota.gateway.transaction_tasks import TransactionTasks

# Larger ones belong in object storage, which is not part of the transaction.
_LARGEST_PAYLOAD_BYTES = 1024 * 1024
# So large that an id's shard is its whole hash, from which the database derives the shard.
_ALL_SHARDS = 1 << 62
# Called with texts; all but the first may be missing in a database of the release before, or not be granted.
_NOT_HERE = "can't be used in a transaction of your own: submit this job after it"
_SUBMIT = "rota.submit_v1({})"
_SUBMIT_WITH_IDS = "rota.submit_v2({})"
_SUBMIT_SET = "rota.submit_set_v1({}, {})"
_FIND = "rota.find_submissions_v1({})"
_CAN = "CASE WHEN has_function_privilege(to_regprocedure({}), 'EXECUTE') THEN 'yes' END"
_FINDING = "rota.find_submissions_v1(text)"
_SETTING = "rota.submit_set_v1(text, text)"
_CHOOSING = "rota.submit_v2(text)"
_DEFAULTS = "rota.task_defaults_v1({}, {})"
_DEFAULTING = "rota.task_defaults_v1(text, text)"


class JobRow(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """A job as the database function takes it."""

    namespace: str
    id: str
    spread: int
    inline_bytes: int
    owner: str
    name: str
    task: str
    pool: str
    priority: int
    tags: list[str]
    payload: str | None = None
    options: str
    policies: str | None = None
    run_at: datetime | None = None
    delay_seconds: float | None = None
    timetable: Any = None
    next_fire_at: datetime | None = None
    key: str | None = None
    request_hash: str | None = None
    answer: str | None = None
    unique: Any = None
    chosen_id: str | None = None


class _RequestKey(msgspec.Struct, rename="camel"):
    """An idempotency key as the database functions take it."""

    namespace: str
    key: str
    request_hash: str


class WrittenJob(msgspec.Struct, rename="camel"):
    """The database function's answer about a job."""

    status: str | None = None
    duplicate: str | None = None
    recurring: bool = False
    repeated: str | None = None
    same: bool = True
    options: str | None = None
    taken: bool = False


def given_connection(connection: Any) -> Any:
    """The connection; raises SetupError for None, rather than submit outside the transaction."""
    if connection is None:
        raise SetupError("within() needs the connection or session of your transaction, not None.")
    return connection


class KnownFunctions:
    """What an application has learned of its database's functions."""

    sets: bool | None = None  # whether it can submit sets; None: not asked yet

    def __init__(self) -> None:
        self.tasks = TransactionTasks()


async def submit_within(
    connection: Any, jobs: Sequence[OutgoingJob], caller: Caller, now: datetime, known: KnownFunctions
) -> list[Submitted | RotaError]:
    """Submits through an async connection: asyncpg, psycopg, or a SQLAlchemy session or connection."""
    tasks = known.tasks
    if names := tasks.to_ask(jobs, caller.namespace):
        if tasks.is_told is None:
            tasks.is_told = await _ask(connection, _CAN, _DEFAULTING) == "yes"
        if tasks.is_told:
            told = await _ask(connection, _DEFAULTS, caller.namespace, msgspec.json.encode(names).decode())
            tasks.learn(caller.namespace, names, told)
    builder = _builder(now, tasks)
    if (alike := _Set.of(jobs, caller, now, builder)) and known.sets is not False:
        if known.sets is None:
            known.sets = await _ask(connection, _CAN, _SETTING) == "yes"
        if known.sets:
            return alike.answers(await _ask(connection, _SUBMIT_SET, alike.shape, alike.payloads))
    batch = _Batch([job.job for job in jobs], caller, now, builder)
    if batch.refused and await _ask(connection, _CAN, _FINDING) == "yes":
        batch.found(await _ask(connection, _FIND, batch.refused))
    if batch.has_chosen_ids and await _ask(connection, _CAN, _CHOOSING) != "yes":
        raise _no_chosen_ids()
    return batch.answers(await _ask(connection, batch.function, batch.text) if batch.text else "[]")


def submit_within_sync(
    connection: Any, jobs: Sequence[OutgoingJob], caller: Caller, now: datetime, known: KnownFunctions
) -> list[Submitted | RotaError]:
    """Submits through a sync connection: psycopg, Django, SQLAlchemy, or another DB-API driver."""
    tasks = known.tasks
    if names := tasks.to_ask(jobs, caller.namespace):
        if tasks.is_told is None:
            tasks.is_told = _ask_sync(connection, _CAN, _DEFAULTING) == "yes"
        if tasks.is_told:
            told = _ask_sync(connection, _DEFAULTS, caller.namespace, msgspec.json.encode(names).decode())
            tasks.learn(caller.namespace, names, told)
    builder = _builder(now, tasks)
    if (alike := _Set.of(jobs, caller, now, builder)) and known.sets is not False:
        if known.sets is None:
            known.sets = _ask_sync(connection, _CAN, _SETTING) == "yes"
        if known.sets:
            return alike.answers(_ask_sync(connection, _SUBMIT_SET, alike.shape, alike.payloads))
    batch = _Batch([job.job for job in jobs], caller, now, builder)
    if batch.refused and _ask_sync(connection, _CAN, _FINDING) == "yes":
        batch.found(_ask_sync(connection, _FIND, batch.refused))
    if batch.has_chosen_ids and _ask_sync(connection, _CAN, _CHOOSING) != "yes":
        raise _no_chosen_ids()
    return batch.answers(_ask_sync(connection, batch.function, batch.text) if batch.text else "[]")


async def _ask(connection: Any, function: str, *texts: str) -> str:
    if hasattr(connection, "fetchval") and hasattr(connection, "is_in_transaction"):  # asyncpg
        if not connection.is_in_transaction():
            raise SetupError("The connection has no transaction open: use `async with connection.transaction():`")
        answered: str = await connection.fetchval(f"SELECT {function.format('$1', '$2')}", *texts)
        return answered
    if _is_sqlalchemy(connection):
        if not hasattr(connection, "sync_connection") and not hasattr(connection, "sync_session"):
            raise _unknown(connection)
        used = connection if _is_core(connection) else await connection.connection()
        _refuse_autocommit(used.sync_connection)
        result = await used.execute(*_sqlalchemy_statement(function, texts))
        return str(result.scalar_one())
    if hasattr(connection, "cursor") and not inspect.iscoroutinefunction(getattr(connection, "execute", None)):
        raise SetupError("This connection is sync: submit with `.sync`, without await.")
    if hasattr(connection, "cursor") and hasattr(connection, "autocommit"):  # psycopg
        _check_psycopg(connection)
        cursor = connection.cursor(row_factory=_first_value)
        await cursor.execute(f"SELECT {function.format('%s::text', '%s::text')}", texts)
        row = await cursor.fetchone()
        return row.decode() if isinstance(row, bytes) else str(row)
    raise _unknown(connection)


def _ask_sync(connection: Any, function: str, *texts: str) -> str:
    if hasattr(connection, "fetchval") or inspect.iscoroutinefunction(getattr(connection, "execute", None)):
        raise SetupError("This connection is async: leave out `.sync`, and await the submission.")
    if _is_sqlalchemy(connection):
        used = connection if _is_core(connection) else connection.connection()
        _refuse_autocommit(used)
        return str(used.execute(*_sqlalchemy_statement(function, texts)).scalar_one())
    if not hasattr(connection, "cursor"):
        raise _unknown(connection)
    _check_django(connection)
    _check_psycopg(connection)
    known = type(connection).__module__.startswith("psycopg.") or hasattr(connection, "prepare_threshold")
    cursor = connection.cursor(row_factory=_first_value) if known else connection.cursor()
    try:
        cursor.execute(f"SELECT {function.format('%s', '%s')} AS answers", texts)
        row = cursor.fetchone()
    finally:
        cursor.close()
    if not known:
        row = row["answers"] if isinstance(row, dict) else row[0]
    return row.decode() if isinstance(row, bytes) else str(row)


def _is_sqlalchemy(connection: Any) -> bool:
    return any(kind.__module__.startswith("sqlalchemy.") for kind in type(connection).__mro__)


def _sqlalchemy_statement(function: str, texts: Sequence[str]) -> tuple[Any, dict[str, str]]:
    from sqlalchemy import text as statement  # noqa: PLC0415 - a program that hands us its connection has it

    given = dict(zip(("first", "second"), texts, strict=False))
    return statement(f"SELECT {function.format('CAST(:first AS text)', 'CAST(:second AS text)')}"), given


def _is_core(connection: Any) -> bool:
    """Whether it is a connection, not a session."""
    return hasattr(connection, "engine")


def _refuse_autocommit(connection: Any) -> None:
    levels = (
        connection.get_execution_options().get("isolation_level"),
        connection.engine.get_execution_options().get("isolation_level"),
        # The only place that shows the engine's own isolation level.
        getattr(connection.dialect, "_on_connect_isolation_level", None),
    )
    if "AUTOCOMMIT" in [str(level).upper() for level in levels]:
        raise SetupError("The connection commits each statement by itself (AUTOCOMMIT): use one with a transaction.")


def _check_psycopg(connection: Any) -> None:
    """Raises SetupError for a connection in autocommit mode without an open transaction."""
    info = getattr(connection, "info", None)
    idle = getattr(getattr(info, "transaction_status", None), "name", "") == "IDLE"
    if getattr(connection, "autocommit", False) is True and idle:
        raise SetupError(
            "The connection is in autocommit mode and has no transaction open: use `with connection.transaction():`"
        )


def _check_django(connection: Any) -> None:
    """Raises SetupError outside of atomic()."""
    if hasattr(connection, "in_atomic_block") and not connection.in_atomic_block and connection.get_autocommit():
        raise SetupError("The connection has no transaction open: use `with transaction.atomic():`")


def _first_value(_cursor: Any) -> Any:
    return lambda values: values[0]


def _no_chosen_ids() -> SetupError:
    return SetupError(
        "This database role can't submit jobs with a job_id in a transaction: bring the schema up to date with "
        "`rota migrate`, as its owner, which also grants the role what is new."
    )


def _unknown(connection: Any) -> SetupError:
    return SetupError(
        f"{type(connection).__module__}.{type(connection).__qualname__} is not a supported connection: use asyncpg, "
        "psycopg 3, SQLAlchemy 2, Django, or another of the DB-API."
    )


class SetRow(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """What the jobs of a set have alike, as the database function takes it."""

    namespace: str
    id: str
    inline_bytes: int
    owner: str
    name: str
    task: str
    pool: str
    priority: int
    tags: tuple[str, ...]
    options: str
    run_at: datetime | None = None
    delay_seconds: float | None = None


class _Set:
    """Jobs that can be submitted as a set."""

    def __init__(self, shape: SetShape, delay_seconds: float | None, payloads: Sequence[Payload]) -> None:
        it = shape.definition
        self._count = len(payloads)
        self._first = UUID(int=shape.ids(self._count)[0])
        row = SetRow(
            namespace=shape.namespace,
            id=self._first.hex,
            inline_bytes=INLINE_PAYLOAD_BYTES,
            owner=it.owner,
            name=it.name,
            task=it.task,
            pool=it.pool,
            priority=it.priority,
            tags=it.tags,
            options=it.options,
            run_at=shape.run_at if delay_seconds is None else None,
            delay_seconds=delay_seconds,
        )
        self.shape = _ascii(msgspec.json.encode(row).decode())
        self.payloads = _ascii(msgspec.json.encode(payloads).decode())

    @classmethod
    def of(cls, jobs: Sequence[OutgoingJob], caller: Caller, now: datetime, builder: JobBuilder) -> _Set | None:
        """None for jobs that must be looked at one by one."""
        if not are_alike(jobs):
            return None
        array = b"[" + b",".join([job.payload or b"null" for job in jobs]) + b"]"
        wanted = jobs[0].template.job
        try:
            shape = builder.prepare_set(wanted, caller, now)
            payloads = builder.payloads(array)
        except RotaError:
            return None
        bad = any(isinstance(payload, RotaError) for payload in payloads)
        if bad or shape.task is None or shape.definition.policies is not None:
            return None
        return cls(shape, wanted.delay_seconds, payloads)

    def answers(self, status: str) -> list[Submitted | RotaError]:
        job_id, run_id = show_one_shot(self._first)
        accepted = AcceptedJobs(position=0, count=self._count, job_id=job_id, run_id=run_id, status=status)
        return answers_of(JobSetOut(accepted=[accepted], refused=[]), self._count)


def _builder(now: datetime, tasks: TransactionTasks) -> JobBuilder:
    return JobBuilder(
        shards=_ALL_SHARDS, payload_limit_bytes=_LARGEST_PAYLOAD_BYTES, now=lambda: now, find_task=tasks.find
    )


class _Batch:
    """Jobs to submit in a transaction."""

    def __init__(self, jobs: Sequence[BatchJobIn], caller: Caller, now: datetime, builder: JobBuilder) -> None:
        self._answers: list[Submitted | RotaError] = []
        self._positions: dict[int, SingleJob] = {}
        self._refused: list[int] = []
        rows: list[JobRow] = []
        for position, job in enumerate(jobs):
            try:
                refuse_dependencies(job, _NOT_HERE)
                refuse_exclusions(job, _NOT_HERE)
                item, answer = builder.prepare(job, caller, now, builder.find_task(job, caller))
            except RotaError as error:
                self._answers.append(error)
                if job.idempotency_key:
                    self._refused.append(position)
                continue
            self._answers.append(answer)
            self._positions[position] = item
            rows.append(_row_of(item, job, answer, caller))
        self.has_chosen_ids = any(row.chosen_id for row in rows)
        self.function = _SUBMIT_WITH_IDS if self.has_chosen_ids else _SUBMIT
        self.text = _ascii(msgspec.json.encode(rows).decode()) if rows else ""
        keys = [_key_of(jobs[position], caller) for position in self._refused]
        self.refused = _ascii(msgspec.json.encode(keys).decode()) if keys else ""

    def found(self, text: str) -> None:
        """The first answers to refused jobs: a repeat must not fail because, say, its time has passed since."""
        for position, said in zip(self._refused, msgspec.json.decode(text, type=list[WrittenJob | None]), strict=True):
            if said is not None:
                self._answers[position] = _repeated(said)

    def answers(self, text: str) -> list[Submitted | RotaError]:
        """The outcome of each job, in order."""
        written = msgspec.json.decode(text, type=list[WrittenJob])
        for (position, item), said in zip(self._positions.items(), written, strict=True):
            answer = self._answers[position]
            assert isinstance(answer, Submitted)  # noqa: S101 - the others were not sent
            self._answers[position] = _answer(said, answer, item.unique.on_duplicate if item.unique else None)
        return self._answers


def _ascii(text: str) -> str:
    """The same JSON in ASCII, which every connection can carry."""
    return text if text.isascii() else json.dumps(json.loads(text))


def _row_of(item: SingleJob, job: BatchJobIn, answer: Submitted, caller: Caller) -> JobRow:
    it = item.definition
    made = JobRow(
        namespace=item.namespace,
        id=item.id.hex,
        spread=item.shard,
        inline_bytes=INLINE_PAYLOAD_BYTES,
        owner=it.owner,
        name=it.name,
        task=it.task,
        pool=it.pool,
        priority=it.priority,
        tags=list(it.tags),
        payload=it.payload,
        options=it.options,
        policies=it.policies,
        chosen_id=item.chosen_id,
    )
    if isinstance(item, Recurring):
        made.timetable, made.next_fire_at = msgspec.structs.asdict(item.timetable), item.next_fire_at
    elif job.delay_seconds is not None:
        made.delay_seconds = job.delay_seconds
    else:
        made.run_at = item.run_at
    if job.idempotency_key:
        key = _key_of(job, caller)
        made.key, made.request_hash, made.answer = key.key, key.request_hash, msgspec.json.encode(answer).decode()
    if item.unique:
        unique = item.unique
        made.unique = {"key": unique.key, "seconds": unique.seconds, "onDuplicate": unique.on_duplicate}
    return made


def _key_of(job: BatchJobIn, caller: Caller) -> _RequestKey:
    assert job.idempotency_key  # noqa: S101 - callers chose those that have one
    own = caller.own(job.idempotency_key)
    return _RequestKey(caller.namespace, own, hash_request(msgspec.json.encode(job)).hex())


def _repeated(said: WrittenJob) -> Submitted | RotaError:
    if not said.same:
        return KeyReusedError("this idempotency key was used with another request within the last 24 hours")
    return msgspec.json.decode(said.repeated or "", type=Submitted)


def _answer(said: WrittenJob, answer: Submitted, on_duplicate: str | None) -> Submitted | RotaError:
    if said.repeated is not None:
        return _repeated(said)
    if said.taken:
        return ConflictError(f"another job has the jobId {answer.job_id!r} already")
    if said.duplicate is None:
        answer.status = said.status or answer.status
        return answer
    holder = UUID(said.duplicate)
    shown = show_job_of(holder, said.options)
    if on_duplicate != "keep":
        return DuplicateError(f"{shown} has this uniqueKey already (it is {said.status})")
    run_id = None if said.recurring else show_run(holder)
    return Submitted(job_id=shown, status=said.status or "", run_id=run_id, duplicate=True)
