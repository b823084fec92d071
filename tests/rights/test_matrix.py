"""Each operation, each role, own and other: from the table of operations, so that a new one without a line fails."""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from unittest import mock
from urllib.parse import urlsplit
from uuid import UUID

import pytest
import pytest_asyncio

import rota
from databases import cloned, pool_on
from engine import Engine
from rota.access.authorization import ANYONE, PUBLIC
from rota.api.routes import OPERATIONS
from rota.domain.application import AnnouncedTask, Application
from rota.domain.rights import Right
from rota.store.announce import Announcements
from rota.task.output import RunHandler
from serving import clients_of, serving
from support import job

# The least role for each operation. Written out here, not taken from the code: this is the promise.
LEAST = {
    "submit": "submitter",
    "submit_batch": "submitter",
    "list_jobs": "viewer",
    "get_job": "viewer",
    "change_job": "submitter",
    "cancel_job": "submitter",
    "get_status": "viewer",
    "list_runs_of_job": "viewer",
    "job_stats": "viewer",
    "run_job": "submitter",
    "pause_job": "submitter",
    "resume_job": "submitter",
    "list_runs": "viewer",
    "cancel_runs": "submitter",
    "get_run": "viewer",
    "cancel_run": "submitter",
    "retry_run": "submitter",
    "get_logs_of_run": "viewer",
    "get_logs_of_job": "viewer",
    "search_logs": "viewer",
    "list_dead_letters": "viewer",
    "group_dead_letters": "viewer",
    "redrive": "submitter",
    "discard": "submitter",
    "create_workflow": "submitter",
    "list_workflows": "viewer",
    "get_workflow": "viewer",
    "change_workflow": "submitter",
    "delete_workflow": "submitter",
    "list_versions": "viewer",
    "run_workflow": "submitter",
    "pause_workflow": "submitter",
    "resume_workflow": "submitter",
    "list_workflow_runs": "viewer",
    "get_workflow_run": "viewer",
    "cancel_workflow_run": "submitter",
    "resume_workflow_run": "submitter",
    "send_signal": "submitter",
    "approve_node": "operator",
    "reject_node": "operator",
    "list_members": "viewer",
    "list_results": "viewer",
    "create_backfill": "submitter",
    "list_backfills": "viewer",
    "get_backfill": "viewer",
    "pause_backfill": "submitter",
    "resume_backfill": "submitter",
    "abort_backfill": "submitter",
    "create_replay": "submitter",
    "list_replays": "viewer",
    "get_replay": "viewer",
    "pause_replay": "submitter",
    "resume_replay": "submitter",
    "abort_replay": "submitter",
    "create_operation": "submitter",
    "list_operations": "viewer",
    "get_operation": "viewer",
    "pause_operation": "submitter",
    "resume_operation": "submitter",
    "abort_operation": "submitter",
    "list_schedules": "viewer",
    "preview": "viewer",
    "get_retention": "viewer",
    "put_retention": "admin",
    "list_archives": "admin everywhere",
    "archive_now": "admin everywhere",
    "restore_archive": "admin everywhere",
    "list_calendars": "viewer",
    "get_calendar": "viewer",
    "put_calendar": "operator",
    "delete_calendar": "operator",
    "list_destinations": "operator",
    "get_destination": "operator",
    "put_destination": "operator",
    "delete_destination": "operator",
    "rotate_destination": "operator",
    "try_destination": "operator",
    "list_deliveries": "operator",
    "list_pools": "viewer",
    "scale_pool": "viewer",
    "change_pool": "operator",
    "pause_pool": "operator",
    "resume_pool": "operator",
    "list_limits": "operator",
    "change_limits": "admin everywhere",
    "change_limits_of": "admin",
    "list_events": "viewer",
    "list_alerts": "viewer",
    "list_alert_rules": "viewer",
    "get_alert_rule": "viewer",
    "put_alert_rule": "operator",
    "delete_alert_rule": "operator",
    "test_alert_rule": "operator",
    "list_silences": "viewer",
    "create_silence": "operator",
    "end_silence": "operator",
    "list_workers": "viewer",
    "list_tasks": "viewer",
    "get_task": "viewer",
    "task_stats": "viewer",
    "list_shards": "operator",
    "stats": "viewer",
    "stats_history": "viewer",
    "metrics": "operator",
    "healthz": PUBLIC,
    "readyz": PUBLIC,
    "create_key": "admin",
    "list_keys": "admin",
    "revoke_key": "admin",
    "sign_in": PUBLIC,
    "who_am_i": ANYONE,
    "sign_out": ANYONE,
    "sign_in_page": PUBLIC,
    "front_page": PUBLIC,
    "list_audit": "admin",
}
ROLES = ("viewer", "submitter", "operator", "admin")
REACHES_ALL = ("operator", "admin")
WORKFLOW = {
    "name": "new",
    "nodes": {
        "wait": {"wait": {"approval": True}},
        "each": {"task": "rota.echo", "map": {"items": []}},
    },
}
BODIES = {
    "create_workflow": WORKFLOW,
    "change_workflow": WORKFLOW,
    "run_workflow": {},
    "resume_workflow_run": {},
    "send_signal": {},
    "approve_node": {},
    "reject_node": {},
    "submit": job(),
    "submit_batch": [job()],
    "change_job": {"name": "renamed"},
    "cancel_runs": {"task": "rota.fail"},
    "redrive": {"all": True},
    "discard": {"all": True},
    "create_backfill": {"job": "hourly", "from": "2026-01-01T00:00:00Z", "to": "2026-01-01T03:00:00Z", "preview": True},
    "create_replay": {"task": "rota.fail"},
    "create_operation": {"kind": "cancel", "task": "rota.fail"},
    "preview": {"cronExpression": "@daily"},
    "put_calendar": {"days": ["2030-01-01"]},
    "put_destination": {"url": "https://example.com"},
    "put_retention": {"logs": 30},
    "restore_archive": {"days": 1},
    "change_pool": {"mostWaiting": 1000},
    "put_alert_rule": {"kind": "no_worker"},
    "create_silence": {"until": (datetime.now(UTC) + timedelta(days=1)).isoformat(), "reason": "maintenance"},
    "change_limits": {"mostWaiting": 1_000_000},
    "change_limits_of": {"mostWaiting": 1_000_000},
    "create_key": {"name": "new", "role": "admin", "scopes": ["administer"]},
    "sign_in": {"token": "wrong"},
}
# What is asked for is not there, or the role before took it away.
GONE = ("revoke_key", "delete_alert_rule", "end_silence", "delete_destination")
QUERIES = {"search_logs": {"search": "line of"}}
MISSING = "0" * 32
KINDS = {"backfills": "backfill", "replays": "replay", "operations": "cancel"}
CREATED = (
    "create_backfill",
    "create_replay",
    "create_operation",
    "create_workflow",
)  # each reaches what its caller may change
LISTS = (
    "list_jobs",
    "list_runs",
    "list_workflows",
    "list_workflow_runs",
    "search_logs",
    "list_dead_letters",
    "list_events",
)


def each(needed=None):
    """A test for each operation that `needed` fits."""
    chosen = [operation for operation in OPERATIONS if needed is None or needed(operation)]
    return pytest.mark.parametrize("operation", chosen, ids=lambda operation: operation.handler.__name__)


def about_jobs(operation):
    return LEAST[operation.handler.__name__] in ("viewer", "submitter")


class Belongings:
    """What one owner has: a job that waits, a failed run with a dead letter and a log, an event, a workflow and a run
    of it."""

    def __init__(self, owner, waiting, failed, workflow, flow):
        self.owner = owner
        self.waiting = waiting[4:]
        self.failed = failed[4:]
        self.workflow = workflow
        self.flow = flow

    @property
    def marks(self):
        """What must not be seen by others."""
        return (self.waiting, self.failed, f"line of {self.owner}", f"event of {self.owner}", f"flow of {self.owner}")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def furnished(postgres, tmp_path_factory):
    """What alice and bob have, and a database with it that each test gets a clone of."""

    def fail(context: rota.Context, owner: str):
        context.logger.warning("line of %s", owner)
        raise ValueError(f"line of {owner}")

    found = {}
    async with cloned(postgres) as url:
        async with pool_on(url) as database, serving(database, tmp_path_factory.mktemp("furnished")) as api:
            engine = Engine(database, url, api)
            with mock.patch.object(logging.getLogger("rota.task"), "handlers", [RunHandler()]):
                async with engine.running(engine.worker({"rota.fail": fail})), clients_of(api) as somebody:
                    await Announcements(database).announce(
                        Application("default", "shop", "1", (), {"tidy": AnnouncedTask()})
                    )
                    hook = {"url": "https://example.com"}
                    assert (await api.put("/v1/destinations/pager", json=hook)).status_code == 200
                    for owner in ("alice", "bob"):
                        found[owner] = await furnish(engine, await somebody("submitter", owner=owner), owner)
                    scheduler = await engine.leading()
                    await scheduler.conductor.catch_up()
                    await scheduler.member_maker.catch_up()
                    await scheduler.conductor.catch_up()
        yield urlsplit(url).path.lstrip("/"), found


async def furnish(engine, client, owner):
    later = job(scheduleType="future", delaySeconds=86400, task="rota.fail", payload={"owner": owner})
    waiting = (await client.post("/v1/jobs", json=later)).json()["jobId"]
    now = job(task="rota.fail", payload={"owner": owner}, maxRetries=0)
    failed = (await client.post("/v1/jobs", json=now)).json()["jobId"]
    await engine.until(f"run_{failed[4:]}", "failed")
    async with engine.database.raw() as sql:
        await sql.execute(
            "INSERT INTO rota.events (namespace, kind, subject, detail, owner) VALUES ('default', 'test', $1, $1, $2)",
            f"event of {owner}",
            owner,
        )
        await sql.execute(
            "INSERT INTO rota.calendars (namespace, name, revision, days, number_of_days, changed_by)"
            " VALUES ('default', 'holidays', gen_random_uuid(), '[]', 0, $1) ON CONFLICT DO NOTHING",
            owner,
        )
        hourly = job(name="hourly", scheduleType="cron", cronExpression="0 * * * *", excludeCalendars=["holidays"])
        assert (await client.post("/v1/jobs", json=hourly)).status_code == 201
        for of in (waiting[4:], failed[4:]):
            for path, kind in KINDS.items():
                await sql.execute(ADD_OPERATION, UUID(operation_of(of, path)), kind, owner)
    workflow = await client.post("/v1/workflows", json=WORKFLOW | {"name": f"flow of {owner}"})
    flow = await client.post(f"/v1/workflows/{workflow.json()['workflowId']}/run", json={})
    return Belongings(owner, waiting, failed, workflow.json()["workflowId"], flow.json()["workflowRunId"])


ADD_OPERATION = """
INSERT INTO rota.operations (namespace, id, kind, owner, shard, state, concurrency, filter, job_id, timetable, first_at,
                             last_at)
SELECT 'default', $1, $2, $3, 0, 'paused', 1, '{}', j.id,
       json_build_object('schedule_type', 'cron', 'cron_expression', '0 * * * *', 'every_seconds', NULL,
                         'timezone', 'UTC', 'anchor_at', now()), now(), now()
  FROM rota.jobs AS j WHERE j.owner = $3 AND j.name = 'hourly'"""


def operation_of(of, path):
    """The id of the operation of a kind that belongs to somebody's job or run."""
    return f"{of[:-1]}{[*KINDS].index(path):x}"


@pytest.fixture
async def database_url(postgres, furnished):
    template, _ = furnished
    async with cloned(postgres, template) as url:
        yield url


@pytest.fixture
def belongings(furnished):
    """What alice and bob have."""
    return furnished[1]


async def ask(client, operation, of=MISSING, whose=None, **options):
    """The operation about somebody's job and run, or workflow and workflow run."""
    name = operation.handler.__name__
    names = {"jobId": f"job_{of}", "runId": f"run_{of}", "keyId": f"key_{MISSING}", "pool": "default", "subject": "eve"}
    names |= {"calendar": "holidays", "destination": "pager", "rule": "no-worker", "silenceId": f"silence_{MISSING}"}
    names["day"] = "20200101"
    names |= {"task": "tidy", "node": "each" if operation.method == "GET" else "wait", "signal": "go"}
    names |= {"workflowId": f"wf_{MISSING}", "workflowRunId": f"wfr_{MISSING}"}
    kind = operation.path.split("/")[2] if operation.path.startswith("/v1/") else ""
    names["operationId"] = f"op_{operation_of(of, kind)}" if kind in KINDS else ""
    body = {"json": BODIES[name]} if operation.body else {}
    if whose is not None:
        names |= {"workflowId": whose.workflow, "workflowRunId": whose.flow}
        if name == "change_workflow":
            body = {"json": WORKFLOW | {"name": f"flow of {whose.owner}"}}
    path = operation.path.format(**names)
    return await client.request(operation.method, path, params=QUERIES.get(name), **body, **options)


async def all_of(sql, owner):
    """Everything in the database that is somebody's."""
    statements = (
        "SELECT id, place, status, name, cancel_requested FROM rota.runs WHERE owner = $1 ORDER BY id",
        "SELECT id, state, name FROM rota.jobs WHERE owner = $1 ORDER BY id",
        "SELECT id, name, version, state, revision FROM rota.workflows WHERE owner = $1 ORDER BY id",
        "SELECT id, generation, stop, outcome, is_paused FROM rota.workflow_runs WHERE owner = $1 ORDER BY id",
        "SELECT run_id FROM rota.dead_letters WHERE run_id IN (SELECT id FROM rota.runs WHERE owner = $1) ORDER BY 1",
    )
    return [[tuple(row) for row in await sql.fetch(statement, owner)] for statement in statements]


def has_object(operation):
    return any(
        name in operation.path for name in ("{jobId}", "{runId}", "{workflowId}", "{workflowRunId}", "{operationId}")
    )


def test_every_operation_has_a_line_here():
    assert {operation.handler.__name__ for operation in OPERATIONS} == LEAST.keys()
    assert all(operation.handler.__name__ in BODIES for operation in OPERATIONS if operation.body)


@each()
async def test_a_role_may_do_what_it_says_and_no_more(somebody, belongings, operation):
    least = LEAST[operation.handler.__name__]
    if least == "admin everywhere":
        answer = await ask(await somebody("admin", everywhere=True), operation)
        # The archive of that day is not there: who is told so was let in.
        assert answer.status_code == (404 if "{day}" in operation.path else operation.status)
        for role in ROLES:
            assert (await ask(await somebody(role), operation)).status_code == 403
        return
    for role in ROLES:
        client = await somebody(role)
        answer = await ask(client, operation, belongings["alice"].waiting, belongings["alice"])
        if least in (PUBLIC, ANYONE) or ROLES.index(role) >= ROLES.index(least):
            assert answer.status_code not in (403, 500), (role, answer.text)
            assert answer.status_code != 401 or operation.handler.__name__ == "sign_in"
            assert answer.status_code != 404 or operation.handler.__name__ in GONE
        else:
            assert answer.status_code == 403, (role, answer.text)
            assert "may not" in answer.json()["detail"]
    for right in Right if isinstance(operation.needs, Right) else ():
        client = await somebody("admin", scopes=[right.value])
        answer = await ask(client, operation, belongings["alice"].waiting, belongings["alice"])
        if right is operation.needs:
            assert answer.status_code != 403, answer.text
        else:
            assert answer.status_code == 403
            assert f"needs the scope '{operation.needs.value}'" in answer.json()["detail"]


@each()
async def test_what_is_anothers_is_not_there(somebody, belongings, sql, operation):
    """For those whose role does not reach it: not in lists, not by its id, not changed by what they do to theirs."""
    other, before = belongings["bob"], await all_of(sql, "bob")
    for role in ("viewer", "submitter"):
        if LEAST[operation.handler.__name__] not in (PUBLIC, ANYONE, "viewer", role):
            continue
        client = await somebody(role)
        for of in (other.waiting, other.failed):
            answer = await ask(client, operation, of, other)
            if has_object(operation):
                missing = await ask(client, operation)
                assert (answer.status_code, answer.text) == (404, missing.text)
            assert not any(mark in answer.text for mark in other.marks), answer.text
        assert await all_of(sql, "bob") == before


@each(about_jobs)
async def test_what_is_ones_own_is_there(somebody, belongings, operation):
    own, name = belongings["alice"], operation.handler.__name__
    client = await somebody("submitter")
    for of in (own.waiting, own.failed) if has_object(operation) else (MISSING,):
        answer = await ask(client, operation, of, own)
        assert answer.status_code in (200, 201, 202, 409), answer.text
    if name in LISTS:
        assert any(mark in answer.text for mark in own.marks), answer.text
    if name in ("cancel_runs", "redrive", "discard"):
        assert answer.json() == {"count": 1}


@each(about_jobs)
async def test_operators_and_those_who_see_all_reach_what_is_anothers(somebody, belongings, operation):
    clients = [await somebody("operator")]
    if operation.needs is Right.READ:
        clients.append(await somebody("viewer", sees="all"))
    for client in clients:
        answer = await ask(client, operation, belongings["bob"].waiting, belongings["bob"])
        assert answer.status_code in (200, 201, 202, 409), answer.text
        if operation.handler.__name__ in LISTS:
            assert any(mark in answer.text for mark in belongings["bob"].marks), answer.text
            assert any(mark in answer.text for mark in belongings["alice"].marks), answer.text


@each(lambda operation: operation.needs is Right.CHANGE)
async def test_seeing_all_is_not_touching_all(somebody, belongings, sql, operation):
    client = await somebody("submitter", sees="all")
    before = await all_of(sql, "bob")
    answer = await ask(client, operation, belongings["bob"].waiting, belongings["bob"])
    if operation.handler.__name__ in CREATED:
        assert answer.status_code in (200, 201)  # of their own
    else:
        assert answer.status_code == 404 if has_object(operation) else answer.json() == {"count": 1}
    assert await all_of(sql, "bob") == before


@each(lambda operation: isinstance(operation.needs, Right))
async def test_another_namespace_is_closed(somebody, belongings, operation):
    """Whether it is there or not: nobody can tell."""
    for client in (await somebody("admin", owner="eve", namespace="other"), await somebody("admin", owner="eve")):
        own = client.key["namespace"]
        strange = {"other": "default", "default": "other"}[own]
        answer = await ask(
            client, operation, belongings["bob"].waiting, belongings["bob"], headers={"Rota-Namespace": strange}
        )
        assert (answer.status_code, answer.json()["detail"]) == (403, f"you have no role in namespace '{strange}'")
        if own == "other" and has_object(operation):
            answer = await ask(client, operation, belongings["bob"].waiting, belongings["bob"])
            assert (answer.status_code, answer.text) == (404, (await ask(client, operation)).text)
        elif own == "other":
            answer = await ask(client, operation)
            assert not any(mark in answer.text for mark in belongings["bob"].marks)
