"""A worker's health: what blocks the event loop is named, what stalls is told and restarted."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import textwrap
import time
import urllib.error
import urllib.request
from importlib.metadata import version

import asyncpg
import pytest
from structlog.testing import capture_logs

import commands
from rota.errors import SetupError
from rota.worker.health import HealthServer, WorkerHealth
from support import eventually, in_time, patience


async def test_a_task_that_blocks_the_event_loop_is_named_with_its_stack(engine):
    def told():
        return [entry for entry in logs if "event loop is blocked" in entry["event"] and entry["task"] == "block"]

    async def block():
        while not told():
            time.sleep(0.05)  # noqa: ASYNC251 - that is the point
        time.sleep(0.3)  # noqa: ASYNC251 - it is told once, however long it goes on

    run_id = await engine.submit(task="block")
    with capture_logs() as logs:
        async with engine.running(engine.worker({"block": block})):
            await engine.until(run_id, "success")
    (entry,) = told()
    assert entry["run_id"] == run_id
    assert "time.sleep(0.05)" in entry["stack"]


async def test_a_worker_whose_loop_is_blocked_for_good_leaves_before_its_lease_ends(tmp_path, database_url):
    (tmp_path / "stuck.py").write_text(
        textwrap.dedent("""
        import rota
        app = rota.App()

        @app.task(name="stuck")
        async def stuck():
            while True:
                pass
        """)
    )
    environment = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(tmp_path),
        "ROTA_HOME": str(tmp_path / "home"),
        "ROTA_DATABASE_URL": database_url,
        "ROTA_WORKER_LEASE_SECONDS": "2",
    }
    worker = await asyncio.create_subprocess_exec(
        *commands.ROTA, "worker", "--app", "stuck:app", cwd=tmp_path, env=environment
    )
    sql = await asyncpg.connect(database_url)

    async def joined():
        return await sql.fetchval("SELECT count(*) FROM rota.workers WHERE gone_at IS NULL")

    await eventually(joined)
    await sql.execute(
        "INSERT INTO rota.live_runs (namespace, id, job_id, job_version, owner, name, task, pool, priority, tags, "
        "options, cause, shard, nominal_at, run_at, created_at, lane, ready_at) SELECT 'default', g, g, 1, 'o', 'n', "
        "'stuck', 'default', 0, '{}', '{}', 'submit', 1, now(), now(), now(), "
        "rota.lane_of('default', 'default', 'stuck', 0::smallint), now() FROM gen_random_uuid() AS g"
    )
    assert await in_time(worker.wait()) == 70
    await sql.close()


async def test_a_claim_loop_that_hangs_is_told_and_the_worker_restarts(engine):
    hang = asyncio.Event()

    async def never(_room):
        await hang.wait()

    # It is told from half of that on, and restarts at the end.
    broker = engine.broker(lease_seconds=2 * patience())
    worker = engine.worker(broker=broker, stalled_seconds=4 * patience())
    running = asyncio.create_task(worker.run())
    await eventually(lambda: worker.id)
    broker.claim = never

    async def ailing():
        workers = (await engine.api.get("/v1/workers")).json()["items"]
        return next((item for item in workers if "no progress" in item.get("detail", "")), None)

    assert await eventually(ailing)
    assert not worker.health().well
    await in_time(running)
    assert worker.restart_wanted


async def test_a_worker_with_all_slots_busy_is_well(engine):
    release = asyncio.Event()

    async def long():
        await release.wait()

    await engine.submit(task="long")
    stalled_seconds = 1.5 * patience()
    worker = engine.worker({"long": long}, slots=1, stalled_seconds=stalled_seconds)
    async with engine.running(worker):
        await eventually(lambda: worker.slots.running)
        await asyncio.sleep(stalled_seconds + 1)
        assert worker.health() == WorkerHealth(well=True, status="live", detail=None)
        assert not worker.restart_wanted
        release.set()


def test_health_is_served_on_a_port_of_its_own():
    state = WorkerHealth(well=True, status="live", detail=None)
    server = HealthServer("127.0.0.1", 0, lambda: state)
    server.start()
    try:
        url = f"http://127.0.0.1:{server.port}"
        with urllib.request.urlopen(f"{url}/healthz") as answer:
            assert json.load(answer) == {"status": "live"}
        state = WorkerHealth(well=False, status="stalled", detail="the claim loop has made no progress for 80 s")
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(f"{url}/healthz")
        assert caught.value.code == 503
        assert json.load(caught.value)["detail"].startswith("the claim loop")
        with pytest.raises(urllib.error.HTTPError):
            urllib.request.urlopen(f"{url}/other")
        with pytest.raises(SetupError, match="ROTA_WORKER_PORT"):
            HealthServer("127.0.0.1", server.port, lambda: state)
    finally:
        server.stop()


@pytest.mark.parametrize("supervised", [True, False])
async def test_a_worker_that_wants_to_start_anew_is_replaced_by_its_supervisor_or_by_itself(supervised):
    program = "import sys; sys.argv = ['rota', '--version']; from rota.processes import start_anew; start_anew()"
    environment = {**os.environ, **({"ROTA_SUPERVISED": "1"} if supervised else {})}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, stdout=asyncio.subprocess.PIPE, env=environment
    )
    output, _ = await in_time(process.communicate())
    expected = (75, b"") if supervised else (0, f"rota {version('rota')}".encode())
    assert (process.returncode, output.strip()) == expected
