"""Submitting jobs: one, or up to ten thousand in one call; with a key, a repeat gets the first answer."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any

import msgspec
from msgspec import UNSET

from rota.api.operations import Call, Operation, decode, json_response
from rota.api.problems import problem_of
from rota.api.schemas import BatchJobIn, BatchOut, BatchResult, JobIn, Key, Submitted
from rota.api.services import Services, is_too_large
from rota.domain.ids import show_job, show_run
from rota.domain.job import Submission, SubmissionKey
from rota.errors import BadInputError, KeyReusedError, RotaError
from rota.store.submissions import Duplicate, KnownKey

MOST_PER_BATCH = 10_000
BATCH_LIMIT_BYTES = 32 * 1024 * 1024
JOB_LIMIT_BYTES = 11 * 1024 * 1024  # the largest payload, and a little around it
# A batch up to this size is read in one go; what is longer may have far too many jobs, and they are counted first.
READ_AT_ONCE_BYTES = 4 * 1024 * 1024
_encoder = msgspec.json.Encoder()


async def submit(services: Services, call: Call) -> Any:
    """One job. With an Idempotency-Key, a repeat gets the first answer."""
    wanted = decode(call.body, JobIn)
    key = _read_key(call.request.headers.get("idempotency-key"), "Idempotency-Key")
    request_hash = _hash(call.body) if key else b""
    if key:
        known = (await services.submissions.find_keys([(call.caller.namespace, key)])).values()
        for before in known:
            return _answer_again(before, request_hash)
    item, answer = services.preparer.prepare(wanted, call.caller, services.now)
    if is_too_large(item):
        item = await services.offload(item)
    if key:
        item = msgspec.structs.replace(item, key=_key(key, request_hash, answer))
    (fate,) = await services.committer.submit([item])
    if isinstance(fate, KnownKey):
        return _answer_again(fate, request_hash)
    if isinstance(fate, Duplicate):
        return json_response(_kept(fate), 200, {"Location": f"/v1/jobs/{show_job(fate.job_id)}"})
    if isinstance(fate, RotaError):
        raise fate
    return json_response(answer, 201, {"Location": f"/v1/jobs/{answer.job_id}"})


async def submit_batch(services: Services, call: Call) -> BatchOut:
    """Up to 10,000 jobs, each with its own result, in order."""
    batch = _read_batch(call)
    known = await _known_answers(services, call, batch)
    now = services.now
    results: list[BatchResult] = []
    items: list[Submission] = []
    places: list[int] = []
    for index, job in enumerate(batch.jobs):
        if job is None or index in known:
            results.append(known.get(index) or batch.unreadable[index])
            continue
        try:
            item, answer = services.preparer.prepare(job, call.caller, now)
            if is_too_large(item):
                item = await services.offload(item)
        except RotaError as error:
            results.append(BatchResult(error=problem_of(error)))
            continue
        if job.idempotency_key:
            item = msgspec.structs.replace(item, key=_key(job.idempotency_key, batch.hashes[index], answer))
        items.append(item)
        places.append(index)
        results.append(BatchResult(job_id=answer.job_id, status=answer.status, run_id=answer.run_id))
    fates = await services.committer.submit(items) if items else []
    for index, fate in zip(places, fates, strict=True):
        if fate is not None:
            results[index] = _other_result(fate, batch.hashes.get(index, b""))
    return BatchOut(results=results)


class _Batch(msgspec.Struct):
    """What a batch asks for: its jobs, None where one can't be read, with the answers to those; and by position the
    hashes of those that have a key."""

    jobs: list[BatchJobIn | None]
    unreadable: dict[int, BatchResult]
    hashes: dict[int, bytes]


def _read_batch(call: Call) -> _Batch:
    lines = _is_lines(call)
    if not lines and len(call.body) <= READ_AT_ONCE_BYTES:
        try:
            jobs = decode(call.body, list[BatchJobIn])
        except RotaError:
            pass  # read one by one, so that the others don't suffer for it
        else:
            if not any(job.idempotency_key for job in jobs):
                _check_count(len(jobs))
                return _Batch(jobs, {}, {})
    raws = _split_lines(call.body) if lines else decode(call.body, list[msgspec.Raw])
    _check_count(len(raws))
    return _read_one_by_one(raws)


def _read_one_by_one(raws: list[msgspec.Raw]) -> _Batch:
    batch = _Batch([], {}, {})
    for index, raw in enumerate(raws):
        try:
            job = decode(raw, BatchJobIn)
            if job.idempotency_key:
                batch.hashes[index] = _hash(bytes(raw))
        except RotaError as error:
            batch.unreadable[index] = BatchResult(error=problem_of(error))
            job = None
        batch.jobs.append(job)
    return batch


def _is_lines(call: Call) -> bool:
    kind = call.request.headers.get("content-type", "").partition(";")[0].strip()
    return kind in ("application/x-ndjson", "application/ndjson", "application/jsonl")


def _split_lines(body: bytes) -> list[msgspec.Raw]:
    return [msgspec.Raw(line) for line in body.splitlines() if line.strip()]


def _check_count(count: int) -> None:
    if count > MOST_PER_BATCH:
        raise BadInputError(f"a batch has at most {MOST_PER_BATCH} jobs, not {count}")


async def _known_answers(services: Services, call: Call, batch: _Batch) -> Mapping[int, BatchResult]:
    """Answers to items whose key is known, before anything that depends on time is looked at."""
    if not batch.hashes:
        return {}
    pairs = {index: (call.caller.namespace, _key_of(batch.jobs[index])) for index in batch.hashes}
    known = await services.submissions.find_keys(list(pairs.values()))
    return {index: _other_result(known[pair], batch.hashes[index]) for index, pair in pairs.items() if pair in known}


def _key_of(job: BatchJobIn | None) -> str:
    return (job and job.idempotency_key) or ""


def _other_result(fate: RotaError | KnownKey | Duplicate, request_hash: bytes) -> BatchResult:
    """The result of an item that was not simply accepted."""
    try:
        if isinstance(fate, RotaError):
            return BatchResult(error=problem_of(fate))
        first = _kept(fate) if isinstance(fate, Duplicate) else _first_answer(fate, request_hash)
    except KeyReusedError as error:
        return BatchResult(error=problem_of(error))
    return BatchResult(job_id=first.job_id, status=first.status, run_id=first.run_id, duplicate=first.duplicate)


def _kept(duplicate: Duplicate) -> Submitted:
    """The answer for a job that was not made because another has its unique key and is kept."""
    run_id = UNSET if duplicate.recurring else show_run(duplicate.job_id)
    return Submitted(job_id=show_job(duplicate.job_id), status=duplicate.status, run_id=run_id, duplicate=True)


def _read_key(text: str | None, field: str) -> str | None:
    if text is None:
        return None
    try:
        return msgspec.convert(text, Key)
    except msgspec.ValidationError:
        raise BadInputError("must have 1 to 255 printable characters", field=field) from None


def _key(key: str, request_hash: bytes, answer: Submitted) -> SubmissionKey:
    return SubmissionKey(key, request_hash, _encoder.encode(answer).decode())


def _hash(body: bytes) -> bytes:
    """The same for the same JSON, however it is spaced and ordered."""
    try:
        return sha256(msgspec.json.encode(msgspec.json.decode(body), order="sorted")).digest()
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise BadInputError("is not valid JSON", field="payload") from None


def _answer_again(known: KnownKey, request_hash: bytes) -> Any:
    return json_response(_first_answer(known, request_hash), 201, {"Idempotent-Replay": "true"})


def _first_answer(known: KnownKey, request_hash: bytes) -> Submitted:
    if known.request_hash != request_hash:
        raise KeyReusedError("this idempotency key was used with another request within the last 24 hours")
    return msgspec.json.decode(known.answer, type=Submitted)


OPERATIONS = (
    Operation(
        method="POST",
        path="/v1/jobs",
        handler=submit,
        summary="Submit a job",
        body=JobIn,
        answer=Submitted,
        status=201,
        others={200: "Another job has the same uniqueKey and is kept"},
        body_limit=JOB_LIMIT_BYTES,
        headers={"Idempotency-Key": "a repeat with the same key and body gets the first answer, for 24 hours"},
        errors=(409, 413, 422, 429),
    ),
    Operation(
        method="POST",
        path="/v1/jobs/batch",
        handler=submit_batch,
        summary="Submit up to 10,000 jobs (an array, or one per line as application/x-ndjson)",
        body=list[BatchJobIn],
        answer=BatchOut,
        body_limit=BATCH_LIMIT_BYTES,
        errors=(413,),
    ),
)
