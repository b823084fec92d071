"""Logs for tests: runs that have written something, on their way from the database to object storage."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

from rota.domain.ids import new_id
from rota.store.logs import Logs
from support import log_chunk

STAMP = "2026-01-01T00:00:00.000Z"


def run_at(moment: datetime) -> UUID:
    """The id of a run planned then."""
    return new_id(moment.timestamp())


def ago(**span) -> UUID:
    """The id of a run planned so long ago."""
    return run_at(datetime.now(UTC) - timedelta(**span))


def plain(run_id: str) -> UUID:
    """The id behind run_…"""
    return UUID(run_id.removeprefix("run_"))


async def write(engine, run_id, *lines, stream="stdout", **options):
    """These lines are the whole log of a run."""
    body = "".join(f"{STAMP} {stream} {line}\n" for line in lines)
    await Logs(engine.database).add([log_chunk(run_id, body, **{"last": True} | options)])


async def copied(engine):
    """Everything that has ended goes to object storage."""
    await (await leader_of(engine)).log_keeper.catch_up()


async def leader_of(engine):
    """The scheduler of a test, always the same: another one would own no shards."""
    if not hasattr(engine, "leader"):
        engine.leader = await engine.leading()
    return engine.leader


async def forget_chunks(sql):
    """As when the days of all logs have been dropped."""
    await sql.execute("DELETE FROM rota.log_chunks")


async def found(client, text, **query):
    """The lines that a search finds, over all its pages."""
    lines, cursor = [], None
    while True:
        answer = await client.get("/v1/logs", params={"search": text, **query} | ({"cursor": cursor} if cursor else {}))
        assert answer.status_code == 200, answer.text
        page = answer.json()
        lines += page["items"]
        cursor = page["nextCursor"]
        if not cursor:
            return lines


async def texts(client, text, **query):
    """The texts of these lines."""
    return [line["text"] for line in await found(client, text, **query)]
