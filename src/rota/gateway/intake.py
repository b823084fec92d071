"""The way in: jobs as they are asked for are checked, their large payloads put away, and committed.

With a key, a repeat gets the first answer. Whoever asks (the API, a task that submits others) comes through here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID, uuid4

import msgspec

from rota.access.limits.backlog import Backlog
from rota.access.limits.tenant_limits import TenantLimits
from rota.blobs import Blobs
from rota.contract.jobs import JobIn, Submitted
from rota.domain.ids import day_of, show_job, show_run
from rota.domain.job import STORED_BYTES, Submission, SubmissionKey
from rota.domain.limits import Limits
from rota.domain.rights import Caller
from rota.errors import KeyReusedError, RotaError
from rota.gateway.group_commit import GroupCommitter
from rota.gateway.job_builder import JobBuilder
from rota.store.access.limits import LimitTable
from rota.store.pools import Pools
from rota.store.postgres.database import Database
from rota.store.postgres.wakeups import Notifier
from rota.store.submit import Duplicate, KnownKey, Submissions

_encoder = msgspec.json.Encoder()


class JobRequest(NamedTuple):
    """A job somebody asks for; with an idempotency key, the hash of the request tells a repeat from another request."""

    job: JobIn
    key: str | None = None
    request_hash: bytes = b""


class Repeated(Submitted, kw_only=True):
    """The first answer to a request that came again."""


Answer = Submitted | RotaError


class Intake:
    """Takes jobs in; `run()` commits them."""

    def __init__(
        self,
        *,
        database: Database,
        notifier: Notifier,
        shards: int,
        payload_limit_bytes: int,
        blobs: Blobs,
        now: Callable[[], datetime],
        defaults: Limits | None = None,
    ) -> None:
        self._submissions = Submissions(database)
        self._blobs = blobs
        self._now = now
        self.limits = TenantLimits(LimitTable(database), defaults or Limits())
        self.pressure = Backlog(Pools(database), self.limits, now=now)
        self.preparer = JobBuilder(shards=shards, payload_limit_bytes=payload_limit_bytes, now=now)
        self._committer = GroupCommitter(
            submissions=self._submissions, notifier=notifier, now=now, pressure=self.pressure
        )

    async def run(self) -> None:
        """Commits until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._committer.run(), name="committer")
            group.create_task(self.pressure.run(), name="pressure")
            group.create_task(self.limits.run(), name="limits")

    async def submit(self, asked: Sequence[JobRequest], caller: Caller) -> list[Answer]:
        """Each one's answer or refusal, in order, once all are committed; raises TooLargeError for too many at once."""
        await self.limits.open()
        self.limits.check_batch(caller, len(asked))
        now = self._now()
        answers: list[Answer] = []
        items: list[Submission] = []
        places: list[int] = []
        known = await self._known(asked, caller)
        for place, (job, key, request_hash) in enumerate(asked):
            if place in known:
                answers.append(known[place])
                continue
            try:
                item, answer = self.preparer.prepare(job, caller, now)
                self.limits.check_payload(caller, item.definition.payload)
                if _is_too_large(item):
                    item = await self._offload(item)
            except RotaError as error:
                answers.append(error)
                continue
            if key is not None:
                item = msgspec.structs.replace(item, key=_key(caller.own(key), request_hash, answer))
            items.append(item)
            places.append(place)
            answers.append(answer)
        fates = await self._committer.submit(items) if items else ()
        for place, fate in zip(places, fates, strict=True):
            if fate is not None:
                answers[place] = _answer(fate, asked[place].request_hash)
        return answers

    async def offload_payload(self, payload: str, job_id: UUID) -> str | None:
        """Puts a payload into object storage if it is too large for the database; where it is."""
        body = payload.encode()
        if len(body) <= STORED_BYTES:
            return None
        key = f"payloads/{day_of(job_id)}/{show_job(job_id)}-{uuid4().hex[:8]}.json"
        await self._blobs.put(key, body)
        return key

    async def _offload(self, item: Submission) -> Submission:
        """A payload that is too large for the database is left in object storage, before its commit."""
        key = await self.offload_payload(item.definition.payload or "", item.id)
        if key is None:
            return item
        definition = msgspec.structs.replace(item.definition, payload=None, blob=key)
        return msgspec.structs.replace(item, definition=definition)

    async def _known(self, asked: Sequence[JobRequest], caller: Caller) -> Mapping[int, Answer]:
        """Answers to those whose key is known, before anything that depends on time is looked at."""
        namespace = caller.namespace
        pairs = {place: (namespace, caller.own(one.key)) for place, one in enumerate(asked) if one.key is not None}
        if not pairs:
            return {}
        known = await self._submissions.find_keys(list(pairs.values()))
        return {
            place: _answer(known[pair], asked[place].request_hash) for place, pair in pairs.items() if pair in known
        }


def _answer(fate: Any, request_hash: bytes) -> Answer:
    """The answer for a job that was not simply accepted."""
    if isinstance(fate, KnownKey):
        if fate.request_hash != request_hash:
            return KeyReusedError("this idempotency key was used with another request within the last 24 hours")
        return msgspec.json.decode(fate.answer, type=Repeated)
    if isinstance(fate, Duplicate):
        run_id = None if fate.recurring else show_run(fate.job_id)
        return Submitted(job_id=show_job(fate.job_id), status=fate.status, run_id=run_id, duplicate=True)
    refusal: RotaError = fate
    return refusal


def _key(key: str, request_hash: bytes, answer: Submitted) -> SubmissionKey:
    return SubmissionKey(key, request_hash, _encoder.encode(answer).decode())


def _is_too_large(item: Submission) -> bool:
    """Whether its payload may be too large for the database; a character has at most four bytes."""
    payload = item.definition.payload
    return payload is not None and len(payload) > STORED_BYTES // 4
