"""Announced tasks: what jobs get from their task, wherever they come from, and which payloads are refused."""

from __future__ import annotations

import asyncio
import json
import os

import asyncpg
import msgspec
import pytest

import rota
from rota.domain.application import AnnouncedTask, Application
from rota.domain.fleet import WorkerProfile
from rota.sdk.declared_schedules import describe_app
from rota.store.announce import Announcements
from serving import serving
from support import eventually, job


def release(version="1", *, name="shop", namespace="default", **options):
    """A release of an application whose task `bill` has these options."""
    app = rota.App(name, version=version, namespace=namespace)

    @app.task(name="bill", **options)
    async def bill(customer: str, days: int = 30) -> None: ...

    return describe_app(app, (namespace,))


def described(version="1", *, parameters=None, defaults=None):
    """A release whose worker says this of `bill`."""
    return Application("default", "shop", version, (), {"bill": AnnouncedTask(parameters or {}, defaults or {})})


class Fleet:
    """Workers that exist only as their brokers, and an API that looks at them when asked to."""

    def __init__(self, engine, sql):
        self.engine = engine
        self.api = engine.api
        self.sql = sql

    async def start(self, application, *, namespaces=("default",), tasks=("bill",), pools=("default",)):
        broker = self.engine.broker()
        await broker.join(WorkerProfile("test", os.getpid(), namespaces, pools, tasks, 1, application=application))
        await self.look()
        return broker

    async def stop(self, broker):
        await broker.leave()
        await self.look()

    async def look(self):
        await self.api.services.gateway.tasks.tick()

    async def submit(self, *, status=201, namespace="default", payload=None, **fields):
        body = job(task="bill", payload={"customer": "a"} if payload is None else payload, **fields)
        answer = await self.api.post("/v1/jobs", json=body, headers={"Rota-Namespace": namespace})
        assert answer.status_code == status, answer.text
        return answer.json()

    async def made(self, *, namespace="default", **fields):
        """A job as it was made."""
        job_id = (await self.submit(namespace=namespace, **fields))["jobId"]
        return (await self.api.get(f"/v1/jobs/{job_id}", headers={"Rota-Namespace": namespace})).json()

    async def retries(self, **fields):
        return (await self.made(**fields))["maxRetries"]


@pytest.fixture
def fleet(engine, sql):
    return Fleet(engine, sql)


async def test_a_job_gets_what_its_task_says_unless_it_says_otherwise(fleet):
    assert await fleet.retries() == 3
    await fleet.start(
        release(
            retries=0,
            timeout="1m",
            expires="1h",
            priority="high",
            pool="money",
            tags=["billing"],
            retry=rota.Retry(strategy="fixed"),
            concurrency_limit=2,
            rate_limit="5/1m",
            breaker=rota.Breaker(failures=9),
            headers={"trace": "x"},
        )
    )
    made = await fleet.made()
    assert made["maxRetries"] == 0
    assert (made["timeoutSeconds"], made["expiresSeconds"]) == (60, 3600)
    assert (made["priority"], made["pool"], made["tags"]) == ("high", "money", ["billing"])
    assert made["retry"]["strategy"] == "fixed"
    assert (made["concurrencyLimit"], made["rateLimit"]["limit"], made["breaker"]["failures"]) == (2, 5, 9)
    assert made["headers"] == {"trace": "x"}
    said = await fleet.made(
        maxRetries=3,
        timeoutSeconds=None,
        priority="normal",
        pool="default",
        tags=[],
        concurrencyLimit=None,
        headers=None,
    )
    assert (said["maxRetries"], said["priority"], said["pool"], said["tags"]) == (3, "normal", "default", [])
    assert said["timeoutSeconds"] is None
    assert "concurrencyLimit" not in said
    assert "headers" not in said
    assert said["expiresSeconds"] == 3600


async def test_schedules_batches_and_sets_get_it_too(fleet):
    await fleet.start(release(retries=0, pool="money", concurrency_limit=1))
    schedule = await fleet.made(scheduleType="interval", everySeconds=3600)
    assert (schedule["maxRetries"], schedule["pool"], schedule["concurrencyLimit"]) == (0, "money", 1)
    batch = [job(task="bill", payload={"customer": "b"}), job(task="bill", payload={"customer": "c"}, maxRetries=7)]
    answer = await fleet.api.post("/v1/jobs/batch", json=batch)
    assert [result["status"] for result in answer.json()["results"]] == ["blocked", "blocked"]
    alike = {"job": job(task="bill"), "payloads": [{"customer": "d"}, {"customer": "e"}, {"costumer": "f"}]}
    answer = (await fleet.api.post("/v1/jobs/batch", json=alike)).json()
    assert [(some["position"], some["count"]) for some in answer["accepted"]] == [(0, 2)]
    assert [(some["position"], some["count"]) for some in answer["refused"]] == [(2, 1)]
    assert answer["refused"][0]["error"]["errors"][0]["field"] == "payload.customer"
    rows = await fleet.sql.fetch(
        "SELECT payload::json ->> 'customer' AS customer, pool, options FROM rota.runs ORDER BY 1"
    )
    found = {row["customer"]: (row["pool"], json.loads(row["options"]).get("maxRetries")) for row in rows}
    assert found == {"b": ("money", 0), "c": ("money", 7), "d": ("money", 0), "e": ("money", 0)}


async def test_each_payload_of_a_large_set_is_checked(fleet):
    await fleet.start(release(retries=0))
    payloads = [{"customer": "a"} for _ in range(2500)]
    for position in (7, 8, 2000):
        payloads[position] = {"customer": position}
    answer = (await fleet.api.post("/v1/jobs/batch", json={"job": job(task="bill"), "payloads": payloads})).json()
    assert sum(some["count"] for some in answer["accepted"]) == 2497
    assert [(some["position"], some["count"]) for some in answer["refused"]] == [(7, 2), (2000, 1)]
    assert answer["refused"][0]["error"]["errors"] == [
        {"field": "payload.customer", "message": "must be `str`, not `int`"}
    ]
    rows = await fleet.sql.fetch("SELECT DISTINCT payload, options FROM rota.runs")
    assert [tuple(row) for row in rows] == [('{"customer":"a"}', '{"maxRetries":0}')]
    nothing = {"job": job(task="bill"), "payloads": [None, {}]}
    answer = (await fleet.api.post("/v1/jobs/batch", json=nothing)).json()
    assert answer["accepted"] == []


async def test_what_a_job_got_when_it_was_submitted_stays(fleet):
    first = await fleet.start(release("1", retries=0))
    made = await fleet.made(scheduleType="interval", everySeconds=3600)
    await fleet.start(release("2", retries=9))
    await fleet.stop(first)
    changed = await fleet.api.put(f"/v1/jobs/{made['jobId']}", json={"everySeconds": 7200})
    assert changed.json()["maxRetries"] == 0
    assert await fleet.retries() == 9


async def test_the_newest_version_that_a_live_worker_has_is_in_force(fleet):
    old = await fleet.start(release("1.9", retries=1))
    assert await fleet.retries() == 1
    new = await fleet.start(release("1.10", retries=2))
    assert await fleet.retries() == 2
    await fleet.start(release("1.9", retries=1))  # another one, and later
    assert await fleet.retries() == 2
    await fleet.stop(new)
    assert await fleet.retries() == 1
    await fleet.stop(old)
    assert await fleet.retries() == 1


async def test_code_that_changes_without_its_version_counts_from_its_first_worker_on(fleet):
    before = await fleet.start(release("1", retries=1))
    after = await fleet.start(release("1", retries=2))
    assert await fleet.retries() == 2
    await fleet.stop(after)
    assert await fleet.retries() == 1
    await fleet.stop(before)


async def test_while_no_worker_lives_the_last_one_counts_and_no_payload_is_refused(fleet):
    two = await fleet.start(release("2", retries=2))
    await fleet.stop(two)
    one = await fleet.start(release("1", retries=1))
    await fleet.submit(payload={}, status=400)
    await fleet.stop(one)
    assert await fleet.retries(payload={}) == 1
    await fleet.sql.execute("DELETE FROM rota.workers")
    await fleet.look()
    assert await fleet.retries() in (1, 2)


async def test_lost_workers_count_for_a_while(fleet):
    await fleet.start(release(retries=0))
    lost = "UPDATE rota.workers SET gone_why = 'lost', gone_at = now() - $1::text::interval"
    await fleet.sql.execute(lost, "9 minutes")
    await fleet.look()
    await fleet.submit(payload={}, status=400)
    await fleet.sql.execute(lost, "11 minutes")
    await fleet.look()
    await fleet.submit(payload={})


async def test_a_payload_that_does_not_fit_is_refused_with_the_parameter_named(fleet):
    await fleet.start(release())
    refused = await fleet.submit(payload={"customer": "a", "days": "x"}, status=400)
    assert refused["errors"] == [{"field": "payload.days", "message": "must be `int`, not `str`"}]
    refused = await fleet.submit(payload={"costumer": "a"}, status=400)
    assert {error["field"] for error in refused["errors"]} == {"payload.customer", "payload.costumer"}
    refused = await fleet.api.post("/v1/jobs", json=job(task="bill"))
    assert refused.json()["errors"] == [{"field": "payload.customer", "message": "required, but missing"}]
    await fleet.submit(scheduleType="cron", cronExpression="0 0 * * *", payload={}, status=400)
    assert await fleet.sql.fetchval("SELECT count(*) FROM rota.runs") == 0


async def test_a_change_of_a_job_is_checked_too(fleet):
    await fleet.start(release())
    made = await fleet.made(scheduleType="interval", everySeconds=3600)
    path = f"/v1/jobs/{made['jobId']}"
    refused = await fleet.api.put(path, json={"payload": {"days": 3}})
    assert refused.status_code == 400
    assert refused.json()["errors"][0]["field"] == "payload.customer"
    assert (await fleet.api.put(path, json={"payload": {"customer": "b"}})).status_code == 200
    other = await fleet.api.post("/v1/jobs", json=job(task="unheard", scheduleType="interval", everySeconds=60))
    refused = await fleet.api.put(f"/v1/jobs/{other.json()['jobId']}", json={"task": "bill"})
    assert refused.status_code == 400


async def test_a_task_that_no_worker_knows_is_accepted_as_it_is(fleet):
    await fleet.start(release(retries=0))
    answer = await fleet.api.post("/v1/jobs", json=job(task="unheard", payload={"x": 1}))
    assert answer.status_code == 201


async def test_a_payload_is_accepted_if_one_live_version_accepts_it(fleet):
    required = {
        "type": "object",
        "properties": {"a": {"type": "integer"}},
        "required": ["a"],
        "additionalProperties": False,
    }
    other = {**required, "properties": {"b": {"type": "integer"}}, "required": ["b"]}
    old = await fleet.start(described("1", parameters=required))
    await fleet.submit(payload={"b": 1}, status=400)
    await fleet.start(described("2", parameters=other))
    await fleet.submit(payload={"a": 1})
    await fleet.submit(payload={"b": 1})
    refused = await fleet.submit(payload={"c": 1}, status=400)
    assert refused["errors"][0]["field"] == "payload.b"  # in the words of the version in force
    await fleet.stop(old)
    await fleet.submit(payload={"a": 1}, status=400)


async def test_a_live_worker_that_announces_nothing_may_accept_anything(fleet):
    await fleet.start(release(retries=0))
    await fleet.submit(payload={}, status=400)
    old = await fleet.start(None)
    assert await fleet.retries(payload={}) == 0
    await fleet.stop(old)
    await fleet.submit(payload={}, status=400)


async def test_the_check_can_be_switched_off(database, database_url, tmp_path, engine):
    await engine.broker().join(
        WorkerProfile("test", os.getpid(), ("default",), ("default",), ("bill",), 1, application=release(retries=0))
    )
    async with serving(database, tmp_path, check_payloads=False) as api:
        answer = await api.post("/v1/jobs", json=job(task="bill", payload={"costumer": 1}))
        assert answer.status_code == 201
        made = await api.get(f"/v1/jobs/{answer.json()['jobId']}")
        assert made.json()["maxRetries"] == 0


async def test_namespaces_get_what_their_own_workers_announce(fleet):
    await fleet.start(release(namespace="red", retries=1), namespaces=("red",))
    await fleet.start(release(namespace="blue", retries=2), namespaces=("blue", "green"))
    assert await fleet.retries(namespace="red") == 1
    assert await fleet.retries(namespace="blue") == 2
    assert await fleet.retries(namespace="green") == 2
    assert await fleet.retries(namespace="default") == 3
    await fleet.submit(namespace="default", payload={})
    for namespace, count in (("red", 1), ("green", 1), ("default", 0)):
        listed = await fleet.api.get("/v1/tasks", headers={"Rota-Namespace": namespace})
        assert len(listed.json()["items"]) == count


async def test_a_key_that_the_application_computes_is_left_to_other_submitters(fleet):
    await fleet.start(
        release(
            ordering_key=lambda customer: customer,
            ordering_on_failure="release",
            concurrency_key=lambda customer: customer,
            concurrency_limit=1,
            unique_key=lambda customer: customer,
            unique_for="1h",
        )
    )
    made = await fleet.made()
    assert not {"orderingKey", "concurrencyLimit", "concurrencyKey"} & {*made}
    assert await fleet.made()  # no unique key either
    said = await fleet.made(orderingKey="a", concurrencyKey="b")
    assert (said["orderingKey"], said["orderingOnFailure"]) == ("a", "release")
    assert (said["concurrencyKey"], said["concurrencyLimit"]) == ("b", 1)
    shown = (await fleet.api.get("/v1/tasks/bill")).json()
    assert shown["computed"] == ["concurrencyKey", "orderingKey", "uniqueKey"]


async def test_a_unique_key_of_the_task_makes_jobs_of_a_set_go_by_themselves(fleet):
    await fleet.start(release(unique_key="one at a time"))
    alike = {"job": job(task="bill"), "payloads": [{"customer": "a"}, {"customer": "b"}]}
    for _ in range(2):
        answer = await fleet.api.post("/v1/jobs/batch", json=alike, headers={"Idempotency-Key": "k"})
        assert [some["position"] for some in answer.json()["accepted"]] == [0]
        assert answer.json()["refused"][0]["position"] == 1
        assert answer.json()["refused"][0]["error"]["status"] == 409
    assert await fleet.sql.fetchval("SELECT count(*) FROM rota.runs") == 1
    assert await fleet.made(uniqueKey=None)


@pytest.mark.parametrize(
    "fields", [{"payload": {}}, {"jobId": "chosen"}, {"scheduleType": "cron", "cronExpression": "* * * * *"}], ids=str
)
async def test_a_set_of_a_unique_task_can_have_no_more_than_any_other(fleet, fields):
    await fleet.start(release(unique_key="one at a time"))
    alike = {"job": job(task="bill", **fields), "payloads": [{"customer": "a"}]}
    answer = await fleet.api.post("/v1/jobs/batch", json=alike)
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["field"] == f"job.{next(iter(fields))}"
    assert await fleet.sql.fetchval("SELECT count(*) FROM rota.jobs") == 0
    assert await fleet.sql.fetchval("SELECT count(*) FROM rota.runs") == 0


async def test_a_task_that_replaces_jobs_needs_the_right_to_change(fleet, somebody):
    await fleet.start(release(unique_key="one", on_duplicate="replace"))
    submitter = await somebody("submitter", scopes=["submit"])
    body = job(task="bill", payload={"customer": "a"})
    for path, sent in (("/v1/jobs", body), ("/v1/jobs/batch", [body])):
        assert (await submitter.post(path, json=sent)).status_code == 403
    alike = {"job": job(task="bill"), "payloads": [{"customer": "a"}]}
    assert (await submitter.post("/v1/jobs/batch", json=alike)).status_code == 403
    assert (await submitter.post("/v1/jobs", json=body | {"onDuplicate": "keep"})).status_code == 201


async def test_tasks_are_listed_with_what_is_known_of_them(fleet):
    await fleet.start(release("1", retries=1), pools=("default", "money"))
    await fleet.start(release("2", retries=0), tasks=("bill", "http"))
    old = await fleet.start(None, tasks=("ancient", "bill"))
    listed = (await fleet.api.get("/v1/tasks")).json()
    assert [task["task"] for task in listed["items"]] == ["ancient", "bill", "http"]
    assert listed["nextCursor"] is None
    ancient, bill, http = listed["items"]
    assert "parameters" not in ancient
    assert ancient["workers"] == http["workers"] == 1
    assert bill["defaults"] == {"maxRetries": 0}
    assert bill["parameters"]["required"] == ["customer"]
    assert bill["workers"] == 3
    assert bill["pools"] == ["default", "money"]
    assert bill["versions"] == [
        {"app": "shop", "version": "2", "workers": 1, "inForce": True},
        {"app": "shop", "version": "1", "workers": 1},
    ]
    assert (await fleet.api.get("/v1/tasks/bill")).json() == bill
    assert (await fleet.api.get("/v1/tasks/unheard")).status_code == 404
    page = (await fleet.api.get("/v1/tasks", params={"limit": 1})).json()
    assert page["nextCursor"] == "ancient"
    page = (await fleet.api.get("/v1/tasks", params={"limit": 2, "cursor": page["nextCursor"]})).json()
    assert ([task["task"] for task in page["items"]], page["nextCursor"]) == (["bill", "http"], None)
    await fleet.stop(old)


async def test_a_fleet_that_joins_writes_its_tasks_once(fleet, database):
    app = release()
    await asyncio.gather(*(Announcements(database).announce(app) for _ in range(20)))
    assert await fleet.sql.fetchval("SELECT count(*) FROM rota.announced_tasks") == 1
    before = await fleet.sql.fetchval("SELECT xmin::text FROM rota.announced_tasks")
    for _ in range(3):
        await fleet.start(app)
    assert await fleet.sql.fetchval("SELECT xmin::text FROM rota.announced_tasks") == before


async def test_submitting_asks_nothing_more_of_the_database(fleet, database, monkeypatch):
    await fleet.start(release(retries=0))
    await fleet.submit()
    asked = []
    fetch = database.fetch

    async def counted(name, **parameters):
        asked.append(name)
        return await fetch(name, **parameters)

    monkeypatch.setattr(database, "fetch", counted)
    for _ in range(20):
        await fleet.submit()
    assert len(asked) >= 20
    assert asked.count("announcements_of") < 10  # those of the service, which looks every two seconds


async def test_a_new_process_knows_the_tasks_at_its_first_submission(fleet, database, tmp_path):
    await fleet.start(release(retries=0))
    async with serving(database, tmp_path) as api:
        answer = await api.post("/v1/jobs", json=job(task="bill", payload={"customer": "a"}))
        assert (await api.get(f"/v1/jobs/{answer.json()['jobId']}")).json()["maxRetries"] == 0


async def test_a_server_that_listens_knows_a_new_release_in_a_moment(fleet, database, database_url, tmp_path):
    async with serving(database, tmp_path, listen_url=database_url) as api:
        tasks = api.services.gateway.tasks
        await eventually(lambda: tasks.pause_seconds > 4)
        assert (await api.post("/v1/jobs", json=job(task="bill", payload={}))).status_code == 201
        await fleet.start(release(retries=0))
        await eventually(lambda: tasks.find("default", "bill"), within=3)


async def test_poisoned_announcements_harm_no_other_task(fleet):
    good = release(retries=0).tasks["bill"]
    tasks = {
        "bill": good,
        "bad": AnnouncedTask(
            {"properties": {"x": {"type": 7, "enum": 3}}}, {"maxRetries": "many", "pool": 5, "tags": ["a"]}
        ),
    }
    await fleet.start(Application("default", "shop", "1", (), tasks), tasks=("bill", "bad", "worse"))
    await fleet.sql.execute(
        """UPDATE rota.announced_tasks
              SET tasks = (tasks::jsonb || '{"worse": [], "worst": {"defaults": 7}}'::jsonb)::json, digest = 'poison'"""
    )
    await fleet.sql.execute("UPDATE rota.workers SET announced = 'poison'")
    await fleet.look()
    assert await fleet.retries() == 0
    await fleet.submit(payload={}, status=400)
    for name in ("bad", "worse", "worst"):
        answer = await fleet.api.post("/v1/jobs", json=job(task=name, payload={"x": 1}))
        assert answer.status_code == 201, answer.text
    listed = (await fleet.api.get("/v1/tasks")).json()["items"]
    assert {"bill", "bad", "worse", "worst"} <= {task["task"] for task in listed}
    await fleet.sql.execute("UPDATE rota.announced_tasks SET tasks = '[1, 2]', digest = 'none'")
    await fleet.sql.execute("UPDATE rota.workers SET announced = 'none'")
    await fleet.look()
    assert await fleet.retries(payload={}) == 3


async def test_an_announcement_that_is_too_large_is_refused_by_the_database(fleet):
    with pytest.raises(asyncpg.CheckViolationError):
        await fleet.sql.execute(
            """INSERT INTO rota.announced_tasks (namespace, app, version, digest, tasks)
               VALUES ('default', 'shop', '1', 'd', json_build_object('a', repeat('x', 5000000)))"""
        )


@pytest.mark.parametrize("text", [r"\u0000", r"\ud800"])
async def test_an_announcement_that_the_database_could_not_look_into_is_refused_by_it(fleet, text):
    with pytest.raises(asyncpg.DataError):
        await fleet.sql.execute(
            """INSERT INTO rota.announced_tasks (namespace, app, version, digest, tasks)
               VALUES ('default', 'shop', '1', 'd', $1)""",
            '{"bill": {"description": "' + text + '"}}',
        )


async def test_tasks_of_releases_that_are_gone_for_a_week_are_forgotten(fleet):
    scheduler = await fleet.engine.leading()
    gone = await fleet.start(release("1"))
    await fleet.start(release("2"))
    await fleet.stop(gone)
    await fleet.sql.execute("UPDATE rota.announced_tasks SET seen_at = now() - interval '6 days'")
    await scheduler.sweeper.tick()
    assert await fleet.sql.fetchval("SELECT count(*) FROM rota.announced_tasks") == 2
    await fleet.sql.execute("UPDATE rota.announced_tasks SET seen_at = now() - interval '8 days'")
    await scheduler.sweeper.tick()
    assert await fleet.sql.fetchval("SELECT array_agg(version) FROM rota.announced_tasks") == ["2"]
    await scheduler.sweeper.tick()  # it is marked as seen by now
    assert await fleet.sql.fetchval("SELECT seen_at > now() - interval '1 hour' FROM rota.announced_tasks")


async def test_an_option_lifted_in_a_program_stays_lifted(fleet):
    app = rota.App("shop")

    @app.task(name="bill", retries=0, timeout="1m", pool="money")
    async def bill(customer: str) -> None: ...

    await fleet.start(describe_app(app, ("default",)))
    lifted = bill.with_options(timeout=None, retries=None, pool=None).call("a").finished().job
    answer = await fleet.api.post("/v1/jobs", content=msgspec.json.encode(lifted))
    made = (await fleet.api.get(f"/v1/jobs/{answer.json()['jobId']}")).json()
    assert (made["timeoutSeconds"], made["maxRetries"], made["pool"]) == (None, 3, "default")
