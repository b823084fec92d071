"""The supervisor's children."""

from __future__ import annotations

import asyncio
import os
import signal

from rota.ops import supervisor
from rota.service import ServiceGroup
from rota.settings import Settings
from support import eventually


async def test_a_child_that_is_told_to_stop_while_it_starts_does_stop(monkeypatch):
    create = asyncio.create_subprocess_exec

    async def sleeper(*_arguments, **options):
        return await create("sleep", "60", **options)

    monkeypatch.setattr(supervisor.asyncio, "create_subprocess_exec", sleeper)
    child = supervisor.SupervisedProcess("sleeper", [], dict(os.environ))
    async with ServiceGroup([child]):
        await asyncio.sleep(0)
        await child.stop(5)
        assert child.process.returncode is not None


async def test_a_child_whose_group_ends_without_a_stop_ends_with_it(monkeypatch):
    create = asyncio.create_subprocess_exec

    async def sleeper(*_arguments, **options):
        return await create("sleep", "60", **options)

    monkeypatch.setattr(supervisor.asyncio, "create_subprocess_exec", sleeper)
    child = supervisor.SupervisedProcess("sleeper", [], dict(os.environ))
    async with ServiceGroup([child]):
        await eventually(lambda: child.process)
    assert child.process.returncode == -signal.SIGTERM


async def test_renewed_workers_run_beside_old_ones_that_take_their_time_to_end(monkeypatch, tmp_path):
    create = asyncio.create_subprocess_exec
    ready = tmp_path / "ready"
    ready.touch()

    async def stubborn(*_arguments, **options):
        return await create("sh", "-c", f"trap '' TERM; echo $$ >> {ready}; exec sleep 60", **options)

    monkeypatch.setattr(supervisor.asyncio, "create_subprocess_exec", stubborn)
    watcher = supervisor.Supervisor(Settings(home=tmp_path), workers=1, announce=lambda: None)
    workers = watcher._workers
    async with ServiceGroup(workers.active) as workers.group:
        [old] = workers.active
        await eventually(lambda: old.process and str(old.process.pid) in ready.read_text())
        watcher.renew_workers()
        [new] = workers.active
        await eventually(lambda: new.process and str(new.process.pid) in ready.read_text())
        assert old.process.returncode is None
        old.process.kill()
        monkeypatch.setattr(supervisor.Supervisor, "_patience", 0.1)
        await watcher.stop()
        assert new.process.returncode == -signal.SIGKILL
        watcher.renew_workers()
        assert workers.active == [new], "nothing is started once it stops"
    assert len(ready.read_text().split()) == 2, "nor is what was told to stop"


class FlakyPostgres:
    """Fails to start twice, then runs."""

    def __init__(self):
        self.starts = 0
        self.is_running = False

    async def wait(self):
        if self.is_running:
            await asyncio.Event().wait()

    async def start(self):
        self.starts += 1
        if self.starts < 3:
            raise ConnectionRefusedError("killed again while it was starting")
        self.is_running = True


async def test_a_database_that_dies_while_it_is_started_again_is_tried_until_it_runs(monkeypatch):
    monkeypatch.setattr(supervisor, "LONGEST_PAUSE_SECONDS", 0.01)
    postgres = FlakyPostgres()
    async with ServiceGroup([supervisor.PostgresKeeper(postgres)]):
        await eventually(lambda: postgres.is_running)
    assert postgres.starts == 3


async def test_a_terminal_that_is_gone_does_not_end_what_runs(monkeypatch, tmp_path):
    async def is_ready(_supervisor):
        return True

    def announce():
        told.append(True)
        raise BrokenPipeError

    told = []
    monkeypatch.setattr(supervisor.Supervisor, "_is_ready", is_ready)
    watcher = supervisor.Supervisor(Settings(home=tmp_path), workers=0, announce=announce)
    watcher._group = ServiceGroup()
    running = asyncio.create_task(watcher._supervise())
    await eventually(lambda: told)
    await asyncio.sleep(0)
    assert not running.done()
    watcher._stopped.set()
    await running
