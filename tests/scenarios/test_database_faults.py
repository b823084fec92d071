"""The database goes away and comes back; processes go on by themselves and nothing accepted is lost."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import asyncpg
import httpx
import psutil
import pytest
from fleet import Fleet
from grounds import GROUNDS, on

from pgbouncer import PgBouncer, require_pgbouncer
from rota.store.postgres.database import Database
from rota.store.postgres.embedded import EmbeddedPostgres
from rota.store.schema.migrate import migrate
from support import eventually

pytestmark = pytest.mark.scenario


class OwnGround:
    """A server of this scenario's own, which it may stop and kill."""

    def __init__(self, ground: str) -> None:
        self.home = Path(tempfile.mkdtemp(prefix="rota-own-"))
        self.server = EmbeddedPostgres(self.home)
        self.ground = ground
        self.bouncer: PgBouncer | None = None

    async def start(self) -> dict[str, str]:
        await self.server.start()
        database = await Database.connect(self.server.url(), size=1)
        await migrate(database)
        await database.close()
        if self.ground == "pgbouncer":
            self.bouncer = PgBouncer(self.server.socket_directory)
            return {"ROTA_DATABASE_URL": self.bouncer.url(self.server.url())}
        return {
            "ROTA_DATABASE_URL": self.server.url(),
            "ROTA_NOTIFY": "off" if self.ground == "without-notify" else "on",
        }

    async def stop(self) -> None:
        if self.bouncer:
            self.bouncer.stop()
        await self.server.stop()
        shutil.rmtree(self.home, ignore_errors=True)
        shutil.rmtree(self.server.socket_directory, ignore_errors=True)


@pytest.fixture(params=GROUNDS)
async def own(request):
    if request.param == "pgbouncer":
        require_pgbouncer()
    ground = OwnGround(request.param)
    fleet = Fleet(await ground.start())
    ground.fleet = fleet
    yield ground
    if request.session.testsfailed:
        print(fleet.logs())
    await fleet.stop()
    await ground.stop()


@on("direct", "pgbouncer", fixture="own")
async def test_a_restart_in_a_busy_stream_loses_nothing_and_no_process_has_to_be_restarted(own):
    fleet = own.fleet
    processes = [await fleet.start_api(), await fleet.start("scheduler")]
    processes += [await fleet.start_worker(), await fleet.start_worker()]
    accepted: list[str] = []
    refused = 0
    stop_at = time.monotonic() + 8

    async def stream(number: int) -> None:
        nonlocal refused
        sent = 0
        while time.monotonic() < stop_at:
            sent += 1
            body = {
                "name": f"{number}-{sent}",
                "scheduleType": "immediate",
                "task": "rota.echo",
                "maxRetries": 10,
            }
            with suppress(httpx.TransportError):
                answer = await fleet.client.post("/v1/jobs", json=body)
                if answer.status_code == 201:
                    accepted.append(answer.json()["runId"])
                else:
                    assert answer.status_code == 503, answer.text
                    assert answer.headers["retry-after"]
                    refused += 1
                    await asyncio.sleep(0.05)

    async def restart_twice() -> None:
        await asyncio.sleep(2)
        await own.server.stop()
        await own.server.start()
        await asyncio.sleep(2)
        own.server._process.kill()  # kill -9 of the postmaster
        own.server._process.wait()
        await own.server.start()

    await asyncio.gather(restart_twice(), *(stream(number) for number in range(8)))
    assert accepted
    assert all(process.alive for process in processes)
    sql = await asyncpg.connect(own.server.url())

    async def all_done() -> bool:
        return not await sql.fetchval(
            "SELECT count(*) FROM unnest($1::text[]) AS wanted WHERE NOT EXISTS "
            "(SELECT FROM rota.finished_runs AS f WHERE 'run_' || replace(f.id::text, '-', '') = wanted"
            " AND f.status = 'success')",
            accepted,
        )

    await eventually(all_done, within=60)
    await sql.close()
    print(f"{len(accepted)} accepted, {refused} refused while the database was away")


@on("direct", "pgbouncer", fixture="own")
async def test_a_worker_cut_off_from_the_database_stops_its_runs_before_its_lease_ends(own, tmp_path):
    fleet = own.fleet
    await fleet.start_api()
    await fleet.start("scheduler")
    worker = await fleet.start_worker()
    notes = tmp_path / "notes"
    script = fleet.home / "scripts" / "slow.py"
    script.parent.mkdir(parents=True)
    script.write_text(
        "import os, signal, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        f"open({str(notes)!r}, 'a').write(f'{{os.getpid()}}\\n')\n"
        "time.sleep(600)\n"
    )
    run_id = (await fleet.submit("script", payload={"script": "slow.py"}))["runId"]
    pid = int((await eventually(lambda: notes.exists() and notes.read_text().split()))[0])
    process = psutil.Process(pid)
    await own.server.stop()
    stopped_at = time.monotonic()
    await eventually(lambda: not process.is_running() or process.status() == psutil.STATUS_ZOMBIE)
    took = time.monotonic() - stopped_at
    print(f"stopped {took:.2f} s after the database went away")
    assert worker.alive
    await own.server.start()
    await eventually(lambda: len(notes.read_text().split()) == 2)
    run = await fleet.until(run_id, "running")
    # Stopped because its worker lost the database: not charged.
    assert run["attempt"] == 1
    assert [attempt["outcome"] for attempt in run["attempts"]] == ["cut_off"]


@on("direct", fixture="own")  # coming back behind PgBouncer is tried above
async def test_an_outage_shorter_than_the_lease_disturbs_nobody(own):
    fleet = own.fleet
    await fleet.start_api()
    await fleet.start("scheduler")
    await fleet.start_worker(ROTA_WORKER_LEASE_SECONDS="60")
    run_id = (await fleet.submit("rota.sleep", payload={"seconds": 3}))["runId"]
    await fleet.until(run_id, "running")
    await own.server.stop()
    await asyncio.sleep(1)
    await own.server.start()
    run = await fleet.until(run_id, "success")
    assert (run["attempt"], run["attempts"]) == (1, []), "an outage shorter than a lease disturbs nobody"
