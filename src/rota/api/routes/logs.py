"""Logs: read, follow, search."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncGenerator, AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec
from starlette.responses import Response, StreamingResponse

from rota.api.backend import Backend
from rota.api.log_search import MOST_CLAIM, MOST_CONTEXT, LogPlace, Question, level_of, split_line
from rota.api.operations import ApiRequest, Operation, json_response
from rota.api.paging import PAGE_PARAMETERS, owner_within, read_limit, read_moment, read_text
from rota.api.streams.log_tail import LOOK_SECONDS, LogTail
from rota.api.streams.sse import BEAT, BEAT_SECONDS, event, event_stream, read_position, read_switch
from rota.blobs import BlobError
from rota.contract.runs import LogLine, LogList, LogUrl
from rota.domain.ids import FIRST_ID, floor_id, parse_run, show_run
from rota.domain.log_index import is_shared
from rota.domain.rights import Right
from rota.errors import BadInputError, ConflictError, DatabaseUnavailableError, NotFoundError
from rota.store.logs.blocks import LogFilter
from rota.time_limits import time_limit

_CHUNKS_PER_READ = 2000
_LONGEST_SEARCH = 200
_LINES_PER_PORTION = 500
_URL_VALID = timedelta(minutes=15)
_PLACE = re.compile(r"([0-9a-f]{32})\.(-?[0-9]{1,19})\.(-?[0-9]{1,9})")
_CONTEXT = re.compile("[0-9]{1,2}")
STREAMS = ("stdout", "stderr", "log", "rota")
LEVELS = ("debug", "info", "warning", "error", "critical")
FORMATS = ("json", "ndjson")
_LOG_PARAMETERS = {
    "follow": "true: stream lines as they are written (server-sent events) until the run ends",
    "url": "true: a temporary address of the log in object storage, if it has one",
    "download": "true: as a file to save",
}
_FILTERS = {
    "owner": "only of this owner",
    "task": "only of runs of this task",
    "jobId": "only of runs of this job",
    "pool": "only of runs in this pool",
    "name": "only of runs with this name",
    "tag": "only of runs with this tag",
    "stream": f"only what was written there: {', '.join(STREAMS)}",
    "level": f"only what was logged at this level: {', '.join(LEVELS)}",
}
_encoder = msgspec.json.Encoder()


@Operation(
    "GET",
    "/v1/runs/{runId}/logs",
    Right.READ,
    answer=str,
    media_type="text/plain",
    query=_LOG_PARAMETERS,
    errors=(404, 409),
)
async def get_logs_of_run(services: Backend, call: ApiRequest) -> Response:
    """Read the log of a run: one entry per line, with time and stream."""
    row = await services.runs.get(call.namespace, call.run_id)
    if row.get("archived") and read_switch(call, "follow"):
        raise ConflictError("the run is archived, and writes nothing more: read its log without follow")
    return await _answer(services, call, call.run_id)


@Operation(
    "GET",
    "/v1/jobs/{jobId}/logs",
    Right.READ,
    answer=str,
    media_type="text/plain",
    query=_LOG_PARAMETERS,
    errors=(404, 409),
)
async def get_logs_of_job(services: Backend, call: ApiRequest) -> Response:
    """Read the log of a job's latest run."""
    run = await services.jobs.latest_run(call.namespace, call.job_id, services.now)
    if run is None:
        if await services.jobs.get(call.namespace, call.job_id) is None:
            raise NotFoundError("there is no such job")
        raise ConflictError("the job has not run yet")
    return await _answer(services, call, run["id"])


@Operation(
    "GET",
    "/v1/logs",
    Right.READ,
    query={
        "search": "the text, of 3 letters or more to be found fast; case is ignored",
        "follow": "true: instead, stream what runs write from now on (server-sent events)",
        "startTime": "of runs planned at or after this time (RFC 3339)",
        "endTime": "of runs planned before this time (RFC 3339)",
        "runId": "only of this run",
        **_FILTERS,
        "context": f"how many lines before and after each to show, 0 to {MOST_CONTEXT} (0 if not given)",
        "format": "ndjson: all matching lines as a stream, one JSON object per line, instead of a page",
        **PAGE_PARAMETERS,
    },
    answer=LogList,
    errors=(404,),
)
async def search_logs(services: Backend, call: ApiRequest) -> Any:
    """Search logs for a text, or follow the logs of runs. A search takes 2 seconds at most; the next page goes on."""
    if read_switch(call, "follow"):
        return await _follow_all(services, call)
    question, place = await _read_question(services, call)
    limit = read_limit(call.query)
    services.searches.check(call.namespace, call.caller.owner)
    if _read_one_of(call, "format", FORMATS) == "ndjson":
        lines = _found_lines(services, call, question, place)
        return StreamingResponse(lines, media_type="application/x-ndjson", headers={"Cache-Control": "no-store"})
    with services.searches.place(call.namespace, call.caller.owner):
        found, rest = await services.log_search.page(question, place, limit)
        indexing = await services.log_blocks.is_indexing(call.namespace)
    return LogList(items=found, next_cursor=_cursor(rest), searched_to=_moment(rest), indexing=indexing)


async def _found_lines(
    services: Backend, call: ApiRequest, question: Question, place: LogPlace | None
) -> AsyncIterator[bytes]:
    """All of them. If something comes between, the last line says where to go on."""
    with services.searches.place(call.namespace, call.caller.owner):
        while place is not None:
            try:
                found, rest = await services.log_search.page(question, place, _LINES_PER_PORTION)
            except (BlobError, DatabaseUnavailableError):
                break
            yield b"".join(_encoder.encode(line) + b"\n" for line in found)
            place = rest
            if services.stopping.is_set() or not await call.is_still_known():
                break
    if place is not None:
        yield _encoder.encode({"nextCursor": _cursor(place)}) + b"\n"


async def _read_question(services: Backend, call: ApiRequest) -> tuple[Question, LogPlace]:
    text = call.query.get("search", "")
    if not text.strip() or len(text) > _LONGEST_SEARCH or "\x00" in text:
        raise BadInputError(f"must have 1 to {_LONGEST_SEARCH} characters, none of them NUL", field="search")
    start, end = read_moment(call.query, "startTime"), read_moment(call.query, "endTime")
    first, before = floor_id(start) if start else FIRST_ID, floor_id(end or services.now + timedelta(days=1))
    if wanted := call.query.get("runId"):
        run_id = parse_run(wanted)
        first, before = max(first, run_id), min(before, UUID(int=min(run_id.int + 1, (1 << 128) - 1)))
    question = Question(
        namespace=call.namespace,
        text=text,
        first=first,
        runs=await _read_filter(services, call),
        stream=_read_one_of(call, "stream", STREAMS),
        level=_read_one_of(call, "level", LEVELS),
        context=_read_context(call),
    )
    return question, _read_place(call.query.get("cursor"), before)


async def _read_filter(services: Backend, call: ApiRequest) -> LogFilter:
    job = read_text(call.query, "jobId")
    job_id = await services.jobs.find_id(call.namespace, job) if job is not None else None
    if job is not None and job_id is None:
        if call.only is None:
            raise NotFoundError("there is no such job")
        job_id = FIRST_ID  # of no job: those who see their own learn nothing of ids that others chose
    names = {name: read_text(call.query, name) for name in ("task", "pool", "name", "tag")}
    return LogFilter(owner=owner_within(read_text(call.query, "owner"), call.only), job_id=job_id, **names)


def _read_one_of(call: ApiRequest, name: str, known: tuple[str, ...]) -> str | None:
    text = call.query.get(name)
    if text is not None and text not in known:
        raise BadInputError(f"must be one of {', '.join(known)}", field=name)
    return text


def _read_context(call: ApiRequest) -> int:
    text = call.query.get("context", "0")
    if not _CONTEXT.fullmatch(text) or int(text) > MOST_CONTEXT:
        raise BadInputError(f"must be a whole number from 0 to {MOST_CONTEXT}", field="context")
    return int(text)


def _read_place(cursor: str | None, before: UUID) -> LogPlace:
    """Where a search continues, within the requested time."""
    latest = LogPlace.below(before)
    if cursor is None:
        return latest
    match = _PLACE.fullmatch(cursor)
    if match is None:
        raise BadInputError("is not a valid cursor; use the nextCursor of a list", field="cursor")
    place = LogPlace(UUID(hex=match[1]), max(-1, min(int(match[2]), MOST_CLAIM)), max(0, int(match[3])))
    return place if place.key < latest.key else latest


def _cursor(place: LogPlace | None) -> str | None:
    return f"{place.run_id.hex}.{place.claim}.{place.line}" if place else None


def _moment(place: LogPlace | None) -> datetime | None:
    return datetime.fromtimestamp((place.run_id.int >> 80) / 1000, UTC) if place else None


async def _follow_all(services: Backend, call: ApiRequest) -> Response:
    for name in call.query:
        if name not in ("follow", *_FILTERS):
            raise BadInputError("needs follow=false", field=name)
    wanted = await _read_filter(services, call)
    shown = _read_one_of(call, "stream", STREAMS), _read_one_of(call, "level", LEVELS)
    services.tail.check_room(call.namespace, call.caller.owner)
    tail = LogTail(services.logs, services.log_blocks, call.namespace, wanted, read_position(call))
    return event_stream(call, _all_events(services, call, tail, shown), services.stopping)


async def _all_events(
    services: Backend, call: ApiRequest, tail: LogTail, shown: tuple[str | None, str | None]
) -> AsyncGenerator[bytes, None]:
    """Server-sent events: `line` for each line of each run that the caller may see and has asked for."""
    with services.tail.shares.place(call.namespace, call.caller.owner):
        yield b": following\n\n"
        spoke = time.monotonic()
        highest = read_position(call) or 0
        while True:
            try:
                chunks = await tail.look(services.now)
            except DatabaseUnavailableError:
                return  # the client reconnects and continues from its position
            for run_id, row in chunks:
                # The highest so far: runs take turns, and one who was cut off must not get others' lines twice.
                highest = max(highest, row["position"])
                if events := _chunk_events(run_id, row["attempt"], row["body"], highest, shown):
                    spoke = time.monotonic()
                    yield events
            if time.monotonic() - spoke >= BEAT_SECONDS:
                spoke = time.monotonic()
                yield BEAT
            await asyncio.sleep(LOOK_SECONDS)


def _chunk_events(
    run_id: UUID, attempt: int, body: str, position: int, shown: tuple[str | None, str | None] = (None, None)
) -> bytes:
    """The lines of a chunk. The last has its position: whoever is cut off before it gets the whole chunk again."""
    stream, level = shown
    lines = [
        line
        for line in _lines({"run_id": run_id, "attempt": attempt, "body": body})
        if stream in (None, line.stream) and level in (None, level_of(line.stream, line.text))
    ]
    ids = [*[None] * (len(lines) - 1), position]
    return b"".join(event("line", line, number) for line, number in zip(lines, ids, strict=False))


async def _answer(services: Backend, call: ApiRequest, run_id: UUID) -> Response:
    follow, url, download = (read_switch(call, name) for name in ("follow", "url", "download"))
    if follow and url:
        raise BadInputError("needs url=false", field="follow")
    if download and (follow or url):
        raise BadInputError("needs follow=false and url=false", field="download")
    if url:
        return await _signed(services, call.namespace, run_id)
    if follow:
        services.tail.check_room(call.namespace, call.caller.owner)
        return event_stream(call, _events(services, call, run_id, read_position(call) or 0), services.stopping)
    parts = [part async for part in _parts(services, call.namespace, run_id)]
    name = f'attachment; filename="{show_run(run_id)}.log"'
    headers = {"Content-Disposition": name} if download else None
    return Response(b"".join(parts), media_type="text/plain; charset=utf-8", headers=headers)


async def _parts(services: Backend, namespace: str, run_id: UUID) -> AsyncIterator[bytes]:
    """What was moved to object storage, then the chunks in the database."""
    fresh: list[Any] = []
    while page := await services.logs.of_run(
        namespace, run_id, after=fresh[-1]["position"] if fresh else 0, limit=_CHUNKS_PER_READ
    ):
        fresh += page
    there = {row["claim"] for row in fresh}
    for row in await _kept(services, namespace, run_id):
        if row["claim"] not in there:
            yield await services.blobs.get_piece(row["blob"], row["first"], row["length"])
    for row in fresh:
        yield row["body"].encode()


async def _kept(services: Backend, namespace: str, run_id: UUID) -> list[Any]:
    """Where its logs are in object storage; of an archived run, the archive knows it."""
    kept = await services.logs.kept(namespace, run_id)
    return kept or await services.archive_lookup.logs(namespace, run_id)


async def _signed(services: Backend, namespace: str, run_id: UUID) -> Response:
    kept = await _kept(services, namespace, run_id)
    for row in reversed(kept):
        if not is_shared(row["blob"]) and (address := await services.blobs.url(row["blob"], _URL_VALID)):
            return json_response(LogUrl(url=address, expires_time=services.now + _URL_VALID))
    raise NotFoundError("the run's log has no URL; read it without url=true")


async def _events(services: Backend, call: ApiRequest, run_id: UUID, after: int) -> AsyncGenerator[bytes, None]:
    """Server-sent events: `line` for each line, `end` with the run's status; comments keep the connection open."""
    async with services.tail.follow(call.namespace, run_id, after, call.caller.owner) as follower:
        yield b": following\n\n"
        while True:
            try:
                async with time_limit(BEAT_SECONDS):
                    coming = await follower.coming.get()
            except TimeoutError:
                yield BEAT
                continue
            if isinstance(coming, str):
                yield event("end", {"status": coming})
                return
            yield _chunk_events(run_id, coming.attempt, coming.body, coming.position)


def _lines(row: Any) -> list[LogLine]:
    shown = show_run(row["run_id"])
    lines: list[LogLine] = []
    for line in row["body"].removesuffix("\n").split("\n") if row["body"] else ():
        moment, stream, text = split_line(line)
        lines.append(LogLine(run_id=shown, attempt=row["attempt"], time=moment, stream=stream, text=text))
    return lines


OPERATIONS = (get_logs_of_run, get_logs_of_job, search_logs)
