"""The loop that all services share."""

from __future__ import annotations

import asyncio
import errno
import io
import sys

import pytest
import structlog
from structlog.testing import capture_logs

import rota.api.server
import rota.ops.supervisor  # noqa: F401 - with the server, it imports all that has services
from rota.service import Service, ServiceGroup
from rota.telemetry import configure_logging
from support import eventually


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


class Noted(Service):
    """Notes what happens to it."""

    interval_seconds = None

    def __init__(self, name, notes, faults=0):
        super().__init__()
        self.notes = notes
        self.faults = faults
        self._name = name

    @property
    def name(self):
        return self._name

    async def open(self):
        self.notes.append(f"open {self.name}")

    async def tick(self):
        self.notes.append(f"tick {self.name}")
        if self.faults:
            self.faults -= 1
            raise ValueError("a fault of ours")
        return 0

    async def close(self):
        self.notes.append(f"close {self.name}")


async def test_a_service_that_waits_to_be_woken_tries_again_by_itself_after_a_round_that_failed():
    notes = []
    async with ServiceGroup([Noted("a", notes, faults=2)]):
        await eventually(lambda: notes.count("tick a") == 3)
    assert notes[-1] == "close a"


async def test_what_could_not_be_opened_is_opened_again_before_the_first_round(monkeypatch):
    notes = []
    service = Noted("a", notes)
    opened = service.open

    async def fail_once():
        monkeypatch.setattr(service, "open", opened)
        raise OSError("not there yet")

    monkeypatch.setattr(service, "open", fail_once)
    async with ServiceGroup([service]):
        await eventually(lambda: "tick a" in notes)
    assert notes == ["open a", "tick a", "close a"]


async def test_services_are_closed_in_reverse_and_those_added_or_stopped_meanwhile_as_well():
    notes = []
    one, two, late = Noted("one", notes), Noted("two", notes), Noted("late", notes)
    async with ServiceGroup([one, two]) as group:
        await eventually(lambda: "tick two" in notes)
        group.add(late)
        await eventually(lambda: "tick late" in notes)
        await group.stop(two)
        assert notes[-1] == "close two"
        assert group.services == (one, late)
    assert notes[-2:] == ["close late", "close one"]


class UnshowableError(Exception):
    def __str__(self):
        raise ValueError("can't be shown")


async def cancelled_wait():
    """Waits for something that is cancelled, as a shared look is whose asker hung up."""
    other = asyncio.get_running_loop().create_future()
    other.cancel()
    await other


async def unshowable():
    raise UnshowableError


async def leaving():
    sys.exit(3)


@pytest.mark.parametrize("fault", [cancelled_wait, unshowable, leaving])
@pytest.mark.parametrize("step", ["open", "tick"])
async def test_a_step_that_fails_in_an_odd_way_does_not_end_the_loop(fault, step, monkeypatch):
    notes = []
    service = Noted("a", notes)
    usual = getattr(service, step)

    async def fail_once():
        monkeypatch.setattr(service, step, usual)
        await fault()

    monkeypatch.setattr(service, step, fail_once)
    with capture_logs() as logs:
        async with ServiceGroup([service]) as group:
            await eventually(lambda: "tick a" in notes)
            assert not group._tasks[service].done()
    told = [entry["event"] for entry in logs if entry["log_level"] == "error"]
    assert told == ["a round failed; the next one starts afresh"]


async def test_a_pause_that_can_not_be_told_does_not_end_the_loop():
    class Restless(Noted):
        @property
        def pause_seconds(self):
            raise ValueError("a fault of ours")

    notes = []
    with capture_logs() as logs:
        async with ServiceGroup([Restless("a", notes)]):
            await eventually(lambda: notes.count("tick a") == 3)
    assert notes[-1] == "close a"
    assert "a round failed; the next one starts afresh" in [entry["event"] for entry in logs]


async def test_a_round_that_swallows_its_cancellation_ends_the_loop_all_the_same():
    began = asyncio.Event()

    class Deaf(Idle):
        async def tick(self):
            began.set()
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                return 0

    async with ServiceGroup([Deaf()]):
        await began.wait()


def test_no_service_has_a_loop_of_its_own():
    """What is shown here of the base class holds for all services."""
    services, found = [Service], []
    while services:
        kind = services.pop()
        services += kind.__subclasses__()
        if kind is not Service and kind.__module__.startswith("rota."):
            found.append(kind)
            assert not {"run", "_rest", "_guarded", "_note_failure"} & vars(kind).keys(), kind
    assert len(found) > 20


class Full(io.StringIO):
    """A log file on a full disk."""

    def write(self, _text):
        raise OSError(errno.ENOSPC, "no space left on device")


@pytest.mark.parametrize("stream", ["full", "closed"])
async def test_a_log_that_can_not_be_written_does_not_end_the_loop(stream, monkeypatch):
    out = Full() if stream == "full" else io.StringIO()
    if stream == "closed":
        out.close()
    before = structlog.get_config()
    monkeypatch.setattr(sys, "stderr", out)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: False, raising=False)
    configure_logging()
    try:
        notes = []
        async with ServiceGroup([Noted("a", notes, faults=2)]):
            await eventually(lambda: notes.count("tick a") == 3)
    finally:
        structlog.configure(**before)
        structlog.contextvars.clear_contextvars()
