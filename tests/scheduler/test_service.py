"""The loop that all services share."""

from __future__ import annotations

import asyncio

import pytest

from rota.service import Service


class Idle(Service):
    interval_seconds = 60.0

    async def tick(self):
        return 0


@pytest.mark.parametrize("turns", range(5))
async def test_a_service_that_is_woken_and_cancelled_at_once_ends(turns):
    service = Idle()
    running = asyncio.create_task(service.run())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    service.wake()
    for _ in range(turns):
        await asyncio.sleep(0)
    running.cancel()
    done, _ = await asyncio.wait({running}, timeout=60)
    assert done == {running}
