"""Messages by Apprise (https://appriseit.com), which knows more than a hundred services.

Apprise brings its own HTTP and mail clients, so each message is sent by a process of its own (apprise_process.py):
there every connection is checked like those of webhooks, one that hangs can be killed, and what the library writes
about addresses and tokens is dropped.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib.util import find_spec
from typing import Any

import msgspec

from rota.destinations.attempts import DeliveryAttempt
from rota.destinations.messages import Message
from rota.errors import BadInputError
from rota.time_limits import time_limit

_MOST_AT_ONCE = 8  # processes
_TURN_SECONDS = 5.0
_MOST_ANSWER_BYTES = 4096
_HINT = "Apprise is not installed {where}: pip install 'rota[alerts]'"
_ENVIRONMENT = ("PATH", "LANG", "LC_ALL", "SSL_CERT_FILE", "SSL_CERT_DIR", "PYTHONPATH", "VIRTUAL_ENV")


class ProcessOrder(msgspec.Struct):
    """What the process is told to do, on its standard input."""

    url: str
    allow: list[str]
    title: str = ""
    text: str = ""
    tone: str = "info"
    check_only: bool = False


class ProcessAnswer(msgspec.Struct):
    """What it says, on its standard output."""

    answer: int | None = None
    error: str | None = None


class AppriseSender:
    """Sends messages, and checks addresses, in processes of their own."""

    def __init__(self, allow: Sequence[str], timeout_seconds: float) -> None:
        self._allow = list(allow)
        self._timeout = timeout_seconds
        self._turns = asyncio.Semaphore(_MOST_AT_ONCE)

    async def check(self, url: str) -> None:
        """Raises BadInputError for an address that Apprise does not know, or that would act on this machine."""
        if find_spec("apprise") is None:
            raise BadInputError(_HINT.format(where="on the API server"), field="kind")
        found = await self._ask(ProcessOrder(url, self._allow, check_only=True))
        if found.error:
            raise BadInputError(found.error, field="url")

    async def send(self, url: str, message: Message) -> DeliveryAttempt:
        if find_spec("apprise") is None:
            return DeliveryAttempt(error=_HINT.format(where="where schedulers run"))
        order = ProcessOrder(url, self._allow, title=message.title, text=message.text, tone=message.tone)
        found = await self._ask(order)
        return DeliveryAttempt(found.answer, found.error)

    async def _ask(self, order: ProcessOrder) -> ProcessAnswer:
        try:
            async with time_limit(_TURN_SECONDS):
                await self._turns.acquire()
        except TimeoutError:
            return ProcessAnswer(error="too many messages are being sent")
        try:
            async with time_limit(self._timeout):
                return await _run(order)
        except TimeoutError:
            return ProcessAnswer(error=f"no answer within {self._timeout:g} seconds")
        finally:
            self._turns.release()


async def _run(order: ProcessOrder) -> ProcessAnswer:
    environment = {name: value for name in _ENVIRONMENT if (value := os.environ.get(name))}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "rota.destinations.apprise_process"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env=environment,
        cwd="/",
        start_new_session=True,
    )
    try:
        said, _ = await process.communicate(msgspec.json.encode(order))
        return _read(said)
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()


def _read(said: bytes) -> ProcessAnswer:
    lines: list[Any] = said[-_MOST_ANSWER_BYTES:].splitlines()
    try:
        return msgspec.json.decode(lines[-1], type=ProcessAnswer)
    except (IndexError, msgspec.MsgspecError):
        return ProcessAnswer(error="the process that sends it has failed")
