"""How a program submits jobs and follows runs: over HTTP, through its worker, or straight into the database."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import msgspec
from msgspec import UNSET

from rota.contract.jobs import BatchJobIn, Submitted
from rota.contract.workflows import WorkflowRunOut, WorkflowRunStarted
from rota.domain.run import ENDED_STATUSES
from rota.errors import RotaError
from rota.gateway.workflow_acts import WorkflowAct

_encoder = msgspec.json.Encoder()


class RunSnapshot(msgspec.Struct, frozen=True):
    """The state of a run: its status, and its outcome when it has ended."""

    status: str
    result: Any = None
    error: str | None = None
    reason: str | None = None
    traceback: str | None = None

    @property
    def ended(self) -> bool:
        return self.status in ENDED_STATUSES


class JobTemplate:
    """A job without its payload: what many submissions have alike. `fits_sets`: they can go together as a set."""

    __slots__ = ("fits_sets", "job", "text")

    def __init__(self, job: BatchJobIn) -> None:
        self.job = job
        self.text = _encoder.encode(job)
        runs_once = job.schedule_type in ("immediate", "future")
        own = job.unique_key or job.idempotency_key or job.job_id or job.dependencies
        self.fits_sets = runs_once and not own


class SetMember(NamedTuple):
    """Where a job stood in a set that was sent and not answered, and the set's idempotency key."""

    key: str
    position: int


class OutgoingJob(NamedTuple):
    """A job to submit: a template and a payload (JSON; empty: none). `member`: it may have been submitted, in a set."""

    template: JobTemplate
    payload: bytes = b""
    member: SetMember | None = None

    @classmethod
    def of(cls, job: BatchJobIn) -> OutgoingJob:
        payload = b"" if job.payload is UNSET else bytes(job.payload)
        return cls(JobTemplate(msgspec.structs.replace(job, payload=UNSET)), payload)

    @property
    def job(self) -> BatchJobIn:
        """The whole job."""
        if not self.payload:
            return self.template.job
        return msgspec.structs.replace(self.template.job, payload=msgspec.Raw(self.payload))

    def with_key(self, new_key: Callable[[], str]) -> OutgoingJob:
        """The job with an idempotency key, its own or a new one."""
        job = self.template.job
        if job.idempotency_key:
            return self
        return self._replace(template=JobTemplate(msgspec.structs.replace(job, idempotency_key=new_key())))


def are_alike(jobs: Sequence[OutgoingJob]) -> bool:
    """Whether they can go together as a set."""
    template = jobs[0].template
    return template.fits_sets and all(job.template is template or job.template.text == template.text for job in jobs)


class JobGateway(Protocol):
    """Every call may raise RotaError."""

    async def submit(self, jobs: Sequence[OutgoingJob]) -> Sequence[Submitted | RotaError]:
        """The answer or refusal of each job, in order, once all are committed."""
        ...

    async def look(self, run_id: str, wait_seconds: float) -> RunSnapshot:
        """The state of a run, once it has ended or `wait_seconds` are over."""
        ...

    async def cancel(self, run_id: str) -> None:
        """Ends a run that has not started; asks a running one to stop."""
        ...

    async def caller(self) -> tuple[str, str] | None:
        """The namespace and owner of submissions; None where only the server knows."""
        ...

    async def start_workflow(self, workflow: str, inputs: Mapping[str, Any], key: str) -> WorkflowRunStarted:
        """Starts a run of a workflow; a repeat with the same key gets the first answer."""
        ...

    async def act_on_workflow(self, act: WorkflowAct) -> WorkflowRunOut:
        """The workflow run, after the act."""
        ...


class SyncJobGateway(Protocol):
    """The same for code that can't await."""

    def submit(self, jobs: Sequence[OutgoingJob]) -> Sequence[Submitted | RotaError]: ...
    def look(self, run_id: str, wait_seconds: float) -> RunSnapshot: ...
    def cancel(self, run_id: str) -> None: ...
    def caller(self) -> tuple[str, str] | None: ...
    def start_workflow(self, workflow: str, inputs: Mapping[str, Any], key: str) -> WorkflowRunStarted: ...
    def act_on_workflow(self, act: WorkflowAct) -> WorkflowRunOut: ...
