"""A submission that may have arrived keeps its key, whatever the next answer is; each caller gets its own error."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter

import msgspec
import pytest

import rota
from listening import TOKEN
from rota.client import AnswerError, ServerUnreachableError, retries
from rota.client.answers import JobResult
from rota.contract.jobs import AcceptedJobs, BatchJobIn, JobSetOut, RefusedJobs
from rota.contract.problems import Problem
from rota.errors import BadInputError, RotaError
from rota.gateway import deliveries
from rota.gateway.deliveries import AsyncDelivery
from rota.gateway.protocol import JobTemplate, OutgoingJob, SetMember
from support import in_time

NO_SETS = "the body is not valid JSON: an array is expected"


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Pauses that a test can afford."""
    monkeypatch.setattr(retries, "FIRST_PAUSE_SECONDS", 0.001)
    monkeypatch.setattr(retries, "REFUSED_SECONDS", 0.001)
    monkeypatch.setattr(retries, "LONGEST_PAUSE_SECONDS", 0.01)


class Refusal:
    """What a server sends instead of an answer."""

    def __init__(self, status, detail="no"):
        kind = "urn:rota:bad-input" if status == 400 else "about:blank"
        body = json.dumps({"type": kind, "title": detail, "status": status, "detail": detail}).encode()
        self.bytes = (
            b"HTTP/1.1 %d No\r\nContent-Type: application/problem+json\r\nContent-Length: %d\r\n\r\n"
            % (status, len(body))
        ) + body


LOST, PASSED = object(), object()


class Way:
    """A way to the server on which the script says what becomes of each request: its answer is PASSED, or LOST after
    the server has done it, or is a refusal by somebody who did not ask the server."""

    def __init__(self, port):
        self._server_port = port
        self.script = []

    async def serve(self, reader, writer):
        there, back = await asyncio.open_connection("127.0.0.1", self._server_port)
        try:
            while request := await _message(reader):
                fate = self.script.pop(0) if self.script else PASSED
                if isinstance(fate, Refusal):
                    writer.write(fate.bytes)
                    continue
                back.write(request)
                answer = await _message(there)
                if fate is LOST:
                    break
                writer.write(answer)
        finally:
            writer.close()
            back.close()


async def _message(reader):
    """A whole request or answer; nothing at the end."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        return b""
    lines = [line.split(b":", 1) for line in head.lower().split(b"\r\n")]
    length = next((int(line[1]) for line in lines if line[0] == b"content-length"), 0)
    return head + await reader.readexactly(length)


@pytest.fixture
async def way(server):
    made = Way(server.port)
    listener = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    yield made
    listener.close()


@pytest.fixture
async def work(way):
    app = rota.App("shop", url=way.url, token=TOKEN)

    @app.task(name="work")
    async def work(number: int) -> None: ...

    yield work
    await app.close()


async def numbers(sql):
    """How often each number is a job."""
    rows = await sql.fetch("SELECT payload FROM rota.runs")
    return Counter(json.loads(row["payload"])["number"] for row in rows)


def three(work):
    return work.submit_many([work.call(number) for number in range(3)])


@pytest.mark.parametrize("fates", [[LOST], [PASSED, LOST]], ids=["new connection", "used connection"])
async def test_jobs_whose_answer_is_lost_are_not_made_again_because_a_limit_refuses_the_repeat(work, way, sql, fates):
    if len(fates) > 1:
        await work.submit(9)
    way.script = [LOST, Refusal(429, "too many")]
    runs = await in_time(three(work))
    assert {f"run_{row['id'].hex}" for row in await sql.fetch("SELECT id FROM rota.runs")} >= {run.id for run in runs}
    assert await numbers(sql) == Counter(range(3)) + Counter([9] * (len(fates) - 1))


async def test_a_call_whose_answer_is_lost_has_its_key_even_if_a_limit_refuses_the_repeats(work, way, sql):
    way.script = [LOST, *[Refusal(429)] * 20]
    with pytest.raises(AnswerError) as lost:
        await work.submit(1)
    way.script = []
    await work.submit_many(lost.value.to_repeat)
    assert await numbers(sql) == {1: 1}


async def test_jobs_whose_answer_is_lost_are_not_made_again_because_an_older_server_gets_the_repeat(work, way, sql):
    way.script = [LOST, Refusal(400, NO_SETS), Refusal(400, NO_SETS)]
    await in_time(three(work))
    assert await numbers(sql) == Counter(range(3))


async def test_jobs_that_only_older_servers_are_asked_for_again_keep_their_keys(work, way, sql):
    way.script = [LOST, *[Refusal(400, NO_SETS)] * 20]
    with pytest.raises(AnswerError) as lost:
        await in_time(three(work))
    way.script = []
    await work.submit_many(lost.value.to_repeat)
    assert await numbers(sql) == Counter(range(3))


@pytest.mark.parametrize("limit", [{"jobsPerSecond": 1000, "jobBurst": 4}, {"largestBatch": 4}], ids=str)
@pytest.mark.parametrize("shapes", [1, 32], ids=["as a set", "as an array"])
async def test_what_is_too_large_for_a_limit_goes_by_parts(somebody, api, server, sql, limit, shapes):
    answer = await api.put("/v1/limits", json=limit)
    assert answer.status_code == 200, answer.text
    sender = await somebody("submitter")
    app = rota.App(url=server.url, token=sender.key["key"])
    tasks = [app.task(name=f"work{number}")(_work) for number in range(shapes)]
    await in_time(asyncio.gather(*(tasks[number % shapes].submit(number) for number in range(32))))
    assert await numbers(sql) == Counter(range(32))
    await app.close()


async def _work(number: int) -> None: ...


async def test_who_may_not_replace_jobs_holds_up_nobody_else(somebody, server, sql):
    sender = await somebody("admin", scopes=["submit"])
    app = rota.App(url=server.url, token=sender.key["key"])
    work = app.task(name="work")(_work)
    replacing = work.with_options(unique_key="u", on_duplicate="replace")
    unique = [work.with_options(unique_key=f"own {number}") for number in range(4)]
    outcomes = await in_time(
        asyncio.gather(work.submit(0), *(one.submit(1) for one in unique), replacing.submit(2), return_exceptions=True)
    )
    assert [type(one).__name__ for one in outcomes] == ["Run"] * 5 + ["AnswerError"]
    assert await numbers(sql) == {0: 1, 1: 4}
    await app.close()


class Script:
    """A server as far as a delivery is concerned: each request has the next outcome."""

    def __init__(self, *outcomes):
        self._outcomes = list(outcomes)
        self.asked = []

    def tries(self, _patience=None):
        return retries.Tries(5, 1.0, repeatable=True)

    async def send_set(self, _job, payloads, key, _tries, positions=None):
        self.asked.append((key, list(payloads), positions))
        outcome = self._outcomes.pop(0)
        await asyncio.sleep(0)  # others are sent meanwhile
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


def job(number, task="work", member=None):
    template = JobTemplate(BatchJobIn(name=task, schedule_type="immediate", task=task))
    return OutgoingJob(template, b"%d" % number, member)


def accepted(position, count=1):
    return AcceptedJobs(
        position=position, count=count, job_id=f"job_{position:032x}", run_id=f"run_{position:032x}", status="queued"
    )


def refused(position, status):
    problem = Problem(type="about:blank", title="no", status=status, detail="no")
    return RefusedJobs(position=position, count=1, error=problem)


async def test_jobs_that_were_accepted_stay_so_when_the_server_is_lost_before_the_others_are():
    partly = JobSetOut(accepted=[accepted(0), accepted(2)], refused=[refused(1, 429)])
    script = Script(partly, ServerUnreachableError("gone"))
    jobs = [job(0), job(1), job(2)]
    first, second, third = await AsyncDelivery(script)._send(jobs, None)
    assert [first.run_id[-1], third.run_id[-1]] == ["0", "2"]
    assert isinstance(second, ServerUnreachableError)
    key = script.asked[1][0]
    assert [(one.payload, one.member) for one in second.to_repeat] == [(b"1", SetMember(key, 0))]


async def test_a_new_job_beside_a_repeated_one_keeps_the_key_that_it_was_sent_with():
    script = Script(JobSetOut(accepted=[accepted(5)], refused=[]), ServerUnreachableError("gone"))
    jobs = [job(0, member=SetMember("k", 5)), job(1)]
    first, second = await AsyncDelivery(script)._send(jobs, None)
    assert first.run_id[-1] == "5"
    assert [(one.payload, one.member) for one in second.to_repeat] == [(b"1", SetMember(script.asked[1][0], 0))]


async def test_a_repeated_job_gets_no_error_of_a_new_one_beside_it():
    problem = {"type": "urn:rota:bad-input", "title": "bad", "status": 400, "detail": "bad"}
    script = Script(JobSetOut(accepted=[accepted(5)], refused=[]), AnswerError(400, problem))
    first, second = await AsyncDelivery(script)._send([job(0, member=SetMember("k", 5)), job(1, "other")], None)
    assert first.run_id[-1] == "5"
    assert isinstance(second, BadInputError)


async def test_a_repeat_that_is_refused_for_now_can_be_repeated_again():
    again = job(0, member=SetMember("k", 5))
    script = Script(*[JobSetOut(accepted=[], refused=[refused(5, 503)])] * 6)
    (answer,) = await AsyncDelivery(script)._send([again], None)
    assert isinstance(answer, RotaError)
    assert list(answer.to_repeat) == [again]


@pytest.mark.parametrize(
    "said",
    [
        JobSetOut(accepted=[accepted(0)], refused=[]),
        JobSetOut(accepted=[accepted(0), accepted(1, 5)], refused=[]),
        JobSetOut(accepted=[accepted(0), accepted(-1)], refused=[]),
        JobSetOut(accepted=[accepted(0), accepted(1, 10**9)], refused=[]),
        JobSetOut(accepted=[accepted(0)], refused=[refused(7, 400)]),
        JobSetOut(accepted=[accepted(0), msgspec.structs.replace(accepted(1, 2), run_id="nothing known")], refused=[]),
    ],
    ids=["too few", "too many", "before the first", "far too many", "of others", "no ids"],
)
async def test_jobs_that_an_answer_leaves_out_can_be_repeated_with_their_key(said):
    script = Script(said)
    first, *others = await AsyncDelivery(script)._send([job(0), job(1), job(2)], None)
    assert first.run_id == f"run_{0:032x}"
    assert ["leaves out this job" in str(one) for one in others] == [True, True]
    assert others[0] is not others[1]  # each is raised elsewhere
    key = script.asked[0][0]
    assert [one.to_repeat[0].member for one in others] == [SetMember(key, 1), SetMember(key, 2)]


async def test_a_repeated_job_that_an_answer_leaves_out_can_be_repeated_again():
    again = job(0, member=SetMember("k", 5))
    (answer,) = await AsyncDelivery(Script(JobSetOut(accepted=[], refused=[])))._send([again], None)
    assert list(answer.to_repeat) == [again]


async def test_an_unexpected_error_of_one_part_is_raised_as_it_is():
    script = Script(RuntimeError("the client is closed"), RuntimeError("the client is closed"))
    with pytest.raises(RuntimeError, match="the client is closed"):
        await AsyncDelivery(script).submit([job(0, "one"), job(1, "other")])


async def test_when_one_part_is_refused_and_the_other_is_lost_each_job_has_its_own_error():
    script = Script(
        AnswerError(403, {"type": "about:blank", "title": "no", "status": 403, "detail": "no"}),
        ServerUnreachableError("gone"),
    )
    first, second = await AsyncDelivery(script).submit([job(0, "one"), job(1, "other")])
    assert (type(first), list(first.to_repeat)) == (AnswerError, [])
    assert [(one.payload, one.member) for one in second.to_repeat] == [(b"1", SetMember(script.asked[1][0], 0))]


async def test_a_server_that_was_replaced_is_asked_for_sets_again(monkeypatch):
    problem = {"type": "urn:rota:bad-input", "title": "no", "status": 400, "detail": NO_SETS}
    script = Script(AnswerError(400, problem), JobSetOut(accepted=[accepted(0)], refused=[]))

    async def submit_many(jobs, patience=None):
        return [JobResult(job_id=f"job_{0:032x}", run_id=f"run_{0:032x}", status="queued") for _ in jobs]

    script.submit_many = submit_many
    delivery = AsyncDelivery(script)
    for _ in range(2):  # an older one, which is not asked twice
        await delivery.submit([job(0)])
    assert len(script.asked) == 1
    later = time.monotonic() + deliveries._OLD_SERVER_SECONDS
    monkeypatch.setattr(deliveries.time, "monotonic", lambda: later)
    await delivery.submit([job(0)])
    assert len(script.asked) == 2
