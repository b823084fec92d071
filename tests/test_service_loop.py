"""The loop that all services share."""

from __future__ import annotations

import asyncio

import pytest

from rota.service import Service, ServiceGroup
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
