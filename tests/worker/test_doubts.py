"""When the records were in doubt: what is called lost is not on record, whenever that is found out."""

from __future__ import annotations

import time


async def test_a_doubt_that_is_settled_late_looks_at_everything(engine, sql):
    broker = engine.broker(lease_seconds=300)
    await engine.join(broker)
    await engine.submit()
    (claim,) = await broker.claim(1)
    broker._doubt()
    # The looks that followed came to nothing for over a minute, and whole ones are not to be afforded.
    broker._in_doubt_until = time.monotonic() - 1
    broker._whole_looks._not_before = time.monotonic() + 60
    await sql.execute("UPDATE rota.live_runs SET claimed_at = now() - interval '10 minutes'")
    await broker.reconcile(frozenset({claim.number, 17}))
    assert broker._lost == {17}


async def test_a_doubt_that_comes_while_another_is_settled_is_not_forgotten(engine, monkeypatch):
    broker = engine.broker()
    await engine.join(broker)
    await engine.submit()
    (claim,) = await broker.claim(1)
    look = broker._claimed

    async def look_while_it_goes_back():
        found = await look()
        broker._doubt()
        return found

    broker._doubt()
    monkeypatch.setattr(broker, "_claimed", look_while_it_goes_back)
    await broker.reconcile(frozenset({claim.number}))
    assert [signal.kind for signal in broker._doubts()] == ["doubt"]
    monkeypatch.setattr(broker, "_claimed", look)
    await broker.reconcile(frozenset({claim.number}))
    assert broker._doubts() == []
