"""What is refused: 4xx as a problem document, with the field named, and the database as it was before."""

import json
from datetime import timedelta

import httpx
import pytest

from rota.access.authorization import PUBLIC
from rota.api.routes import OPERATIONS
from support import job

TABLES = (
    "jobs",
    "upcoming_runs",
    "held_runs",
    "live_runs",
    "finished_runs",
    "attempts",
    "dead_letters",
    "payloads",
    "submission_keys",
)
DIGITS = "0" * 32
UNKNOWN_JOB = f"/v1/jobs/job_{DIGITS}"
UNKNOWN_RUN = f"/v1/runs/run_{DIGITS}"


async def contents(sql):
    """Every row of every table about jobs and runs."""
    return {table: await sql.fetch(f"SELECT t::text FROM rota.{table} AS t ORDER BY 1") for table in TABLES}


@pytest.fixture
async def waiting(api):
    """A recurring job, a future one and a queued run: something to be spared by what is refused."""
    jobs = [
        job(scheduleType="cron", cronExpression="0 9 * * *", payload={"days": 30}),
        job(scheduleType="future", scheduleTime="2090-01-01T00:00:00Z"),
        job(payload={"text": "x" * 3000}),
    ]
    return [(await api.post("/v1/jobs", json=body)).json()["jobId"] for body in jobs]


@pytest.fixture
async def refused(api, sql, waiting):
    """Sends a request that must be refused, and checks status, shape, field and that nothing was written."""

    async def send(method, path, *, status=400, field=None, **options):
        before = await contents(sql)
        answer = await api.request(method, path, **options)
        assert answer.status_code == status, answer.text
        assert answer.headers["content-type"] == "application/problem+json"
        problem = answer.json()
        assert problem["status"] == status
        assert problem["type"]
        assert problem["title"]
        assert problem["detail"]
        assert [error["field"] for error in problem.get("errors", [])] == ([field] if field else [])
        assert await contents(sql) == before
        return answer

    return send


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
async def test_malformed_json_is_refused(refused, body):
    await refused("POST", "/v1/jobs", content=body)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        pytest.param(without("name"), "name", id="no name"),
        pytest.param(without("scheduleType"), "scheduleType", id="no schedule type"),
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
        pytest.param(future(2_000_000_000), "scheduleTime", id="a number for a time"),
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
        pytest.param(job(schedule_time="2090-01-01T00:00:00Z"), "schedule_time", id="unknown field: snake case"),
        pytest.param(job(idempotencyKey="k"), "idempotencyKey", id="unknown field: a batch's own"),
    ],
)
async def test_a_bad_job_is_refused_with_its_field(refused, body, field):
    await refused("POST", "/v1/jobs", content=json.dumps(body), field=field)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("labels", {"a": "b"}),
        ("dependsOn", ["job_1"]),
    ],
)
async def test_a_field_of_a_later_feature_is_refused_and_never_silently_ignored(refused, field, value):
    await refused("POST", "/v1/jobs", json=job(**{field: value}), field=field)


CRON = {"scheduleType": "cron", "cronExpression": "0 9 * * *"}
INTERVAL = {"scheduleType": "interval", "everySeconds": 60}


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
        pytest.param({"rateLimit": {"count": 1}}, "rateLimit.count", id="an unknown field of a rate"),
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
async def test_a_bad_policy_is_refused_with_its_field(refused, fields, field):
    await refused("POST", "/v1/jobs", json=job(**fields), field=field)


@pytest.mark.parametrize("path", ["/v1/pools/a%2Fb/pause", "/v1/pools/%20/pause", "/v1/events?cursor=x"])
async def test_bad_pools_and_cursors_are_refused(api, path):
    answer = await api.request("GET" if "events" in path else "POST", path)
    assert answer.status_code in (400, 404), answer.text


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
async def test_a_bad_change_is_refused_with_its_field(refused, waiting, which, patch, field):
    await refused("PUT", f"/v1/jobs/{waiting[which]}", json=patch, field=field)


@pytest.mark.parametrize("version", ["one", '"x"', "", '"1", "2"', "-1"], ids=repr)
async def test_an_if_match_that_is_no_version_is_refused(refused, waiting, version):
    await refused(
        "PUT", f"/v1/jobs/{waiting[0]}", json={"name": "new"}, headers={"If-Match": version}, field="If-Match"
    )


@pytest.mark.parametrize("key", ["", "x" * 256, "a\tb"], ids=["empty", "too long", "a tab"])
async def test_an_idempotency_key_that_is_none_is_refused(refused, key):
    await refused("POST", "/v1/jobs", json=job(), headers={"Idempotency-Key": key}, field="Idempotency-Key")


async def test_a_future_time_less_than_a_minute_ago_runs_at_once(api, sql):
    moment = api.services.now - timedelta(seconds=50)
    answer = await api.post("/v1/jobs", json=future(moment.isoformat()))
    assert answer.status_code == 201
    assert answer.json()["status"] == "queued"
    assert await sql.fetchval("SELECT ready_at <= now() AND run_at = $1 FROM rota.live_runs", moment)


async def test_a_future_time_more_than_a_minute_ago_is_refused(api, refused):
    moment = api.services.now - timedelta(seconds=70)
    await refused("POST", "/v1/jobs", json=future(moment.isoformat()), field="scheduleTime")


OF_A_JOB = [("GET", ""), ("PUT", ""), ("DELETE", ""), ("GET", "/status"), ("GET", "/runs")]
OF_A_JOB += [("POST", "/run"), ("POST", "/pause"), ("POST", "/resume")]
OF_A_RUN = [("GET", ""), ("POST", "/cancel"), ("POST", "/retry")]


@pytest.mark.parametrize(
    "text",
    [f"run_{DIGITS}", DIGITS, "1", f"job_{DIGITS}0", f"job_{'F' * 32}", "job_00000000-0000-0000-0000-000000000000"],
)
async def test_an_id_that_is_no_job_id_is_refused_by_every_call(refused, text):
    for method, tail in OF_A_JOB:
        body = {"name": "new"} if method == "PUT" else None
        await refused(method, f"/v1/jobs/{text}{tail}", json=body, field="jobId")


@pytest.mark.parametrize("text", [f"job_{DIGITS}", DIGITS, "run_", "run_%00"])
async def test_an_id_that_is_no_run_id_is_refused_by_every_call(refused, text):
    for method, tail in OF_A_RUN:
        await refused(method, f"/v1/runs/{text}{tail}", field="runId")


@pytest.mark.parametrize(("method", "tail"), OF_A_JOB)
async def test_a_job_that_does_not_exist_is_not_found(refused, method, tail):
    body = {"name": "new"} if method == "PUT" else None
    await refused(method, f"{UNKNOWN_JOB}{tail}", json=body, status=404)


@pytest.mark.parametrize(("method", "tail"), OF_A_RUN)
async def test_a_run_that_does_not_exist_is_not_found(refused, method, tail):
    await refused(method, f"{UNKNOWN_RUN}{tail}", status=404)


@pytest.mark.parametrize(
    "authorization",
    [
        None,
        "",
        "Bearer",
        "Bearer ",
        "Bearer wrong",
        "Basic dGVzdDp0ZXN0",
        "test-token",
        "Bearer test-token2",
        "Bearer é",
    ],
    ids=repr,
)
async def test_without_the_token_nothing_is_answered(api, sql, authorization):
    headers = {} if authorization is None else {"Authorization": authorization.encode("latin-1")}
    async with httpx.AsyncClient(transport=api._transport, base_url="http://rota", headers=headers) as stranger:
        for operation in OPERATIONS:
            names = {"jobId": f"job_{DIGITS}", "runId": f"run_{DIGITS}", "keyId": f"key_{DIGITS}", "pool": "default"}
            names["subject"] = "somebody"
            path = operation.path.format(**names)
            answer = await stranger.request(operation.method, path, json=job() if operation.body else None)
            public = operation.needs == PUBLIC
            assert answer.status_code in (200, 400) if public else (answer.status_code == 401), answer.text
            if not public:
                assert answer.headers["content-type"] == "application/problem+json"
                assert answer.headers["www-authenticate"] == "Bearer"
    assert not any((await contents(sql)).values())


@pytest.mark.parametrize("path", ["/v1", "/v1/nothing", f"{UNKNOWN_JOB}/nothing", "/v2/jobs", "/v1/jobs/%2e%2e"])
async def test_an_unknown_path_is_not_found(api, path):
    answer = await api.get(path)
    assert answer.status_code in (400, 404)
    assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("DELETE", "/v1/jobs"),
        ("PATCH", UNKNOWN_JOB),
        ("GET", f"{UNKNOWN_JOB}/run"),
        ("PUT", UNKNOWN_RUN),
        ("POST", "/v1/workers"),
        ("POST", "/openapi.json"),
    ],
)
async def test_a_wrong_method_is_refused_saying_which_would_do(refused, method, path):
    answer = await refused(method, path, status=405)
    assert answer.headers["allow"]


@pytest.mark.parametrize("path", ["/v1/jobs", "/v1/runs"])
@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"limit": "0"}, "limit"),
        ({"limit": "501"}, "limit"),
        ({"limit": "-1"}, "limit"),
        ({"limit": "1.5"}, "limit"),
        ({"limit": "ten"}, "limit"),
        ({"limit": ""}, "limit"),
        ({"limit": "٣"}, "limit"),
        ({"limit": "9" * 5000}, "limit"),
        ({"cursor": ""}, "cursor"),
        ({"cursor": "x"}, "cursor"),
        ({"cursor": f"job_{DIGITS}"}, "cursor"),
        ({"cursor": DIGITS + "\n"}, "cursor"),
        ({"status": ""}, "status"),
        ({"status": "broken"}, "status"),
        ({"status": "queued,broken"}, "status"),
        ({"startTime": "yesterday"}, "startTime"),
        ({"startTime": "2026-01-01"}, "startTime"),
        ({"startTime": "2026-01-01T00:00:00"}, "startTime"),
        ({"endTime": "1767225600"}, "endTime"),
        ({"endTime": ""}, "endTime"),
        ({"sort": "name"}, "sort"),
        ({"Limit": "5"}, "Limit"),
    ],
    ids=lambda value: str(value)[:40],
)
async def test_a_bad_query_parameter_is_refused_with_its_name(api, path, query, field):
    answer = await api.get(path, params=query)
    assert answer.status_code == 400, answer.text
    assert [error["field"] for error in answer.json()["errors"]] == [field]


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", UNKNOWN_JOB), ("POST", "/v1/jobs"), ("GET", "/v1/workers"), ("GET", "/healthz"), ("DELETE", UNKNOWN_JOB)],
)
async def test_a_query_parameter_where_there_is_none_is_refused(refused, method, path):
    await refused(method, path, params={"force": "true"}, field="force")


async def _in_pieces(size):
    for _ in range(size // 65536):
        yield b" " * 65536


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(lambda: b" " * 12_000_000, id="announced"),
        pytest.param(lambda: _in_pieces(13_000_000), id="streamed"),
    ],
)
@pytest.mark.parametrize(("method", "path"), [("POST", "/v1/jobs"), ("PUT", UNKNOWN_JOB), ("POST", "/v1/runs/cancel")])
async def test_an_oversized_body_is_refused(refused, method, path, content):
    await refused(method, path, content=content(), status=413)


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("/v1/runs/cancel", {}, None),
        ("/v1/runs/cancel", {"status": "success"}, "status"),
        ("/v1/runs/cancel", {"status": ["queued"]}, "status"),
        ("/v1/runs/cancel", {"startTime": "2026-01-01T00:00:00"}, "startTime"),
        ("/v1/runs/cancel", {"runIds": []}, "runIds"),
        ("/v1/dead-letters/redrive", {}, None),
        ("/v1/dead-letters/redrive", {"runIds": [f"job_{DIGITS}"]}, "runIds[0]"),
        ("/v1/dead-letters/redrive", {"runIds": []}, "runIds"),
        ("/v1/dead-letters/discard", {"jobId": f"run_{DIGITS}"}, "jobId"),
        ("/v1/dead-letters/discard", {"runIds": [f"run_{DIGITS}"], "all": True}, "runIds"),
        ("/v1/dead-letters/discard", {"all": "yes"}, "all"),
    ],
    ids=json.dumps,
)
async def test_a_bad_selection_is_refused_with_its_field(refused, path, body, field):
    await refused("POST", path, json=body, field=field)


@pytest.mark.parametrize(
    "body",
    [b"", b"{}", b"null", b"[", b'[{"name": "a"}', b"[1,]"],
    ids=repr,
)
async def test_a_batch_that_is_no_array_is_refused(refused, body):
    await refused("POST", "/v1/jobs/batch", content=body)


async def test_a_batch_of_bad_items_only_writes_nothing(api, sql, waiting):
    before = await contents(sql)
    items = [1, None, [], {}, job(overlap="skip"), cron("0 0 30 2 *"), script("../x"), future("2001-01-01T00:00:00Z")]
    results = (await api.post("/v1/jobs/batch", json=items)).json()["results"]
    fields = [[error["field"] for error in result["error"].get("errors", [])] for result in results]
    named = [["name"], ["overlap"], ["cronExpression"], ["payload.script"], ["scheduleTime"]]
    assert fields == [[], [], [], *named]
    assert await contents(sql) == before
