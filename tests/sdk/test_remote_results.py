"""Waiting for a result where the server hangs, is away or comes back."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from remote import remote

import rota
from listening import listening
from rota.contract.jobs import Submitted
from support import eventually, in_time, patience


def some_run(task):
    """A run that was submitted once."""
    return rota.Run(task, Submitted(job_id="job_x", status="queued", run_id="run_0192f0c1d2e37abc8def0123456789ab"))


@asynccontextmanager
async def accepting(answer, port=0):
    """A server that takes connections and does this with them; gives its address."""
    server = await asyncio.start_server(answer, "127.0.0.1", port)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await server.wait_closed()


async def hang(reader, writer):
    """Says nothing until the other side has enough."""
    while await reader.read(1024):
        pass
    writer.close()


async def test_who_waits_for_a_result_of_a_server_that_hangs_waits_no_longer_than_asked():
    async with accepting(hang) as port, remote(f"http://127.0.0.1:{port}") as send:
        began = time.monotonic()
        with pytest.raises(TimeoutError, match=r"has not ended within 0\.5 s"):
            await some_run(send).result(timeout=0.5)
        assert time.monotonic() - began < 20 * 0.5 * patience()


async def test_who_waits_for_a_result_of_no_server_waits_no_longer_than_asked():
    async with remote("http://127.0.0.1:9") as send:
        began = time.monotonic()
        with pytest.raises(TimeoutError, match=r"has not ended within 0\.5 s"):
            await some_run(send).result(timeout=0.5)
        assert time.monotonic() - began < 20 * 0.5 * patience()


async def test_who_waits_without_end_survives_a_server_that_is_away_for_a_moment(engine):
    hung_up = []

    async def hang_up(_reader, writer):
        hung_up.append(writer)
        writer.close()

    async with AsyncExitStack() as stack:
        async with listening(engine.api.services) as server:
            send = await stack.enter_async_context(remote(server.url))
            run = await send.submit(to="Ada")
        async with accepting(hang_up, server.port):
            waiting = asyncio.create_task(run.result())
            await eventually(lambda: len(hung_up) > 1)
        await stack.enter_async_context(listening(engine.api.services, server.port))
        await stack.enter_async_context(engine.running(engine.worker({"send": send.function})))
        assert await in_time(waiting) == "Ada"
