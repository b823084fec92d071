"""Submitting jobs: one, or up to ten thousand in one call; with a key, a repeat gets the first answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from hashlib import sha256
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from rota.access.authorization import take
from rota.access.limits.rate_limiter import UNLIMITED, tighter
from rota.api.backend import Backend
from rota.api.http.body_budget import BYTES_PER_JOB
from rota.api.operations import ApiRequest, Operation, decode, json_response, only_header, shown_fields
from rota.api.problems import problem_of
from rota.contract.fields import Key
from rota.contract.jobs import BatchJobIn, BatchOut, BatchResult, JobIn, JobSetIn, JobSetOut, Submitted
from rota.contract.json_rules import bad_json, check_names, hash_request, items_of
from rota.domain.rights import Right
from rota.errors import BadInputError, ForbiddenError, RotaError
from rota.gateway.local import Answer
from rota.gateway.requests import JobRequest, Repeated, SetRequest
from rota.gateway.traced_jobs import received
from rota.service import Breather, costly_step, is_costly
from rota.tracing import TRACEPARENT, TRACESTATE, Trace, read_trace

MOST_PER_BATCH = 10_000
_MOST_LINES = 2 * MOST_PER_BATCH  # some may be empty
_RECURRING = ("cron", "interval")  # recorded in the audit trail; a one-shot's record is its run
_BATCH_LIMIT_BYTES = 32 * 1024 * 1024
JOB_LIMIT_BYTES = 11 * 1024 * 1024  # the largest payload and the other fields
# A batch up to this size is decoded at once; a larger one in groups, with pauses for other requests.
_READ_AT_ONCE_BYTES = 256 * 1024
_GROUP_BYTES = 64 * 1024
_GROUP_JOBS = 1_000  # jobs in other words than ours, and bad ones, are read one by one
_MOST_KNOWN, _KNOWN_BYTES = 512, 2048  # templates of sets that are not decoded again, and their size
_Positions = list[Annotated[int, Meta(ge=0, lt=MOST_PER_BATCH)]]


@Operation(
    "POST",
    "/v1/jobs",
    Right.SUBMIT,
    body=JobIn,
    answer=Submitted,
    status=201,
    others={200: "Another job has the same uniqueKey and is kept"},
    body_limit=JOB_LIMIT_BYTES,
    headers={"Idempotency-Key": "a repeat with the same key and body gets the first answer, for 24 hours"},
    errors=(409, 413, 422, 429),
)
async def submit(services: Backend, call: ApiRequest) -> Any:
    """Submit a job."""
    key = read_key(only_header(call.request, "Idempotency-Key"), "Idempotency-Key")
    if is_costly(len(call.body)):
        async with costly_step(len(call.body)):
            request = _read_job(call.body, key)
    else:  # most of them, and a step of its own would cost as much as reading it
        request = _read_job(call.body, key)
    request = request._replace(job=received(request.job, _trace_of(call)))
    wanted = request.job
    if wanted.schedule_type in _RECURRING:
        await services.auditor.begin("submit", call, shown_fields(JobIn))
    await services.gateway.load(call.caller)
    if services.gateway.job_builder.may_replace(wanted, call.caller):
        _check_replacing(services, call, [wanted])
    await _take(services, call, 1)
    (answer,) = await services.gateway.submit([request], call.caller)
    if isinstance(answer, RotaError):
        raise answer
    call.made = answer.job_id
    if isinstance(answer, Repeated):
        return json_response(answer, 201, {"Idempotent-Replay": "true"})
    return json_response(answer, 200 if answer.duplicate else 201, {"Location": f"/v1/jobs/{answer.job_id}"})


@Operation(
    "POST",
    "/v1/jobs/batch",
    Right.SUBMIT,
    body=list[BatchJobIn] | JobSetIn,
    answer=BatchOut | JobSetOut,
    body_limit=_BATCH_LIMIT_BYTES,
    headers={"Idempotency-Key": "for a set: a repeat with the same key and body gets the first answer, for 24 hours"},
    errors=(413, 422, 429),
)
async def submit_batch(services: Backend, call: ApiRequest) -> BatchOut | JobSetOut:
    """Submit up to 10,000 jobs (an array, one per line as application/x-ndjson, or a set)."""
    key = read_key(only_header(call.request, "Idempotency-Key"), "Idempotency-Key")
    if not _is_ndjson(call) and call.body.lstrip()[:1] == b"{":
        return await _submit_set(services, call, key)
    if key is not None:
        words = "is for a set of jobs ({job, payloads}); here each job has its own idempotencyKey"
        raise BadInputError(words, field="Idempotency-Key")
    batch = await _read_batch(call)
    if trace := _trace_of(call):
        batch = [one._replace(job=received(one.job, trace)) if isinstance(one, JobRequest) else one for one in batch]
    asked = [one for one in batch if isinstance(one, JobRequest)]
    if any(one.job.schedule_type in _RECURRING for one in asked):
        await services.auditor.begin("submit_batch", call)
    await services.gateway.load(call.caller)
    _check_replacing(services, call, [one.job for one in asked])
    await _take(services, call, len(asked))
    coming = iter(await services.gateway.submit(asked, call.caller) if asked else ())
    results: list[BatchResult] = []
    breather = Breather()
    for one in batch:
        await breather.breathe()
        results.append(_result(next(coming) if isinstance(one, JobRequest) else one))
    return BatchOut(results=results)


class _SetOutline(msgspec.Struct, forbid_unknown_fields=True):
    """A JobSetIn whose fields are not yet read."""

    job: msgspec.Raw
    payloads: msgspec.Raw
    positions: msgspec.Raw | UnsetType = UNSET


async def _submit_set(services: Backend, call: ApiRequest, key: str | None) -> JobSetOut:
    request = await _read_set(services, call, key)
    if not request.payloads:
        return JobSetOut(accepted=[], refused=[])
    request = request._replace(job=received(request.job, _trace_of(call)))
    await services.gateway.load(call.caller)
    _check_replacing(services, call, [request.job])
    await _take(services, call, len(request.payloads))
    try:
        return await services.gateway.submit_set(request, call.caller)
    except BadInputError as error:
        raise _in_job(error) from None


async def _read_set(services: Backend, call: ApiRequest, key: str | None) -> SetRequest:
    read = services.gateway.job_builder.payloads
    if not is_costly(len(call.body)):  # most of them
        outline, request = _read_outline(call.body, key)
        payloads = read(bytes(outline.payloads))
        call.weigh(len(payloads) * BYTES_PER_JOB)
    else:
        async with costly_step(len(call.body)):
            outline, request = _read_outline(call.body, key)
        payloads = []
        breather = Breather()
        for array in _arrays_of(bytes(outline.payloads)):
            async with costly_step(len(array)):
                payloads += read(array)
            if len(payloads) > MOST_PER_BATCH:
                break
            call.weigh(len(payloads) * BYTES_PER_JOB)
            await breather.breathe()
    if len(payloads) > MOST_PER_BATCH:
        raise _too_many()
    return request._replace(payloads=payloads)


def _read_outline(body: bytes, key: str | None) -> tuple[_SetOutline, SetRequest]:
    """A set without its payloads, which are not read yet."""
    outline = _outline_of(body)
    positions = None if outline.positions is UNSET else _read_positions(outline.positions)
    job = _template_of(bytes(outline.job))
    return outline, SetRequest(job, (), key, sha256(body).digest() if key else b"", positions)


def _read_positions(text: msgspec.Raw) -> list[int]:
    try:
        positions: list[int] = decode(text, _Positions)
    except BadInputError:
        words = f"must be a list of whole numbers from 0 to {MOST_PER_BATCH - 1}"
        raise BadInputError(words, field="positions") from None
    return positions


def _template_of(text: bytes) -> JobIn:
    """What the jobs of a set have alike; raises BadInputError naming the field."""
    return _known_template(text) if len(text) <= _KNOWN_BYTES else _decode_template(text)


def _decode_template(text: bytes) -> JobIn:
    try:
        job: JobIn = decode(text, JobIn)
    except BadInputError as error:
        raise _in_job(error) from None
    return job


_known_template = lru_cache(_MOST_KNOWN)(_decode_template)  # programs send the same ones again and again


_outlines = msgspec.json.Decoder(_SetOutline)


def _outline_of(body: bytes) -> _SetOutline:
    """The parts of a set; raises BadInputError if one is missing or given twice."""
    try:
        outline = _outlines.decode(body)
    except msgspec.MsgspecError as error:
        raise bad_json(error) from None
    except (UnicodeDecodeError, RecursionError):
        raise BadInputError("the body is not valid JSON") from None
    rest = body
    for part in (outline.payloads, outline.job):
        before, found, after = rest.partition(bytes(part))
        rest = before + b"null" + after if found else rest
    check_names(rest, None)
    return outline


def _trace_of(call: ApiRequest) -> Trace | None:
    """The trace in which the request came; two are none."""
    parents = call.request.all_headers(TRACEPARENT)
    if len(parents) != 1:
        return None
    return read_trace(parents[0], ",".join(call.request.all_headers(TRACESTATE)))


def _in_job(error: BadInputError) -> BadInputError:
    """Bad fields are those of the set's job."""
    error.fields = [(field if field == "positions" else f"job.{field}", message) for field, message in error.fields]
    return error


def _arrays_of(array: bytes) -> Iterator[bytes]:
    """The payloads as arrays that are each read in a few milliseconds."""
    if len(array) <= _READ_AT_ONCE_BYTES:
        yield array
        return
    for texts in _grouped(items_of(array)):
        yield b"[" + b",".join(texts) + b"]"


def _read_job(body: bytes, key: str | None) -> JobRequest:
    return JobRequest(decode(body, JobIn), key, hash_request(body) if key else b"")


def _check_replacing(services: Backend, call: ApiRequest, jobs: Sequence[JobIn]) -> None:
    """Replacing a waiting job is a change, also where the job's task says so."""
    if call.access.identity.may(Right.CHANGE, call.namespace):
        return
    may_replace, caller = services.gateway.job_builder.may_replace, call.caller
    if any(may_replace(job, caller) for job in jobs):
        raise ForbiddenError("onDuplicate: replace changes a job, and your key lacks the scope 'change'")


async def _take(services: Backend, call: ApiRequest, count: int) -> None:
    """Counts all jobs of a request towards the rate limits; a repeat counts like the first."""
    taken = await take(services.limiter, call.access, "jobs", count)
    if taken is not UNLIMITED:
        call.rate_status = tighter(call.rate_status, taken)


async def _read_batch(call: ApiRequest) -> Sequence[JobRequest | RotaError]:
    """The jobs of a batch; an error in the place of one that can't be read."""
    lines = _is_ndjson(call)
    if not lines and len(call.body) <= _READ_AT_ONCE_BYTES and (jobs := _read_jobs(call.body)) is not None:
        if len(jobs) > MOST_PER_BATCH:
            raise _too_many()
        call.weigh(len(jobs) * BYTES_PER_JOB)
        return jobs
    batch: list[JobRequest | RotaError] = []
    breather = Breather()
    for texts in _each(_lines_of(call.body)) if lines else _grouped(items_of(call.body)):
        if len(batch) + len(texts) > MOST_PER_BATCH:
            raise _too_many()
        call.weigh(len(texts) * BYTES_PER_JOB)
        async with costly_step(sum(map(len, texts))):
            jobs = _read_group(texts)
        await breather.breathe()
        if jobs is not None:
            batch += jobs
            continue
        for text in texts:
            async with costly_step(len(text)):
                batch.append(_read_one(text))
            await breather.breathe()  # to find all that is wrong takes many times as long as to read what is right
    return batch


def _is_ndjson(call: ApiRequest) -> bool:
    kind = call.request.headers.get("content-type", "").partition(";")[0].strip()
    return kind in ("application/x-ndjson", "application/ndjson", "application/jsonl")


def _read_group(texts: Sequence[bytes]) -> list[JobRequest] | None:
    """Jobs that follow each other in an array, decoded together, which is faster; None: read them one by one."""
    return _read_jobs(b"[" + b",".join(texts) + b"]") if len(texts) > 1 else None


def _read_jobs(text: bytes) -> list[JobRequest] | None:
    """The jobs of an array without errors and keys; None for any other: those are read one by one."""
    try:
        jobs: list[BatchJobIn] = decode(text, list[BatchJobIn])
    except RotaError:
        return None
    return None if any(job.idempotency_key for job in jobs) else [JobRequest(job) for job in jobs]


def _each(texts: Iterator[bytes]) -> Iterator[list[bytes]]:
    return ([text] for text in texts)


def _grouped(texts: Iterator[bytes]) -> Iterator[list[bytes]]:
    """Neighbours together, up to a size that is read in a few milliseconds."""
    group: list[bytes] = []
    size = 0
    for text in texts:
        if group and (size + len(text) > _GROUP_BYTES or len(group) == _GROUP_JOBS):
            yield group
            group, size = [], 0
        group.append(text)
        size += len(text)
    if group:
        yield group


def _lines_of(body: bytes) -> Iterator[bytes]:
    """The lines that are not empty, one by one."""
    start = 0
    for _ in range(_MOST_LINES):
        end = body.find(b"\n", start)
        if line := body[start : end if end >= 0 else None].strip():
            yield line
        if end < 0:
            return
        start = end + 1
    raise _too_many()


def _read_one(text: bytes) -> JobRequest | RotaError:
    try:
        job: BatchJobIn = decode(text, BatchJobIn)
        return JobRequest(job, job.idempotency_key, hash_request(text) if job.idempotency_key else b"")
    except RotaError as error:
        error.__traceback__ = error.__context__ = None  # ten thousand of them would keep as many frames
        return error


def _too_many() -> BadInputError:
    return BadInputError(f"a batch has at most {MOST_PER_BATCH} jobs; this one has more")


def _result(answer: Answer) -> BatchResult:
    if isinstance(answer, RotaError):
        return BatchResult(error=problem_of(answer))
    return BatchResult(
        job_id=answer.job_id,
        status=answer.status,
        run_id=answer.run_id,
        duplicate=answer.duplicate,
        replayed=True if isinstance(answer, Repeated) else None,
    )


def read_key(text: str | None, field: str) -> str | None:
    if text is None:
        return None
    try:
        return msgspec.convert(text, Key)
    except msgspec.ValidationError:
        raise BadInputError("must have 1 to 255 printable characters", field=field) from None


OPERATIONS = (submit, submit_batch)
