"""Every method of the client against the real API."""

from __future__ import annotations

import asyncio
import inspect
import json
import re
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from scripted import answer, answering, scripted

from engine import plain
from rota.api.routes import OPERATIONS
from rota.client import AnswerError, AsyncClient, Client, RateLimit, Retry, async_http
from rota.client.bodies import (
    _TIMES,
    BackfillFields,
    JobChanges,
    JobFields,
    JobFilters,
    NewJob,
    OperationChoice,
    ReplayChoice,
    RunChoice,
    RunFilters,
)
from rota.contract.jobs import BatchJobIn, JobIn, JobPatch
from rota.contract.operations import BackfillIn, OperationIn, ReplayIn
from rota.contract.runs import RunSelection
from rota.errors import BadInputError, SetupError
from rota.store.logs import Logs
from support import eventually, log_chunk

SOON = datetime.now(UTC) + timedelta(hours=1)
RUN, JOB, OPERATION = "run_" + "0" * 32, "job_" + "0" * 32, "op_" + "0" * 32


async def all_of(iterator):
    return [item async for item in iterator]


async def failed_run(engine, client, **fields):
    """A run that failed for good."""

    def break_down():
        raise ValueError("broken")

    run_id = (await client.submit("broken", task="break", max_retries=0, **fields)).run_id
    async with engine.running(engine.worker({"break": break_down})):
        await client.wait(run_id, timeout=120)
    return run_id


async def test_a_job_is_submitted_for_now_a_time_a_cron_expression_and_an_interval(client):
    now = await client.submit("now", task="rota.echo", payload={"a": [1]}, tags=["x"], pool="mail")
    later = await client.submit("later", task="rota.echo", at=SOON)
    cron = await client.submit("cron", task="rota.echo", cron="0 9 * * *", timezone="Europe/Berlin")
    every = await client.submit("every", task="rota.echo", every=timedelta(minutes=5))
    assert (now.status, later.status, cron.status, every.status) == ("queued", "scheduled", "scheduled", "scheduled")
    job = await client.job(now.job_id)
    assert (job.payload, job.tags, job.pool, job.schedule_type) == ({"a": [1]}, ["x"], "mail", "immediate")
    assert (await client.job(later.job_id)).schedule_time == SOON
    assert (await client.job(cron.job_id)).timezone == "Europe/Berlin"
    assert (await client.job(every.job_id)).every_seconds == 300


async def test_policies_are_given_as_structs(client):
    made = await client.submit(
        "limited",
        task="rota.echo",
        every=60,
        rate_limit=RateLimit(limit=5, per_seconds=10),
        retry=Retry(strategy="fixed", base_seconds=1),
        misfire="skip",
        priority=None,
    )
    job = await client.job(made.job_id)
    assert (job.rate_limit.limit, job.retry.strategy, job.misfire.policy) == (5, "fixed", "skip")


async def test_numbers_of_any_size_arrive(client):
    made = await client.submit("large", task="rota.echo", payload={"n": 10**30})
    assert (await client.call("GET", f"/v1/jobs/{made.job_id}"))["payload"] == {"n": 10**30}
    # Decoded into types, whole numbers of more than 64 bits become floats.
    assert (await client.job(made.job_id)).payload["n"] == pytest.approx(1e30)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"at": SOON, "every": 5}, "give one of at, after, cron and every"),
        ({"colour": "red"}, "there is no field"),
        ({"payload": {"x": object()}}, "can't be written as JSON"),
        ({"idempotency_key": "ü"}, "printable ASCII"),
    ],
)
async def test_what_can_not_be_sent_is_refused_here(client, fields, words):
    with pytest.raises(BadInputError, match=words):
        await client.submit("x", task="rota.echo", **fields)


async def test_a_key_of_the_callers_gets_the_first_answer(client):
    first = await client.submit("once", task="rota.echo", idempotency_key="k")
    assert await client.submit("once", task="rota.echo", idempotency_key="k") == first
    with pytest.raises(AnswerError) as refused:
        await client.submit("twice", task="rota.echo", idempotency_key="k")
    assert refused.value.status == 422


async def test_many_jobs_go_in_batches_and_come_back_in_order(client, monkeypatch):
    monkeypatch.setattr("rota.client.bodies.MOST_PER_BATCH", 3)
    jobs = [NewJob(name=f"n{number}", task="rota.echo", at=SOON) for number in range(7)]
    jobs[4] = NewJob(name="refused", task="rota.echo", cron="never")
    jobs[5] = JobIn(name="n5", schedule_type="immediate", task="rota.echo", payload=msgspec.Raw(b'{"a":1}'))
    results = await client.submit_many(iter(jobs))
    assert len(results) == 7
    assert results[4].error.status == 400
    assert [(await client.job(result.job_id)).name for result in results if result.job_id] == [
        "n0", "n1", "n2", "n3", "n5", "n6",
    ]  # fmt: skip


async def test_a_list_is_read_page_by_page(client):
    await client.submit_many(NewJob(name=f"n{number}", task="rota.echo", tags=["t"]) for number in range(7))
    await client.submit("other", task="rota.echo")
    assert [job.name for job in await all_of(client.jobs(tag="t", page_size=3))] == [f"n{n}" for n in range(6, -1, -1)]
    assert len(await all_of(client.runs(status=["queued", "running"], page_size=2))) == 8
    assert len(await all_of(client.runs(task="nothing"))) == 0
    assert len(await all_of(client.jobs(start_time=SOON))) == 0


async def test_a_job_is_changed_paused_run_resumed_and_cancelled(client):
    job_id = (await client.submit("tick", task="rota.echo", every=3600)).job_id
    changed = await client.change_job(job_id, if_match=1, every=1800, timeout_seconds=5)
    assert (changed.every_seconds, changed.timeout_seconds, changed.version) == (1800, 5, 2)
    assert (await client.change_job(job_id, timeout_seconds=None)).timeout_seconds is None
    with pytest.raises(AnswerError) as refused:
        await client.change_job(job_id, if_match=1, name="late")
    assert refused.value.status == 412
    assert (await client.pause_job(job_id)).status == "paused"
    assert (await client.resume_job(job_id)).status == "scheduled"
    started = await client.run_job(job_id)
    assert [run.run_id for run in await all_of(client.runs_of_job(job_id, page_size=1))] == [started.run_id]
    assert (await client.job_status(job_id)).run_id == started.run_id
    assert (await client.cancel_job(job_id)).status == "cancelled"


async def test_runs_are_cancelled_one_by_one_and_by_what_they_have_in_common(client):
    made = [await client.submit("x", task="rota.echo", tags=["t"]) for _ in range(3)]
    assert (await client.cancel_run(made[0].run_id)).status == "cancelled"
    assert await client.cancel_runs(tag="t") == 2
    assert (await client.run(made[2].run_id)).status == "cancelled"
    again = await client.retry_run(made[2].run_id)
    assert (await client.run(again.run_id)).retry_of == made[2].run_id


async def test_dead_letters_are_listed_redriven_and_discarded(client, engine):
    runs = [await failed_run(engine, client) for _ in range(2)]
    assert {letter.run_id for letter in await all_of(client.dead_letters(task="break", page_size=1))} == set(runs)
    ((group),) = await client.dead_letter_groups()
    assert (group.task, group.count, group.run_id) == ("break", 2, runs[1])
    assert await client.redrive(error="no such words") == 0
    assert await client.redrive(task="break", most=1) == 1
    assert await client.discard(task="break") == 1
    assert await client.redrive(everything=True) == 0


async def test_limits_are_set_lifted_and_listed(client):
    whole = await client.set_limits(jobs_per_second=1000, largest_batch=50)
    assert (whole.subject, whole.jobs_per_second, whole.job_burst, whole.largest_batch) == (None, 1000, 5000, 50)
    one = await client.set_limits("google-oauth2|1 7", requests_per_second=2, request_burst=7)
    assert (one.subject, one.requests_per_second, one.request_burst) == ("google-oauth2|1 7", 2, 7)
    assert (await client.set_limits("google-oauth2|1 7", requests_per_second=None)).requests_per_second is None
    found = [limits async for limits in client.limits(page_size=1)]
    assert [limits.subject for limits in found] == [None, "google-oauth2|1 7"]
    with pytest.raises(BadInputError, match="there is no field 'most_joy'"):
        await client.set_limits(most_joy=1)


async def test_pools_are_limited_paused_and_resumed_and_events_tell(client):
    assert (await client.limit_pool("mail", 5)).most_waiting == 5
    assert (await client.pause_pool("mail")).status == "paused"
    assert (await client.resume_pool("mail")).status == "open"
    assert [pool.pool for pool in await client.pools()] == ["mail"]
    assert [event.event for event in await all_of(client.events(page_size=1))] == ["pool.resumed", "pool.paused"]


async def test_the_fleet_the_server_and_previews(client, engine):
    await engine.leading()
    await engine.join(engine.broker(), "rota.echo")
    assert [worker.tasks for worker in await client.workers()] == [["rota.echo"]]
    assert len(await client.shards()) == 64
    assert await client.is_ready()
    assert await client.is_alive()
    preview = await client.preview("0 9 * * *", timezone="Europe/Berlin", count=2)
    assert len(preview.fire_times) == 2
    assert "09:00" in preview.description
    day = preview.fire_times[0].date()
    assert (await client.put_calendar("holidays", [day])).days == [day]
    without = await client.preview("0 9 * * *", timezone="Europe/Berlin", count=1, exclude_calendars=["holidays"])
    assert without.fire_times == preview.fire_times[1:]
    assert [item.number_of_days for item in await all_of(client.calendars(page_size=1))] == [1]
    assert (await client.delete_calendar("holidays")).name == "holidays"
    with pytest.raises(AnswerError) as gone:
        await client.calendar("holidays")
    assert gone.value.status == 404


async def test_logs_are_read_followed_searched_and_have_an_address_or_none(client, engine):
    made = await client.submit("speak", task="rota.echo")
    body = "2026-01-01T00:00:00.000Z stdout one\n2026-01-01T00:00:00.000Z stdout two\n"
    await Logs(engine.database).add([log_chunk(plain(made.run_id), body, last=True)])
    await client.cancel_run(made.run_id)
    assert [line.split(" ", 2)[2] for line in (await client.log(made.run_id)).splitlines()] == ["one", "two"]
    assert await client.job_log(made.job_id) == await client.log(made.run_id)
    assert [line.text for line in await all_of(client.follow_log(made.run_id))] == ["one", "two"]
    assert [line.text for line in await all_of(client.follow_job_log(made.job_id))] == ["one", "two"]
    assert [line.text for line in await all_of(client.search_logs("TWO", page_size=1))] == ["two"]
    for address in (client.log_url(made.run_id), client.job_log_url(made.job_id)):
        with pytest.raises(AnswerError) as refused:
            await address
        assert refused.value.status == 404


async def test_a_run_is_waited_for_with_its_result(client, engine):
    made = await client.submit("echo", task="rota.echo", payload={"a": 1})
    with pytest.raises(TimeoutError, match="has not ended after"):
        await client.wait(made.run_id, timeout=0.1)
    async with engine.running(engine.worker()):
        run = await client.wait(made.run_id)
    assert (run.status, run.result) == ("success", {"a": 1})


async def test_the_synchronous_client_does_the_same(synchronous, engine):
    def use(client):
        made = client.submit("echo", task="rota.echo", payload={"a": 1})
        results = client.submit_many([NewJob(name="x", task="rota.echo", at=SOON) for _ in range(5)])
        run = client.wait(made.run_id, timeout=120)
        listed = list(client.runs(page_size=2, end_time=SOON + timedelta(days=1)))
        cancelled = client.cancel_job(results[0].job_id)
        return run.result, len(listed), cancelled.status, client.is_ready(), list(client.follow_log(made.run_id))

    async with engine.running(engine.worker()):
        assert await asyncio.to_thread(use, synchronous) == ({"a": 1}, 6, "cancelled", True, [])


async def test_backfills_replays_and_bulk_acts(client, engine):
    past, end = datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 3, 4, tzinfo=UTC)
    made = await client.submit("daily", task="rota.echo", cron="0 2 * * *")
    preview = await client.preview_backfill(made.job_id, start=past, end=end)
    assert (preview.runs, len(preview.times)) == (3, 3)
    backfill = await client.backfill("daily", start=past, end=end, order="newest", concurrency=2)
    assert (await client.pause_backfill(backfill.operation_id)).status == "paused"
    assert (await client.resume_operation(backfill.operation_id)).status == "running"
    async with engine.running(engine.scheduler(), engine.worker()):

        async def over():
            found = await client.find_backfill(backfill.operation_id)
            return found.end_time and found

        assert (await eventually(over)).counts.success == 3
    assert (await client.preview_replay(task="rota.echo")).runs == 3
    replay = await client.replay(task="rota.echo", most=2)
    assert (await client.abort_replay(replay.operation_id)).status == "aborting"
    assert (await client.preview_operation("redrive", everything=True)).runs == 0
    assert (await client.operate("cancel", name="x")).kind == "cancel"
    assert [it.kind for it in await all_of(client.operations(page_size=2))] == ["cancel", "replay", "backfill"]
    assert len(await all_of(client.operations(kind="replay"))) == 1


def test_what_operations_are_given_is_what_the_contract_knows():
    assert BackfillFields.__annotations__.keys() == names_of(BackfillIn) - {"job", "workflow", "from_", "to", "preview"}
    assert ReplayChoice.__annotations__.keys() == names_of(ReplayIn) - {"preview"}
    assert OperationChoice.__annotations__.keys() == names_of(OperationIn) - {"preview", "kind", "all"}


# How each operation of the API is reached. Iterators are asked for their first item.
REACHED = {
    "submit": lambda client: client.submit("x", task="rota.echo"),
    "submit_batch": lambda client: client.submit_many([NewJob(name="x")]),
    "list_jobs": lambda client: client.jobs(),
    "get_job": lambda client: client.job(JOB),
    "change_job": lambda client: client.change_job(JOB, name="x"),
    "cancel_job": lambda client: client.cancel_job(JOB),
    "get_status": lambda client: client.job_status(JOB),
    "list_runs_of_job": lambda client: client.runs_of_job(JOB),
    "run_job": lambda client: client.run_job(JOB),
    "pause_job": lambda client: client.pause_job(JOB),
    "resume_job": lambda client: client.resume_job(JOB),
    "list_runs": lambda client: client.runs(),
    "cancel_runs": lambda client: client.cancel_runs(name="x"),
    "get_run": lambda client: client.run(RUN),
    "cancel_run": lambda client: client.cancel_run(RUN),
    "retry_run": lambda client: client.retry_run(RUN),
    "get_logs_of_run": lambda client: client.log(RUN),
    "get_logs_of_job": lambda client: client.job_log(JOB),
    "search_logs": lambda client: client.search_logs("x"),
    "list_dead_letters": lambda client: client.dead_letters(),
    "group_dead_letters": lambda client: client.dead_letter_groups(),
    "redrive": lambda client: client.redrive([RUN]),
    "discard": lambda client: client.discard([RUN]),
    "create_backfill": lambda client: client.backfill(JOB, start=SOON),
    "list_backfills": lambda client: client.backfills(),
    "get_backfill": lambda client: client.find_backfill(OPERATION),
    "pause_backfill": lambda client: client.pause_backfill(OPERATION),
    "resume_backfill": lambda client: client.resume_backfill(OPERATION),
    "abort_backfill": lambda client: client.abort_backfill(OPERATION),
    "create_replay": lambda client: client.replay(name="x"),
    "list_replays": lambda client: client.replays(),
    "get_replay": lambda client: client.find_replay(OPERATION),
    "pause_replay": lambda client: client.pause_replay(OPERATION),
    "resume_replay": lambda client: client.resume_replay(OPERATION),
    "abort_replay": lambda client: client.abort_replay(OPERATION),
    "create_operation": lambda client: client.operate("cancel", name="x"),
    "list_operations": lambda client: client.operations(),
    "get_operation": lambda client: client.operation(OPERATION),
    "pause_operation": lambda client: client.pause_operation(OPERATION),
    "resume_operation": lambda client: client.resume_operation(OPERATION),
    "abort_operation": lambda client: client.abort_operation(OPERATION),
    "list_schedules": lambda client: client.schedules(),
    "preview": lambda client: client.preview("* * * * *"),
    "list_pools": lambda client: client.pools(),
    "stats": lambda client: client.stats(),
    "change_pool": lambda client: client.limit_pool("x", 1),
    "pause_pool": lambda client: client.pause_pool("x"),
    "resume_pool": lambda client: client.resume_pool("x"),
    "list_calendars": lambda client: client.calendars(),
    "get_calendar": lambda client: client.calendar("holidays"),
    "put_calendar": lambda client: client.put_calendar("holidays", []),
    "delete_calendar": lambda client: client.delete_calendar("holidays"),
    "list_limits": lambda client: client.limits(),
    "change_limits": lambda client: client.set_limits(most_waiting=1),
    "change_limits_of": lambda client: client.set_limits("x", most_waiting=1),
    "create_key": lambda client: client.create_key("x", "viewer"),
    "list_keys": lambda client: client.api_keys(),
    "revoke_key": lambda client: client.revoke_key("key_x"),
    "who_am_i": lambda client: client.who_am_i(),
    "list_audit": lambda client: client.audit(),
    "list_events": lambda client: client.events(),
    "list_workers": lambda client: client.workers(),
    "list_tasks": lambda client: client.tasks(),
    "get_task": lambda client: client.task("x"),
    "task_stats": lambda client: client.task_stats("x"),
    "job_stats": lambda client: client.job_stats("job_x"),
    "stats_history": lambda client: client.stats_history("24h", pool="x"),
    "scale_pool": lambda client: client.pool_scale("x"),
    "list_shards": lambda client: client.shards(),
    "create_workflow": lambda client: client.create_workflow({"name": "x", "nodes": {}}),
    "list_workflows": lambda client: client.workflows(),
    "get_workflow": lambda client: client.workflow("x"),
    "change_workflow": lambda client: client.change_workflow("x", {"name": "x", "nodes": {}}),
    "delete_workflow": lambda client: client.delete_workflow("x"),
    "list_versions": lambda client: client.workflow_versions("x"),
    "run_workflow": lambda client: client.run_workflow("x"),
    "pause_workflow": lambda client: client.pause_workflow("x"),
    "resume_workflow": lambda client: client.resume_workflow("x"),
    "list_workflow_runs": lambda client: client.workflow_runs(),
    "get_workflow_run": lambda client: client.workflow_run("wfr_x"),
    "cancel_workflow_run": lambda client: client.cancel_workflow_run("wfr_x"),
    "resume_workflow_run": lambda client: client.resume_workflow_run("wfr_x"),
    "send_signal": lambda client: client.signal_workflow_run("wfr_x", "go"),
    "approve_node": lambda client: client.approve_node("wfr_x", "a"),
    "reject_node": lambda client: client.reject_node("wfr_x", "a"),
    "list_results": lambda client: client.member_results("wfr_x", "a"),
    "list_members": lambda client: client.members("wfr_x", "a"),
    "list_alerts": lambda client: client.alerts(),
    "list_alert_rules": lambda client: client.alert_rules(),
    "get_alert_rule": lambda client: client.alert_rule("x"),
    "put_alert_rule": lambda client: client.put_alert_rule("x", {"kind": "disk"}),
    "delete_alert_rule": lambda client: client.delete_alert_rule("x"),
    "test_alert_rule": lambda client: client.test_alert_rule("x"),
    "list_silences": lambda client: client.silences(),
    "create_silence": lambda client: client.silence(SOON, "x"),
    "end_silence": lambda client: client.end_silence("silence_x"),
    "list_destinations": lambda client: client.destinations(),
    "get_destination": lambda client: client.destination("x"),
    "put_destination": lambda client: client.put_destination("x", url="https://example.com"),
    "delete_destination": lambda client: client.delete_destination("x"),
    "rotate_destination": lambda client: client.rotate_destination("x"),
    "try_destination": lambda client: client.test_destination("x"),
    "list_deliveries": lambda client: client.deliveries("x"),
    "get_retention": lambda client: client.retention(),
    "put_retention": lambda client: client.put_retention({"logs": 30}),
    "list_archives": lambda client: client.archives(),
    "archive_now": lambda client: client.archive_now(),
    "restore_archive": lambda client: client.restore_archive("20200101"),
    "metrics": lambda client: client.metrics(),
    "healthz": lambda client: client.is_alive(),
    "readyz": lambda client: client.is_ready(),
}


FOR_BROWSERS = ("sign_in", "sign_out", "sign_in_page", "front_page")
FOR_PROGRAMS = [operation for operation in OPERATIONS if operation.handler.__name__ not in FOR_BROWSERS]


@pytest.mark.parametrize("operation", FOR_PROGRAMS, ids=lambda operation: f"{operation.method} {operation.path}")
async def test_every_operation_of_the_api_has_a_method(operation):
    with scripted(answering(answer(418, b'{"status": 418}'))) as server:
        async with AsyncClient(server.url, "") as client:
            called = REACHED[operation.handler.__name__](client)
            with suppress(AnswerError):
                await (called if inspect.isawaitable(called) else anext(called))
    (asked,) = server.heard
    assert asked.method == operation.method
    assert re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", operation.path), asked.path)


def test_both_faces_have_the_same_methods():
    def methods(kind):
        return {name: method for name, method in inspect.getmembers(kind, inspect.isfunction) if name[0] != "_"}

    ours, theirs = methods(AsyncClient), methods(Client)
    assert ours.keys() - {"aclose"} == theirs.keys() - {"close"}
    for name in ours.keys() & theirs.keys():
        assert inspect.signature(ours[name]).parameters.keys() == inspect.signature(theirs[name]).parameters.keys()


def names_of(struct):
    shorter = {long: short for short, long in _TIMES.items()}
    return {shorter.get(field.name, field.name) for field in msgspec.structs.fields(struct)}


def test_the_fields_of_a_job_are_those_of_the_contract():
    parameters = {"name", "task", "payload", "at", "after", "cron", "every"}
    assert JobFields.__annotations__.keys() == names_of(JobIn) - parameters - {"schedule_type"}
    assert NewJob.__annotations__.keys() == names_of(BatchJobIn) - {"schedule_type"}
    assert JobChanges.__annotations__.keys() == names_of(JobPatch) - {"schedule_type", "job_id"}
    assert RunChoice.__annotations__.keys() == names_of(RunSelection)
    for filters in (JobFilters, RunFilters):
        assert filters.__annotations__.keys() == names_of(RunSelection)


async def test_address_and_token_come_from_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("ROTA_HOME", str(tmp_path))
    monkeypatch.setenv("ROTA_PORT", "7777")
    monkeypatch.delenv("ROTA_URL", raising=False)
    monkeypatch.delenv("ROTA_TOKEN", raising=False)
    (tmp_path / "admin.token").write_text("secret\n")
    connect, meant = async_http.connect, []
    with scripted(answering(answer(200, b'{"status": "ok"}'))) as server:

        def connect_here(route, seconds):
            meant.append((route.host, route.port))
            return connect(route._replace(host="127.0.0.1", port=server.port), seconds)

        monkeypatch.setattr(async_http, "connect", connect_here)
        for url, token in ((None, None), ("http://elsewhere:1", None), ("http://elsewhere:1", "given")):
            async with AsyncClient(url, token) as client:
                assert await client.is_alive()
    assert meant == [("127.0.0.1", 7777), ("elsewhere", 1), ("elsewhere", 1)]
    sent = [(asked.headers["host"], asked.headers.get("authorization")) for asked in server.heard]
    assert sent == [("127.0.0.1:7777", "Bearer secret"), ("elsewhere:1", None), ("elsewhere:1", "Bearer given")]


NO_ADDRESSES = ["ftp://x", "http://", "http://x:99999", "http://x:0x1", "http://x y", "http://x/\r\n", "http://[::1"]


@pytest.mark.parametrize(
    ("url", "token"), [*((url, "") for url in NO_ADDRESSES), ("http://" + "ü" * 70, ""), ("http://x", "ü")]
)
def test_an_address_or_token_that_can_not_be_one_is_refused(url, token):
    with pytest.raises(SetupError):
        AsyncClient(url, token)


async def test_an_id_can_not_lead_elsewhere(client):
    with pytest.raises(AnswerError) as refused:
        await client.run("../workers")
    assert refused.value.status == 404


async def test_any_call_can_be_made_in_the_contracts_words(client):
    answer = await client.call("POST", "/v1/jobs", body={"name": "x", "scheduleType": "immediate", "task": "rota.echo"})
    assert json.dumps(answer)
    assert (await client.call("GET", "/v1/runs", query={"limit": 1, "status": None}))["items"][0]["name"] == "x"
