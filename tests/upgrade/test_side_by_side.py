"""Two versions on one database: one that people run (the wheels beside this file), and this one.

Everything goes on while they change places, in both directions: a stream of jobs, and a schedule that fires every
second. A client here is one behind a balancer: what a server does not answer is asked once more, of the other.
"""

from __future__ import annotations

import asyncio
import os
import zipfile
from collections import Counter
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path

import asyncpg
import httpx
import pytest

from scenarios.fleet import SCENARIOS, Fleet
from support import GUARD_SECONDS, eventually, free_port

pytestmark = pytest.mark.scenario

RELEASES = ("0.1.0", "0.2.0")
# What a later release may add to tables that this one writes; see docs/decisions/0015-expand-then-contract.md.
LATER = """
ALTER TABLE rota.live_runs ADD COLUMN later_note text;
ALTER TABLE rota.finished_runs ADD COLUMN later_note text NOT NULL DEFAULT 'none';
ALTER TABLE rota.jobs ADD COLUMN later_number bigint;
CREATE TABLE rota.later (id uuid PRIMARY KEY);
INSERT INTO rota.migrations (number, name) VALUES (9999, 'later')
"""


class Version:
    """The processes of one version: an API with a port of its own, a scheduler, a worker."""

    def __init__(self, fleet: Fleet, path: Path | None) -> None:
        self._fleet = fleet
        self._environment = {"ROTA_PORT": str(free_port())}
        if path:
            self._environment["PYTHONPATH"] = os.pathsep.join([str(path), str(SCENARIOS)])
        self._processes = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._environment['ROTA_PORT']}"

    async def start(self) -> None:
        for arguments in (("api",), ("scheduler",), ("worker", "--app", "tasks:app")):
            self._processes.append(await self._fleet.start(*arguments, **self._environment))
        self._fleet.port = int(self._environment["ROTA_PORT"])
        await self._fleet.connect()
        worker = self._processes[-1]

        async def joined() -> bool:
            return any(one["pid"] == worker.pid for one in await self._fleet.workers())

        await eventually(joined)

    async def stop(self) -> None:
        """In good order: the API last answers what it has, the worker ends what it runs."""
        assert [process.alive for process in self._processes] == [True] * 3
        codes = await asyncio.gather(*(process.terminate() for process in self._processes))
        assert codes == [0, 0, 0]
        self._processes = []


class Stream:
    """Clients that submit without a pause, each job once more at the other address when the first did not answer."""

    def __init__(self, token: str, notes: Path, urls: list[str]) -> None:
        self.accepted: list[str] = []
        self.urls = urls
        self._headers = {"Authorization": f"Bearer {token}"}
        self._notes = notes
        self._clients: list[asyncio.Task[None]] = []

    def start(self, clients: int = 3) -> None:
        self._clients = [asyncio.create_task(self._run(number)) for number in range(clients)]

    async def go_on(self, jobs: int = 60) -> None:
        """Returns when so many more were accepted."""
        wanted = len(self.accepted) + jobs
        await eventually(lambda: len(self.accepted) >= wanted or any(client.done() for client in self._clients))

    async def stop(self) -> None:
        for client in self._clients:
            client.cancel()
        ends = await asyncio.gather(*self._clients, return_exceptions=True)
        assert all(isinstance(end, asyncio.CancelledError) for end in ends), ends

    async def _run(self, number: int) -> None:
        async with httpx.AsyncClient(headers=self._headers, timeout=30) as client:
            for sent in range(10_000):
                body = {
                    "name": f"{number}-{sent}",
                    "scheduleType": "immediate",
                    "task": "note",
                    "payload": {"file": str(self._notes)},
                    "maxRetries": 3,
                }
                answer = await self._submit(client, sent, body)
                assert answer.status_code == 201, answer.text
                self.accepted.append(answer.json()["runId"])
                await asyncio.sleep(0.01)

    async def _submit(self, client: httpx.AsyncClient, sent: int, body: dict) -> httpx.Response:
        key = {"Idempotency-Key": body["name"]}
        first = self.urls[sent % len(self.urls)]
        try:
            answer = await client.post(f"{first}/v1/jobs", json=body, headers=key)
            if answer.status_code != 503:
                return answer
        except httpx.TransportError:
            pass  # a server that stops: the balancer takes the other
        return await client.post(f"{self.urls[(sent + 1) % len(self.urls)]}/v1/jobs", json=body, headers=key)


@pytest.fixture
async def ground(postgres, request):
    """An empty database, whose schema the old version makes."""
    name = f"upgrade_{os.getpid()}"
    admin = await asyncpg.connect(postgres.url("postgres"))
    await admin.execute(f"CREATE DATABASE {name}")
    fleet = Fleet({"ROTA_DATABASE_URL": postgres.url(name), "ROTA_LOG_LEVEL": "info"})
    yield fleet
    if request.session.testsfailed:
        print(fleet.logs())
    await fleet.stop()
    await admin.execute(f"DROP DATABASE {name} WITH (FORCE)")
    await admin.close()


def extracted(release: str, path: Path) -> Path:
    """The code of a release."""
    with zipfile.ZipFile(Path(__file__).parent / f"rota-{release}-py3-none-any.whl") as wheel:
        wheel.extractall(path)
    return path


@pytest.mark.parametrize("release", RELEASES)
async def test_old_and_new_change_places_under_load_and_back_again_and_nothing_is_lost_or_run_twice(
    ground, postgres, tmp_path, release
):
    notes = tmp_path / "notes"
    old, new = Version(ground, extracted(release, tmp_path / "old")), Version(ground, None)
    await old.start()
    sql = await asyncpg.connect(postgres.url(f"upgrade_{os.getpid()}"))
    job = await ground.submit("rota.echo", scheduleType="interval", everySeconds=1)
    stream = Stream((ground.home / "admin.token").read_text().strip(), notes, [old.url])
    stream.start()
    await stream.go_on()

    await new.start()
    assert await versions_at(old.url, new.url) == [release, version("rota")]
    stream.urls = [old.url, new.url]
    await stream.go_on()
    await old.stop()
    await stream.go_on()

    # It disappoints: the old version comes back, to a schema newer than any it has seen.
    await sql.execute(LATER)
    await old.start()
    await stream.go_on()
    await new.stop()
    await stream.go_on()

    await stream.stop()
    starts = await all_ended(stream.accepted, notes)
    assert {run: starts[run] for run in stream.accepted} == dict.fromkeys(stream.accepted, 1)

    async def has_fired() -> bool:
        return await fired(sql, job["jobId"]) >= 5

    await eventually(has_fired)
    await sql.close()


async def versions_at(*urls: str) -> list[str]:
    async with httpx.AsyncClient(timeout=GUARD_SECONDS) as client:
        return [(await client.get(f"{url}/openapi.json")).json()["info"]["version"] for url in urls]


async def all_ended(accepted: list[str], notes: Path) -> Counter[str]:
    """How often each run was started, once all of them have ended."""

    def ended() -> Counter[str] | None:
        lines = [line.split() for line in notes.read_text().splitlines()]
        done = {line[1] for line in lines if line[0] == "end"}
        return Counter(line[1] for line in lines if line[0] == "start") if done >= set(accepted) else None

    return await eventually(ended)


async def fired(sql: asyncpg.Connection, job_id: str) -> int:
    """How often the schedule was fired: every second once, without a gap."""
    rows = await sql.fetch(
        "SELECT nominal_at, status FROM rota.runs WHERE job_id = $1::text::uuid ORDER BY nominal_at", job_id[4:]
    )
    seconds = [row["nominal_at"].timestamp() for row in rows]
    assert [late - early for early, late in pairwise(seconds)] == [1.0] * (len(seconds) - 1)
    return sum(row["status"] == "success" for row in rows)


async def test_tasks_of_an_old_worker_are_known_by_name_and_an_old_server_goes_on_beside_new_workers(ground, tmp_path):
    old, new = Version(ground, extracted("0.1.0", tmp_path / "old")), Version(ground, None)
    await old.start()
    await new.start()
    headers = {"Authorization": f"Bearer {(ground.home / 'admin.token').read_text().strip()}"}
    body = {"name": "odd", "scheduleType": "immediate", "task": "note", "payload": {"unheard": 1}, "maxRetries": 0}
    async with httpx.AsyncClient(headers=headers, timeout=GUARD_SECONDS) as client:

        async def submitted(url):
            return (await client.post(f"{url}/v1/jobs", json=body)).status_code

        known = (await client.get(f"{new.url}/v1/tasks/note")).json()
        assert known["workers"] == 2
        assert known["parameters"]["required"] == ["file"]
        assert sorted(version["workers"] for version in known["versions"]) == [1, 1]
        # The old worker may take it, for all that is known.
        assert await submitted(new.url) == 201
        assert await submitted(old.url) == 201
        await old.stop()

        async def refused():
            return await submitted(new.url) == 400

        await eventually(refused)
        await old.start()

        async def taken():
            return await submitted(new.url) == 201

        await eventually(taken)
        await new.stop()
        assert await submitted(old.url) == 201
