# Made from src/rota/gateway/deliveries.py by tools/make_sync.py (`make sync`): change that file, not this one.
"""Delivering jobs to a server or a database: what HTTP and `App(database=…)` have in common.

Jobs of one shape travel as a set under one idempotency key, others as an array with a key each. What is submitted at
the same time travels together (coalescing.py). deliveries_sync.py is generated from
this file.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from typing import Any, Protocol, Self

from rota.client.answers import JobResult
from rota.client.bodies import new_key
from rota.client.errors import AnswerError, ServerUnreachableError, is_temporary, refusal, refusal_of
from rota.client.retries import Tries
from rota.contract.jobs import BatchJobIn, JobSetOut, Submitted
from rota.errors import BadInputError, RotaError
from rota.gateway.coalescing import MOST_BYTES, Coalescer, Flight, own_error
from rota.gateway.protocol import JobTemplate, OutgoingJob, SetMember, are_alike
from rota.gateway.set_answers import LeftOutError, answers_of

_FORBIDDEN, _TOO_LARGE, _TOO_MANY = 403, 413, 429
_MOST_PER_PART = 500  # of a large submission, of which several parts are under way
# What a server of the release before says to a set, and for how long it may be there.
_OLD_SERVER_SECONDS = 60.0
_NO_SETS = "the body is not valid JSON: an array is expected"


class Endpoint(Protocol):
    """Where jobs are delivered to. Raises AnswerError and ServerUnreachableError."""

    def tries(self, patience: float | None = None) -> Tries: ...

    def send_set(
        self,
        job: bytes,
        payloads: Sequence[bytes],
        key: str,
        tries: Tries,
        positions: Sequence[int] | None = None,
    ) -> JobSetOut: ...

    def submit_many(self, jobs: Iterable[BatchJobIn], *, patience: float | None = None) -> list[JobResult]: ...


class Delivery:
    """Submits jobs; requests without an answer are repeated, with idempotency keys."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self.submit_seconds: float | None = None
        self._coalescer = Coalescer(self._send)
        self._flight = Flight(self._send)
        self._sets_from = -math.inf  # on the monotonic clock

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
        parts = list(_parts(jobs))
        outcomes = self._flight.send_all(parts, self.submit_seconds)
        errors = [outcome for outcome in outcomes if isinstance(outcome, RotaError)]
        # Some that can be repeated and some that can't are answers of their own.
        if len(errors) == len(parts) and len({bool(error.to_repeat) for error in errors}) == 1:
            errors[0].to_repeat = [job for error in errors for job in error.to_repeat]
            raise errors[0]
        answers: list[Submitted | RotaError] = []
        for part, outcome in zip(parts, outcomes, strict=True):
            if isinstance(outcome, RotaError):
                answers += [own_error(outcome, position) for position in range(len(part))]
            else:
                answers += outcome
        return answers

    def _send(self, jobs: Sequence[OutgoingJob], patience_seconds: float | None) -> list[Submitted | RotaError]:
        """Submits jobs in one request, if they fit together; raises an error if it concerns all of them.

        Jobs of a set that are over a limit (429) are sent again, under another key if they were surely not taken.
        """
        tries = self._endpoint.tries(patience_seconds)
        if any(job.member for job in jobs):
            return self._repeat(jobs, tries)
        try:
            answers = self._ask_for_new(jobs, tries, patience_seconds)
        except BadInputError as error:  # in what they have alike
            return [own_error(error, position) for position in range(len(jobs))]
        while again := _over_limit(answers):
            pause = tries.pause_after_refusal()
            if pause is None:
                break
            time.sleep(pause)
            # What was answered before stays answered, whatever becomes of these.
            for place, answer in zip(again, self._repeat([*again.values()], tries), strict=True):
                answers[place] = answer
        return answers

    def _ask_for_new(
        self, jobs: Sequence[OutgoingJob], tries: Tries, patience_seconds: float | None = None
    ) -> list[Submitted | RotaError]:
        """The answers to jobs that were never sent: a set, or an array if they are not alike or the server is old."""
        if time.monotonic() >= self._sets_from and are_alike(jobs):
            try:
                return self._ask_for_set(jobs, tries)
            except BadInputError as error:
                if str(error) != _NO_SETS:
                    raise
                self._sets_from = time.monotonic() + _OLD_SERVER_SECONDS
        return self._send_array(jobs, patience_seconds)

    def _ask_for_set(self, jobs: Sequence[OutgoingJob], tries: Tries) -> list[Submitted | RotaError]:
        """The answers to a set; if it is too large as a whole for a limit, those to its halves.

        If an earlier try may have arrived, its jobs keep the key of this one, as its members.
        """
        key = new_key()
        payloads = [job.payload for job in jobs]
        tries.gives_back_refusals = len(jobs) > 1
        tries.may_have_arrived = False
        while True:
            try:
                done = self._endpoint.send_set(jobs[0].template.text, payloads, key, tries)
            except AnswerError as error:
                if error.status in (_TOO_LARGE, _TOO_MANY) and len(jobs) > 1:
                    break
                if tries.may_have_arrived and _knows_no_sets(error):
                    return self._ask_for_members(_members(jobs, key), tries)
                surely_not = error.status == _TOO_MANY and not tries.may_have_arrived
                error.to_repeat = (jobs if surely_not else _members(jobs, key)) if is_temporary(error) else ()
                raise _told(error) from error
            except ServerUnreachableError as error:
                error.to_repeat = _members(jobs, key)
                raise
            answers = answers_of(done, len(jobs))
            if not done.refused and LeftOutError not in map(type, answers):
                return answers
            pause = tries.pause_after_refusal() if any(map(_is_unknown, answers)) else None
            if pause is None:
                members = _members(jobs, key)
                _make_repeatable(answers, members if tries.may_have_arrived else jobs, members)
                return answers
            tries.may_have_arrived = True
            time.sleep(pause)  # the same request again: what it brought in before gets the same answer
        return self._ask_for_halves(_members(jobs, key) if tries.may_have_arrived else jobs, tries)

    def _ask_for_halves(self, jobs: Sequence[OutgoingJob], tries: Tries) -> list[Submitted | RotaError]:
        answers: list[Submitted | RotaError] = []
        ask = self._ask_for_members if jobs[0].member else self._ask_for_set
        for part in (jobs[: len(jobs) // 2], jobs[len(jobs) // 2 :]):
            try:
                answers += ask(part, tries)
            except RotaError as error:
                answers += [own_error(error, position) for position in range(len(part))]
        return answers

    def _repeat(self, jobs: Sequence[OutgoingJob], tries: Tries) -> list[Submitted | RotaError]:
        """Repeats jobs that were sent in sets, with the keys of those; others get their own."""
        answers: list[Any] = [None] * len(jobs)
        sets: dict[tuple[str, bytes], list[int]] = {}
        for place, job in enumerate(jobs):
            key = job.member.key if job.member else "" if job.template.fits_sets else f"alone {place}"
            sets.setdefault((key, job.template.text), []).append(place)
        for places in sets.values():
            asked = [jobs[place] for place in places]
            try:
                said = self._repeat_alike(asked, tries)
            except RotaError as error:  # of these alone
                said = [own_error(error, position) for position in range(len(asked))]
            for place, answer in zip(places, said, strict=True):
                answers[place] = answer
        return answers

    def _repeat_alike(self, jobs: Sequence[OutgoingJob], tries: Tries) -> Sequence[Submitted | RotaError]:
        return (self._ask_for_members if jobs[0].member else self._ask_for_new)(jobs, tries)

    def _ask_for_members(self, jobs: Sequence[OutgoingJob], tries: Tries) -> list[Submitted | RotaError]:
        """The answers to jobs of one set that may have come in with it: they have its key for ever."""
        positions = [job.member.position for job in jobs if job.member]
        payloads = [job.payload for job in jobs]
        key = jobs[0].member.key if jobs[0].member else ""
        tries.gives_back_refusals = len(jobs) > 1
        while True:
            try:
                done = self._endpoint.send_set(jobs[0].template.text, payloads, key, tries, positions)
            except AnswerError as error:
                if error.status in (_TOO_LARGE, _TOO_MANY) and len(jobs) > 1:
                    return self._ask_for_halves(jobs, tries)
                old = _knows_no_sets(error)
                pause = tries.pause_after_refusal() if old else None
                if pause is None:
                    error.to_repeat = jobs if old or is_temporary(error) else ()
                    raise (error if old else _told(error)) from error
            except ServerUnreachableError as error:
                error.to_repeat = jobs
                raise
            else:
                by_position = answers_of(done, max(positions) + 1)
                answers = [by_position[position] for position in positions]
                pause = tries.pause_after_refusal() if any(map(_is_unknown, answers)) else None
                if pause is None:
                    _make_repeatable(answers, jobs, jobs)
                    return answers
            time.sleep(pause)

    def _send_array(self, jobs: Sequence[OutgoingJob], patience_seconds: float | None) -> list[Submitted | RotaError]:
        keyed = [job.with_key(new_key) for job in jobs]
        try:
            results = self._endpoint.submit_many([job.job for job in keyed], patience=patience_seconds)
        except (ServerUnreachableError, AnswerError) as error:
            if parts := _apart(keyed, error):
                return self._send_apart(keyed, parts, patience_seconds)
            error.to_repeat = keyed if is_temporary(error) else ()
            raise
        return [_answer(result) for result in results]

    def _send_apart(
        self, jobs: Sequence[OutgoingJob], parts: Iterable[Sequence[int]], patience_seconds: float | None
    ) -> list[Submitted | RotaError]:
        """Sends an array that was refused as a whole by parts: not each of its jobs is the reason."""
        answers: list[Any] = [None] * len(jobs)
        for places in parts:
            try:
                said = self._send_array([jobs[place] for place in places], patience_seconds)
            except RotaError as error:
                said = [own_error(error, position) for position in range(len(places))]
            for place, answer in zip(places, said, strict=True):
                answers[place] = answer
        return answers


def _parts(jobs: Sequence[OutgoingJob]) -> Iterator[Sequence[OutgoingJob]]:
    """The jobs by requests: neighbours of one shape together."""
    start = size = 0
    template: JobTemplate | None = None
    for position, job in enumerate(jobs):
        size += len(job.payload) + 1
        full = position - start == _MOST_PER_PART or size > MOST_BYTES
        if position > start and (full or not (job.template is template or _is_alike(jobs[position - 1], job))):
            yield jobs[start:position]
            start, size = position, len(job.payload)
        template = job.template
    if len(jobs) > start:
        yield jobs[start:]


def _is_alike(before: OutgoingJob, job: OutgoingJob) -> bool:
    """Whether it goes into the request of the one before: both into a set, or both into an array."""
    return before.template.fits_sets == job.template.fits_sets and (
        not job.template.fits_sets or before.template.text == job.template.text
    )


def _members(jobs: Sequence[OutgoingJob], key: str) -> list[OutgoingJob]:
    """The jobs of a set as they can be repeated: with its key, and where they stood."""
    return [job._replace(member=SetMember(key, position)) for position, job in enumerate(jobs)]


def _apart(jobs: Sequence[OutgoingJob], error: AnswerError | ServerUnreachableError) -> list[Sequence[int]]:
    """Places of jobs that are better off in arrays of their own after this error; nothing if that would not help."""
    places, half = range(len(jobs)), len(jobs) // 2
    if not isinstance(error, AnswerError) or len(jobs) == 1:
        return []
    if error.status == _TOO_LARGE:
        return [places[:half], places[half:]]
    if error.status == _FORBIDDEN:  # who may submit may still not replace
        replacing = [place for place in places if jobs[place].template.job.on_duplicate == "replace"]
        others = [place for place in places if jobs[place].template.job.on_duplicate != "replace"]
        return [replacing, others] if replacing and others else []
    return []


def _over_limit(answers: Sequence[Submitted | RotaError]) -> dict[int, OutgoingJob]:
    """The jobs over a limit by their places, as they can be sent again."""
    return {
        place: answer.to_repeat[0]
        for place, answer in enumerate(answers)
        if isinstance(answer, RotaError) and _is_over_limit(answer) and answer.to_repeat
    }


def _is_over_limit(answer: Any) -> bool:
    return isinstance(answer, AnswerError) and answer.status == _TOO_MANY


def _is_unknown(answer: Any) -> bool:
    """Whether a job could not be taken just then, or it is not known whether it was."""
    return isinstance(answer, AnswerError) and is_temporary(answer) and answer.status != _TOO_MANY


def _make_repeatable(
    answers: Sequence[Submitted | RotaError], refused: Sequence[OutgoingJob], unknown: Sequence[OutgoingJob]
) -> None:
    """Gives temporary refusals, and jobs that the answer leaves out, what can be sent again."""
    for answer, over_limit, in_doubt in zip(answers, refused, unknown, strict=True):
        if isinstance(answer, RotaError) and _is_over_limit(answer):
            answer.to_repeat = [over_limit]
        elif isinstance(answer, LeftOutError) or (isinstance(answer, RotaError) and _is_unknown(answer)):
            answer.to_repeat = [in_doubt]


def _knows_no_sets(error: AnswerError) -> bool:
    """Whether a server of the release before answered, as one behind a load balancer can during an upgrade."""
    return str(error) == _NO_SETS


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
