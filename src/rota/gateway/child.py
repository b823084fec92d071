"""A gateway across processes: an isolated function asks, its worker answers.

A question and its answer are JSON; an error comes back in its words.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from typing import Any

import msgspec

from rota.contract.jobs import BatchJobIn, Submitted
from rota.errors import BadInputError, ConflictError, DuplicateError, FanOutError, KeyReusedError, RotaError
from rota.gateway.protocol import JobGateway, RunSnapshot


class ChildAnswer(msgspec.Struct, tag=True):
    """The answer to a question of the function: JSON, or why there is none, and the name of the error."""

    number: int
    answer: bytes | None = None
    error: str | None = None
    kind: str = ""


class ChildQuestion(msgspec.Struct, tag=True):
    """The function submits, looks at a run or cancels one: `what` names it, `question` is JSON."""

    number: int
    what: str
    question: bytes


class Refused(msgspec.Struct):
    """A submission that was not accepted: the name of the error, and its words."""

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


class Questions:
    """Those a process has asked and that are not answered yet."""

    def __init__(self, send: Callable[[ChildQuestion], None]) -> None:
        self._send = send
        self._numbers = itertools.count(1)
        self._open: dict[int, Future[bytes]] = {}
        self._lock = threading.Lock()

    def ask(self, what: str, question: Any) -> Future[bytes]:
        """May be called from any thread."""
        future: Future[bytes] = Future()
        with self._lock:
            number = next(self._numbers)
            self._open[number] = future
        self._send(ChildQuestion(number, what, msgspec.json.encode(question)))
        return future

    def answered(self, said: ChildAnswer) -> None:
        """From the thread that listens."""
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

    async def submit(self, jobs: Sequence[BatchJobIn]) -> Sequence[Submitted | RotaError]:
        """The worker submits."""
        answers: list[Submitted | RotaError] = []
        for some in _portions(jobs):
            answered = await asyncio.wrap_future(self._questions.ask("submit", some))
            answers += _read_answers(answered)
        return answers

    async def look(self, run_id: str, wait_seconds: float) -> RunSnapshot:
        """The worker looks."""
        outcome = await asyncio.wrap_future(self._questions.ask("look", OutcomeQuestion(run_id, wait_seconds)))
        return _outcome.decode(outcome)

    async def cancel(self, run_id: str) -> None:
        """The worker cancels."""
        await asyncio.wrap_future(self._questions.ask("cancel", OutcomeQuestion(run_id)))

    async def caller(self) -> tuple[str, str] | None:
        """The worker knows."""
        answered = await asyncio.wrap_future(self._questions.ask("caller", None))
        return _caller.decode(answered)


class SyncChildGateway:
    """The same for a function that can't await."""

    def __init__(self, questions: Questions) -> None:
        self._questions = questions

    def submit(self, jobs: Sequence[BatchJobIn]) -> Sequence[Submitted | RotaError]:
        """The worker submits."""
        return [
            answer for some in _portions(jobs) for answer in _read_answers(self._questions.ask("submit", some).result())
        ]

    def look(self, run_id: str, wait_seconds: float) -> RunSnapshot:
        """The worker looks."""
        return _outcome.decode(self._questions.ask("look", OutcomeQuestion(run_id, wait_seconds)).result())

    def cancel(self, run_id: str) -> None:
        """The worker cancels."""
        self._questions.ask("cancel", OutcomeQuestion(run_id)).result()

    def caller(self) -> tuple[str, str] | None:
        """The worker knows."""
        return _caller.decode(self._questions.ask("caller", None).result())


async def answer(asked: ChildQuestion, gateway: JobGateway | None) -> ChildAnswer:
    """In the worker: what comes of a question."""
    try:
        if gateway is None:
            raise RotaError("this worker has no way to submit")  # noqa: TRY301 - told like any other
        return ChildAnswer(asked.number, await _ask(asked, gateway))
    except Exception as error:  # noqa: BLE001 - the function that asked gets it, and would else wait for ever
        return ChildAnswer(asked.number, error=str(error) or type(error).__name__, kind=type(error).__name__)


async def _ask(asked: ChildQuestion, gateway: JobGateway) -> bytes:
    if asked.what == "submit":
        answers = await gateway.submit(_jobs.decode(asked.question))
        return msgspec.json.encode([_refused(one) if isinstance(one, RotaError) else one for one in answers])
    if asked.what == "caller":
        return msgspec.json.encode(await gateway.caller())
    wanted = _look.decode(asked.question)
    if asked.what == "look":
        return msgspec.json.encode(await gateway.look(wanted.run_id, wanted.wait_seconds))
    await gateway.cancel(wanted.run_id)
    return b"null"


def _refused(error: RotaError) -> Refused:
    return Refused(str(error), type(error).__name__)


def _read_answers(text: bytes) -> list[Submitted | RotaError]:
    return [
        _KINDS.get(one.get("kind"), RotaError)(one["refused"]) if "refused" in one else msgspec.convert(one, Submitted)
        for one in _answers.decode(text)
    ]


def _portions(jobs: Sequence[BatchJobIn]) -> Iterator[list[BatchJobIn]]:
    """As many as go into one message."""
    some: list[BatchJobIn] = []
    size = 0
    for job in jobs:
        length = len(msgspec.json.encode(job))
        if some and size + length > _PORTION_BYTES:
            yield some
            some, size = [], 0
        some.append(job)
        size += length
    yield some
