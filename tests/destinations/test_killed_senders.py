"""A scheduler that is killed between a message and its record: another sends it again, under the same id."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress

from receivers import is_signed

import commands
from rota.service import ServiceGroup
from support import eventually, in_time

KEY = "a key of these tests that is long enough"


async def test_a_sender_killed_before_it_could_record_what_it_sent(
    put, record, hook, make_scheduler, database_url, tmp_path
):
    secret = (await put("pager", hook.url))["secret"]
    environment = commands.environment(
        ROTA_HOME=str(tmp_path),
        ROTA_DATABASE_URL=database_url,
        ROTA_DESTINATION_KEY=KEY,
        ROTA_HTTP_ALLOW="127.0.0.1",
    )
    process = await asyncio.create_subprocess_exec(*commands.ROTA, "scheduler", env=environment)
    try:
        # The request has arrived, and the answer never will.
        hook.on_request = lambda: os.kill(process.pid, signal.SIGKILL)
        hook.delay_seconds = 1.0
        number = await record()
        await eventually(lambda: hook.requests)
        assert await in_time(process.wait()) == -signal.SIGKILL
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
    hook.on_request = lambda: None
    hook.delay_seconds = 0.0
    other = make_scheduler()
    async with ServiceGroup(other.services):
        await eventually(lambda: len(hook.requests) == 2, within=90)
    assert len(set(hook.ids)) == 1
    assert [event["eventId"] for event in hook.events] == [number, number]
    assert all(is_signed(headers, body, secret) for headers, body in hook.requests)
