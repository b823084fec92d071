"""Programs and people submit over HTTP while connections break: no job is lost, and none is made twice."""

from __future__ import annotations

import asyncio
import json
import re
from contextlib import contextmanager

import pytest
from typer.testing import CliRunner

import commands
import rota
from listening import TOKEN
from rota.cli.main import app as command_line
from rota.client import AnswerError, AsyncClient, Client, NewJob, retries
from support import eventually, in_time, job

WAITING = """
SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'
"""


@pytest.fixture
def quick(monkeypatch):
    """Pauses that a test can afford."""
    monkeypatch.setattr(retries, "FIRST_PAUSE_SECONDS", 0.001)
    monkeypatch.setattr(retries, "REFUSED_SECONDS", 0.001)


class Numbering(rota.Middleware):
    """Gives each submission a header of its own, as tracing does."""

    count = 0

    @contextmanager
    def submitting(self, call):
        Numbering.count += 1
        call.headers["trace"] = str(Numbering.count)
        yield


@pytest.fixture(params=["alike", "each with its own headers"])
async def shop(server, request):
    """Calls that are alike travel as sets; the others in arrays."""
    middleware = [] if request.param == "alike" else [Numbering()]
    app = rota.App("shop", url=server.url, token=TOKEN, middleware=middleware)

    @app.task(name="double")
    async def double(number: int) -> int:
        return 2 * number

    app.double = double
    yield app
    await app.close()


def calls(shop):
    return [shop.double.call(number) for number in range(3)]


def jobs():
    return [NewJob(name=f"n{number}", task="double", payload={"number": number}) for number in range(3)]


async def async_client(server):
    async with AsyncClient(server.url, TOKEN) as client:
        assert all(result.run_id for result in await client.submit_many(jobs()))


def sync_client(server):
    with Client(server.url, TOKEN) as client:
        assert all(result.run_id for result in client.submit_many(jobs()))


def command(server, home, *arguments):
    """What a command says, with its exit code."""
    environment = commands.environment(ROTA_URL=server.url, ROTA_TOKEN=TOKEN, ROTA_HOME=str(home), NO_COLOR="1")
    return CliRunner().invoke(command_line, arguments, env=environment)


# How three jobs are submitted.
WAYS = {
    "task.submit": lambda shop, _: asyncio.gather(*(shop.double.submit(number) for number in range(3))),
    "task.submit_many": lambda shop, _: shop.double.submit_many(calls(shop)),
    "task.sync.submit_many": lambda shop, _: asyncio.to_thread(shop.double.sync.submit_many, calls(shop)),
    "AsyncClient.submit_many": lambda _, server: async_client(server),
    "Client.submit_many": lambda _, server: asyncio.to_thread(sync_client, server),
}


async def end_waiting_sessions(sql):
    """Ends the sessions that wait for a lock; how many there were."""
    waiting = await sql.fetch(WAITING)
    for row in waiting:
        await sql.execute("SELECT pg_terminate_backend($1)", row["pid"])
    return len(waiting)


@pytest.mark.parametrize("way", WAYS)
async def test_a_submission_whose_database_connection_is_ended_is_repeated(shop, server, sql, quick, way):
    locked = sql.transaction()
    await locked.start()
    await sql.execute("LOCK TABLE rota.live_runs")
    submitting = asyncio.ensure_future(WAYS[way](shop, server))
    await eventually(lambda: end_waiting_sessions(sql))
    await locked.rollback()
    await in_time(submitting)
    assert await sql.fetchval("SELECT count(*) FROM rota.live_runs") == 3


async def test_a_file_whose_database_connection_is_ended_is_repeated(server, sql, quick, tmp_path):
    file = tmp_path / "jobs.ndjson"
    file.write_text("\n".join(json.dumps(job(name=f"n{number}")) for number in range(3)))
    locked = sql.transaction()
    await locked.start()
    await sql.execute("LOCK TABLE rota.live_runs")
    submitting = asyncio.create_task(asyncio.to_thread(command, server, tmp_path, "submit", "--file", str(file)))
    await eventually(lambda: end_waiting_sessions(sql))
    await locked.rollback()
    done = await in_time(submitting)
    assert done.exit_code == 0, done.stderr
    assert await sql.fetchval("SELECT count(*) FROM rota.live_runs") == 3


@pytest.fixture
def refusing(api, monkeypatch):
    """The database takes the jobs, but whoever submits is told that it did not answer, while `refusing.on`."""

    class Refusing:
        on = True

    submissions = api.services.gateway._submissions
    submit = submissions.submit

    async def submit_and_lose(items, *, due_by):
        fates = await submit(items, due_by=due_by)
        if Refusing.on:
            fates.rejected |= {item.id: rota.errors.DatabaseUnavailableError("gone") for item in items}
        return fates

    async def find_nothing(keys):
        return {} if Refusing.on else await find_keys(keys)

    find_keys = submissions.find_keys
    monkeypatch.setattr(submissions, "submit", submit_and_lose)
    monkeypatch.setattr(submissions, "find_keys", find_nothing)
    return Refusing


async def test_many_calls_that_are_given_up_can_be_repeated(shop, sql, quick, refusing):
    with pytest.raises(rota.NotAcceptedError, match="3 of 3 were not accepted") as lost:
        await shop.double.submit_many(calls(shop))
    refusing.on = False
    runs = await shop.double.submit_many(lost.value.to_repeat)
    assert len({run.id for run in runs}) == 3
    assert await sql.fetchval("SELECT count(*) FROM rota.live_runs") == 3


async def test_one_call_that_is_given_up_can_be_repeated_on_both_faces(shop, sql, quick, refusing):
    with pytest.raises(AnswerError) as lost:
        await shop.double.submit(1)
    with pytest.raises(AnswerError) as lost_too:
        await asyncio.to_thread(shop.double.sync.submit, 2)
    refusing.on = False
    (run,) = await shop.double.submit_many(lost.value.to_repeat)
    (other,) = await asyncio.to_thread(shop.double.sync.submit_many, lost_too.value.to_repeat)
    assert run.id != other.id
    assert await sql.fetchval("SELECT count(*) FROM rota.live_runs") == 2


async def test_a_command_that_is_given_up_names_the_key_to_repeat_it_with(server, sql, quick, refusing, tmp_path):
    call = ("submit", "once", "--task", "rota.echo")
    lost = await asyncio.to_thread(command, server, tmp_path, *call)
    assert lost.exit_code == 1
    key = re.search("--key ([0-9a-f]{32})", lost.stderr)
    refusing.on = False
    done = await asyncio.to_thread(command, server, tmp_path, *call, "--key", key[1])
    assert done.exit_code == 0, done.stderr
    assert await sql.fetchval("SELECT count(*) FROM rota.live_runs") == 1


async def test_a_call_that_is_submitted_twice_on_purpose_makes_two_jobs(shop, sql):
    call = shop.double.call(1)
    await shop.double.submit_many([call])
    await shop.double.submit_many([call])
    assert await sql.fetchval("SELECT count(*) FROM rota.live_runs") == 2


async def test_a_server_that_is_not_there_leaves_the_calls_with_their_keys(quick):
    app = rota.App(url="http://127.0.0.1:9", token="x", patience=0)  # noqa: S106 - no server listens there

    @app.task(name="work")
    async def work() -> None: ...

    with pytest.raises(rota.RotaError, match="no Rota server answers") as lost:
        await work.submit_many([work.call(), work.call()])
    keys = {call.finished().member for call in lost.value.to_repeat}
    assert len(keys) == 2
    assert None not in keys
    await app.close()


@pytest.mark.parametrize("where", ["app", "option", "call"])
async def test_a_producer_waits_for_as_long_as_it_wants(server, api, sql, quick, refusing, where, monkeypatch):
    monkeypatch.setattr(retries, "LONGEST_PAUSE_SECONDS", 0.01)
    app = rota.App(url=server.url, token=TOKEN, patience="5m" if where == "app" else 0)

    @app.task(name="work")
    async def work() -> None: ...

    asked = [0]
    gateway = api.services.gateway
    submit = gateway.submit_set

    async def count(wanted, caller):
        asked[0] += 1
        refusing.on = asked[0] <= 9
        return await submit(wanted, caller)

    monkeypatch.setattr(gateway, "submit_set", count)
    patient = work.with_options(patience="5m")
    if where == "app":
        await work.submit()
    elif where == "option":
        await patient.submit_many([work.call()])
    else:
        await asyncio.to_thread(work.sync.submit_many, [patient.call()])
    assert asked[0] == 10
    assert await sql.fetchval("SELECT count(*) FROM rota.live_runs") == 1
    await app.close()
