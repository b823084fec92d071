"""What tests share: one way of waiting, and short names for common steps."""

from __future__ import annotations

import asyncio
import inspect
import os
import shutil
import socket
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn
from uuid import UUID

import psutil
import pytest

from rota.domain.run import Claim, LogChunk

DEADLINE_SECONDS = 30.0
GUARD_SECONDS = 60.0
ROOM_BYTES = 4 * 1024**3
# Random data goes on for longer, and scenarios run on every ground: `make test-long`.
LONG = bool(os.environ.get("ROTA_TEST_LONG"))


def patience() -> float:
    """How many times longer something may take than on a machine that has nothing else to do."""
    return 1 + os.getloadavg()[0] / (os.cpu_count() or 1)


def examples(usual: int) -> int:
    """How much random data a test tries."""
    return 10 * usual if LONG else usual


async def eventually(check: Callable[[], Any], *, within: float = DEADLINE_SECONDS, every: float = 0.02) -> Any:
    """Waits until `check` (async or not) gives something true, and returns that; fails with what it gave last.

    On a busy machine it waits for longer than `within`.
    """
    began = time.monotonic()
    while True:
        found = check()
        if inspect.isawaitable(found):
            found = await found
        if found:
            return found
        waited = time.monotonic() - began
        if waited > within and waited > within * patience():
            raise AssertionError(f"did not come true within {waited:.0f} s; last seen: {found!r}")
        await asyncio.sleep(every)


def wait_until(check: Callable[[], Any], *, within: float = DEADLINE_SECONDS) -> Any:
    """The same for tests without an event loop."""
    began = time.monotonic()
    while not (found := check()):
        waited = time.monotonic() - began
        assert waited < within * patience(), f"did not come true within {waited:.0f} s; last seen: {found!r}"
        time.sleep(0.05)
    return found


async def in_time(awaitable: Awaitable[Any], seconds: float = GUARD_SECONDS) -> Any:
    """Awaits what must come: a guard against waiting for ever, and no claim about how long it takes."""
    return await asyncio.wait_for(awaitable, seconds * patience())


def family_of(home: Path) -> list[psutil.Process]:
    """The processes that belong to this home: children of a supervisor and the database by their command lines, the
    supervisor by its environment, which only root can see."""
    known = {str(home), str(home / "postgres" / "data")}
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.NoSuchProcess):
            if known & set(process.cmdline()) or _variable(process, "ROTA_HOME") == str(home):
                found.append(process)
    return found


def _variable(process: psutil.Process, name: str) -> str | None:
    with suppress(psutil.AccessDenied):
        return process.environ().get(name)
    return None


def kill_all(processes: Iterable[psutil.Process]) -> None:
    """kill -9 of each; one that is gone already, since another took it along, is as good as killed."""
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.kill()


def leave_out(missing: str) -> NoReturn:
    """Skips a test of what this machine lacks. CI has all of it: there the test fails instead."""
    if os.environ.get("CI"):
        pytest.fail(f"{missing}: CI must have it")
    pytest.skip(missing)


def job(**fields: Any) -> dict[str, Any]:
    """The body of a submission, with defaults."""
    return {"name": "test", "scheduleType": "immediate", "task": "rota.echo"} | fields


def memory() -> Path | None:
    """A file system in memory, where there is one with room: a database is some thousand files."""
    place = Path("/dev/shm")  # noqa: S108 - each test makes a new directory in it
    return place if os.access(place, os.W_OK) and shutil.disk_usage(place).free > ROOM_BYTES else None


def free_port() -> int:
    """A port nobody listens on, below those that the system gives to outgoing connections."""
    for port in _ports:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)):
                return port
    raise AssertionError("no free port is left")


# Tests that run side by side, also those of another run, look at different places: nobody listens yet on a port that
# somebody else has found.
_ports = (10_000 + (os.getpid() * 97 + number) % 20_000 for number in range(20_000))


def log_chunk(run_id: UUID, body: str, *, number: int = 0, last: bool = False, namespace: str = "default") -> LogChunk:
    """Lines of the first attempt at a run, under claim 1."""
    claim = Claim(namespace, run_id, run_id, 1, "t", 0, None, None, "{}", None, 0.0, 0.0, 0, 0)
    return LogChunk(claim, number, body, last)
