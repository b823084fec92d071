"""Sets: many jobs that differ in their payloads alone, submitted in one request under one idempotency key.

A set goes in by parts of up to a thousand jobs, each in one transaction with one row for its key: the answer, with the
ids as a range, so that a repeat gets the same one. Keys of parts have a number behind a line break, which no key of a
user has.

Some jobs of a set may have to be treated by themselves: when PostgreSQL refuses the data of one, or when a client
repeats some jobs of a set whose answer it did not get. The part is then marked as split before any of them goes in, and
each has a key of its own. So they come in with their part or by themselves, never both, whatever arrives late.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from hashlib import sha256
from itertools import groupby

import msgspec

from rota.access.limits.backlog import Backlog
from rota.contract.jobs import AcceptedJobs, JobSetOut, RefusedJobs, Submitted
from rota.domain.ids import show_following, show_one_shot
from rota.domain.job import STORED_BYTES, SURELY_INLINE, JobSet, OneShot, PlainSet, SubmissionKey
from rota.domain.rights import Caller
from rota.errors import BadInputError, DataRejectedError, KeyHeldError, KeyReusedError, RotaError
from rota.gateway.group_commit import GroupCommitter
from rota.gateway.job_builder import JobBuilder, SetShape, check_template
from rota.gateway.problems import problem_of
from rota.gateway.requests import JobRequest, Payload, Repeated, SetRequest
from rota.gateway.traced_jobs import without_trace
from rota.service import Breather
from rota.store.submit import SPLIT, KnownKey, Submissions

MOST_PER_PART = 1000
_SURELY_STORED = STORED_BYTES // 4  # characters: one has at most four bytes
_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(JobSetOut)


class JobSets:
    """Submits sets."""

    def __init__(
        self,
        *,
        submissions: Submissions,
        committer: GroupCommitter,
        job_builder: JobBuilder,
        backlog: Backlog,
        takes_payloads: Callable[[Caller, int], bool],
        check_payload: Callable[[Caller, str | None], None],
        offload: Callable[[OneShot], Awaitable[OneShot]],
        submit_each: Callable[[Sequence[JobRequest], Caller], Awaitable[Sequence[Submitted | RotaError]]],
        now: Callable[[], datetime],
    ) -> None:
        self._submissions = submissions
        self._committer = committer
        self._job_builder = job_builder
        self._backlog = backlog
        self._takes_payloads = takes_payloads
        self._check_payload = check_payload
        self._offload = offload
        self._submit_each = submit_each
        self._now = now

    async def submit(self, wanted: SetRequest, caller: Caller) -> JobSetOut:
        """What became of each job, once all are committed; raises RotaError if none of them can be taken."""
        if wanted.positions is not None:
            return await self._repeat(wanted, caller)
        if self._job_builder.is_made_unique(wanted.job, caller):
            check_template(wanted.job)
            positions = range(len(wanted.payloads))
            return await self._by_themselves(wanted, _payloads_at(wanted, positions), caller)
        try:
            shape = self._job_builder.prepare_set(wanted.job, caller, self._now())
        except BadInputError:
            # A repeat must not fail because, say, its time has passed since.
            if (known := await self._known(wanted, caller)) is not None:
                return known
            raise
        counted: list[OneShot] = []
        try:
            starts = range(0, len(wanted.payloads), MOST_PER_PART)
            parts = [await self._part(wanted, start, caller, shape, counted) for start in starts]
            return await self._commit(wanted, parts, caller)
        finally:
            self._backlog.settled(counted)

    async def _part(
        self,
        wanted: SetRequest,
        start: int,
        caller: Caller,
        shape: SetShape,
        counted: list[OneShot],
    ) -> _Part:
        """Makes the jobs of a part, except those that are refused; adds those that count as waiting."""
        breather = Breather()
        await breather.breathe()
        payloads = wanted.payloads[start : start + MOST_PER_PART]
        unchecked = None if shape.accepts_all(payloads) else shape
        if unchecked is None and self._backlog.is_unlimited and (plain := self._plain_set(payloads, caller, shape)):
            return _Part(start, plain, range(start, start + len(payloads)), shape.status, {}, None)
        refused: dict[int, RotaError] = {}
        for position, payload in enumerate(payloads, start):
            if unchecked is not None:
                await breather.breathe()
            if error := payload if isinstance(payload, RotaError) else self._refusal(unchecked, payload, caller):
                refused[position] = error
        positions: Sequence[int] = range(start, start + len(payloads))
        if refused:
            positions = [position for position in positions if position not in refused]
        items = shape.jobs([payloads[position - start] for position in positions])  # type: ignore[misc]
        counted += items
        if over := self._backlog.refuse(items):
            refused |= {at: over[item.id] for at, item in zip(positions, items, strict=True) if item.id in over}
            positions = [at for at, item in zip(positions, items, strict=True) if item.id not in over]
            items = [item for item in items if item.id not in over]
        if any(len(item.definition.payload or "") > _SURELY_STORED for item in items):
            items = [await self._offload(item) for item in items]
        # Repeats are not refused for what has changed meanwhile.
        known = await self._first_answer(wanted.key, start, caller) if refused else None
        return _Part(start, JobSet(items) if items else None, positions, shape.status, refused, known)

    def _plain_set(self, payloads: Sequence[Payload], caller: Caller, shape: SetShape) -> PlainSet | None:
        """The jobs of a part, if one look tells that all of them are plain and none is refused."""
        try:
            longest = max(map(len, payloads))  # type: ignore[arg-type]
        except TypeError:  # one is missing or refused
            return None
        if longest > SURELY_INLINE or not self._takes_payloads(caller, longest):
            return None
        return shape.plain_set(payloads)  # type: ignore[arg-type]

    def _refusal(self, shape: SetShape | None, payload: str | None, caller: Caller) -> RotaError | None:
        try:
            if shape is not None:
                shape.check(payload)
            self._check_payload(caller, payload)
        except RotaError as error:
            return error
        return None

    async def _commit(self, wanted: SetRequest, parts: Sequence[_Part], caller: Caller) -> JobSetOut:
        done = JobSetOut(accepted=[], refused=[])
        going = {
            part.start: _set_of(wanted, part, part.jobs, caller)
            for part in parts
            if part.jobs is not None and part.known is None
        }
        results = await self._committer.submit(list(going.values())) if going else ()
        declined = dict(zip(going, results, strict=True))
        for part in parts:
            why = part.known or declined.get(part.start)
            if why is None:
                _add(done, part.answer)
            elif isinstance(why, KnownKey):
                try:
                    _add(done, await self._earlier(wanted, part.start, why, caller))
                except KeyReusedError as error:
                    if not any(part.jobs and declined.get(part.start, why) is None for part in parts):
                        raise
                    # Other parts were new under this key, and are committed: the answer must say so.
                    count = min(MOST_PER_PART, len(wanted.payloads) - part.start)
                    done.refused.append(RefusedJobs(position=part.start, count=count, error=problem_of(error)))
            elif isinstance(why, DataRejectedError) and not isinstance(why, KeyHeldError):
                _add(done, await self._by_themselves(wanted, _payloads_at(wanted, part.positions), caller))
                done.refused += _refusals(part.refused)
            elif isinstance(why, RotaError):
                count = min(MOST_PER_PART, len(wanted.payloads) - part.start)
                done.refused.append(RefusedJobs(position=part.start, count=count, error=problem_of(why)))
        return done

    async def _known(self, wanted: SetRequest, caller: Caller) -> JobSetOut | None:
        """The answers to an earlier set with this key; None if there was none."""
        done = JobSetOut(accepted=[], refused=[])
        for start in range(0, len(wanted.payloads), MOST_PER_PART):
            known = await self._first_answer(wanted.key, start, caller)
            if known is None:
                return None
            _add(done, await self._earlier(wanted, start, known, caller))
        return done

    async def _first_answer(self, key: str | None, start: int, caller: Caller) -> KnownKey | None:
        if key is None:
            return None
        pair = (caller.namespace, _part_key(key, start, caller))
        return (await self._submissions.find_keys([pair])).get(pair)

    async def _earlier(self, wanted: SetRequest, start: int, known: KnownKey, caller: Caller) -> JobSetOut:
        """The answer to an earlier part with the same key."""
        if known.answer == SPLIT:
            positions = range(start, min(start + MOST_PER_PART, len(wanted.payloads)))
            return await self._by_themselves(wanted, _payloads_at(wanted, positions), caller)
        if known.request_hash != wanted.request_hash:
            raise KeyReusedError("this idempotency key was used with another request within the last 24 hours")
        answer = _decoder.decode(known.answer)
        for some in answer.accepted:
            some.replayed = True
        return answer

    async def _repeat(self, wanted: SetRequest, caller: Caller) -> JobSetOut:
        """Repeats some jobs of an earlier set: those that it brought in get their first answers."""
        if wanted.key is None or wanted.positions is None or len(wanted.positions) != len(wanted.payloads):
            raise BadInputError("needs an Idempotency-Key, and one position for each payload", field="positions")
        if len({*wanted.positions}) < len(wanted.positions):
            raise BadInputError("a position is given twice", field="positions")
        check_template(wanted.job)
        return await self._by_themselves(wanted, dict(zip(wanted.positions, wanted.payloads, strict=True)), caller)

    async def _by_themselves(self, wanted: SetRequest, payloads: Mapping[int, Payload], caller: Caller) -> JobSetOut:
        """Submits jobs of a set, by their positions, under keys of their own, unless their part came in as a whole."""
        parts: dict[int, list[int]] = defaultdict(list)
        for position in payloads:
            parts[position // MOST_PER_PART * MOST_PER_PART].append(position)
        done = JobSetOut(accepted=[], refused=[])
        for start, positions in parts.items():
            earlier = await self._split(wanted.key, start, caller)
            requests: dict[int, JobRequest] = {}
            for position in positions:
                payload = payloads[position]
                if _add_earlier(done, earlier, position):
                    continue
                if isinstance(payload, RotaError):
                    _add_answer(done, position, payload)
                else:
                    requests[position] = _member(wanted, position, payload)
            answers = await self._submit_each(list(requests.values()), caller) if requests else ()
            for position, answer in zip(requests, answers, strict=True):
                _add_answer(done, position, answer)
        return done

    async def _split(self, key: str | None, start: int, caller: Caller) -> JobSetOut | None:
        """Marks a part as split; if it came in as a whole, gives its answer instead."""
        if key is None:
            return None
        pair = (caller.namespace, _part_key(key, start, caller))
        known = (await self._submissions.split_sets([pair], b"")).get(pair)
        return None if known is None or known.answer == SPLIT else _decoder.decode(known.answer)


class _Part(msgspec.Struct):
    """A part of a set: its jobs with their positions, and what was refused of it."""

    start: int
    jobs: JobSet | PlainSet | None
    positions: Sequence[int]
    status: str
    refused: dict[int, RotaError]
    known: KnownKey | None  # the answer to an earlier one with the same key
    answer: JobSetOut = msgspec.field(default_factory=lambda: JobSetOut(accepted=[], refused=[]))

    def __post_init__(self) -> None:
        accepted = [
            AcceptedJobs(position=position, count=count, job_id=job_id, run_id=run_id, status=self.status)
            for position, count, (job_id, run_id) in self._ranges()
        ]
        self.answer = JobSetOut(accepted=accepted, refused=_refusals(self.refused))

    def _ranges(self) -> Iterator[tuple[int, int, tuple[str, str]]]:
        """Positions and ids that follow each other."""
        if self.jobs is None:
            return
        if isinstance(self.positions, range) or isinstance(self.jobs, PlainSet):
            yield self.start, len(self.positions), show_one_shot(self.jobs.id)
            return
        places = enumerate(zip(self.positions, self.jobs.items, strict=True))
        for _, group in groupby(places, lambda one: (one[1][0] - one[0], one[1][1].id.int - one[0])):
            some = [place for _, place in group]
            yield some[0][0], len(some), show_one_shot(some[0][1].id)


def _set_of(wanted: SetRequest, part: _Part, jobs: JobSet | PlainSet, caller: Caller) -> JobSet | PlainSet:
    """The jobs of a part, with its key."""
    if wanted.key is None:
        return jobs
    answer = _encoder.encode(part.answer).decode()
    key = SubmissionKey(_part_key(wanted.key, part.start, caller), wanted.request_hash, answer)
    return msgspec.structs.replace(jobs, key=key)


def _part_key(key: str, start: int, caller: Caller) -> str:
    return f"{caller.own(key)}\n{start // MOST_PER_PART}"


def _payloads_at(wanted: SetRequest, positions: Iterable[int]) -> dict[int, Payload]:
    return {position: wanted.payloads[position] for position in positions}


def _member(wanted: SetRequest, position: int, payload: str | None) -> JobRequest:
    job = msgspec.structs.replace(wanted.job, payload=msgspec.Raw(payload or "null"))
    if wanted.key is None:
        return JobRequest(job)
    return JobRequest(job, f"{wanted.key}\nmember {position}", sha256(_encoder.encode(without_trace(job))).digest())


def _refusals(refused: dict[int, RotaError]) -> list[RefusedJobs]:
    found: list[RefusedJobs] = []
    for position in sorted(refused):
        error = problem_of(refused[position])
        last = found[-1] if found else None
        if last is not None and last.position + last.count == position and last.error == error:
            last.count += 1
        else:
            found.append(RefusedJobs(position=position, count=1, error=error))
    return found


def _add(done: JobSetOut, more: JobSetOut) -> None:
    done.accepted += more.accepted
    done.refused += more.refused


def _add_earlier(done: JobSetOut, earlier: JobSetOut | None, position: int) -> bool:
    """Adds the first answer to a job, if its set came in as a whole."""
    if earlier is None:
        return False
    for some in earlier.accepted:
        if some.position <= position < some.position + some.count:
            steps = position - some.position
            done.accepted.append(
                AcceptedJobs(
                    position=position,
                    count=1,
                    job_id=show_following(some.job_id, steps),
                    run_id=show_following(some.run_id, steps),
                    status=some.status,
                    replayed=True,
                )
            )
            return True
    for none in earlier.refused:
        if none.position <= position < none.position + none.count:
            done.refused.append(RefusedJobs(position=position, count=1, error=none.error))
            return True
    return False


def _add_answer(done: JobSetOut, position: int, answer: Submitted | RotaError) -> None:
    if isinstance(answer, RotaError):
        done.refused.append(RefusedJobs(position=position, count=1, error=problem_of(answer)))
        return
    done.accepted.append(
        AcceptedJobs(
            position=position,
            count=1,
            job_id=answer.job_id,
            run_id=answer.run_id or "",
            status=answer.status,
            replayed=True if isinstance(answer, Repeated) else None,
        )
    )
