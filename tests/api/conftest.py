"""An API that refused requests must leave as it is. The tests of a module share it, since none of them changes it."""

from __future__ import annotations

import asyncpg
import pytest_asyncio

from support import job

TABLES = (
    "jobs",
    "upcoming_runs",
    "held_runs",
    "live_runs",
    "finished_runs",
    "attempts",
    "dead_letters",
    "payloads",
    "submission_keys",
    "chosen_ids",
)
# A recurring job, a future one and a queued run: something to be spared by what is refused.
WAITING = (
    job(scheduleType="cron", cronExpression="0 9 * * *", payload={"days": 30}),
    job(scheduleType="future", scheduleTime="2090-01-01T00:00:00Z"),
    job(payload={"text": "x" * 3000}),
)


class Spared:
    """An API with something on record, and requests that must leave that as it is."""

    def __init__(self, api, sql, job_ids):
        self.api = api
        self._sql = sql
        self.job_ids = job_ids

    async def contents(self):
        """Every row of every table about jobs and runs."""
        return {table: await self._sql.fetch(f"SELECT t::text FROM rota.{table} AS t ORDER BY 1") for table in TABLES}

    async def refuses(self, method, path, *, status=400, field=None, **options):
        """Sends a request that must be refused; checks status, shape, field and that nothing was written."""
        before = await self.contents()
        answer = await self.api.request(method, path, **options)
        assert answer.status_code == status, answer.text
        assert answer.headers["content-type"] == "application/problem+json"
        problem = answer.json()
        assert problem["status"] == status
        assert problem["type"]
        assert problem["title"]
        assert problem["detail"]
        assert [error["field"] for error in problem.get("errors", [])] == ([field] if field else [])
        assert await self.contents() == before
        return answer


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def spared(shared_api):
    """The API of this module: await spared.refuses("GET", …)."""
    job_ids = [(await shared_api.post("/v1/jobs", json=body)).json()["jobId"] for body in WAITING]
    sql = await asyncpg.connect(shared_api.database_url)
    yield Spared(shared_api, sql, job_ids)
    await sql.close()
