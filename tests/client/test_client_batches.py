"""Jobs of a batch that can't be taken now are sent again under their keys, and handed out with them in the end."""

from __future__ import annotations

import json

import pytest

from listening import TOKEN
from rota.client import AnswerError, AsyncClient, Client, NewJob, ServerUnreachableError, bodies, retries
from rota.client.http_messages import ConnectionLostError, HttpAnswer
from rota.errors import BadInputError

NAMES = "SELECT name FROM rota.live_runs ORDER BY name"
BUSY = {"type": "urn:rota:database-unavailable", "title": "Database unavailable", "status": 503, "detail": "not now"}
RESET = ConnectionLostError("reset", unanswered=True)


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Pauses that a test can afford."""
    monkeypatch.setattr(retries, "FIRST_PAUSE_SECONDS", 0.001)
    monkeypatch.setattr(retries, "LONGEST_PAUSE_SECONDS", 0.01)


class Hesitant:
    """Connections whose server answers jobs of these names with an error at first, written or not; then as it does."""

    def __init__(self, beyond, *names, status=503, times=1, arrives=False):
        self.beyond = beyond
        self.names, self.problem = names, BUSY | {"status": status}
        self.left = times
        self.arrives = arrives
        self.sent = []

    async def request(self, method, path, *, content=None, **options):
        if not path.endswith("/batch"):
            return await self.beyond.request(method, path, content=content, **options)
        jobs = json.loads(content)
        self.sent.append(jobs)
        refused = [job["name"] in self.names for job in jobs] if self.left else [False] * len(jobs)
        self.left -= bool(self.left)
        let = jobs if self.arrives else [job for job, no in zip(jobs, refused, strict=True) if not no]
        answer = await self.beyond.request(method, path, content=json.dumps(let).encode(), **options)
        answers = iter(json.loads(answer.content)["results"])
        results = []
        for no in refused:
            found = next(answers) if self.arrives or not no else None
            results.append({"error": self.problem} if no else found)
        return HttpAnswer(200, json.dumps({"results": results}).encode(), path, [])

    async def aclose(self):
        await self.beyond.aclose()


@pytest.fixture
def hesitant(server):
    """Clients whose server can't take some jobs at first."""

    def make(*names, options=None, **how):
        client = AsyncClient(server.url, TOKEN, **(options or {}))
        client._http = Hesitant(client._http, *names, **how)
        client.sent = client._http.sent
        return client

    return make


def jobs_of(*names):
    return [NewJob(name=name, task="rota.echo") for name in names]


@pytest.mark.parametrize("arrives", [False, True], ids=["not written", "written"])
@pytest.mark.parametrize("status", [429, 502, 503, 504])
async def test_what_can_not_be_taken_now_is_sent_again_under_its_key(hesitant, sql, status, arrives):
    async with hesitant("b", "d", status=status, arrives=arrives, times=2) as client:
        results = await client.submit_many(jobs_of("a", "b", "c", "d"))
    assert [[job["name"] for job in jobs] for jobs in client.sent] == [["a", "b", "c", "d"], ["b", "d"], ["b", "d"]]
    assert {job["idempotencyKey"] for job in client.sent[0]} >= {job["idempotencyKey"] for job in client.sent[1]}
    assert all(result.run_id and result.to_repeat is None for result in results)
    assert [row["name"] for row in await sql.fetch(NAMES)] == ["a", "b", "c", "d"]


async def test_other_refusals_of_jobs_are_final(hesitant):
    async with hesitant("b", status=422) as client:
        results = await client.submit_many(jobs_of("a", "b"))
    assert [result.error and result.error.status for result in results] == [None, 422]
    assert len(client.sent) == 1
    assert results[1].to_repeat is None


@pytest.mark.parametrize("arrives", [False, True], ids=["not written", "written"])
async def test_a_job_that_is_not_taken_in_time_comes_back_with_its_key(hesitant, sql, arrives):
    async with hesitant("b", times=2, arrives=arrives, options={"retries": 1}) as client:
        results = await client.submit_many(jobs_of("a", "b"))
        assert [result.error and result.error.status for result in results] == [None, 503]
        assert results[0].to_repeat is None
        (again,) = await client.submit_many([result.to_repeat for result in results if result.to_repeat])
    assert again.error is None
    assert [row["name"] for row in await sql.fetch(NAMES)] == ["a", "b"]


async def test_a_server_that_goes_away_meanwhile_leaves_the_answers_that_came(hesitant, monkeypatch):
    async with hesitant("b", options={"retries": 2}) as client:
        send = client._send

        async def send_once(*arguments, **options):
            if client.sent:
                raise ServerUnreachableError("gone")
            return await send(*arguments, **options)

        monkeypatch.setattr(client, "_send", send_once)
        results = await client.submit_many(jobs_of("a", "b"))
    assert [result.error and result.error.status for result in results] == [None, 503]
    assert results[1].to_repeat["name"] == "b"


async def test_when_no_answer_comes_the_error_has_what_was_answered_and_the_rest_with_keys(hesitant, sql, monkeypatch):
    monkeypatch.setattr(bodies, "MOST_PER_BATCH", 2)
    jobs = iter(jobs_of(*"abcdef"))
    async with hesitant(options={"retries": 0}) as client:
        request = client._http.request

        async def lose_the_second(*arguments, **options):
            answer = await request(*arguments, **options)
            if len(client.sent) == 2:
                raise RESET
            return answer

        monkeypatch.setattr(client._http, "request", lose_the_second)
        with pytest.raises(ServerUnreachableError) as lost:
            await client.submit_many(jobs)
        assert [bool(result.run_id) for result in lost.value.results] == [True, True]
        assert [job["name"] for job in lost.value.to_repeat] == ["c", "d", "e"]
        await client.submit_many([*lost.value.to_repeat, *jobs])
    assert [row["name"] for row in await sql.fetch(NAMES)] == list("abcdef")


UNAVAILABLE = HttpAnswer(503, json.dumps(BUSY).encode(), "/v1/jobs", [])


@pytest.mark.parametrize("failure", [RESET, UNAVAILABLE], ids=["reset", "unavailable"])
async def test_a_single_submission_that_is_given_up_can_be_repeated_with_its_key(server, sql, monkeypatch, failure):
    failures = [failure]
    async with AsyncClient(server.url, TOKEN, retries=0) as client:
        request = client._http.request

        async def lose_the_first(*arguments, **options):
            answer = await request(*arguments, **options)
            if not failures:
                return answer
            if isinstance(failure := failures.pop(), HttpAnswer):
                return failure
            raise failure

        monkeypatch.setattr(client._http, "request", lose_the_first)
        with pytest.raises((ServerUnreachableError, AnswerError)) as lost:
            await client.submit("once", task="rota.echo", payload={"a": 1})
        (job,) = lost.value.to_repeat
        made = await client.submit(**job)
        assert (await client.run(made.run_id)).payload == {"a": 1}
    assert await sql.fetchval("SELECT count(*) FROM rota.live_runs") == 1


async def test_what_is_refused_for_good_is_not_for_repeating(hesitant):
    async with hesitant() as client:
        with pytest.raises(AnswerError) as refused:
            await client.submit("x", task="rota.echo", cron="never")
    assert refused.value.to_repeat == ()


@pytest.mark.parametrize("where", ["client", "call"])
async def test_a_producer_can_wait_out_a_longer_outage(hesitant, where):
    options, given = ({"patience": "5m"}, {}) if where == "client" else ({}, {"patience": 300})
    async with hesitant("a", times=9, options=options) as client:
        (result,) = await client.submit_many(jobs_of("a"), **given)
    assert result.run_id
    assert len(client.sent) == 10


async def test_without_patience_there_are_as_many_tries_as_the_client_has(hesitant):
    async with hesitant("a", times=9) as client:
        (result,) = await client.submit_many(jobs_of("a"))
        assert (result.error.status, len(client.sent)) == (503, 1 + retries.RETRIES)
        (result,) = await client.submit_many(jobs_of("a"), patience=0)
        assert (result.error.status, len(client.sent)) == (503, 2 + retries.RETRIES)


@pytest.mark.parametrize("patience", ["soon", float("nan")])
async def test_a_patience_that_is_no_duration_is_refused(hesitant, patience):
    with pytest.raises(BadInputError, match="duration"):
        Client("http://rota", TOKEN, patience=patience)
    async with hesitant() as client:
        with pytest.raises(BadInputError, match="duration"):
            await client.submit("x", task="rota.echo", patience=patience)


def test_the_last_try_comes_at_the_end_of_the_time_that_is_given(monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(retries.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(retries, "LONGEST_PAUSE_SECONDS", 10.0)
    tries = retries.Tries(5, 30.0, repeatable=True, patience_seconds=60.0)
    while (pause := tries.pause_after_refusal()) is not None:
        now[0] += pause
    assert now[0] == pytest.approx(1060.0)
