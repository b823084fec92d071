"""Ids that submitters choose: unique in their namespace, and taken wherever an id is taken."""

import asyncio
from datetime import UTC, datetime
from uuid import UUID

import asyncpg
import pytest

from rota.domain.ids import new_id, show_job
from support import job

COUNT = "SELECT (SELECT count(*) FROM rota.runs) + (SELECT count(*) FROM rota.jobs)"
DAILY = {"scheduleType": "cron", "cronExpression": "0 9 * * *"}
LATER = {"scheduleType": "future", "scheduleTime": "2090-01-01T00:00:00Z"}
KINDS = pytest.mark.parametrize("schedule", [{}, LATER, DAILY], ids=["immediate", "future", "cron"])


async def submit(api, body, *, status=201, key=None):
    answer = await api.post("/v1/jobs", json=body, headers={"Idempotency-Key": key} if key else {})
    assert answer.status_code == status, answer.text
    return answer.json()


async def read(api, path, *, status=200, method="GET", **options):
    answer = await api.request(method, path, **options)
    assert answer.status_code == status, answer.text
    return answer.json()


@KINDS
async def test_a_job_has_the_id_that_was_chosen_for_it(api, schedule):
    answer = await submit(api, job(jobId="daily_report", **schedule))
    assert answer["jobId"] == "daily_report"
    assert (await read(api, "/v1/jobs/daily_report"))["jobId"] == "daily_report"
    assert (await read(api, "/v1/jobs/daily_report/status"))["jobId"] == "daily_report"
    assert [one["jobId"] for one in (await read(api, "/v1/jobs"))["items"]] == ["daily_report"]


@KINDS
async def test_a_second_job_with_the_same_id_is_refused(api, sql, schedule):
    await submit(api, job(jobId="daily_report", **schedule))
    problem = await submit(api, job(jobId="daily_report"), status=409)
    assert "daily_report" in problem["detail"]
    assert await sql.fetchval(COUNT) == 1


@KINDS
async def test_the_same_idempotency_key_gets_the_first_answer(api, sql, schedule):
    body = job(jobId="daily_report", **schedule)
    first = await submit(api, body, key="k")
    assert await submit(api, body, key="k") == first
    await submit(api, body, key="another", status=409)
    assert await submit(api, body, key="k") == first
    assert await sql.fetchval(COUNT) == 1


async def test_a_conflict_leaves_its_idempotency_key_free(api):
    await submit(api, job(jobId="daily_report"))
    await submit(api, job(jobId="daily_report"), key="k", status=409)
    assert (await submit(api, job(jobId="another"), key="k"))["jobId"] == "another"


async def test_a_job_that_its_key_keeps_out_takes_no_id(api):
    await submit(api, job(), key="k")
    await submit(api, job(jobId="daily_report"), key="k", status=422)
    await submit(api, job(jobId="daily_report"))


async def test_a_duplicate_of_a_unique_key_takes_no_id_and_names_the_chosen_id_of_the_other(api):
    unique = {"uniqueKey": "u", "onDuplicate": "keep", **LATER}
    await submit(api, job(jobId="first", **unique))
    kept = await submit(api, job(jobId="second", **unique), status=200)
    assert (kept["jobId"], kept["duplicate"]) == ("first", True)
    refused = await submit(api, job(uniqueKey="u", **LATER), status=409)
    assert "first has this uniqueKey" in refused["detail"]
    await submit(api, job(jobId="second"))


async def test_a_conflict_replaces_no_job_with_the_same_unique_key(api):
    waiting = await submit(api, job(uniqueKey="u", **LATER))
    await submit(api, job(jobId="taken"))
    await submit(api, job(jobId="taken", uniqueKey="u", onDuplicate="replace", **LATER), status=409)
    assert (await read(api, f"/v1/jobs/{waiting['jobId']}"))["status"] == "scheduled"


@KINDS
async def test_of_many_submissions_at_once_one_gets_the_id(api, sql, schedule):
    answers = await asyncio.gather(
        *(api.post("/v1/jobs", json=job(jobId="daily_report", **schedule)) for _ in range(20))
    )
    assert sorted(answer.status_code for answer in answers) == [201] + [409] * 19
    assert await sql.fetchval(COUNT) == 1


async def test_a_submission_waits_for_a_transaction_that_takes_the_same_id(api, sql, database_url):
    other = await asyncpg.connect(database_url)
    taken = "INSERT INTO rota.chosen_ids VALUES ('default', 'daily_report', gen_random_uuid())"
    begun = other.transaction()
    await begun.start()
    await other.execute(taken)
    first = asyncio.create_task(api.post("/v1/jobs", json=job(jobId="daily_report")))
    while not await sql.fetchval("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"):
        assert not first.done()
        await asyncio.sleep(0.01)
    await begun.commit()
    assert (await first).status_code == 409
    assert await sql.fetchval(COUNT) == 0
    await other.close()


async def test_in_a_batch_the_first_with_an_id_gets_it(api, sql):
    await submit(api, job(jobId="old"))
    wanted = [job(jobId="a"), job(), job(jobId="a"), job(jobId="old"), job(jobId="b", **DAILY)]
    results = (await read(api, "/v1/jobs/batch", method="POST", json=wanted))["results"]
    assert [one.get("jobId") for one in results[::2]] == ["a", None, "b"]
    assert [results[at]["error"]["status"] for at in (2, 3)] == [409, 409]
    assert await sql.fetchval(COUNT) == 4


async def test_namespaces_have_ids_of_their_own(api):
    await submit(api, job(jobId="daily_report"))
    other = {"Rota-Namespace": "other"}
    assert (await api.get("/v1/jobs/daily_report", headers=other)).status_code == 404
    answer = await api.post("/v1/jobs", json=job(jobId="daily_report"), headers=other)
    assert answer.status_code == 201


@pytest.mark.parametrize(
    "wrong",
    [
        "",
        "a b",
        "ä",
        "a/b",
        "x" * 201,
        "a\n",
        ".",
        "..",
        "batch",
        f"job_{'0' * 32}",
        f"run_{'0' * 32}",
        f"job_{'A' * 32}",
    ],
)
async def test_an_id_that_could_mean_something_else_is_refused(api, wrong):
    problem = await submit(api, job(jobId=wrong), status=400)
    assert [error["field"] for error in problem["errors"]] == ["jobId"]


@pytest.mark.parametrize("right", ["x", "x" * 200, "a.b:c-d_E9", "job_1", "batches", "-", "..."])
async def test_an_id_of_letters_digits_and_some_signs_is_accepted(api, right):
    await submit(api, job(jobId=right, **LATER))
    assert (await read(api, f"/v1/jobs/{right}"))["jobId"] == right
    assert (await read(api, f"/v1/jobs/{right}", method="DELETE"))["jobId"] == right


async def test_jobs_of_a_set_have_generated_ids(api):
    body = {"job": {"name": "x", "scheduleType": "immediate", "task": "t", "jobId": "daily"}, "payloads": [{}]}
    problem = await read(api, "/v1/jobs/batch", method="POST", json=body, status=400)
    assert [error["field"] for error in problem["errors"]] == ["job.jobId"]


async def test_every_call_about_a_schedule_takes_and_shows_its_chosen_id(api):
    await submit(api, job(jobId="tick", **DAILY))
    path = "/v1/jobs/tick"
    started = await read(api, f"{path}/run", method="POST", status=202)
    assert started["jobId"] == "tick"
    assert (await read(api, f"{path}/status"))["runId"] == started["runId"]
    assert [run["jobId"] for run in (await read(api, f"{path}/runs"))["items"]] == ["tick"]
    assert [run["jobId"] for run in (await read(api, "/v1/runs"))["items"]] == ["tick"]
    assert (await read(api, f"/v1/runs/{started['runId']}"))["jobId"] == "tick"
    assert (await read(api, f"{path}/pause", method="POST"))["jobId"] == "tick"
    assert (await read(api, f"{path}/resume", method="POST"))["jobId"] == "tick"
    changed = await read(api, path, method="PUT", json={"maxRetries": 7})
    assert (changed["jobId"], changed["maxRetries"]) == ("tick", 7)
    assert (await read(api, path))["jobId"] == "tick"
    assert (await api.get(f"{path}/logs")).status_code == 200
    preview = {"cronExpression": "H * * * *", "jobId": "tick"}
    assert (await read(api, "/v1/schedules/preview", method="POST", json=preview))["fireTimes"]
    assert (await read(api, path, method="DELETE"))["jobId"] == "tick"


async def test_every_call_about_a_job_that_runs_once_takes_and_shows_its_chosen_id(api):
    await submit(api, job(jobId="once", **LATER))
    path = "/v1/jobs/once"
    assert (await read(api, f"{path}/pause", method="POST"))["jobId"] == "once"
    assert (await read(api, f"{path}/resume", method="POST"))["jobId"] == "once"
    changed = await read(api, path, method="PUT", json={"priority": "high"})
    assert (changed["jobId"], changed["priority"]) == ("once", "high")
    assert (await read(api, path, method="DELETE"))["jobId"] == "once"
    assert (await read(api, f"{path}/run", method="POST", status=202))["jobId"] == "once"
    await submit(api, job(jobId="once"), status=409)


async def test_the_generated_id_of_a_job_finds_it_too_and_the_answer_has_the_chosen_one(api):
    run_id = (await submit(api, job(jobId="once", **LATER)))["runId"]
    path = run_id.replace("run_", "/v1/jobs/job_")
    assert (await read(api, path))["jobId"] == "once"
    assert (await read(api, f"{path}/status"))["jobId"] == "once"
    same = await read(api, path, method="PUT", json={"jobId": "once", "name": "new"})
    assert (same["jobId"], same["name"]) == ("once", "new")
    await submit(api, job(jobId="another", **LATER))
    for other in ("another", "nothing"):
        assert (await api.put(path, json={"jobId": other})).status_code == 400
    assert (await read(api, path, method="DELETE"))["jobId"] == "once"


READS = ("", "/status", "/runs", "/logs")
NOBODYS = ("nobody", "job_1", "job_" + "0" * 32, "ä b", "x" * 300, "job_" + "g" * 32)


@pytest.mark.parametrize("wanted", NOBODYS)
@pytest.mark.parametrize("what", READS)
async def test_a_job_that_is_not_there_is_not_found_whatever_its_id_looks_like(api, wanted, what):
    assert (await api.get(f"/v1/jobs/{wanted}{what}")).status_code == 404


@pytest.mark.parametrize("wanted", ["nobody", "run_1", "run_" + "0" * 32, "ä b"])
@pytest.mark.parametrize("what", ["", "/logs"])
async def test_a_run_that_is_not_there_is_not_found_whatever_its_id_looks_like(api, wanted, what):
    assert (await api.get(f"/v1/runs/{wanted}{what}")).status_code == 404


async def test_a_preview_tells_nothing_of_a_job_that_one_may_not_see(api, somebody):
    alice, bob = [await somebody("submitter", owner=name) for name in ("alice", "bob")]
    await submit(alice, job(jobId="tick", **DAILY))
    for text in ("tick", "nothing"):
        preview = {"cronExpression": "H * * * *", "jobId": text}
        expected = 200 if text == "tick" else 404
        for client, status in ((alice, expected), (api, expected), (bob, 404)):
            assert (await client.post("/v1/schedules/preview", json=preview)).status_code == status


async def test_generated_ids_leave_the_version_that_is_kept_for_cells_alone(api):
    # Decision 0028: version 7 is of the first database; in ids of version 8 some bits will say of which.
    moment = datetime(2090, 1, 1, tzinfo=UTC).timestamp()
    shown = [
        (await submit(api, job()))["jobId"],
        (await submit(api, job(**LATER)))["jobId"],
        (await submit(api, job(**DAILY)))["jobId"],
        *(show_job(UUID(int=one)) for one in new_id.series(moment, 100)),
    ]
    assert {one[len("job_") + 12] for one in shown} == {"7"}
