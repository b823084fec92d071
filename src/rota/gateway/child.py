"""A gateway across processes: an isolated function asks, its worker answers.

Questions and answers are JSON; an error comes back with its message.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

import msgspec

from rota.contract.jobs import BatchJobIn, Submitted
from rota.contract.workflows import WorkflowRunOut, WorkflowRunStarted
from rota.errors import BadInputError, ConflictError, DuplicateError, FanOutError, KeyReusedError, RotaError
from rota.gateway.protocol import JobGateway, OutgoingJob, RunSnapshot
from rota.gateway.workflow_acts import WorkflowAct, WorkflowStart


class ChildAnswer(msgspec.Struct, tag=True):
    """The answer to a question of the function: JSON, or the message and class name of an error."""

    number: int
    answer: bytes | None = None
    error: str | None = None
    kind: str = ""


class ChildQuestion(msgspec.Struct, tag=True):
    """A call of the gateway: `what` is its method, `question` its arguments in JSON."""

    number: int
    what: str
    question: bytes


class Refused(msgspec.Struct):
    """A submission that was not accepted: the message and class name of the error."""

    refused: str
    kind: str = ""


class OutcomeQuestion(msgspec.Struct):
    """A run to look at, and how long to wait for its end."""

    run_id: str
    wait_seconds: float = 0.0


_PORTION_BYTES = 4 * 1024 * 1024
_KINDS: dict[Any, type[RotaError]] = {
    kind.__name__: kind for kind in (BadInputError, ConflictError, DuplicateError, FanOutError, KeyReusedError)
}
_jobs = msgspec.json.Decoder(list[BatchJobIn])
_answers = msgspec.json.Decoder(list[Any])
_look = msgspec.json.Decoder(OutcomeQuestion)
_outcome = msgspec.json.Decoder(RunSnapshot)
_caller: msgspec.json.Decoder[tuple[str, str] | None] = msgspec.json.Decoder(tuple[str, str] | None)


_start = msgspec.json.Decoder(WorkflowStart)
_started = msgspec.json.Decoder(WorkflowRunStarted)
_act = msgspec.json.Decoder(WorkflowAct)
_workflow_run = msgspec.json.Decoder(WorkflowRunOut)


class Questions:
    """The questions of a process, until they are answered."""

    def __init__(self, send: Callable[[ChildQuestion], None]) -> None:
        self._send = send
        self._numbers = itertools.count(1)
        self._open: dict[int, Future[bytes]] = {}
        self._lock = threading.Lock()

    def ask(self, what: str, question: Any) -> Future[bytes]:
        """Sends a question; can be called from any thread."""
        future: Future[bytes] = Future()
        with self._lock:
            number = next(self._numbers)
            self._open[number] = future
        self._send(ChildQuestion(number, what, msgspec.json.encode(question)))
        return future

    def answered(self, said: ChildAnswer) -> None:
        """Completes a question; called by the thread that listens."""
        with self._lock:
            future = self._open.pop(said.number, None)
        if future is None or not future.set_running_or_notify_cancel():
            return
        if said.error is not None:
            future.set_exception(_KINDS.get(said.kind, RotaError)(said.error))
        else:
            future.set_result(said.answer or b"")


class ChildGateway:
    """The worker's gateway, from the process of an isolated function."""

    def __init__(self, questions: Questions) -> None:
        self._questions = questions

    async def submit(self, jobs: Sequence[OutgoingJob]) -> Sequence[Submitted | RotaError]:
        return _read_answers([await self._ask("submit", some) for some in _portions(jobs)])

    async def look(self, run_id: str, wait_seconds: float) -> RunSnapshot:
        return _outcome.decode(await self._ask("look", OutcomeQuestion(run_id, wait_seconds)))

    async def cancel(self, run_id: str) -> None:
        await self._ask("cancel", OutcomeQuestion(run_id))

    async def caller(self) -> tuple[str, str] | None:
        return _caller.decode(await self._ask("caller", None))

    async def start_workflow(self, workflow: str, inputs: Mapping[str, Any], key: str) -> WorkflowRunStarted:
        return _started.decode(await self._ask("start_workflow", WorkflowStart(workflow, dict(inputs), key)))

    async def act_on_workflow(self, act: WorkflowAct) -> WorkflowRunOut:
        return _workflow_run.decode(await self._ask("act_on_workflow", act))

    async def _ask(self, what: str, question: Any) -> bytes:
        return await asyncio.wrap_future(self._questions.ask(what, question))


class SyncChildGateway:
    """The same for a function that can't await."""

    def __init__(self, questions: Questions) -> None:
        self._questions = questions

    def submit(self, jobs: Sequence[OutgoingJob]) -> Sequence[Submitted | RotaError]:
        return _read_answers([self._ask("submit", some) for some in _portions(jobs)])

    def look(self, run_id: str, wait_seconds: float) -> RunSnapshot:
        return _outcome.decode(self._ask("look", OutcomeQuestion(run_id, wait_seconds)))

    def cancel(self, run_id: str) -> None:
        self._ask("cancel", OutcomeQuestion(run_id))

    def caller(self) -> tuple[str, str] | None:
        return _caller.decode(self._ask("caller", None))

    def start_workflow(self, workflow: str, inputs: Mapping[str, Any], key: str) -> WorkflowRunStarted:
        return _started.decode(self._ask("start_workflow", WorkflowStart(workflow, dict(inputs), key)))

    def act_on_workflow(self, act: WorkflowAct) -> WorkflowRunOut:
        return _workflow_run.decode(self._ask("act_on_workflow", act))

    def _ask(self, what: str, question: Any) -> bytes:
        return self._questions.ask(what, question).result()


async def answer(asked: ChildQuestion, gateway: JobGateway | None) -> ChildAnswer:
    """Answers a question in the worker."""
    try:
        if gateway is None:
            raise RotaError("this worker can't submit jobs")  # noqa: TRY301 - answered like any other
        return ChildAnswer(asked.number, await _ask(asked, gateway))
    except Exception as error:  # noqa: BLE001 - the function that asked gets it, and would otherwise wait for ever
        return ChildAnswer(asked.number, error=str(error) or type(error).__name__, kind=type(error).__name__)


async def _ask(asked: ChildQuestion, gateway: JobGateway) -> bytes:
    if asked.what == "submit":
        answers = await gateway.submit([OutgoingJob.of(job) for job in _jobs.decode(asked.question)])
        return msgspec.json.encode(
            [Refused(str(one), type(one).__name__) if isinstance(one, RotaError) else one for one in answers]
        )
    if asked.what == "caller":
        return msgspec.json.encode(await gateway.caller())
    if asked.what == "start_workflow":
        start = _start.decode(asked.question)
        return msgspec.json.encode(await gateway.start_workflow(start.workflow, start.inputs, start.key))
    if asked.what == "act_on_workflow":
        return msgspec.json.encode(await gateway.act_on_workflow(_act.decode(asked.question)))
    wanted = _look.decode(asked.question)
    if asked.what == "look":
        return msgspec.json.encode(await gateway.look(wanted.run_id, wanted.wait_seconds))
    await gateway.cancel(wanted.run_id)
    return b"null"


def _read_answers(texts: Iterable[bytes]) -> list[Submitted | RotaError]:
    return [
        _KINDS.get(one.get("kind"), RotaError)(one["refused"]) if "refused" in one else msgspec.convert(one, Submitted)
        for text in texts
        for one in _answers.decode(text)
    ]


def _portions(jobs: Sequence[OutgoingJob]) -> Iterator[list[BatchJobIn]]:
    """The jobs in lists that fit into one message."""
    some: list[BatchJobIn] = []
    size = 0
    for job in (outgoing.job for outgoing in jobs):
        length = len(msgspec.json.encode(job))
        if some and size + length > _PORTION_BYTES:
            yield some
            some, size = [], 0
        some.append(job)
        size += length
    yield some
