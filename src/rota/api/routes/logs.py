"""Logs: read, follow, search."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncGenerator
from datetime import timedelta
from typing import Any
from uuid import UUID

from starlette.responses import Response

from rota.api.backend import Backend
from rota.api.operations import ApiRequest, Operation, json_response
from rota.api.paging import PAGE_PARAMETERS, read_limit, read_moment
from rota.api.streams.log_tail import LOOK_SECONDS, LogTail
from rota.api.streams.sse import BEAT, BEAT_SECONDS, event, event_stream, read_position, read_switch
from rota.contract.runs import LogLine, LogList, LogUrl
from rota.domain.ids import FIRST_ID, floor_id, show_run
from rota.domain.rights import Right
from rota.errors import BadInputError, ConflictError, DatabaseUnavailableError, NotFoundError
from rota.service import Breather
from rota.store.logs import ChunkKey
from rota.time_limits import time_limit

_CHUNKS_PER_READ = 2000
_CHUNKS_PER_SEARCH = 500
_SEARCH_SECONDS = 2.0
_LONGEST_SEARCH = 200
_URL_VALID = timedelta(minutes=15)
_PLACE = re.compile(r"([0-9a-f]{32})\.(-?[0-9]{1,18})\.(-?[0-9]{1,9})")
_LOG_PARAMETERS = {
    "follow": "true: stream lines as they are written (server-sent events) until the run ends",
    "url": "true: a temporary address of the log in object storage, if it has one",
}


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
        "search": "the text; case is ignored",
        "follow": "true: instead, stream what all runs write from now on (server-sent events)",
        "startTime": "of runs planned at or after this time (RFC 3339)",
        "endTime": "of runs planned before this time (RFC 3339)",
        **PAGE_PARAMETERS,
    },
    answer=LogList,
)
async def search_logs(services: Backend, call: ApiRequest) -> Any:
    """Search the logs of recent runs for a text, or follow the logs of all runs."""
    if read_switch(call, "follow"):
        return _follow_all(services, call)
    text = call.query.get("search", "")
    if not text.strip() or len(text) > _LONGEST_SEARCH or "\x00" in text:
        raise BadInputError(f"must have 1 to {_LONGEST_SEARCH} characters, none of them NUL", field="search")
    limit = read_limit(call.query)
    start, end = read_moment(call.query, "startTime"), read_moment(call.query, "endTime")
    first = floor_id(start) if start else FIRST_ID
    position: ChunkKey | None = _read_position(
        call.query.get("cursor"), floor_id(end or services.now + timedelta(days=1))
    )
    found: list[LogLine] = []
    deadline, breather = time.monotonic() + _SEARCH_SECONDS, Breather()
    while position is not None and len(found) < limit and time.monotonic() < deadline:
        rows, position = await services.logs.search(
            call.namespace, first, position, text, _CHUNKS_PER_SEARCH, call.only
        )
        for row in rows:
            await breather.breathe()
            found += [line for line in _lines(row) if text.lower() in line.text.lower()]
            if len(found) >= limit:
                position = (row["run_id"], row["claim"], row["number"])
                break
    return LogList(items=found, next_cursor=f"{position[0].hex}.{position[1]}.{position[2]}" if position else None)


def _follow_all(services: Backend, call: ApiRequest) -> Response:
    for name in call.query:
        if name != "follow":
            raise BadInputError("needs follow=false", field=name)
    services.tail.check_room(call.namespace, call.caller.owner)
    return event_stream(call, _all_events(services, call, read_position(call)), services.stopping)


async def _all_events(services: Backend, call: ApiRequest, after: int | None) -> AsyncGenerator[bytes, None]:
    """Server-sent events: `line` for each line of each run that the caller may see."""
    tail = LogTail(services.logs, services.runs, call.namespace, call.only, after)
    with services.tail.shares.place(call.namespace, call.caller.owner):
        yield b": following\n\n"
        spoke = time.monotonic()
        highest = after or 0
        while True:
            try:
                chunks = await tail.look(services.now)
            except DatabaseUnavailableError:
                return  # the client reconnects and continues from its position
            for run_id, row in chunks:
                spoke = time.monotonic()
                # The highest so far: runs take turns, and one who was cut off must not get others' lines twice.
                highest = max(highest, row["position"])
                yield _chunk_events(run_id, row["attempt"], row["body"], highest)
            if time.monotonic() - spoke >= BEAT_SECONDS:
                spoke = time.monotonic()
                yield BEAT
            await asyncio.sleep(LOOK_SECONDS)


def _chunk_events(run_id: UUID, attempt: int, body: str, position: int) -> bytes:
    """The lines of a chunk. The last has its position: whoever is cut off before it gets the whole chunk again."""
    lines = _lines({"run_id": run_id, "attempt": attempt, "body": body})
    ids = [*[None] * (len(lines) - 1), position]
    return b"".join(event("line", line, number) for line, number in zip(lines, ids, strict=False))


def _read_position(cursor: str | None, before: UUID) -> ChunkKey:
    """Where a search continues: below this chunk, and within the requested time."""
    latest = (before, -1, -1)
    if cursor is None:
        return latest
    match = _PLACE.fullmatch(cursor)
    if match is None:
        raise BadInputError("is not a valid cursor; use the nextCursor of a list", field="cursor")
    return min((UUID(hex=match[1]), int(match[2]), int(match[3])), latest)


async def _answer(services: Backend, call: ApiRequest, run_id: UUID) -> Response:
    follow, url = (read_switch(call, name) for name in ("follow", "url"))
    if follow and url:
        raise BadInputError("needs url=false", field="follow")
    if url:
        return await _signed(services, call.namespace, run_id)
    if follow:
        services.tail.check_room(call.namespace, call.caller.owner)
        return event_stream(call, _events(services, call, run_id, read_position(call) or 0), services.stopping)
    text = await _whole(services, call.namespace, run_id)
    return Response(text, media_type="text/plain; charset=utf-8")


async def _whole(services: Backend, namespace: str, run_id: UUID) -> bytes:
    """What was moved to object storage, then the chunks in the database."""
    fresh: list[Any] = []
    while page := await services.logs.of_run(
        namespace, run_id, after=fresh[-1]["position"] if fresh else 0, limit=_CHUNKS_PER_READ
    ):
        fresh += page
    there = {row["claim"] for row in fresh}
    parts = [
        await services.blobs.get_piece(row["blob"], row["first"], row["length"])
        for row in await _kept(services, namespace, run_id)
        if row["claim"] not in there
    ]
    return b"".join([*parts, *(row["body"].encode() for row in fresh)])


async def _kept(services: Backend, namespace: str, run_id: UUID) -> list[Any]:
    """Where its logs are in object storage; of an archived run, the archive knows it."""
    kept = await services.logs.kept(namespace, run_id)
    return kept or await services.archive_lookup.logs(namespace, run_id)


async def _signed(services: Backend, namespace: str, run_id: UUID) -> Response:
    kept = await _kept(services, namespace, run_id)
    for row in reversed(kept):
        if "/together/" not in row["blob"] and (address := await services.blobs.url(row["blob"], _URL_VALID)):
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
        moment, _, rest = line.partition(" ")
        stream, _, text = rest.partition(" ")
        lines.append(LogLine(run_id=shown, attempt=row["attempt"], time=moment, stream=stream, text=text))
    return lines


OPERATIONS = (get_logs_of_run, get_logs_of_job, search_logs)
