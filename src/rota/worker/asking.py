"""Doors across processes: an isolated function asks, its worker answers.

A question and its answer are JSON; an error comes back in its words.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

import msgspec

from rota.contract.jobs import BatchJobIn, Submitted
from rota.doors import Door, Outcome
from rota.errors import RotaError
from rota.worker.messages import Answered, Asked


class Refused(msgspec.Struct):
    """A submission that was not accepted."""

    refused: str


class Look(msgspec.Struct):
    """A run to look at, and how long to wait for its end."""

    run_id: str
    wait_seconds: float = 0.0


_jobs = msgspec.json.Decoder(list[BatchJobIn])
_answers = msgspec.json.Decoder(list[Any])
_look = msgspec.json.Decoder(Look)
_outcome = msgspec.json.Decoder(Outcome)


class Questions:
    """Those a process has asked and that are not answered yet."""

    def __init__(self, send: Callable[[Asked], None]) -> None:
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
        self._send(Asked(number, what, msgspec.json.encode(question)))
        return future

    def answered(self, said: Answered) -> None:
        """From the thread that listens."""
        with self._lock:
            future = self._open.pop(said.number, None)
        if future is None or not future.set_running_or_notify_cancel():
            return
        if said.error is not None:
            future.set_exception(RotaError(said.error))
        else:
            future.set_result(said.answer or b"")


class AskingDoor:
    """The worker's door, from the process of an isolated function."""

    def __init__(self, questions: Questions) -> None:
        self._questions = questions

    async def submit(self, jobs: Sequence[BatchJobIn]) -> Sequence[Submitted | RotaError]:
        """The worker submits."""
        answers = await asyncio.wrap_future(self._questions.ask("submit", list(jobs)))
        return _read_answers(answers)

    async def look(self, run_id: str, wait_seconds: float) -> Outcome:
        """The worker looks."""
        outcome = await asyncio.wrap_future(self._questions.ask("look", Look(run_id, wait_seconds)))
        return _outcome.decode(outcome)

    async def cancel(self, run_id: str) -> None:
        """The worker cancels."""
        await asyncio.wrap_future(self._questions.ask("cancel", Look(run_id)))


class SyncAskingDoor:
    """The same for a function that can't await."""

    def __init__(self, questions: Questions) -> None:
        self._questions = questions

    def submit(self, jobs: Sequence[BatchJobIn]) -> Sequence[Submitted | RotaError]:
        """The worker submits."""
        return _read_answers(self._questions.ask("submit", list(jobs)).result())

    def look(self, run_id: str, wait_seconds: float) -> Outcome:
        """The worker looks."""
        return _outcome.decode(self._questions.ask("look", Look(run_id, wait_seconds)).result())

    def cancel(self, run_id: str) -> None:
        """The worker cancels."""
        self._questions.ask("cancel", Look(run_id)).result()


async def answer(asked: Asked, door: Door | None) -> Answered:
    """In the worker: what comes of a question."""
    try:
        if door is None:
            raise RotaError("this worker has no way to submit")  # noqa: TRY301 - told like any other
        return Answered(asked.number, await _ask(asked, door))
    except RotaError as error:
        return Answered(asked.number, error=str(error))


async def _ask(asked: Asked, door: Door) -> bytes:
    if asked.what == "submit":
        answers = await door.submit(_jobs.decode(asked.question))
        return msgspec.json.encode([Refused(str(one)) if isinstance(one, RotaError) else one for one in answers])
    wanted = _look.decode(asked.question)
    if asked.what == "look":
        return msgspec.json.encode(await door.look(wanted.run_id, wanted.wait_seconds))
    await door.cancel(wanted.run_id)
    return b"null"


def _read_answers(text: bytes) -> list[Submitted | RotaError]:
    return [
        RotaError(one["refused"]) if "refused" in one else msgspec.convert(one, Submitted)
        for one in _answers.decode(text)
    ]
