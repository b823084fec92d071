"""Jobs and changes that are refused: 400 as a problem document, with the field named."""

import json
from datetime import timedelta

import pytest

from support import job

pytestmark = pytest.mark.asyncio(loop_scope="module")
CRON = {"scheduleType": "cron", "cronExpression": "0 9 * * *"}
INTERVAL = {"scheduleType": "interval", "everySeconds": 60}


def cron(expression, **fields):
    return job(scheduleType="cron", cronExpression=expression, **fields)


def future(moment):
    return job(scheduleType="future", scheduleTime=moment)


def script(name, **fields):
    return {"name": "a script", "scheduleType": "immediate", "payload": {"script": name}} | fields


def without(field):
    body = job()
    del body[field]
    return body


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"{", id="cut off"),
        pytest.param(b"{'name': 'a'}", id="single quotes"),
        pytest.param(json.dumps(job()).encode() + b"x", id="something behind it"),
        pytest.param(b'{"name": NaN}', id="NaN"),
        pytest.param(b"[]", id="an array"),
        pytest.param(b'"job"', id="a string"),
        pytest.param(b"null", id="null"),
        pytest.param(b'{"name": "\xff\xfe", "scheduleType": "immediate", "task": "rota.echo"}', id="not UTF-8"),
        pytest.param(b'{"name": "\\ud800", "scheduleType": "immediate", "task": "rota.echo"}', id="half a surrogate"),
        pytest.param(b'{"payload": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", id="nested very deeply"),
    ],
)
async def test_malformed_json_is_refused(spared, body):
    await spared.refuses("POST", "/v1/jobs", content=body)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        pytest.param(without("task"), "task", id="no task"),
        pytest.param(job(name=5), "name", id="a number for a name"),
        pytest.param(job(name=None), "name", id="null for a name"),
        pytest.param(job(name=""), "name", id="an empty name"),
        pytest.param(job(name="x" * 201), "name", id="a name too long"),
        pytest.param(job(name="a\x00b"), "name", id="NUL in a name"),
        pytest.param(job(name="a\nb"), "name", id="a line break in a name"),
        pytest.param(job(scheduleType="weekly"), "scheduleType", id="an unknown schedule type"),
        pytest.param(job(task="no task"), "task", id="a blank in a task"),
        pytest.param(job(task="../task"), "task", id="a path for a task"),
        pytest.param(job(task=["rota.echo"]), "task", id="an array for a task"),
        pytest.param(job(task="shell"), "payload.command", id="a shell job without a command"),
        pytest.param(job(task="shell", payload={"command": " "}), "payload.command", id="an empty command"),
        pytest.param(job(task="http"), "payload.url", id="an HTTP job without an address"),
        pytest.param(job(pool=""), "pool", id="an empty pool"),
        pytest.param(job(pool="a/b"), "pool", id="a slash in a pool"),
        pytest.param(job(priority="urgent"), "priority", id="an unknown priority"),
        pytest.param(job(priority=1), "priority", id="a number for a priority"),
        pytest.param(job(tags="a"), "tags", id="a string for tags"),
        pytest.param(job(tags=["a", 1]), "tags[1]", id="a number for a tag"),
        pytest.param(job(tags=["a,b"]), "tags[0]", id="a comma in a tag"),
        pytest.param(job(tags=[""]), "tags[0]", id="an empty tag"),
        pytest.param(job(tags=["a"] * 51), "tags", id="too many tags"),
        pytest.param(job(maxRetries="3"), "maxRetries", id="a string for retries"),
        pytest.param(job(maxRetries=2.5), "maxRetries", id="half a retry"),
        pytest.param(job(maxRetries=True), "maxRetries", id="true for retries"),
        pytest.param(job(maxRetries=-1), "maxRetries", id="fewer than no retries"),
        pytest.param(job(maxRetries=10**30), "maxRetries", id="very many retries"),
        pytest.param(job(retry="linear"), "retry", id="a string for a retry policy"),
        pytest.param(job(retry={"strategy": "random"}), "retry.strategy", id="an unknown strategy"),
        pytest.param(job(retry={"factor": 3}), "retry.factor", id="an unknown field of a retry policy"),
        pytest.param(job(retry={"jitter": 1.1}), "retry.jitter", id="too much jitter"),
        pytest.param(job(retry={"baseSeconds": -1}), "retry.baseSeconds", id="a negative backoff"),
        pytest.param(job(payload=[]), "payload", id="an array for a payload"),
        pytest.param(job(payload="text"), "payload", id="a string for a payload"),
        pytest.param(job(payload={"text": "x" * 10 * 1024 * 1024}), "payload", id="a payload over the limit"),
        pytest.param(job(timezone=1), "timezone", id="a number for a zone"),
        pytest.param(cron("0 0 * * *", timezone="Nowhere"), "timezone", id="an unknown zone"),
        pytest.param(cron("0 0 * * *", timezone="../../etc/passwd"), "timezone", id="a path for a zone"),
        pytest.param(cron("0 0 30 2 *"), "cronExpression", id="a cron that never fires: 30 February"),
        pytest.param(cron("0 0 */31 * MON#5"), "cronExpression", id="a cron that never fires: a first that is a fifth"),
        pytest.param(cron("61 * * * *"), "cronExpression", id="minute 61"),
        pytest.param(cron("* * * *"), "cronExpression", id="four fields"),
        pytest.param(cron("@fortnightly"), "cronExpression", id="an unknown name"),
        pytest.param(cron("@every 90s"), "cronExpression", id="an interval for a cron"),
        pytest.param(cron(""), "cronExpression", id="an empty cron"),
        pytest.param(cron(5), "cronExpression", id="a number for a cron"),
        pytest.param(cron("1," * 10_000 + "1 * * * *"), "cronExpression", id="a cron too long"),
        pytest.param(job(scheduleType="cron"), "cronExpression", id="cron without an expression"),
        pytest.param(job(scheduleType="interval"), "everySeconds", id="interval without seconds"),
        pytest.param(job(scheduleType="future"), "scheduleTime", id="future without a time"),
        pytest.param(job(scheduleType="interval", everySeconds=0), "everySeconds", id="every 0 seconds"),
        pytest.param(job(scheduleType="interval", everySeconds=-5), "everySeconds", id="a negative interval"),
        pytest.param(job(scheduleType="interval", everySeconds=1e12), "everySeconds", id="an interval of ages"),
        pytest.param(job(scheduleType="interval", everySeconds="60"), "everySeconds", id="a string for seconds"),
        pytest.param(job(cronExpression="* * * * *"), "cronExpression", id="immediate with a cron"),
        pytest.param(cron("* * * * *", everySeconds=60), "everySeconds", id="cron with an interval"),
        pytest.param(job(scheduleTime="2090-01-01T00:00:00Z"), "scheduleTime", id="immediate with a time"),
        pytest.param(future("2090-01-01T00:00:00"), "scheduleTime", id="a time without an offset"),
        pytest.param(future("2090-01-01"), "scheduleTime", id="a date without a time"),
        pytest.param(future("tomorrow"), "scheduleTime", id="a word for a time"),
        pytest.param(future(2_000_000_000_000_000), "scheduleTime", id="microseconds for a time"),
        pytest.param(future(True), "scheduleTime", id="true for a time"),
        pytest.param(future("2000000000"), "scheduleTime", id="digits in quotes for a time"),
        pytest.param(future("2090-02-30T00:00:00Z"), "scheduleTime", id="a day that does not exist"),
        pytest.param(future("2001-01-01T00:00:00Z"), "scheduleTime", id="a time long past"),
        pytest.param(future("0001-01-01T00:00:00+14:00"), "scheduleTime", id="a time before all others"),
        pytest.param(future("9999-12-31T23:59:59-12:00"), "scheduleTime", id="a time after all others"),
        pytest.param(script("../x"), "payload.script", id="script: the directory above"),
        pytest.param(script("/etc/passwd"), "payload.script", id="script: an absolute path"),
        pytest.param(script("a/../../b"), "payload.script", id="script: out by a detour"),
        pytest.param(script(".."), "payload.script", id="script: the directory above itself"),
        pytest.param(script("./x"), "payload.script", id="script: a dot"),
        pytest.param(script("a//b"), "payload.script", id="script: an empty part"),
        pytest.param(script("a/"), "payload.script", id="script: a directory"),
        pytest.param(script("..\\x"), "payload.script", id="script: a backslash"),
        pytest.param(script("a\x00.py"), "payload.script", id="script: NUL"),
        pytest.param(script(""), "payload.script", id="script: an empty name"),
        pytest.param(script("x" * 256), "payload.script", id="script: a name too long"),
        pytest.param(script(5), "payload.script", id="script: a number"),
        pytest.param(script(None), "payload.script", id="script: null"),
        pytest.param(script(["a.py"]), "payload.script", id="script: an array"),
        pytest.param(script("../x", task="script"), "payload.script", id="script: with its task named"),
        pytest.param(job(task="script"), "payload.script", id="script: no payload"),
        pytest.param(job(owner="root"), "owner", id="unknown field: owner"),
        pytest.param(job(Name="a"), "Name", id="unknown field: another case"),
        pytest.param(job(Schedule_Time="2090-01-01T00:00:00Z"), "Schedule_Time", id="unknown field: a mixed case"),
        pytest.param(job(idempotencyKey="k"), "idempotencyKey", id="unknown field: a batch's own"),
    ],
)
async def test_a_bad_job_is_refused_with_its_field(spared, body, field):
    await spared.refuses("POST", "/v1/jobs", content=json.dumps(body), field=field)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("labels", {"a": "b"}),
        ("dependsOn", ["job_1"]),
    ],
)
async def test_a_field_of_a_later_feature_is_refused_and_never_silently_ignored(spared, field, value):
    await spared.refuses("POST", "/v1/jobs", json=job(**{field: value}), field=field)


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        pytest.param({"overlap": "skip"}, "overlap", id="overlap of a job that runs once"),
        pytest.param({"misfire": "skip"}, "misfire", id="misfire of a job that runs once"),
        pytest.param({"startTime": "2090-01-01T00:00:00Z"}, "startTime", id="start of a job that runs once"),
        pytest.param({"endTime": "2090-01-01T00:00:00Z"}, "endTime", id="end of a job that runs once"),
        pytest.param({"jitterSeconds": 5}, "jitterSeconds", id="jitter of a job that runs once"),
        pytest.param({"dst": "skip"}, "dst", id="clock changes of a job that runs once"),
        pytest.param(INTERVAL | {"dst": "skip"}, "dst", id="clock changes of an interval"),
        pytest.param(CRON | {"dst": "other"}, "dst", id="an unknown rule for clock changes"),
        pytest.param(CRON | {"overlap": "sometimes"}, "overlap", id="an unknown overlap"),
        pytest.param(CRON | {"misfire": "never"}, "misfire", id="an unknown misfire"),
        pytest.param(CRON | {"misfire": {"policy": "all", "cap": 0}}, "misfire.cap", id="a cap of nothing"),
        pytest.param(CRON | {"misfire": {"windowSeconds": -1}}, "misfire.windowSeconds", id="a negative window"),
        pytest.param(CRON | {"endTime": "2020-01-01T00:00:00Z"}, "endTime", id="an end in the past"),
        pytest.param(
            CRON | {"startTime": "2090-01-02T00:00:00Z", "endTime": "2090-01-01T00:00:00Z"}, "endTime", id="end first"
        ),
        pytest.param(CRON | {"startTime": "2090-01-01T00:00:00"}, "startTime", id="a start without an offset"),
        pytest.param(CRON | {"jitterSeconds": -1}, "jitterSeconds", id="negative jitter"),
        pytest.param(CRON | {"startTime": "0001-01-01T00:00:00+14:00"}, "startTime", id="a start before all time"),
        pytest.param(INTERVAL | {"startTime": "9999-12-31T23:59:59-12:00"}, "startTime", id="a start after all time"),
        pytest.param(CRON | {"endTime": "9999-12-31T23:59:59-12:00"}, "endTime", id="an end after all time"),
        pytest.param(CRON | {"timezone": ""}, "timezone", id="an empty zone"),
        pytest.param(CRON | {"timezone": "localtime"}, "timezone", id="the zone of the host"),
        pytest.param({"orderingKey": ""}, "orderingKey", id="an empty ordering key"),
        pytest.param({"orderingKey": "a\x00b"}, "orderingKey", id="a zero byte in a key"),
        pytest.param({"orderingKey": "x" * 256}, "orderingKey", id="a long key"),
        pytest.param({"orderingOnFailure": "release"}, "orderingOnFailure", id="letting go of no key"),
        pytest.param({"orderingKey": "a", "orderingOnFailure": "x"}, "orderingOnFailure", id="an unknown way"),
        pytest.param({"concurrencyKey": "a"}, "concurrencyLimit", id="a key without its limit"),
        pytest.param({"concurrencyLimit": 0}, "concurrencyLimit", id="a limit of nothing"),
        pytest.param({"concurrencyLimit": "2"}, "concurrencyLimit", id="a limit in quotes"),
        pytest.param({"rateLimit": {"limit": 1, "count": 1}}, "rateLimit.count", id="an unknown field of a rate"),
        pytest.param({"rateLimit": {"limit": 0}}, "rateLimit.limit", id="a rate of nothing"),
        pytest.param({"rateLimit": {"limit": 1, "perSeconds": 0}}, "rateLimit.perSeconds", id="per no time"),
        pytest.param({"rateLimit": {"limit": 1, "burst": 0}}, "rateLimit.burst", id="no burst at all"),
        pytest.param({"breaker": {"failures": 0}}, "breaker.failures", id="a breaker that is always open"),
        pytest.param({"breaker": {"key": ""}}, "breaker.key", id="a breaker with an empty key"),
        pytest.param({"breaker": {"cooldownSeconds": 0}}, "breaker.cooldownSeconds", id="no cool-down"),
        pytest.param({"onDuplicate": "keep"}, "onDuplicate", id="duplicates of no key"),
        pytest.param({"uniqueSeconds": 5}, "uniqueSeconds", id="a window of no key"),
        pytest.param({"uniqueKey": "a", "onDuplicate": "skip"}, "onDuplicate", id="an unknown way with duplicates"),
        pytest.param(CRON | {"uniqueKey": "a", "onDuplicate": "replace"}, "onDuplicate", id="replacing a schedule"),
    ],
)
async def test_a_bad_policy_is_refused_with_its_field(spared, fields, field):
    await spared.refuses("POST", "/v1/jobs", json=job(**fields), field=field)


@pytest.mark.parametrize(
    ("which", "patch", "field"),
    [
        pytest.param(0, {"status": "paused"}, "status", id="a field that is not the caller's"),
        pytest.param(0, {"scheduleType": "interval"}, "scheduleType", id="the kind of schedule"),
        pytest.param(0, {"cronExpression": "0 0 30 2 *"}, "cronExpression", id="a cron that never fires"),
        pytest.param(0, {"cronExpression": None}, "cronExpression", id="null for a cron"),
        pytest.param(0, {"cronExpression": "* * * * *", "everySeconds": 5}, "everySeconds", id="two schedules at once"),
        pytest.param(0, {"everySeconds": 0.1}, "everySeconds", id="too short an interval"),
        pytest.param(0, {"timezone": "Nowhere"}, "timezone", id="an unknown zone"),
        pytest.param(0, {"scheduleTime": "2091-01-01T00:00:00Z"}, "scheduleTime", id="a time for a recurring job"),
        pytest.param(0, {"payload": [1]}, "payload", id="an array for a payload"),
        pytest.param(0, {"payload": {"text": "x" * 10 * 1024 * 1024}}, "payload", id="a payload over the limit"),
        pytest.param(0, {"task": "script", "payload": {"script": "../x"}}, "payload.script", id="a script outside"),
        pytest.param(0, {"task": "script"}, "payload.script", id="a script task without a script"),
        pytest.param(0, {"priority": None}, "priority", id="null for a priority"),
        pytest.param(0, {"labels": {}}, "labels", id="a field of a later feature"),
        pytest.param(1, {"scheduleTime": "2001-01-01T00:00:00Z"}, "scheduleTime", id="a time long past"),
        pytest.param(1, {"scheduleTime": "2091-01-01T00:00:00"}, "scheduleTime", id="a time without an offset"),
        pytest.param(1, {"cronExpression": "* * * * *"}, "cronExpression", id="a cron for a one-shot"),
        pytest.param(1, {"everySeconds": 60}, "everySeconds", id="an interval for a one-shot"),
        pytest.param(1, {"timezone": "Europe/Berlin"}, "timezone", id="a zone for a one-shot"),
        pytest.param(2, {"name": ""}, "name", id="an empty name"),
    ],
)
async def test_a_bad_change_is_refused_with_its_field(spared, which, patch, field):
    await spared.refuses("PUT", f"/v1/jobs/{spared.job_ids[which]}", json=patch, field=field)


async def test_a_future_time_more_than_a_minute_ago_is_refused(spared):
    moment = spared.api.services.now - timedelta(seconds=70)
    await spared.refuses("POST", "/v1/jobs", json=future(moment.isoformat()), field="scheduleTime")


async def test_a_batch_of_bad_items_only_writes_nothing(spared):
    before = await spared.contents()
    items = [1, None, [], {}, job(overlap="skip"), cron("0 0 30 2 *"), script("../x"), future("2001-01-01T00:00:00Z")]
    results = (await spared.api.post("/v1/jobs/batch", json=items)).json()["results"]
    fields = [[error["field"] for error in result["error"].get("errors", [])] for result in results]
    named = [["task"], ["overlap"], ["cronExpression"], ["payload.script"], ["scheduleTime"]]
    assert fields == [[], [], [], *named]
    assert await spared.contents() == before
