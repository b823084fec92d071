"""No fault in a callback, a task or a thread ends a server, stops what it watches over, or leaves a request waiting."""

from __future__ import annotations

import asyncio
import os
import sys
from types import SimpleNamespace

import httpx
import psutil
import pytest
from structlog.testing import capture_logs

from commands import ROTA, environment
from rota.access.credential_cache import CredentialCache
from rota.api.http.connection import ConnectionLimits, Doorkeeper
from rota.errors import DatabaseUnavailableError
from rota.processes import SUPERVISED, run_until_stopped
from rota.service import ServiceGroup
from support import GUARD_SECONDS, eventually, free_port, in_time, job


class Connection:
    """As much of a connection as the doorkeeper asks for."""

    cycle = None

    def __init__(self, fault=None):
        self.loop = asyncio.get_running_loop()
        self.transport = SimpleNamespace(abort=self.abort)
        self.fault, self.looks, self.aborted = fault, 0, False

    def abort(self):
        self.aborted = True

    def look(self, _now):
        self.looks += 1
        if self.fault:
            raise self.fault


async def test_a_connection_that_can_not_be_looked_at_is_closed_and_the_others_are_looked_at():
    keeper = Doorkeeper(ConnectionLimits(look_seconds=0.01))
    bad, good = Connection(ValueError("a fault of ours")), Connection()
    with capture_logs() as logs:
        for connection in (bad, good):
            keeper.accept(connection)
        await eventually(lambda: good.looks > 2)
    for connection in (bad, good):
        keeper.forget(connection)
    assert bad.aborted
    assert not good.aborted
    assert "a connection could not be checked, and is closed" in [entry["event"] for entry in logs]


async def cancelled(*_given, **_options):
    other = asyncio.get_running_loop().create_future()
    other.cancel()
    await other


async def test_a_write_that_is_cancelled_is_answered_and_the_next_one_is_made(api, monkeypatch):
    submissions = api.services.gateway._submissions
    with monkeypatch.context() as patch:
        patch.setattr(submissions, "submit", cancelled)
        answer = await in_time(api.post("/v1/jobs", json=job(orderingKey="k")))
    assert answer.status_code == 503
    assert (await api.post("/v1/jobs", json=job(orderingKey="k"))).status_code == 201


@pytest.mark.parametrize("ends", [True, False], ids=["the server stops", "something else was cancelled"])
async def test_a_look_for_a_key_that_is_cancelled_is_answered(ends):
    looking = asyncio.Event()

    async def find(_hashes):
        looking.set()
        await (asyncio.sleep(3600) if ends else cancelled())

    cache = CredentialCache(SimpleNamespace(find=find))
    async with ServiceGroup([cache]) as group:
        asked = asyncio.create_task(cache.identify("rota_0123456789_x", authorities={}))
        await looking.wait()
        if ends:
            await group.stop(cache)
        with pytest.raises(DatabaseUnavailableError):
            await in_time(asked)


async def test_a_change_whose_record_can_not_be_completed_is_answered_as_done(api, monkeypatch):
    async def fail(*_arguments):
        raise ValueError("a fault of ours")

    monkeypatch.setattr(api.services.auditor.trail, "add_outcome", fail)
    with capture_logs() as logs:
        assert (await api.post("/v1/pools/default/pause")).status_code == 200
    assert "could not record an outcome" in [entry["event"] for entry in logs]


@pytest.mark.parametrize("fault", [BlockingIOError, OSError], ids=["nothing to read", "broken"])
async def test_a_pipe_to_the_supervisor_that_breaks_stops_the_process_and_one_without_news_does_not(fault, monkeypatch):
    here, there = os.pipe()
    reads = []

    def read(_number, _size):
        reads.append(fault)
        raise fault

    monkeypatch.setenv(SUPERVISED, "1")
    monkeypatch.setattr(sys, "stdin", os.fdopen(here))
    os.write(there, b"x")
    with monkeypatch.context() as patch:
        patch.setattr(os, "read", read)
        running = asyncio.create_task(run_until_stopped(asyncio.sleep(3600)))
        await eventually(lambda: len(reads) > (2 if fault is BlockingIOError else 0))
    if fault is BlockingIOError:
        assert not running.done()
        os.close(there)
        assert await in_time(running)
    else:
        assert await in_time(running)
        os.close(there)
    sys.stdin.close()


# A whole process with a service of ours, each round of which sets off every fault that nothing of ours catches.
PROGRAM = """
import asyncio, os, signal, sys, threading
from rota.cli.entry import main
from rota.service import Service, ServiceGroup

def fail(*_given):
    raise ValueError("a fault of ours")

async def fail_as_task():
    fail()

class Traps(Service):
    interval_seconds = 0.05

    async def open(self):
        self.tasks = []
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, fail)

    async def tick(self):
        loop = asyncio.get_running_loop()
        loop.call_soon(fail)
        self.tasks.append(loop.create_task(fail_as_task()))
        self.tasks[-1].add_done_callback(fail)
        self.tasks.append(loop.run_in_executor(None, fail))
        threading.Thread(target=fail).start()
        os.kill(os.getpid(), signal.SIGUSR1)
        print("trapped", flush=True)
        fail()

enter = ServiceGroup.__aenter__

async def enter_with_traps(group):
    group.add(Traps())
    return await enter(group)

ServiceGroup.__aenter__ = enter_with_traps
sys.argv = ["rota", sys.argv[1]]
main()
"""


@pytest.mark.parametrize("role", ["api", "scheduler"])
async def test_faults_in_callbacks_tasks_signal_handlers_and_threads_do_not_end_a_process(
    role, database_url, sql, tmp_path
):
    port = free_port()
    settings = {"ROTA_HOME": str(tmp_path), "ROTA_PORT": str(port), "ROTA_DATABASE_URL": database_url}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", PROGRAM, role),
        env=environment(**settings, ROTA_TOKEN="t"),  # noqa: S106 - known to this test alone
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        for _ in range(20):
            assert await in_time(process.stdout.readline()) == b"trapped\n"
        if role == "api":
            async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
                client.headers["Authorization"] = "Bearer t"
                assert (await client.post("/v1/jobs", json=job())).status_code == 201
        else:
            await goes_on(sql)
        assert process.returncode is None
    finally:
        process.terminate()
        await in_time(process.communicate())
    assert process.returncode == 0


BEATS = "SELECT sum(beat) FROM rota.schedulers"


async def goes_on(sql):
    """Waits until a scheduler has beaten again, twice."""
    before = await eventually(lambda: sql.fetchval(BEATS))

    async def has_beaten():
        return await sql.fetchval(BEATS) > before + 1

    await eventually(has_beaten)


@pytest.mark.parametrize("command", [["api", "--with-scheduler"], ["up", "--workers", "0"]], ids=["api", "up"])
async def test_a_scheduler_goes_on_while_the_api_is_held(command, database_url, sql, tmp_path):
    """A stopped process stands for one whose event loop a request holds."""
    settings = {"ROTA_HOME": str(tmp_path / "home"), "ROTA_PORT": str(free_port()), "ROTA_DATABASE_URL": database_url}
    process = await asyncio.create_subprocess_exec(
        *ROTA, *command, env=environment(**settings), stdout=asyncio.subprocess.DEVNULL
    )
    top = psutil.Process(process.pid)

    def serving():
        return next((each for each in (top, *top.children(recursive=True)) if "api" in each.cmdline()), None)

    held = None
    try:
        await goes_on(sql)
        held = await eventually(serving)
        held.suspend()
        await goes_on(sql)
    finally:
        if held:
            held.resume()
        family = top.children(recursive=True)
        process.terminate()
        await in_time(process.wait())
        assert not psutil.wait_procs(family, GUARD_SECONDS)[1], "its children end with it"
