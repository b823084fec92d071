"""A worker without work polls rarely, if it can be told of work; with work, or deaf, it polls as often as ever."""

from __future__ import annotations

import asyncio

import pytest

from engine import plain
from rota.broker import postgres
from support import eventually

FOR_EVER = 1e6


@pytest.fixture(autouse=True)
def idle_for_ever(monkeypatch):
    """Nothing but a hint or work makes an idle worker look."""
    monkeypatch.setattr(postgres, "_POLL_IDLE_SECONDS", FOR_EVER)
    monkeypatch.setattr(postgres, "_CALM_SECONDS", 0.5)


def idle(worker):
    broker = worker._broker
    return eventually(lambda: broker._listener.connected and broker._poll_seconds == FOR_EVER)


async def test_an_idle_worker_hears_of_work(engine):
    worker = engine.worker()
    async with engine.running(worker):
        await idle(worker)
        await engine.until(await engine.submit(), "success")


async def test_an_idle_worker_hears_that_its_pool_goes_on(engine):
    worker = engine.worker()
    async with engine.running(worker):
        await engine.api.post("/v1/pools/default/pause")
        run_id = await engine.submit()
        await idle(worker)
        await engine.api.post("/v1/pools/default/resume")
        await engine.until(run_id, "success")


async def test_a_worker_that_lost_its_listener_polls(engine, monkeypatch):
    worker = engine.worker()
    async with engine.running(worker):
        await idle(worker)
        listener = worker._broker._listener
        # It is told of nothing any more, and the wait under way ends with a last hint.
        monkeypatch.setattr(worker._broker, "_listener", None)
        monkeypatch.setattr(listener, "_on_wake_up", lambda _channel, _payload: None)
        worker._broker._heard("rota_worker", "")
        await engine.until(await engine.submit(), "success")


async def test_a_worker_with_a_run_polls_for_what_it_is_asked(engine, sql):
    worker = engine.worker()
    async with engine.running(worker):
        await idle(worker)
        run_id = await engine.submit(task="rota.sleep", payload={"seconds": 3600})
        await engine.until(run_id, "running")
        await asyncio.sleep(1.0)  # longer than a worker without work would wait before it is idle
        await sql.execute(
            "UPDATE rota.live_runs SET cancel_requested_at = now() WHERE id = $1", plain(run_id)
        )  # and no wake-up
        await engine.until(run_id, "cancelled")


async def test_a_hint_keeps_a_worker_attentive_for_a_while(engine, monkeypatch):
    """A run that another transaction held when the hint came is found by a poll."""
    worker = engine.worker()
    async with engine.running(worker):
        await idle(worker)
        monkeypatch.setattr(postgres, "_CALM_SECONDS", FOR_EVER)
        worker._broker._active_at = -2 * FOR_EVER
        assert worker._broker._poll_seconds == FOR_EVER
        engine.database.wake(pools=["default"])
        await eventually(lambda: worker._broker._poll_seconds == postgres._POLL_LISTENING_SECONDS)
