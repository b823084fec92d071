"""Rota."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, ClassVar

import httpx
import msgspec

import rota
from bench.peers import tallies
from bench.peers.peer import (
    BATCH,
    PORT,
    Command,
    Due,
    Peer,
    Variant,
    at_once,
    main,
    module,
    program,
    setting,
)

IN_FLIGHT = 4
TOKEN = "bench"  # noqa: S105 - of a server that lives for seconds on loopback
READY_SECONDS = 30
app = rota.App()


@app.task(name="noop")
async def noop() -> None:
    """The task that is counted."""
    tallies.count()


@app.task(name="started")
async def started(index: int, due: float) -> None:
    """The task that has a due time."""
    tallies.started(index, due)


@app.task(name="fired")
async def fired(index: int) -> None:
    """The task of a schedule."""
    tallies.fired(index)


class RotaPeer(Peer):
    """The parts that `rota up` starts: one process with API and scheduler, and workers."""

    title = "Rota"
    packages = ("rota", "asyncpg", "uvloop")
    server = "postgres"
    bulk = True
    keeps = "a history row"
    settings = "all defaults (100 slots per worker); HTTP API, batches of 1,000, 4 requests in flight"

    environment: ClassVar = {
        "ROTA_DATABASE_URL": "{server}",
        "ROTA_HOME": "{home}",
        "ROTA_PORT": "{port}",
        "ROTA_TOKEN": TOKEN,
        "ROTA_LOG_LEVEL": "warning",
    }

    def __init__(self) -> None:
        self._http: httpx.AsyncClient

    def variants(self) -> list[Variant]:
        """One or two workers."""
        command = [program("rota"), "worker", "--app", f"{module(self)}:app"]
        return [Variant(label=f"{count} x 100 slots", processes=count, commands=[command] * count) for count in (1, 2)]

    def beside(self) -> list[Command]:
        """The server."""
        return [[program("rota"), "api", "--with-scheduler"]]

    async def prepare(self) -> None:
        """Its schema: `rota migrate`, as a process because it reads its own settings."""
        process = await asyncio.create_subprocess_exec(program("rota"), "migrate")
        if await process.wait():
            raise SystemExit("rota migrate failed")

    async def open(self) -> None:
        """Connects once the server answers."""
        headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
        self._http = httpx.AsyncClient(
            base_url=f"http://127.0.0.1:{setting(PORT)}", headers=headers, timeout=60, trust_env=False
        )
        async with asyncio.timeout(READY_SECONDS):
            while not await self._answers():  # noqa: ASYNC110 - another process, which has no event to wait for
                await asyncio.sleep(0.05)

    async def submit(self, count: int) -> None:
        """In batches, a few in flight."""
        job = {"name": "noop", "scheduleType": "immediate", "task": "noop"}
        await self._post([job] * count)

    async def submit_at(self, dues: Sequence[Due]) -> None:
        """The same, each with its time."""
        await self._post(
            [
                {
                    "name": "started",
                    "scheduleType": "future",
                    "scheduleTime": datetime.fromtimestamp(due, UTC).isoformat(),
                    "task": "started",
                    "payload": {"index": index, "due": due},
                }
                for index, due in dues
            ]
        )

    async def schedule(self, count: int) -> None:
        """Cron expressions with seconds."""
        job = {"name": "fired", "scheduleType": "cron", "cronExpression": "* * * * * *", "task": "fired"}
        await self._post([job | {"payload": {"index": index}} for index in range(count)])

    async def _answers(self) -> bool:
        try:
            return (await self._http.get("/v1/workers")).is_success
        except httpx.TransportError:
            return False

    async def _post(self, jobs: Sequence[dict[str, Any]]) -> None:
        def batches() -> Iterator[Any]:
            for start in range(0, len(jobs), BATCH):
                yield self._post_batch(jobs[start : start + BATCH])

        await at_once(batches(), IN_FLIGHT)

    async def _post_batch(self, jobs: Sequence[dict[str, Any]]) -> None:
        answer = await self._http.post("/v1/jobs/batch", content=msgspec.json.encode(jobs))
        if not answer.is_success or b'"error":' in answer.content:
            raise SystemExit(f"refused: {answer.text[:500]}")


if __name__ == "__main__":
    main(RotaPeer())
