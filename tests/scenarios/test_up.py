"""`rota up` from nothing: it starts, stops cleanly, and recovers from the death of any or all of its processes."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import asyncpg
import psutil
import pytest
from fleet import Fleet, family

from support import GUARD_SECONDS, eventually, in_time, kill_all

pytestmark = pytest.mark.scenario
FIRST_STEPS = Path(__file__).parents[2] / "examples" / "first_steps"


@pytest.fixture
async def up():
    """A fleet whose only member is a supervisor on an embedded database."""
    fleet = Fleet({})
    yield fleet
    kill_all(family(fleet))
    await fleet.stop()


async def start(fleet, *arguments):
    supervisor = await fleet.start("up", "--workers", "2", *arguments)
    await fleet.connect()

    async def both_workers():
        return sum(worker["status"] == "live" for worker in await fleet.workers()) == 2

    await eventually(both_workers)
    return supervisor


async def echo(fleet):
    run_id = (await fleet.submit("rota.echo", payload={"a": 1}))["runId"]
    return await fleet.until(run_id, "success")


async def test_it_says_what_to_do_next_stops_cleanly_and_finds_everything_again(up):
    supervisor = await start(up)
    run = await echo(up)
    said = await eventually(lambda: "Ctrl-C" in supervisor.log.read_text() and supervisor.log.read_text())
    assert f"http://127.0.0.1:{up.port}" in said
    assert str(up.home / "admin.token") in said
    assert "curl " in said
    assert "rota submit" in said
    assert (up.home / "admin.token").stat().st_mode & 0o777 == 0o600
    token = (up.home / "admin.token").read_text()
    supervisor.send(signal.SIGINT)
    assert await supervisor.process.wait() == 0
    assert family(up) == []
    await start(up)
    assert (up.home / "admin.token").read_text() == token
    assert await up.run(run["runId"]) == run


async def test_the_first_steps_lead_somewhere(up):
    await up.start("up", "--workers", "2", "--app", "tasks:app", directory=FIRST_STEPS)
    await up.connect()
    environment = up._environment | {"PYTHONPATH": ""}
    script = await asyncio.create_subprocess_exec(
        sys.executable, "submit.py", env=environment, cwd=FIRST_STEPS, stdout=asyncio.subprocess.PIPE
    )
    said, _ = await in_time(script.communicate())
    assert said.decode().splitlines() == [
        "Hello, Ada! Hello, Ada!",
        "['Hello, Grace!', 'Hello, Alan!']",
        "later: scheduled",
        "3",
    ]


SHOP = """
import pathlib
import rota

app = rota.App("shop", version="{version}")
notes = pathlib.Path("notes")


@app.lifespan
async def life():
    app.state.word = "hello"
    yield
    notes.write_text(notes.read_text() + "closed ")


{schedule}
@app.task(name="tidy")
async def tidy() -> str:
    return app.state.word
"""


async def test_schedules_in_code_and_a_lifespan_live_and_go_with_the_application(up, tmp_path):
    (tmp_path / "notes").write_text("")
    jobs = []
    for version, schedule in (("1", '@app.every("1s")'), ("2", "")):
        (tmp_path / "shop.py").write_text(SHOP.format(version=version, schedule=schedule))
        supervisor = await up.start("up", "--workers", "1", "--app", "shop:app", directory=tmp_path)
        await up.connect()
        expected = "scheduled" if schedule else "paused"

        async def is_so(expected=expected):
            items = (await up.get("/v1/jobs", name="tidy"))["items"]
            return next((item for item in items if item.get("declaredBy") and item["status"] == expected), None)

        jobs.append(await eventually(is_so))
        if schedule:
            runs = f"/v1/jobs/{jobs[0]['jobId']}/runs"
            await eventually(lambda runs=runs: ran(up, runs))
        assert await supervisor.terminate() == 0
    assert jobs[0]["jobId"] == jobs[1]["jobId"]
    assert "no worker declares it any more" in jobs[1]["note"]
    assert (tmp_path / "notes").read_text() == "closed closed "


async def ran(up, path):
    """Whether a run has succeeded, with what the lifespan put there."""
    runs = [run for run in (await up.get(path))["items"] if run["status"] == "success"]
    return bool(runs) and (await up.run(runs[0]["runId"]))["result"] == "hello"


async def test_it_runs_on_a_server_of_ones_own_and_brings_its_schema_up_to_date(up, postgres):
    admin = await asyncpg.connect(postgres.url("postgres"))
    await admin.execute("CREATE DATABASE my_own")
    up._environment["ROTA_DATABASE_URL"] = postgres.url("my_own")
    supervisor = await start(up)
    await echo(up)
    assert await supervisor.terminate() == 0
    assert not (up.home / "postgres").exists(), "no embedded server where one was given"
    await admin.execute("DROP DATABASE my_own WITH (FORCE)")
    await admin.close()


def is_rota(process):
    """Not the database; one that has ended is neither."""
    with suppress(psutil.NoSuchProcess):
        return "rota.cli.main" in process.cmdline()
    return False


async def test_a_child_that_dies_is_started_again(up):
    supervisor = await start(up)
    kill_all(child for child in family(up) if child.pid != supervisor.pid and is_rota(child))
    await up.connect()

    async def recovered():
        return sum(worker["status"] == "live" for worker in await up.workers()) >= 2

    await eventually(recovered)
    await echo(up)
    assert supervisor.alive


async def test_a_killed_database_is_started_again_and_loses_nothing(up):
    await start(up)
    before = await echo(up)
    postmaster = int((up.home / "postgres" / "data" / "postmaster.pid").read_text().split()[0])
    os.kill(postmaster, signal.SIGKILL)

    async def back():
        return (await up.client.get("/readyz")).is_success

    await eventually(lambda: not psutil.pid_exists(postmaster))
    await eventually(back)
    assert await up.run(before["runId"]) == before
    await echo(up)


async def test_after_kill_9_of_everything_a_start_recovers_by_itself(up, tmp_path):
    await start(up, "--app", "tasks:app")
    done = await echo(up)
    waiting = await up.submit("nobody.knows")
    running = await up.submit("note", payload={"file": str(tmp_path / "notes"), "first_seconds": 600})
    await up.until(running["runId"], "running")
    processes = family(up)
    assert len(processes) >= 5
    kill_all(processes)
    await asyncio.gather(*(asyncio.to_thread(process.wait, GUARD_SECONDS) for process in processes))
    await start(up, "--app", "tasks:app")
    assert await up.run(done["runId"]) == done
    assert (await up.run(waiting["runId"]))["status"] == "queued"
    run = await up.until(running["runId"], "success")
    assert run["attempt"] == 2


async def test_when_the_supervisor_is_killed_its_children_stop_and_the_next_start_takes_over(up):
    supervisor = await start(up)
    done = await echo(up)
    await supervisor.kill()
    await eventually(lambda: family(up) == [])
    await start(up)
    assert await up.run(done["runId"]) == done


async def test_several_run_side_by_side_and_one_home_has_one_supervisor(up):
    await start(up)
    other = Fleet({})
    try:
        await start(other)
        await echo(other)
        again = await up.start("up", ROTA_PORT=str(other.port + 1))
        assert await again.process.wait() == 2
        assert "Another `rota up` is running" in again.log.read_text()
        taken = await other.start("up", ROTA_HOME=tempfile.mkdtemp(prefix="rota-"), ROTA_PORT=str(up.port))
        assert await taken.process.wait() == 2
        assert f"Port {up.port}" in taken.log.read_text()
    finally:
        kill_all(family(other))
        await other.stop()


async def test_a_home_that_can_not_be_written_is_refused_with_words(up):
    refused = await up.start("up", ROTA_HOME="/proc/rota")
    assert await refused.process.wait() == 2
    assert "can't be used as Rota's home" in refused.log.read_text()


async def test_a_long_home_works_although_socket_paths_are_short(up):
    home = Path(tempfile.mkdtemp(prefix="rota-")) / ("long" * 20) / ("longer" * 10)
    home.mkdir(parents=True)
    up._environment["ROTA_HOME"] = str(home)
    old, up.home = up.home, home
    supervisor = await start(up)
    await echo(up)
    assert await supervisor.terminate() == 0
    shutil.rmtree(home.parents[1])
    up.home = old
