"""The supervisor's children."""

from __future__ import annotations

import asyncio
import os

from rota import supervisor


async def test_a_child_that_is_told_to_stop_while_it_starts_does_stop(monkeypatch):
    create = asyncio.create_subprocess_exec

    async def sleeper(*_arguments, **options):
        return await create("sleep", "60", **options)

    monkeypatch.setattr(supervisor.asyncio, "create_subprocess_exec", sleeper)
    child = supervisor.Child("sleeper", [], dict(os.environ))
    running = asyncio.create_task(child.run())
    await asyncio.sleep(0)
    await child.stop(5)
    await asyncio.wait_for(running, 5)
    assert child.process.returncode is not None
