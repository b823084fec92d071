"""`rota dev`: code changes while runs are under way, and no run is lost or tried twice."""

from __future__ import annotations

import asyncio
import signal
import sys

import psutil
import pytest
from fleet import Fleet, family

from support import eventually, kill_all

pytestmark = pytest.mark.scenario

CODE = """
import asyncio
from pathlib import Path

import rota
from wording import WORD

app = rota.App()


@app.task(name="say")
async def say(until: str = "") -> str:
    while until and not Path(until).exists():
        await asyncio.sleep(0.02)
    return WORD
"""


@pytest.fixture
async def dev(tmp_path, request):
    """A fleet whose only member is `rota dev`, in a directory of code that tests change."""
    development = Development(tmp_path)
    yield development
    if request.session.testsfailed:
        print(development.fleet.logs())
    kill_all(family(development.fleet))
    await development.fleet.stop()


class Development:
    """Somebody who changes code while it runs."""

    def __init__(self, directory):
        self.fleet = Fleet({"ROTA_DRAIN_SECONDS": "120"})  # the old code has all the time it wants
        self.code = directory / "my_tasks.py"
        self.wording = directory / "wording.py"
        self.code.write_text(CODE)
        self.wording.write_text("WORD = 'first'\n")

    async def start(self, *arguments):
        self.process = await self.fleet.start("dev", "my_tasks:app", *arguments, directory=self.code.parent)
        await self.fleet.connect()

    async def told(self, words):
        """Waits until these words are on the terminal."""
        return await eventually(lambda: words in self.process.log.read_text())

    async def workers(self, status="live"):
        return [worker["pid"] for worker in await self.fleet.workers() if worker["status"] == status]

    async def submit(self, count=1, **payload):
        return [(await self.fleet.submit("say", payload=payload))["runId"] for _ in range(count)]

    async def results(self, run_ids):
        """The results of these runs, each of which succeeded at its first attempt."""
        runs = [await self.fleet.until(run_id, "success", "failed", "cancelled") for run_id in run_ids]
        assert {(run["status"], run["attempt"]) for run in runs} == {("success", 1)}
        return {run["result"] for run in runs}

    async def ever_since(self, word):
        """Waits until a run gives this result."""

        async def given():
            return await self.results(await self.submit()) == {word}

        await eventually(given)


async def test_a_change_reaches_new_runs_at_once_and_those_that_run_end_with_the_code_they_began_with(dev, tmp_path):
    await dev.start("--slots", "5")
    await dev.told("a change restarts 1 worker")
    finish = tmp_path / "finish"
    first = await dev.submit(3, until=str(finish))
    for run_id in first:
        await dev.fleet.until(run_id, "running")
    submitting = asyncio.create_task(dev.submit(60))
    dev.wording.write_text("WORD = 'second'\n")
    await dev.told("Changed: wording.py. Restarting 1 worker.")
    await dev.ever_since("second")
    second = await dev.submit(until=str(finish))
    await dev.fleet.until(*second, "running")
    dev.wording.write_text("WORD = 'third'\n")
    await dev.ever_since("third")

    async def two_generations_at_work():
        return len(await dev.workers("draining")) == 2

    await eventually(two_generations_at_work)
    finish.touch()
    assert await dev.results(first) == {"first"}
    assert await dev.results(second) == {"second"}
    assert await dev.results(await submitting) <= {"first", "second", "third"}
    dev.process.send(signal.SIGINT)
    assert await dev.process.process.wait() == 0
    assert family(dev.fleet) == []


async def test_broken_code_is_told_and_survived_also_at_the_start(dev):
    dev.code.write_text(CODE + "def broken(:\n")
    await dev.start()
    await dev.told("my_tasks.py, line 16: def broken(:). Save a change to try again.")
    early = await dev.submit(3)
    dev.code.write_text(CODE)
    await dev.told("Changed: my_tasks.py. Starting 1 worker.")
    assert await dev.results(early) == {"first"}
    before = await dev.workers()
    dev.wording.write_text("WORD = 1 / 0\n")
    await dev.told("The old code keeps running; save a change to try again.")
    assert await dev.results(await dev.submit(3)) == {"first"}
    assert await dev.workers() == before
    dev.wording.write_text("WORD = 'second'\n")
    await dev.ever_since("second")


async def test_a_worker_that_is_killed_is_started_again_and_follows_the_code(dev):
    await dev.start("--workers", "2")

    async def two_others_than(*pids):
        found = await dev.workers()
        return found if len(set(found) - set(pids)) == 2 else None

    before = await eventually(two_others_than)
    kill_all(psutil.Process(pid) for pid in before)
    again = await eventually(lambda: two_others_than(*before))
    dev.wording.write_text("WORD = 'second'\n")
    await eventually(lambda: two_others_than(*before, *again))
    await dev.told("Changed: wording.py. Restarting 2 workers.")
    await dev.ever_since("second")


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the system does not end children with their parent")
async def test_a_worker_that_hangs_in_its_import_ends_with_a_supervisor_that_is_killed(dev):
    dev.wording.write_text("import sys, time\nWORD = 'worker' in sys.argv and time.sleep(600)\n")
    await dev.start()
    await eventually(lambda: any("worker" in process.cmdline() for process in family(dev.fleet)))
    await dev.process.kill()
    await eventually(lambda: family(dev.fleet) == [])
