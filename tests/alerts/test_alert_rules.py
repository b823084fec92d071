"""Rules and silences over HTTP: what is stored, shown, refused, and who may."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from rota.domain.alerts import KINDS
from rota.store.alert import MOST_RULES, MOST_SILENCES

RULE = {"kind": "oldest_queued", "threshold": 60, "pool": "mail", "severity": "critical", "destinations": ["pager"]}


def in_an_hour():
    return (datetime.now(UTC) + timedelta(hours=1)).isoformat()


async def test_a_new_installation_has_a_rule_of_each_kind(api):
    items = (await api.get("/v1/alerts/rules")).json()["items"]
    assert {each["kind"] for each in items} == set(KINDS)
    assert all(each["enabled"] and each["scope"] == "installation" for each in items)
    lag = next(each for each in items if each["kind"] == "start_lag")
    assert (lag["objective"], lag["threshold"], lag["minimum"]) == (0.99, 1.0, 20)


async def test_a_rule_is_put_read_listed_and_deleted(api):
    put = await api.put("/v1/alerts/rules/mail-waits", json=RULE)
    assert put.status_code == 200, put.text
    assert {name: put.json()[name] for name in RULE} == RULE
    assert put.json()["scope"] == "namespace"
    assert (await api.get("/v1/alerts/rules/mail-waits")).json() == put.json()
    assert "mail-waits" in [each["name"] for each in (await api.get("/v1/alerts/rules")).json()["items"]]
    assert (await api.delete("/v1/alerts/rules/mail-waits")).json() == put.json()
    assert (await api.get("/v1/alerts/rules/mail-waits")).status_code == 404
    assert (await api.delete("/v1/alerts/rules/mail-waits")).status_code == 404


async def test_pages_of_rules_follow_each_other(api):
    await api.put("/v1/alerts/rules/disk-2", json=RULE)
    seen, cursor = [], None
    while True:
        page = (await api.get("/v1/alerts/rules", params={"limit": 5} | ({"cursor": cursor} if cursor else {}))).json()
        seen += [each["name"] for each in page["items"]]
        cursor = page["nextCursor"]
        if cursor is None:
            break
    assert len(seen) == 13
    assert sorted(seen) == seen


async def test_a_namespace_reads_the_rule_of_the_installation_unless_it_has_one(api):
    assert (await api.get("/v1/alerts/rules/disk")).json()["scope"] == "installation"
    await api.put("/v1/alerts/rules/no-worker", json={"kind": "no_worker", "enabled": False})
    assert (await api.get("/v1/alerts/rules/no-worker")).json()["scope"] == "namespace"
    whole = (await api.get("/v1/alerts/rules/no-worker", params={"scope": "installation"})).json()
    assert (whole["scope"], whole["enabled"]) == ("installation", True)
    elsewhere = await api.get("/v1/alerts/rules/no-worker", headers={"Rota-Namespace": "shop"})
    assert elsewhere.json()["scope"] == "installation"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "kind"),
        ({"kind": "mood"}, "kind"),
        ({"kind": "disk"}, "kind"),
        (RULE | {"severity": "loud"}, "severity"),
        (RULE | {"threshold": -1}, "threshold"),
        (RULE | {"windowSeconds": 60}, "windowSeconds"),
        (RULE | {"job": "nightly"}, "job"),
        (RULE | {"forSeconds": "5m"}, "forSeconds"),
        (RULE | {"treshold": 5}, "treshold"),
        ({"kind": "success_rate", "threshold": 99}, "threshold"),
        ({"kind": "job_failures", "job": "no-such-job"}, "job"),
        ({"kind": "start_lag", "objective": 1}, "objective"),
    ],
)
async def test_wrong_input_is_named(api, body, field):
    answer = await api.put("/v1/alerts/rules/x", json=body)
    assert answer.status_code in (400, 422), answer.text
    assert field in [each["field"] for each in answer.json()["errors"]]
    assert (await api.get("/v1/alerts/rules/x")).status_code == 404


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"until": "2020-01-01T00:00:00Z", "reason": "late"}, "until"),
        ({"until": "2099-01-01T00:00:00Z", "reason": "for ever"}, "until"),
        ({"reason": "no end"}, "until"),
        ({"until": "2020-01-01T00:00:00Z"}, "reason"),
    ],
)
async def test_a_wrong_silence_is_named(api, body, field):
    answer = await api.post("/v1/alerts/silences", json=body)
    assert answer.status_code in (400, 422), answer.text
    assert field in [each["field"] for each in answer.json()["errors"]]


@pytest.mark.parametrize(
    "path", ["/v1/alerts?state=loud", "/v1/alerts/rules/disk?scope=mine", "/v1/alerts/rules/a%20b"]
)
async def test_wrong_parameters_are_named(api, path):
    answer = await api.get(path)
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["field"] in ("state", "scope", "rule")


async def test_who_may_read_change_and_change_for_all(api, somebody):
    viewer, operator = await somebody("viewer"), await somebody("operator")
    admin = await somebody("admin", owner="root", everywhere=True)
    silence = {"until": in_an_hour(), "reason": "quiet"}
    for path in ("/v1/alerts", "/v1/alerts/rules", "/v1/alerts/rules/disk", "/v1/alerts/silences"):
        assert (await viewer.get(path)).status_code == 200
    assert (await viewer.put("/v1/alerts/rules/x", json=RULE)).status_code == 403
    assert (await viewer.post("/v1/alerts/silences", json=silence)).status_code == 403
    assert (await viewer.post("/v1/alerts/rules/disk/test")).status_code == 403
    assert (await operator.put("/v1/alerts/rules/x", json=RULE)).status_code == 200
    assert (await operator.post("/v1/alerts/silences", json=silence)).status_code == 201
    whole = {"params": {"scope": "installation"}}
    for ask in (
        operator.put("/v1/alerts/rules/disk", json={"kind": "disk"}, **whole),
        operator.delete("/v1/alerts/rules/disk", **whole),
        operator.post("/v1/alerts/rules/disk/test", **whole),
        operator.post("/v1/alerts/silences", json=silence, **whole),
    ):
        assert (await ask).status_code == 403
    assert (
        await admin.put("/v1/alerts/rules/disk", json={"kind": "disk", "threshold": 0.2}, **whole)
    ).status_code == 200
    assert (await admin.delete("/v1/alerts/rules/disk", **whole)).status_code == 200


async def test_other_namespaces_cant_reach_rules_and_silences(api, somebody):
    await api.put("/v1/alerts/rules/x", json=RULE)
    silence = (await api.post("/v1/alerts/silences", json={"until": in_an_hour(), "reason": "quiet"})).json()
    other = await somebody("operator", namespace="shop")
    assert (await other.get("/v1/alerts/rules/x")).status_code == 404
    assert (await other.delete("/v1/alerts/rules/x")).status_code == 404
    assert (await other.delete(f"/v1/alerts/silences/{silence['silenceId']}")).status_code == 404
    assert (await other.get("/v1/alerts/silences")).json()["items"] == []
    assert (await api.delete("/v1/alerts/silences/silence_xyz")).status_code == 404


async def test_a_test_of_a_rule_is_recorded_as_an_event(api):
    await api.put("/v1/alerts/rules/x", json=RULE)
    answer = await api.post("/v1/alerts/rules/x/test")
    assert answer.json() == {
        "rule": "x",
        "title": "Test of the rule x, asked for by admin",
        "destinations": ["pager"],
    }
    [event] = (await api.get("/v1/events")).json()["items"]
    assert event["event"] == "alert.fired"
    assert event["data"]["test"] is True
    assert event["data"]["destinations"] == ["pager"]
    assert event["data"]["severity"] == "critical"
    assert (await api.post("/v1/alerts/rules/no-such/test")).status_code == 404
    # A rule of the installation can be tried out from any namespace, and is told there.
    assert (await api.post("/v1/alerts/rules/disk/test", headers={"Rota-Namespace": "shop"})).status_code == 200
    assert len((await api.get("/v1/events", headers={"Rota-Namespace": "shop"})).json()["items"]) == 1


async def test_changes_are_in_the_audit_trail(api):
    await api.put("/v1/alerts/rules/x", json=RULE)
    actions = [each["action"] for each in (await api.get("/v1/audit")).json()["items"]]
    assert actions == ["put_alert_rule"]


async def test_there_are_only_so_many_rules_and_silences(api, sql):
    await sql.execute(
        """INSERT INTO rota.alert_rules (namespace, name, kind, settings, changed_by)
           SELECT 'default', 'rule-' || n, 'no_worker', '{}', 'test' FROM generate_series(1, $1::int) AS n""",
        MOST_RULES,
    )
    await sql.execute(
        """INSERT INTO rota.alert_silences (namespace, id, until, reason, created_by)
           SELECT 'default', gen_random_uuid(), now() + interval '1 day', 'x', 'x' FROM generate_series(1, $1::int)""",
        MOST_SILENCES,
    )
    assert (await api.put("/v1/alerts/rules/one-more", json=RULE)).status_code == 409
    assert (await api.put("/v1/alerts/rules/rule-1", json=RULE)).status_code == 200
    assert (await api.post("/v1/alerts/silences", json={"until": in_an_hour(), "reason": "x"})).status_code == 409
