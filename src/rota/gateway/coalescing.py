"""Submissions of one process that are under way together travel together, each with its own answer or error.

A lone submission is sent at once, by the coroutine or thread that makes it. What is submitted while a request is under
way gathers, and goes with the next one. A request that takes long (the server is away, and it is being repeated) holds
up the others only for a moment: then another one goes beside it.

A coroutine that is cancelled takes its job back if it has not been sent; otherwise the job may still be accepted.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import TypeVar

from rota.contract.jobs import Submitted
from rota.errors import RotaError
from rota.gateway.protocol import OutgoingJob

MOST_PER_REQUEST = 1000
MOST_BYTES = 256 * 1024  # a server reads that much without a pause
_PATIENT_SECONDS = 0.05  # how long others wait for a request that is under way
_MOST_UNDER_WAY = 8
_MOST_IN_FLIGHT = 3  # parts of one submission

Answer = Submitted | RotaError
Answers = Sequence[Answer]
Outcome = Answers | RotaError


class _Waiting:
    """A job that waits for its request."""

    __slots__ = ("job", "patience_seconds")

    def __init__(self, job: OutgoingJob, patience_seconds: float | None) -> None:
        self.job = job
        self.patience_seconds = patience_seconds


AnyWaiting = TypeVar("AnyWaiting", bound=_Waiting)


class _Pending(_Waiting):
    """A coroutine's job."""

    __slots__ = ("future",)

    def __init__(self, job: OutgoingJob, patience_seconds: float | None, future: asyncio.Future[Answer]) -> None:
        super().__init__(job, patience_seconds)
        self.future = future


class AsyncCoalescer:
    """Sends the jobs of the coroutines of one event loop."""

    def __init__(self, send: Callable[[Sequence[OutgoingJob], float | None], Awaitable[Answers]]) -> None:
        """`send` submits jobs with a patience; their answers come in order."""
        self._send = send
        self._pending: list[_Pending] = []
        self._under_way = 0
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def submit(self, job: OutgoingJob, patience_seconds: float | None) -> Answer:
        """The answer to the job; raises what `send` raises."""
        if not self._under_way:
            self._under_way = 1
            try:
                (answer,) = await self._send([job], patience_seconds)
            finally:
                self._under_way -= 1
                self._send_pending()
            return answer
        loop = asyncio.get_running_loop()
        pending = _Pending(job, patience_seconds, loop.create_future())
        self._pending.append(pending)
        if self._timer is None:
            self._timer = loop.call_later(_PATIENT_SECONDS, self._send_beside)
        return await pending.future

    def _send_pending(self) -> None:
        if self._pending and not self._under_way:
            if self._pending[0].future.get_loop().is_closed():
                self._pending = []  # a coroutine that never ended is being collected; no other waits
            else:
                self._start()

    def _send_beside(self) -> None:
        """Sends what has waited for long, beside the requests that it waited for."""
        self._timer = None
        if self._pending and self._under_way < _MOST_UNDER_WAY:
            self._start()

    def _start(self) -> None:
        self._under_way += 1
        task = asyncio.get_running_loop().create_task(self._send_all(), name="submissions")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _send_all(self) -> None:
        try:
            while batch := self._take():
                await self._send_batch(batch)
        finally:
            self._under_way -= 1

    def _take(self) -> list[_Pending]:
        """The next jobs that fit into one request."""
        waiting = [one for one in self._pending if not one.future.done()]
        batch = list(_fitting(waiting))
        self._pending = waiting[len(batch) :]
        return batch

    async def _send_batch(self, batch: list[_Pending]) -> None:
        error: RotaError = RotaError("the submission was interrupted; the job may have been accepted")
        answers: Answers = ()
        try:
            answers = await self._send([one.job for one in batch], batch[0].patience_seconds)
        except RotaError as refusal:
            error = refusal
        except Exception as failure:  # noqa: BLE001 - each coroutine that waits gets it
            error = RotaError(f"{type(failure).__name__}: {failure}")
        finally:
            for position, one in enumerate(batch):
                if one.future.done():
                    continue
                if answers:
                    one.future.set_result(answers[position])
                else:
                    one.future.set_exception(own_error(error, position))


class _Place(_Waiting):
    """A thread's job; when the thread is woken it has an answer, or the batch that it shall send."""

    __slots__ = ("answer", "batch", "error", "is_interruptible", "woken")

    def __init__(self, job: OutgoingJob, patience_seconds: float | None) -> None:
        super().__init__(job, patience_seconds)
        self.woken = threading.Lock()
        self.woken.acquire()
        # Signals raise their exceptions there: Ctrl-C, or the time limit of a web server.
        self.is_interruptible = threading.current_thread() is threading.main_thread()
        self.answer: Answer | None = None
        self.error: RotaError | None = None
        self.batch: list[_Place] = []


class Coalescer:
    """Sends the jobs of threads: the first one sends, those that come meanwhile wait, and one of them sends for all."""

    def __init__(self, send: Callable[[Sequence[OutgoingJob], float | None], Answers]) -> None:
        """`send` submits jobs with a patience; their answers come in order."""
        self._send = send
        self._lock = threading.Lock()
        self._pending: list[_Place] = []
        self._under_way = 0

    def submit(self, job: OutgoingJob, patience_seconds: float | None) -> Answer:
        """The answer to the job; raises what `send` raises."""
        with self._lock:
            leads = not self._under_way
            if leads:
                self._under_way = 1
            else:
                place = _Place(job, patience_seconds)
                self._pending.append(place)
        if leads:
            try:
                (answer,) = self._send([job], patience_seconds)
            finally:
                self._hand_over()
            return answer
        return self._wait(place)

    def _wait(self, place: _Place) -> Answer:
        try:
            while not place.woken.acquire(timeout=_PATIENT_SECONDS):
                self._go_beside(place)
        except BaseException:
            self._leave(place)
            raise
        if place.batch:
            self._send_batch(place.batch)
        if place.error is not None:
            raise place.error
        assert place.answer is not None  # noqa: S101 - the thread that sent it gave one of the two
        return place.answer

    def _go_beside(self, place: _Place) -> None:
        """Sends what has waited for long, beside the requests that it waited for."""
        with self._lock:
            if self._pending and self._pending[0] is place and self._under_way < _MOST_UNDER_WAY:
                self._under_way += 1
                self._wake_next()

    def _leave(self, place: _Place) -> None:
        """A thread was interrupted while it waited: it takes its job back, or lets another one send for it."""
        with self._lock:
            if place in self._pending:
                self._pending.remove(place)
                return
        if place.batch:
            with self._lock:
                self._pending = place.batch[1:] + self._pending
            self._hand_over()

    def _hand_over(self) -> None:
        """One of those that wait sends next, for all of them."""
        with self._lock:
            if self._pending:
                self._wake_next()
            else:
                self._under_way -= 1

    def _wake_next(self) -> None:
        batch = list(_fitting(self._pending))
        self._pending = self._pending[len(batch) :]
        # Who is interrupted while sending would leave the others without an answer, and without the key of their set.
        sender = next((one for one in batch if not one.is_interruptible), batch[0])
        sender.batch = [sender, *(one for one in batch if one is not sender)]
        sender.woken.release()

    def _send_batch(self, batch: list[_Place]) -> None:
        error: RotaError = RotaError("the submission was interrupted; the job may have been accepted")
        answers: Answers = ()
        try:
            answers = self._send([one.job for one in batch], batch[0].patience_seconds)
        except RotaError as refusal:
            error = refusal
        except Exception as failure:  # noqa: BLE001 - each thread that waits gets it
            error = RotaError(f"{type(failure).__name__}: {failure}")
        finally:
            for position, one in enumerate(batch):
                if answers:
                    one.answer = answers[position]
                else:
                    one.error = own_error(error, position)
                if position:
                    one.woken.release()
            self._hand_over()


class AsyncFlight:
    """Sends the parts of one large submission, a few of them at a time: one is written while the next one is read."""

    def __init__(self, send: Callable[[Sequence[OutgoingJob], float | None], Awaitable[Answers]]) -> None:
        self._send = send

    async def send_all(self, parts: Sequence[Sequence[OutgoingJob]], patience_seconds: float | None) -> list[Outcome]:
        """What `send` returns or raises for each part. After an error, no more parts are sent: they share it."""
        outcomes: list[Outcome] = [RotaError("the submission was interrupted")] * len(parts)
        left = iter(enumerate(parts))
        failed: list[RotaError] = []

        async def send_next() -> None:
            for number, part in left:
                if failed:
                    outcomes[number] = not_sent(failed[0], part)
                    continue
                try:
                    outcomes[number] = await self._send(part, patience_seconds)
                except RotaError as error:
                    failed.append(error)
                    outcomes[number] = error

        try:
            async with asyncio.TaskGroup() as group:
                for _ in parts[:_MOST_IN_FLIGHT]:
                    group.create_task(send_next())
        except ExceptionGroup as group_of_errors:  # callers expect the error that one request would raise
            raise group_of_errors.exceptions[0] from None
        return outcomes


class Flight:
    """The same for threads, one part after the other."""

    def __init__(self, send: Callable[[Sequence[OutgoingJob], float | None], Answers]) -> None:
        self._send = send

    def send_all(self, parts: Sequence[Sequence[OutgoingJob]], patience_seconds: float | None) -> list[Outcome]:
        """As for coroutines."""
        outcomes: list[Outcome] = []
        failed: RotaError | None = None
        for part in parts:
            if failed is not None:
                outcomes.append(not_sent(failed, part))
                continue
            try:
                outcomes.append(self._send(part, patience_seconds))
            except RotaError as error:
                failed = error
                outcomes.append(error)
        return outcomes


def not_sent(error: RotaError, jobs: Sequence[OutgoingJob]) -> RotaError:
    """The error of jobs that were not sent because of it; they can be repeated if those that were sent can."""
    own = own_error(error, 0)
    own.to_repeat = list(jobs) if error.to_repeat else ()
    return own


def own_error(error: RotaError, position: int) -> RotaError:
    """The error of a batch as that of one of its jobs, which alone can be repeated with it."""
    own = type(error).__new__(type(error))  # copy() would call a constructor that takes something else
    own.args = error.args
    own.__dict__.update(error.__dict__)
    own.__cause__ = error
    own.to_repeat = error.to_repeat[position : position + 1] if error.to_repeat else ()
    return own


def _fitting(pending: Sequence[AnyWaiting]) -> Iterator[AnyWaiting]:
    """The first ones that fit into one request; there is always one."""
    size = 0
    for count, one in enumerate(pending):
        size += len(one.job.payload) + len(one.job.template.text)
        if count and (
            count == MOST_PER_REQUEST or size > MOST_BYTES or one.patience_seconds != pending[0].patience_seconds
        ):
            return
        yield one
