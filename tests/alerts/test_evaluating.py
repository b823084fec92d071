"""Evaluating rules: two schedulers, restarts, broken rules, silences, tenants."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

from structlog.testing import capture_logs

from support import eventually


def tomorrow():
    return (datetime.now(UTC) + timedelta(days=1)).isoformat()


async def unserved(alerting, **rule):
    """A rule and a run that no worker serves."""
    await alerting.rule("alone", "no_worker", threshold=0, **rule)
    await alerting.engine.submit(pool="gpu")
    await eventually(lambda: alerting.sql.fetchval("SELECT bool_and(ready_at < now()) FROM rota.live_runs"))


async def test_an_event_says_everything_a_program_needs(alerting):
    await unserved(alerting, severity="info", destinations=["pager"])
    await alerting.alert("alone")
    [(kind, data)] = await alerting.events("alone")
    assert kind == "alert.fired"
    assert data["value"] >= 0
    assert data.pop("since")
    assert data.pop("value") is not None
    assert data == {
        "alert": "alone",
        "rule": "no_worker",
        "severity": "info",
        "subject": "pool gpu",
        "threshold": 0.0,
        "key": "default/alone/default/pool:gpu",
        "title": "Pool gpu has no workers",
        "nextAct": "ROTA_NAMESPACES=default rota worker --pools gpu",
        "runbook": "runbook/lag.md",
        "destinations": ["pager"],
    }
    listed = (await alerting.api.get("/v1/events?kind=alert.")).json()["items"]
    assert [(each["event"], each["subject"], each["detail"]) for each in listed] == [
        ("alert.fired", "pool gpu", "Pool gpu has no workers")
    ]


async def test_two_schedulers_at_once_record_one_event(alerting):
    await unserved(alerting)
    others = [alerting.another(lease_seconds=600) for _ in range(3)]
    everything = dict.fromkeys(range(64), 1)
    for _ in range(3):
        await asyncio.gather(
            *(each.alert_evaluator.serve(everything) for each in (alerting.scheduler, *others)),
        )
    assert await alerting.told("alone") == ["alert.fired"]
    async with alerting.engine.running(alerting.engine.worker(pools=("gpu",))):
        await eventually(lambda: alerting.sql.fetchval("SELECT count(*) = 0 FROM rota.live_runs"))
    for _ in range(3):
        await asyncio.gather(
            *(each.alert_evaluator.serve(everything) for each in (alerting.scheduler, *others)),
        )
    assert await alerting.told("alone") == ["alert.fired", "alert.resolved"]


async def test_one_that_was_paused_after_it_measured_tells_nothing(alerting):
    await unserved(alerting)
    paused = alerting.another(lease_seconds=600).alert_evaluator
    found, read = asyncio.Event(), asyncio.Event()
    write = paused._states.write

    async def write_later(*what):
        found.set()
        await read.wait()
        return await write(*what)

    paused._states.write = write_later
    late = asyncio.create_task(paused.serve({0: 1}))
    await found.wait()
    await alerting.alert("alone")
    async with alerting.engine.running(alerting.engine.worker(pools=("gpu",))):
        await alerting.alert("alone", "resolved")
    read.set()
    await late
    assert await alerting.told("alone") == ["alert.fired", "alert.resolved"]


async def test_what_was_measured_too_long_ago_is_dropped(alerting, monkeypatch):
    await unserved(alerting)
    states = alerting.scheduler.alert_evaluator._states
    rules = states.rules

    async def rules_of_a_minute_ago():
        return [{**row, "moment": row["moment"].replace(year=2020)} for row in await rules()]

    monkeypatch.setattr(states, "rules", rules_of_a_minute_ago)
    await alerting.evaluate()
    assert await alerting.alerts("alone") == []


async def test_a_restarted_scheduler_goes_on_where_the_last_one_was(alerting):
    await unserved(alerting, forSeconds=3600)
    await alerting.evaluate()
    assert [each["state"] for each in await alerting.alerts("alone")] == ["pending"]
    await alerting.sql.execute("UPDATE rota.alert_states SET since = since - interval '1 hour'")
    alerting.scheduler = alerting.another(lease_seconds=600)
    await alerting.scheduler.alert_evaluator.serve({0: 1})
    assert [each["state"] for each in await alerting.alerts("alone")] == ["firing"]
    alerting.scheduler = alerting.another(lease_seconds=600)
    await alerting.scheduler.alert_evaluator.serve({0: 1})
    assert await alerting.told("alone") == ["alert.fired"]


async def test_a_broken_rule_is_reported_and_stops_no_other(alerting):
    await unserved(alerting)
    await alerting.sql.execute(
        """INSERT INTO rota.alert_rules (namespace, name, kind, settings, changed_by) VALUES
           ('default', 'a-newer-release', 'mood', '{}', 'somebody'),
           ('*', 'aa-unreadable', 'no_worker', '{"threshold": "much"}', 'somebody')"""
    )
    with capture_logs() as logs:
        await alerting.evaluate()
        await alerting.evaluate()
    assert await alerting.told("alone") == ["alert.fired"]
    said = [entry["rule"] for entry in logs if entry["event"] == "a rule can't be evaluated"]
    assert sorted(said) == ["a-newer-release", "aa-unreadable"], "each once"
    listed = (await alerting.api.get("/v1/alerts/rules")).json()["items"]
    errors = {each["name"]: each["error"] for each in listed if "error" in each}
    assert set(errors) == {"a-newer-release", "aa-unreadable"}
    assert "threshold" in errors["aa-unreadable"]
    # It is mended like any other.
    await alerting.rule("a-newer-release", "no_worker", threshold=3600)
    await alerting.evaluate()
    assert "error" not in (await alerting.api.get("/v1/alerts/rules/a-newer-release")).json()


async def test_a_silence_keeps_it_quiet_until_it_ends(alerting):
    await unserved(alerting)
    body = {"rule": "alone", "until": tomorrow(), "reason": "we move the racks"}
    made = (await alerting.api.post("/v1/alerts/silences", json=body)).json()
    found = await alerting.alert("alone")
    assert found["silencedUntil"] == made["until"]
    assert await alerting.told("alone") == []
    listed = (await alerting.api.get("/v1/alerts/silences")).json()["items"]
    assert [(each["rule"], each["reason"], each["createdBy"]) for each in listed] == [
        ("alone", "we move the racks", "admin")
    ]
    ended = await alerting.api.delete(f"/v1/alerts/silences/{made['silenceId']}")
    assert ended.status_code == 200
    await alerting.evaluate()
    assert await alerting.told("alone") == ["alert.fired"]


async def test_a_silence_of_a_key_leaves_the_others(alerting):
    await unserved(alerting)
    await alerting.engine.submit(pool="tpu")
    body = {"key": "pool:gpu", "until": tomorrow(), "reason": "no GPU today"}
    assert (await alerting.api.post("/v1/alerts/silences", json=body)).status_code == 201

    async def both():
        await alerting.evaluate()
        return len(await alerting.alerts("alone")) == 2

    await eventually(both)
    assert [data["subject"] for _, data in await alerting.events("alone")] == ["pool tpu"]


async def test_a_deleted_rule_resolves_what_it_fires(alerting):
    await unserved(alerting)
    await alerting.alert("alone")
    assert (await alerting.api.delete("/v1/alerts/rules/alone")).status_code == 200
    assert await alerting.told("alone") == ["alert.fired", "alert.resolved"]
    assert await alerting.alerts("alone") == []


async def test_a_rule_that_is_switched_off_resolves_what_it_fires(alerting):
    await unserved(alerting)
    await alerting.alert("alone")
    await alerting.rule("alone", "no_worker", enabled=False)
    await alerting.evaluate()
    assert await alerting.told("alone") == ["alert.fired", "alert.resolved"]


async def test_namespaces_see_their_own_alerts_and_replace_rules_of_the_installation(alerting, somebody):
    await alerting.rule("alone", "no_worker", threshold=0, scope="installation")
    shop, bank = ({"Rota-Namespace": name} for name in ("shop", "bank"))
    for headers in (shop, bank):
        answer = await alerting.api.post(
            "/v1/jobs",
            json={"name": "x", "scheduleType": "immediate", "task": "rota.echo", "pool": "gpu"},
            headers=headers,
        )
        assert answer.status_code == 201
    of_shop = await somebody("viewer", namespace="shop", sees="all")
    of_bank = await somebody("viewer", namespace="bank", sees="all")
    # The bank has a rule of this name that is switched off.
    off = {"kind": "no_worker", "enabled": False}
    assert (await alerting.api.put("/v1/alerts/rules/alone", json=off, headers=bank)).status_code == 200

    async def fires():
        await alerting.evaluate()
        return (await of_shop.get("/v1/alerts")).json()["items"]

    [found] = await eventually(fires)
    assert (found["scope"], found["state"], found["title"]) == ("installation", "firing", "Pool gpu has no workers")
    assert (await of_bank.get("/v1/alerts")).json()["items"] == []
    told = await alerting.sql.fetch("SELECT namespace FROM rota.events WHERE kind LIKE 'alert.%'")
    assert [row["namespace"] for row in told] == ["shop"]


async def test_who_sees_their_own_jobs_alone_sees_no_alerts_about_others(alerting, somebody):
    await alerting.rule("overdue", "schedule_overdue", threshold=0)
    alice, bob = await somebody("submitter", owner="alice"), await somebody("submitter", owner="bob")
    body = {"name": "alices", "scheduleType": "interval", "everySeconds": 1, "task": "rota.echo"}
    assert (await alice.post("/v1/jobs", json=body)).status_code == 201
    await alerting.alert("overdue")
    assert [each["subject"] for each in (await alice.get("/v1/alerts")).json()["items"]] == ["alices"]
    assert (await bob.get("/v1/alerts")).json()["items"] == []


async def test_an_idle_installation_is_looked_at_less_often(alerting):
    evaluator = alerting.scheduler.alert_evaluator
    await alerting.evaluate()
    assert evaluator.interval_seconds > 0.5
    await unserved(alerting, forSeconds=3600)
    await alerting.evaluate()
    assert evaluator.interval_seconds == 0.2


async def test_every_rule_that_comes_with_the_installation_is_evaluated(alerting):
    await alerting.sql.execute("UPDATE rota.alert_rules SET enabled = true")
    async with alerting.engine.running(alerting.engine.scheduler(), alerting.engine.worker()):
        await alerting.engine.recurring(scheduleType="interval", everySeconds=1, task="rota.fail", maxRetries=0)
        await eventually(lambda: alerting.sql.fetchval("SELECT count(*) > 1 FROM rota.dead_letters"))
        await alerting.evaluate()
    rules = (await alerting.api.get("/v1/alerts/rules")).json()["items"]
    assert len(rules) == 12
    assert [rule["name"] for rule in rules if "error" in rule] == []
    assert {rule["changedBy"] for rule in rules} == {"rota"}


async def test_a_kind_that_there_is_not_is_told_which_there_are(alerting):
    answer = await alerting.api.put("/v1/alerts/rules/odd", json={"kind": "nonsense"})
    assert answer.status_code == 400
    assert "must be one of" in answer.json()["detail"]
    assert "schedule_overdue" in answer.json()["detail"]
