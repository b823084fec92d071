"""Submitting straight into the database: jobs are checked, their large payloads put into object storage, and committed.

A process has one `LocalGateway`. The API submits with it on behalf of its callers. `for_caller` gives a `JobGateway`
for one caller, `for_run` one for the task of a run: it submits as the run's owner.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, TypeVar
from uuid import UUID, uuid4

import msgspec

from rota.access.limits.backlog import Backlog
from rota.access.limits.tenant_limits import TenantLimits
from rota.blobs import Blobs
from rota.clock import Deadline
from rota.contract.jobs import BatchJobIn, JobIn, JobSetOut, Submitted
from rota.contract.json_rules import hash_request
from rota.contract.workflows import ResumeIn, WorkflowRunOut, WorkflowRunStarted
from rota.domain.ids import day_of, parse_run, show_job, show_run
from rota.domain.job import STORED_BYTES, Recurring, SingleJob, SubmissionKey
from rota.domain.limits import Limits
from rota.domain.rights import Caller
from rota.domain.run import Claim
from rota.errors import BadInputError, FanOutError, KeyReusedError, NotFoundError, RotaError
from rota.gateway.calendars import CalendarDays
from rota.gateway.coalescing import own_error
from rota.gateway.dependencies import Dependencies
from rota.gateway.group_commit import Declined, GroupCommitter
from rota.gateway.job_builder import JobBuilder
from rota.gateway.job_sets import JobSets
from rota.gateway.known_tasks import KnownTask, KnownTasks
from rota.gateway.protocol import OutgoingJob, RunSnapshot, are_alike
from rota.gateway.requests import JobRequest, Repeated, SetRequest
from rota.gateway.set_answers import answers_of
from rota.gateway.traced_jobs import submitting_jobs, submitting_set
from rota.gateway.workflow_acts import WorkflowAct, has_ended
from rota.gateway.workflows import WorkflowGateway
from rota.metrics.catalogue import Metrics
from rota.service import Breather, Service, costly_step
from rota.store.access.limits import BacklogCounts, LimitTable
from rota.store.announce import Announcements
from rota.store.cancel import Cancellations
from rota.store.depend.needs import NeededJobs
from rota.store.flow.workflows import Workflows
from rota.store.postgres.database import Database
from rota.store.read.jobs import Jobs
from rota.store.read.runs import Runs
from rota.store.submit import KnownKey, Submissions
from rota.store.submit.unique_keys import Duplicate
from rota.tracing import Tracing

_FIRST_POLL_SECONDS = 0.01
_LONGEST_POLL_SECONDS = 0.2
_encoder = msgspec.json.Encoder()


Answer = Submitted | RotaError
AnyJob = TypeVar("AnyJob", bound=SingleJob)


class LocalGateway:
    """Submits for any caller; its `services` must run."""

    def __init__(
        self,
        *,
        database: Database,
        shards: int,
        payload_limit_bytes: int,
        blobs: Blobs,
        now: Callable[[], datetime],
        defaults: Limits | None = None,
        lazy: bool = False,
        check_payloads: bool = True,
        is_listening: Callable[[], bool] = lambda: False,
        metrics: Metrics | None = None,
        tracing: Tracing | None = None,
    ) -> None:
        """A lazy one reads nothing from the database before the first submission. `is_listening`: whether `tasks` is
        woken when a worker joins."""
        self._tracing = tracing
        self._submissions = Submissions(database)
        self._runs = Runs(database)
        self._cancellations = Cancellations(database)
        self._blobs = blobs
        self._now = now
        self.limits = TenantLimits(LimitTable(database), defaults or Limits())
        self.backlog = Backlog(BacklogCounts(database), self.limits, now=now, lazy=lazy)
        self.tasks = KnownTasks(Announcements(database), checks=check_payloads, is_listening=is_listening)
        self.job_builder = JobBuilder(
            shards=shards, payload_limit_bytes=payload_limit_bytes, now=now, find_task=self.tasks.find
        )
        self.calendars = CalendarDays(database, now)
        self.workflows = WorkflowGateway(
            Workflows(database), self._submissions, self.job_builder, self.calendars, shards=shards, now=now
        )
        self.dependencies = Dependencies(Jobs(database), NeededJobs(database), now)
        self._committer = GroupCommitter(submissions=self._submissions, now=now, metrics=metrics)
        self._sets = JobSets(
            submissions=self._submissions,
            committer=self._committer,
            job_builder=self.job_builder,
            backlog=self.backlog,
            takes_payloads=self.limits.takes_payloads,
            check_payload=self.limits.check_payload,
            offload=self._offload,
            submit_each=self._submit,
            now=now,
        )

    @property
    def services(self) -> list[Service]:
        return [*self._committer.writers, self.limits, self.backlog, self.tasks]

    def for_caller(self, caller: Caller) -> CallerGateway:
        return CallerGateway(self, partial(_itself, caller))

    def for_run(self, claim: Claim) -> RunGateway:
        """A gateway for the task of this run; can be called from any thread."""
        return RunGateway(self, partial(self._owner_of, claim))

    async def load(self, caller: Caller) -> None:
        """Reads what the checks of this caller's jobs need, the first time."""
        await self.limits.load()
        await self.tasks.load(caller.namespace)

    async def submit(self, requests: Sequence[JobRequest], caller: Caller) -> list[Answer]:
        """The answer or refusal of each, in order, once all are committed; raises TooLargeError for too many."""
        if self._tracing is None:
            return await self._submit(requests, caller)
        with submitting_jobs(self._tracing, requests, caller.namespace) as traced:
            return await self._submit(traced, caller)

    async def _submit(self, requests: Sequence[JobRequest], caller: Caller) -> list[Answer]:
        await self.load(caller)
        self.limits.check_batch(caller, len(requests))
        now = self._now()
        answers: list[Answer] = []
        items: dict[int, SingleJob] = {}
        known: dict[str | None, KnownTask | None] = {}
        refused: list[int] = []
        breather = Breather()
        for position, (job, key, request_hash) in enumerate(requests):
            await breather.breathe()
            try:
                async with costly_step(len(job.payload) if job.payload else 0):
                    if job.task not in known:
                        known[job.task] = self.job_builder.find_task(job, caller)
                    item, answer = self.job_builder.prepare(job, caller, now, known[job.task])
                self.limits.check_payload(caller, item.definition.payload)
                if job.dependencies or job.exclude_calendars or _may_be_large(item):
                    item = await self._completed(item, answer, job, caller)
            except RotaError as error:
                answers.append(error)
                refused.append(position)
                continue
            if key is not None:
                submission_key = SubmissionKey(caller.own(key), request_hash, _encoder.encode(answer).decode())
                item = msgspec.structs.replace(item, key=submission_key)
            items[position] = item
            answers.append(answer)
        prepared = list(items.values())
        over = self.backlog.refuse(prepared)
        try:
            for position in [at for at, item in items.items() if item.id in over]:
                answers[position] = over[items.pop(position).id]
                refused.append(position)
            for position, first in (await self._known(requests, refused, caller)).items():
                answers[position] = first
            results = await self._committer.submit(list(items.values())) if items else ()
        finally:
            self.backlog.settled(prepared)
        for position, declined in zip(items, results, strict=True):
            if declined is not None:
                answers[position] = _answer(declined, requests[position].request_hash)
        return answers

    async def submit_set(self, wanted: SetRequest, caller: Caller) -> JobSetOut:
        """What became of each job of a set, once all are committed; raises TooLargeError for too many."""
        await self.load(caller)
        self.limits.check_batch(caller, len(wanted.payloads))
        if self._tracing is None:
            return await self._sets.submit(wanted, caller)
        with submitting_set(self._tracing, wanted, caller.namespace) as traced:
            return await self._sets.submit(traced, caller)

    async def submit_jobs(self, jobs: Sequence[OutgoingJob], caller: Caller) -> Sequence[Answer]:
        """The answer or refusal of each job of a program in this process."""
        if are_alike(jobs):
            payloads = self.job_builder.payloads(b"[" + b",".join([job.payload or b"null" for job in jobs]) + b"]")
            wanted = SetRequest(jobs[0].template.job, payloads)
            try:
                return answers_of(await self.submit_set(wanted, caller), len(jobs))
            except BadInputError as error:  # in what they have alike
                return [own_error(error, position) for position in range(len(jobs))]
        return await self.submit([request_of(job.job) for job in jobs], caller)

    async def look(self, run_id: str, wait_seconds: float, caller: Caller) -> RunSnapshot:
        """The state of a run of this caller; polls, less and less often, until it ends or the time is over."""
        run = parse_run(run_id)
        deadline = asyncio.get_running_loop().time() + wait_seconds
        pause = _FIRST_POLL_SECONDS
        while True:
            row = await self._own(caller, run)
            left = deadline - asyncio.get_running_loop().time()
            if row["place"] == "finished" or left <= 0:
                result = await self._result(row)
                return RunSnapshot(row["status"], result, row["error"], row["reason"], row["traceback"])
            await asyncio.sleep(min(pause, left))
            pause = min(pause * 1.5, _LONGEST_POLL_SECONDS)

    async def cancel(self, run_id: str, caller: Caller) -> None:
        run = parse_run(run_id)
        await self._own(caller, run)
        await self._cancellations.cancel_run(caller.namespace, run)

    async def offload_payload(self, payload: str, job_id: UUID) -> str | None:
        """Puts a payload that is too large for the database into object storage; returns its key there.

        Returns None, and stores nothing, when it fits.
        """
        body = payload.encode()
        if len(body) <= STORED_BYTES:
            return None
        key = f"payloads/{day_of(job_id)}/{show_job(job_id)}-{uuid4().hex[:8]}.json"
        await self._blobs.put(key, body)
        return key

    async def start_workflow(
        self, workflow: str, inputs: Mapping[str, Any], key: str, caller: Caller
    ) -> WorkflowRunStarted:
        """Starts a run of a workflow of the caller's; a repeat with the same key gets the first answer."""
        request_hash = hash_request(_encoder.encode([workflow, inputs]))
        return await self.workflows.run(workflow, inputs, caller, only=caller.owner, key=key, request_hash=request_hash)

    async def act_on_workflow(self, act: WorkflowAct, caller: Caller) -> WorkflowRunOut:
        """A workflow run of the caller's, after the act."""
        workflows, only = self.workflows, caller.owner
        match act.verb:
            case "cancel":
                return await workflows.cancel(act.run_id, caller, only)
            case "resume":
                return await workflows.resume(act.run_id, caller, only=only, asked=_resume_of(act))
            case "signal":
                request_hash = hash_request(_encoder.encode([act.run_id, act.name, act.payload]))
                await workflows.signal(
                    act.run_id, act.name, act.payload, caller, only=only, key=act.key, request_hash=request_hash
                )
            case "approve" | "reject":
                return await workflows.decide(
                    act.run_id, act.name, caller, only=only, approve=act.verb == "approve", comment=act.comment
                )
        return await self._look_at_workflow(act, caller)

    async def _look_at_workflow(self, act: WorkflowAct, caller: Caller) -> WorkflowRunOut:
        deadline, pause = Deadline(act.wait_seconds), _FIRST_POLL_SECONDS
        while True:
            run = await self.workflows.show_run(act.run_id, caller, caller.owner)
            if has_ended(run) or deadline.is_over:
                return run
            await asyncio.sleep(deadline.within(pause))
            pause = min(2 * pause, _LONGEST_POLL_SECONDS)

    async def _completed(self, item: SingleJob, answer: Submitted, job: JobIn, caller: Caller) -> SingleJob:
        """The job with the days of its calendars and its dependencies, and with its payload where that belongs."""
        if isinstance(item, Recurring):
            item = await self.calendars.attach(item)
        if job.dependencies:
            item = await self.dependencies.attach(item, answer, job, caller)
        return await self._offload(item) if _may_be_large(item) else item

    async def _offload(self, item: AnyJob) -> AnyJob:
        """Puts a large payload into object storage, before the job is committed."""
        key = await self.offload_payload(item.definition.payload or "", item.id)
        if key is None:
            return item
        definition = msgspec.structs.replace(item.definition, payload=None, blob=key)
        return msgspec.structs.replace(item, definition=definition)

    async def _known(
        self, requests: Sequence[JobRequest], positions: Sequence[int], caller: Caller
    ) -> Mapping[int, Answer]:
        """Stored answers to requests that were refused: a repeat must not fail because, say, its time has passed."""
        pairs = {at: (caller.namespace, caller.own(key)) for at in positions if (key := requests[at].key) is not None}
        if not pairs:
            return {}
        known = await self._submissions.find_keys(list(pairs.values()))
        return {at: _answer(known[pair], requests[at].request_hash) for at, pair in pairs.items() if pair in known}

    async def _owner_of(self, claim: Claim) -> Caller:
        return Caller(claim.namespace, (await self._runs.get(claim.namespace, claim.run_id))["owner"])

    async def _own(self, caller: Caller, run_id: UUID) -> Any:
        """A run of this owner; raises NotFoundError for another owner's."""
        row = await self._runs.get(caller.namespace, run_id)
        if row["owner"] != caller.owner:
            raise NotFoundError("there is no such run")
        return row

    async def _result(self, row: Any) -> Any:
        if row["result_blob"] is not None:
            return msgspec.json.decode(await self._blobs.get(row["result_blob"]))
        return None if row["result"] is None else msgspec.json.decode(row["result"])


class CallerGateway:
    """A `JobGateway` on behalf of one caller."""

    def __init__(self, local: LocalGateway, find_caller: Callable[[], Awaitable[Caller]]) -> None:
        self._local = local
        self._find_caller = find_caller

    async def submit(self, jobs: Sequence[OutgoingJob]) -> Sequence[Answer]:
        return await self._local.submit_jobs(jobs, await self._find_caller())

    async def look(self, run_id: str, wait_seconds: float) -> RunSnapshot:
        return await self._local.look(run_id, wait_seconds, await self._find_caller())

    async def cancel(self, run_id: str) -> None:
        await self._local.cancel(run_id, await self._find_caller())

    async def caller(self) -> tuple[str, str] | None:
        caller = await self._find_caller()
        return caller.namespace, caller.owner

    async def start_workflow(self, workflow: str, inputs: Mapping[str, Any], key: str) -> WorkflowRunStarted:
        return await self._local.start_workflow(workflow, inputs, key, await self._find_caller())

    async def act_on_workflow(self, act: WorkflowAct) -> WorkflowRunOut:
        return await self._local.act_on_workflow(act, await self._find_caller())


class RunGateway(CallerGateway):
    """The gateway of one run, with a limit on how many jobs it submits."""

    _submitted = 0

    async def submit(self, jobs: Sequence[OutgoingJob]) -> Sequence[Answer]:
        """As for any caller; raises FanOutError when the run submits too many.

        Counts before it submits, so that two calls at once can't exceed the limit; only new jobs stay counted.
        """
        caller, limits = await self._find_caller(), self._local.limits
        await limits.load()
        most = limits.most_fan_out(caller)
        if most is not None and self._submitted + len(jobs) > most:
            raise FanOutError(
                f"a run may submit {most} jobs in all; this one has submitted {self._submitted} "
                f"and tries to submit {len(jobs)} more"
            )
        self._submitted += len(jobs)
        made = 0
        try:
            answers = await self._local.submit_jobs(jobs, caller)
            made = sum(_is_new(answer) for answer in answers)
        finally:
            self._submitted -= len(jobs) - made
        return answers


def _may_be_large(item: SingleJob) -> bool:
    """Whether the payload may be too large for the database; a character has at most four bytes."""
    return len(item.definition.payload or "") > STORED_BYTES // 4


async def _itself(caller: Caller) -> Caller:
    return caller


def request_of(job: BatchJobIn) -> JobRequest:
    """The request of a job of a program in this process."""
    key = job.idempotency_key
    return JobRequest(job, key, hash_request(msgspec.json.encode(job)) if key else b"")


def _resume_of(act: WorkflowAct) -> ResumeIn:
    return ResumeIn(generation=act.generation, nodes=act.nodes, items=act.items, version=act.version)


def _is_new(answer: Answer) -> bool:
    return not isinstance(answer, (RotaError, Repeated)) and not answer.duplicate


def _answer(declined: Declined, request_hash: bytes) -> Answer:
    if isinstance(declined, KnownKey):
        if declined.request_hash != request_hash:
            return KeyReusedError("this idempotency key was used with another request within the last 24 hours")
        return msgspec.json.decode(declined.answer, type=Repeated)
    if isinstance(declined, Duplicate):
        run_id = None if declined.recurring else show_run(declined.job_id)
        return Submitted(job_id=declined.shown_id, status=declined.status, run_id=run_id, duplicate=True)
    return declined
