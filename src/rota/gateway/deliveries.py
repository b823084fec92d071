"""Delivering jobs to a server or a database: what HTTP and `App(database=…)` have in common.

Jobs of one shape travel as a set under one idempotency key, others as an array with a key each. What is submitted at
the same time travels together (coalescing.py). deliveries_sync.py is generated from
this file.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from typing import Any, Protocol, Self

from rota.client.answers import JobResult
from rota.client.bodies import new_key
from rota.client.errors import AnswerError, ServerUnreachableError, is_temporary, refusal, refusal_of
from rota.client.retries import Tries
from rota.contract.jobs import BatchJobIn, JobSetOut, Submitted
from rota.errors import BadInputError, RotaError
from rota.gateway.coalescing import MOST_BYTES, AsyncCoalescer, AsyncFlight, own_error
from rota.gateway.protocol import OutgoingJob, SetMember, are_alike
from rota.gateway.set_answers import answers_of

_TOO_LARGE, _TOO_MANY = 413, 429
_MOST_PER_PART = 500  # of a large submission, of which several parts are under way
# What a server of the release before says to a set.
_NO_SETS = "the body is not valid JSON: an array is expected"


class AsyncEndpoint(Protocol):
    """Where jobs are delivered to. Raises AnswerError and ServerUnreachableError."""

    def tries(self, patience: float | None = None) -> Tries: ...

    async def send_set(
        self,
        job: bytes,
        payloads: Sequence[bytes],
        key: str,
        tries: Tries,
        positions: Sequence[int] | None = None,
    ) -> JobSetOut: ...

    async def submit_many(self, jobs: Iterable[BatchJobIn], *, patience: float | None = None) -> list[JobResult]: ...


class AsyncDelivery:
    """Submits jobs; requests without an answer are repeated, with idempotency keys."""

    def __init__(self, endpoint: AsyncEndpoint) -> None:
        self._endpoint = endpoint
        self.submit_seconds: float | None = None
        self._coalescer = AsyncCoalescer(self._send)
        self._flight = AsyncFlight(self._send)
        self._server_knows_sets = True

    def patient(self, seconds: float | None) -> Self:
        """The same gateway, with another time limit for repeating submissions; None: the client's."""
        if seconds is None:
            return self
        made = copy(self)
        made.submit_seconds = seconds
        return made

    async def submit(self, jobs: Sequence[OutgoingJob]) -> list[Submitted | RotaError]:
        """A temporary error has its job, with a key, in `to_repeat`; an error that is raised has all jobs there."""
        if len(jobs) == 1:
            return [await self._coalescer.submit(jobs[0], self.submit_seconds)]
        parts = list(_parts(jobs))
        outcomes = await self._flight.send_all(parts, self.submit_seconds)
        errors = [outcome for outcome in outcomes if isinstance(outcome, RotaError)]
        if len(errors) == len(parts):
            errors[0].to_repeat = [job for error in errors for job in error.to_repeat]
            raise errors[0]
        answers: list[Submitted | RotaError] = []
        for part, outcome in zip(parts, outcomes, strict=True):
            if isinstance(outcome, RotaError):
                answers += [own_error(outcome, position) for position in range(len(part))]
            else:
                answers += outcome
        return answers

    async def _send(self, jobs: Sequence[OutgoingJob], patience_seconds: float | None) -> list[Submitted | RotaError]:
        """Submits jobs in one request, if they fit together; raises an error if it concerns all of them."""
        tries = self._endpoint.tries(patience_seconds)
        if any(job.member for job in jobs):
            return await self._repeat(jobs, tries)
        if self._server_knows_sets and are_alike(jobs):
            try:
                return await self._send_set(jobs, tries)
            except BadInputError as error:  # in what they have alike
                if str(error) != _NO_SETS:
                    return [own_error(error, position) for position in range(len(jobs))]
                self._server_knows_sets = False
        return await self._send_array(jobs, patience_seconds)

    async def _send_set(self, jobs: Sequence[OutgoingJob], tries: Tries) -> list[Submitted | RotaError]:
        """Submits a set. Jobs over a limit (429) are sent again under another key, since they were surely not taken."""
        answers: list[Any] = [None] * len(jobs)
        places: Sequence[int] = range(len(jobs))
        pause: float | None = 0.0
        while pause is not None:
            if pause:
                await asyncio.sleep(pause)
            said = await self._ask_for_set([jobs[place] for place in places], tries)
            for place, answer in zip(places, said, strict=True):
                answers[place] = answer
            places = [place for place in places if _is_over_limit(answers[place])]
            pause = tries.pause_after_refusal() if places else None
        return answers

    async def _ask_for_set(self, jobs: Sequence[OutgoingJob], tries: Tries) -> list[Submitted | RotaError]:
        """The answers to a set; if it is too large as a whole for a limit, those to its halves."""
        key = new_key()
        payloads = [job.payload for job in jobs]
        tries.gives_back_refusals = len(jobs) > 1
        while True:
            try:
                done = await self._endpoint.send_set(jobs[0].template.text, payloads, key, tries)
            except AnswerError as error:
                if error.status in (_TOO_LARGE, _TOO_MANY) and len(jobs) > 1:
                    break
                error.to_repeat = _to_repeat(jobs, key, error)
                raise _told(error) from error
            except ServerUnreachableError as error:
                error.to_repeat = _to_repeat(jobs, key, error)
                raise
            answers = answers_of(done, len(jobs))
            pause = tries.pause_after_refusal() if any(map(_is_unknown, answers)) else None
            if pause is None:
                _make_repeatable(answers, jobs, key)
                return answers
            await asyncio.sleep(pause)  # the same request again: what it brought in before gets the same answer
        return await self._ask_for_halves(jobs, tries)

    async def _ask_for_halves(self, jobs: Sequence[OutgoingJob], tries: Tries) -> list[Submitted | RotaError]:
        answers: list[Submitted | RotaError] = []
        for part in (jobs[: len(jobs) // 2], jobs[len(jobs) // 2 :]):
            try:
                answers += await self._ask_for_set(part, tries)
            except RotaError as error:
                answers += [own_error(error, position) for position in range(len(part))]
        return answers

    async def _repeat(self, jobs: Sequence[OutgoingJob], tries: Tries) -> list[Submitted | RotaError]:
        """Repeats jobs that were sent in sets, with the keys of those; others get their own."""
        answers: list[Any] = [None] * len(jobs)
        sets: dict[str, list[int]] = {}
        for place, job in enumerate(jobs):
            sets.setdefault(job.member.key if job.member else f"alone {place}", []).append(place)
        for places in sets.values():
            asked = [jobs[place] for place in places]
            try:
                said = await self._repeat_set(asked, tries)
            except (AnswerError, ServerUnreachableError) as error:
                error.to_repeat = asked if is_temporary(error) else ()
                said = [own_error(error, position) for position in range(len(asked))]
            for place, answer in zip(places, said, strict=True):
                answers[place] = answer
        return answers

    async def _repeat_set(self, jobs: Sequence[OutgoingJob], tries: Tries) -> Sequence[Submitted | RotaError]:
        member = jobs[0].member
        if member is None:
            return await self._send_set(jobs, tries) if are_alike(jobs) else await self._send_array(jobs, None)
        positions = [job.member.position for job in jobs if job.member]
        payloads = [job.payload for job in jobs]
        done = await self._endpoint.send_set(jobs[0].template.text, payloads, member.key, tries, positions)
        by_position = answers_of(done, max(positions) + 1)
        return [by_position[position] for position in positions]

    async def _send_array(
        self, jobs: Sequence[OutgoingJob], patience_seconds: float | None
    ) -> list[Submitted | RotaError]:
        keyed = [job.with_key(new_key) for job in jobs]
        try:
            results = await self._endpoint.submit_many([job.job for job in keyed], patience=patience_seconds)
        except (ServerUnreachableError, AnswerError) as error:
            error.to_repeat = keyed if is_temporary(error) else ()
            raise
        return [_answer(result) for result in results]


def _parts(jobs: Sequence[OutgoingJob]) -> Iterator[Sequence[OutgoingJob]]:
    """The jobs by requests: neighbours of one shape together."""
    start = size = 0
    for position, job in enumerate(jobs):
        size += len(job.payload) + 1
        full = position - start == _MOST_PER_PART or size > MOST_BYTES
        if position > start and (full or not _is_alike(jobs[position - 1], job)):
            yield jobs[start:position]
            start, size = position, len(job.payload)
    if len(jobs) > start:
        yield jobs[start:]


def _is_alike(before: OutgoingJob, job: OutgoingJob) -> bool:
    """Whether it goes into the request of the one before: both into a set, or both into an array."""
    if before.template is job.template:
        return True
    return before.template.fits_sets == job.template.fits_sets and (
        not job.template.fits_sets or before.template.text == job.template.text
    )


def _to_repeat(jobs: Sequence[OutgoingJob], key: str, error: AnswerError | ServerUnreachableError) -> Sequence[Any]:
    """The jobs as they can be sent again: with the set's key, unless they were surely not taken."""
    if not is_temporary(error):
        return ()
    if isinstance(error, AnswerError) and error.status == _TOO_MANY:
        return jobs
    return [job._replace(member=SetMember(key, position)) for position, job in enumerate(jobs)]


def _is_over_limit(answer: Any) -> bool:
    return isinstance(answer, AnswerError) and answer.status == _TOO_MANY


def _is_unknown(answer: Any) -> bool:
    """Whether a job could not be taken just then, or it is not known whether it was."""
    return isinstance(answer, AnswerError) and is_temporary(answer) and answer.status != _TOO_MANY


def _make_repeatable(answers: Sequence[Submitted | RotaError], jobs: Sequence[OutgoingJob], key: str) -> None:
    """Gives temporary refusals the jobs that can be sent again."""
    for position, (answer, job) in enumerate(zip(answers, jobs, strict=True)):
        if isinstance(answer, RotaError) and _is_over_limit(answer):
            answer.to_repeat = [job]
        elif isinstance(answer, RotaError) and _is_unknown(answer):
            answer.to_repeat = [job._replace(member=SetMember(key, position))]


def _told(error: AnswerError) -> RotaError:
    """The error behind an answer; fields of a set's job are those of the job."""
    told = refusal_of(error)
    if isinstance(told, BadInputError):
        told.fields = [(field.removeprefix("job."), message) for field, message in told.fields]
        told.args = (str(told).removeprefix("job."),)
    return error if isinstance(told, AnswerError) else told


def _answer(result: JobResult) -> Submitted | RotaError:
    if result.error is not None:
        error = refusal(result.error)
        error.to_repeat = [OutgoingJob.of(result.to_repeat)] if result.to_repeat is not None else ()
        return error
    return Submitted(
        job_id=result.job_id or "", status=result.status or "", run_id=result.run_id, duplicate=result.duplicate
    )
