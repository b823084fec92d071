# Made from src/rota/gateway/http.py by tools/make_sync.py (`make sync`): change that file, not this one.
"""Submitting over HTTP.

Jobs of one shape travel as a set under one idempotency key, others as an array with a key each. What is submitted at
the same time travels together (coalescing.py). http_sync.py is generated from this file.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from copy import copy
from typing import Any, Self

from rota.client import AnswerError, Client, ServerUnreachableError
from rota.client.answers import JobResult
from rota.client.bodies import new_key
from rota.client.errors import is_temporary, refusal, refusal_of
from rota.client.retries import Patience, Tries
from rota.contract.jobs import Submitted
from rota.errors import BadInputError, RotaError
from rota.gateway.coalescing import MOST_BYTES, MOST_PER_REQUEST, Coalescer, own_error
from rota.gateway.protocol import OutgoingJob, RunSnapshot, SetMember, are_alike
from rota.gateway.set_answers import answers_of

_ANSWER_SECONDS = 1.0  # for the answer, after the wait
_PAUSE_SECONDS = 0.5
_TOO_LARGE, _TOO_MANY = 413, 429
# What a server of the release before says to a set.
_NO_SETS = "the body is not valid JSON: an array is expected"


class SyncHttpGateway:
    """Submits over HTTP; requests without an answer are repeated, with idempotency keys."""

    def __init__(
        self, url: str | None, token: str | None, namespace: str | None = None, patience_seconds: float | None = None
    ) -> None:
        self._client = Client(url, token, namespace=namespace, patience=patience_seconds)
        self.submit_seconds: float | None = None
        self._patience = Patience()
        self._coalescer = Coalescer(self._send)
        self._server_knows_sets = True

    def patient(self, seconds: float | None) -> Self:
        """The same gateway, with another time limit for repeating submissions; None: the client's."""
        if seconds is None:
            return self
        made = copy(self)
        made.submit_seconds = seconds
        return made

    def submit(self, jobs: Sequence[OutgoingJob]) -> list[Submitted | RotaError]:
        """A temporary error has its job, with a key, in `to_repeat`; an error that is raised has all jobs there."""
        if len(jobs) == 1:
            return [self._coalescer.submit(jobs[0], self.submit_seconds)]
        answers: list[Submitted | RotaError] = []
        for part in _parts(jobs):
            try:
                answers += self._send(part, self.submit_seconds)
            except RotaError as error:
                left = len(jobs) - len(answers)
                if error.to_repeat:
                    error.to_repeat = [*error.to_repeat, *jobs[len(answers) + len(part) :]]
                if not answers:
                    raise
                answers += [own_error(error, position) for position in range(left)]
                break
        return answers

    def _send(self, jobs: Sequence[OutgoingJob], patience_seconds: float | None) -> list[Submitted | RotaError]:
        """Submits jobs in one request, if they fit together; raises an error if it concerns all of them."""
        tries = self._client.tries(patience_seconds)
        if any(job.member for job in jobs):
            return self._repeat(jobs, tries)
        if self._server_knows_sets and are_alike(jobs):
            try:
                return self._send_set(jobs, tries)
            except BadInputError as error:
                if str(error) != _NO_SETS:
                    raise
                self._server_knows_sets = False
        return self._send_array(jobs, patience_seconds)

    def _send_set(self, jobs: Sequence[OutgoingJob], tries: Tries) -> list[Submitted | RotaError]:
        """Jobs that are refused for now are sent again by themselves, under another key, since they were not taken."""
        answers: list[Any] = [None] * len(jobs)
        places: Sequence[int] = range(len(jobs))
        pause: float | None = 0.0
        while pause is not None:
            if pause:
                time.sleep(pause)
            asked = [jobs[place] for place in places]
            key = new_key()
            try:
                said = self._ask_for_set(asked, key, tries)
            except (AnswerError, ServerUnreachableError) as error:
                error.to_repeat = _to_repeat(asked, key, error)
                if len(asked) == len(jobs):
                    raise
                said = [own_error(error, position) for position in range(len(asked))]
            for place, answer in zip(places, said, strict=True):
                answers[place] = answer
            places = [place for place in places if _is_refused_for_now(answers[place])]
            pause = tries.pause_after_refusal() if places else None
        for place in places:
            answers[place].to_repeat = [jobs[place]]
        return answers

    def _ask_for_set(self, jobs: Sequence[OutgoingJob], key: str, tries: Tries) -> list[Submitted | RotaError]:
        """The answer to a set. If it is too large as a whole for a limit, its halves have an answer each."""
        payloads = [job.payload for job in jobs]
        tries.gives_back_refusals = len(jobs) > 1
        try:
            return answers_of(self._client.send_set(jobs[0].template.text, payloads, key, tries), len(jobs))
        except AnswerError as error:
            if error.status not in (_TOO_LARGE, _TOO_MANY) or len(jobs) == 1:
                raise _told(error) from error
        middle = len(jobs) // 2
        answers: list[Submitted | RotaError] = []
        for part in (jobs[:middle], jobs[middle:]):
            part_key = new_key()
            try:
                answers += self._ask_for_set(part, part_key, tries)
            except (AnswerError, ServerUnreachableError) as error:
                error.to_repeat = _to_repeat(part, part_key, error)
                answers += [own_error(error, position) for position in range(len(part))]
        return answers

    def _repeat(self, jobs: Sequence[OutgoingJob], tries: Tries) -> list[Submitted | RotaError]:
        """Repeats jobs that were sent in sets, with the keys of those; others get their own."""
        answers: list[Any] = [None] * len(jobs)
        sets: dict[str, list[int]] = {}
        for place, job in enumerate(jobs):
            sets.setdefault(job.member.key if job.member else f"alone {place}", []).append(place)
        for places in sets.values():
            asked = [jobs[place] for place in places]
            try:
                said = self._repeat_set(asked, tries)
            except (AnswerError, ServerUnreachableError) as error:
                error.to_repeat = asked if is_temporary(error) else ()
                said = [own_error(error, position) for position in range(len(asked))]
            for place, answer in zip(places, said, strict=True):
                answers[place] = answer
        return answers

    def _repeat_set(self, jobs: Sequence[OutgoingJob], tries: Tries) -> Sequence[Submitted | RotaError]:
        member = jobs[0].member
        if member is None:
            return self._send_set(jobs, tries) if are_alike(jobs) else self._send_array(jobs, None)
        positions = [job.member.position for job in jobs if job.member]
        payloads = [job.payload for job in jobs]
        done = self._client.send_set(jobs[0].template.text, payloads, member.key, tries, positions)
        by_position = answers_of(done, max(positions) + 1)
        return [by_position[position] for position in positions]

    def _send_array(self, jobs: Sequence[OutgoingJob], patience_seconds: float | None) -> list[Submitted | RotaError]:
        keyed = [job.with_key(new_key) for job in jobs]
        try:
            results = self._client.submit_many([job.job for job in keyed], patience=patience_seconds)
        except (ServerUnreachableError, AnswerError) as error:
            error.to_repeat = keyed if is_temporary(error) else ()
            raise
        return [_answer(result) for result in results]

    def look(self, run_id: str, wait_seconds: float) -> RunSnapshot:
        """The server waits. While it does not answer the status is unknown; after a minute that is an error."""
        try:
            run = self._client.look(run_id, wait_seconds, within=wait_seconds + _ANSWER_SECONDS)
        except (ServerUnreachableError, AnswerError) as error:
            if wait_seconds <= 0:
                raise
            self._patience.bear(error)
            time.sleep(min(wait_seconds, _PAUSE_SECONDS))
            return RunSnapshot("unknown", error=str(error))
        self._patience.begin_anew()
        return RunSnapshot(run.status, run.result, run.error, run.reason, run.traceback)

    def cancel(self, run_id: str) -> None:
        try:
            self._client.cancel_run(run_id)
        except AnswerError as error:
            raise refusal_of(error) from error

    def caller(self) -> None:
        """Known to the server only, by the token."""

    def close(self) -> None:
        self._client.close()


def _parts(jobs: Sequence[OutgoingJob]) -> Iterator[Sequence[OutgoingJob]]:
    """The jobs by requests: neighbours of one shape together."""
    start = size = 0
    for position, job in enumerate(jobs):
        size += len(job.payload) + 1
        full = position - start == MOST_PER_REQUEST or size > MOST_BYTES
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


def _is_refused_for_now(answer: Any) -> bool:
    return isinstance(answer, AnswerError) and is_temporary(answer) and not answer.to_repeat


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
