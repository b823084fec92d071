"""Events reach their destinations: once, in order, signed, whatever dies in between."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import asyncpg
from receivers import ADD, is_signed, receiver

from rota.scheduler import dispatcher
from rota.service import ServiceGroup
from rota.store.events import settled
from support import eventually


async def deliveries_of(api, name):
    answer = await api.get(f"/v1/destinations/{name}/deliveries")
    assert answer.status_code == 200, answer.text
    return answer.json()["items"]


async def test_an_event_arrives_signed_as_the_api_shows_it(api, put, record, sending, hook):
    made = await put("pager", hook.url)
    number = await record(subject="late", data='{"severity": "critical", "value": 3}')
    await sending()
    (headers, body), (event,) = hook.requests[0], hook.events
    shown = (await api.get("/v1/events?kind=alert.fired")).json()["items"][0]
    assert event == shown
    assert event["eventId"] == number
    assert event["data"] == {"severity": "critical", "value": 3}
    assert is_signed(headers, body, made["secret"])
    assert not is_signed(headers, body + b" ", made["secret"])
    assert not is_signed(headers, body, "whsec_" + "A" * 32)
    (delivery,) = await deliveries_of(api, "pager")
    assert (delivery["status"], delivery["attempts"], delivery["answer"]) == ("delivered", 1, 200)


async def test_a_destination_gets_what_it_asks_for_and_by_default_alerts(put, record, sending):
    async with receiver() as alerts, receiver() as workers, receiver() as severe:
        await put("alerts", alerts.url)
        await put("workers", workers.url, kinds=["worker.", "pool.paused"])
        await put("severe", severe.url, leastSeverity="warning")
        for kind, data in (
            ("alert.fired", '{"severity": "critical"}'),
            ("alert.resolved", None),
            ("worker.lost", None),
            ("pool.paused", None),
            ("pool.resumed", None),
        ):
            await record(kind, data=data)
        await sending()
        assert alerts.kinds == ["alert.fired", "alert.resolved"]
        assert workers.kinds == ["worker.lost", "pool.paused"]
        assert severe.kinds == ["alert.fired"]


async def test_an_alert_that_names_destinations_goes_to_these_alone(put, record, sending):
    async with receiver() as one, receiver() as two, receiver() as ours:
        await put("one", one.url)
        await put("two", two.url)
        await put("two", ours.url, everywhere=True)
        await record(subject="for two", data='{"destinations": ["two"]}')
        await record(subject="for all", data='{"destinations": []}')
        await sending()
        assert [event["subject"] for event in one.events] == ["for all"]
        assert [event["subject"] for event in two.events] == ["for two", "for all"]
        assert [event["subject"] for event in ours.events] == ["for two", "for all"]


async def test_what_happened_before_a_destination_was_made_or_while_it_was_off_is_not_sent(put, record, sending, hook):
    await record(subject="before")
    await put("pager", hook.url)
    await sending()
    await put("pager", hook.url, enabled=False)
    await record(subject="meanwhile")
    await sending()
    await put("pager", hook.url, enabled=True)
    await record(subject="after")
    await sending()
    assert [event["subject"] for event in hook.events] == ["after"]


async def test_two_schedulers_send_one_message(put, record, make_scheduler, hook):
    await put("pager", hook.url)
    one, two = make_scheduler(), make_scheduler()
    async with ServiceGroup(one.services), ServiceGroup(two.services):
        await eventually(lambda: one.leases.owned and two.leases.owned)
        numbers = [await record(subject=str(number)) for number in range(30)]
        await eventually(lambda: len(hook.requests) >= 30)
    assert [event["eventId"] for event in hook.events] == numbers


async def test_two_senders_at_once_send_each_message_once(put, record, sending, make_scheduler, hook, sql):
    """Even if both believe that they own the shard, a destination is one sender's at a time."""
    await put("pager", hook.url)
    hook.delay_seconds = 0.2
    numbers = [await record() for _ in range(5)]
    other = make_scheduler(lease_seconds=600.0)
    other.leases._owned, other.leases._beaten_at = sending.scheduler.leases.owned, sending.scheduler.leases._beaten_at
    other.dispatcher._deliveries._scheduler_id = sending.scheduler.id
    await asyncio.gather(*(each.dispatcher.tick() for each in (sending.scheduler, other)))
    await eventually(lambda: not sending.scheduler.dispatcher._sending and not other.dispatcher._sending)
    assert [event["eventId"] for event in hook.events] == numbers


async def test_a_scheduler_whose_shard_went_to_another_sends_nothing(put, record, sending, hook, sql):
    await put("pager", hook.url)
    await record()
    await sql.execute("UPDATE rota.shard_leases SET epoch = epoch + 1")
    await sending()
    assert hook.requests == []


async def test_a_destination_that_was_down_gets_everything_later_in_order_once(api, put, record, sending, monkeypatch):
    monkeypatch.setattr(dispatcher, "_FIRST_RETRY_SECONDS", 0.05)
    monkeypatch.setattr(dispatcher, "_LONGEST_RETRY_SECONDS", 0.2)
    async with receiver() as hook:
        await put("pager", hook.url)
    numbers = [await record() for _ in range(10)]
    await sending()
    waiting = await deliveries_of(api, "pager")
    assert {item["status"] for item in waiting} == {"pending"}
    assert {item["error"] for item in waiting} == {None, "it can't be reached"}
    assert (await api.get("/v1/destinations/pager")).json()["failures"] == 1
    async with receiver(hook.port) as back:

        async def all_came():
            await sending()
            return len(back.requests) >= 10

        await eventually(all_came)
        await sending()
        assert sorted(event["eventId"] for event in back.events) == numbers
        assert {item["status"] for item in await deliveries_of(api, "pager")} == {"delivered"}
        assert (await api.get("/v1/destinations/pager")).json()["failures"] == 0


async def test_a_message_that_is_refused_stops_no_other(api, put, record, sending, hook):
    await put("pager", hook.url)
    poison = await record(subject="poison")
    after = [await record(subject="fine") for _ in range(3)]
    hook.refused = "poison"
    await sending()
    await sending()
    assert [event["eventId"] for event in hook.events] == [poison, *after]
    statuses = {item["eventId"]: item["status"] for item in await deliveries_of(api, "pager")}
    assert statuses == {poison: "pending"} | dict.fromkeys(after, "delivered")


async def test_what_was_sent_and_not_recorded_is_sent_again_under_the_same_id(put, record, make_scheduler, hook):
    await put("pager", hook.url)
    first = make_scheduler(lease_seconds=600.0, sender_lease=timedelta(seconds=0.5))
    await first.leases.tick()
    await record()

    async def die(*_arguments, **_options):
        raise asyncpg.PostgresConnectionError("cut")

    first.dispatcher._deliveries.record = die
    await first.dispatcher.tick()
    await eventually(lambda: hook.requests and not first.dispatcher._sending)
    del first.dispatcher._deliveries.record

    async def sent_again():
        await first.dispatcher.tick()
        return len(hook.requests) == 2

    await eventually(sent_again)
    assert len(set(hook.ids)) == 1


async def test_a_slow_destination_delays_no_other(put, record, sending, hook):
    async with receiver() as slow:
        slow.delay_seconds = 3.0
        await put("a-slow", slow.url)
        await put("b-quick", hook.url)
        await record()
        await record()
        await sending.scheduler.dispatcher.tick()
        await eventually(lambda: len(hook.requests) == 2)
        assert len(slow.requests) < 2


async def test_an_event_that_commits_late_is_sent_too(put, record, sending, hook, database_url, monkeypatch):
    await put("pager", hook.url)
    other = await asyncpg.connect(database_url)
    held = other.transaction()
    await held.start()
    late = await other.fetchval(ADD, "default", "alert.fired", "late", None)
    early = await record(subject="early")
    await sending()
    assert hook.requests == [], "it waits for what may still come before it"
    await held.commit()
    await other.close()
    await sending()
    assert [event["eventId"] for event in hook.events] == [late, early]


async def test_a_number_that_was_rolled_back_is_not_waited_for(put, record, sending, hook, database_url, monkeypatch):
    monkeypatch.setattr(settled, "GAP_SECONDS", 0.05)
    await put("pager", hook.url)
    other = await asyncpg.connect(database_url)
    held = other.transaction()
    await held.start()
    await other.fetchval(ADD, "default", "alert.fired", "never", None)
    number = await record()
    await held.rollback()
    await other.close()

    async def came():
        await sending()
        return hook.requests

    await eventually(came)
    assert [event["eventId"] for event in hook.events] == [number]


async def test_a_flood_waits_in_the_events_and_not_among_the_deliveries(put, sending, hook, sql, monkeypatch):
    monkeypatch.setattr(dispatcher, "WINDOW", 30)
    await put("pager", hook.url)
    hook.status = 500
    await sql.execute(
        "INSERT INTO rota.events (namespace, kind, subject) SELECT 'default', 'alert.fired', n::text"
        " FROM generate_series(1, 2000) AS n"
    )
    await sending()
    assert await sql.fetchval("SELECT count(*) FROM rota.deliveries") == 30
    hook.status = 200
    hook.requests.clear()
    await sql.execute("UPDATE rota.destinations SET next_at = now()")
    await sql.execute("UPDATE rota.deliveries SET next_at = now()")

    async def all_came():
        await sending()
        return len(hook.requests) == 2000

    await eventually(all_came, within=60)
    assert [event["subject"] for event in hook.events] == [str(n) for n in range(1, 2001)]
    await sending()
    assert await sql.fetchval("SELECT count(*) FROM rota.deliveries") <= 1020


async def test_after_three_days_a_message_is_given_up(api, put, record, sending, hook, sql):
    await put("pager", hook.url)
    hook.status = 503
    await record()
    await sending()
    await sql.execute("UPDATE rota.deliveries SET made_at = now() - interval '73 hours', next_at = now()")
    await sql.execute("UPDATE rota.destinations SET next_at = now()")
    await sending()
    (delivery,) = await deliveries_of(api, "pager")
    assert (delivery["status"], delivery["attempts"], delivery["answer"]) == ("given up", 2, 503)
    assert delivery["error"] == "answered 503"
    await sending()
    assert len(hook.requests) == 2


async def test_an_event_that_is_no_longer_kept_is_given_up(api, put, record, sending, hook, sql):
    await put("pager", hook.url)
    hook.status = 503
    await record()
    await sending()
    await sql.execute("DELETE FROM rota.events")
    await sql.execute("UPDATE rota.deliveries SET next_at = now()")
    await sql.execute("UPDATE rota.destinations SET next_at = now()")
    await sending()
    (delivery,) = await deliveries_of(api, "pager")
    assert (delivery["status"], delivery["error"], delivery["event"]) == (
        "given up",
        "the event is no longer kept",
        None,
    )


async def test_without_wake_ups_events_are_sent_as_well(put, record, make_scheduler, hook):
    await put("pager", hook.url)
    scheduler = make_scheduler(listen=False)
    async with ServiceGroup(scheduler.services):
        await eventually(lambda: scheduler.leases.owned)
        await record()
        await eventually(lambda: hook.requests)
