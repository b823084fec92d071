"""One poisoned item in a batch statement fails alone; a lost connection orphans nothing."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qs, urlsplit

import pytest

from engine import plain, report
from rota.domain.run import Outcome
from rota.errors import DatabaseUnavailableError
from rota.store.postgres.database import Database
from support import eventually, job

# A constraint that only the poisoned item violates stands for whatever data the database may refuse.
POISON = "ALTER TABLE rota.{table} ADD CHECK (name <> 'poison') NOT VALID"


async def test_a_poisoned_submission_fails_alone(engine, sql):
    await sql.execute(POISON.format(table="live_runs"))
    names = [f"fine {number}" for number in range(20)]
    names.insert(7, "poison")
    answers = await asyncio.gather(*(engine.api.post("/v1/jobs", json=job(name=name)) for name in names))
    statuses = {name: answer.status_code for name, answer in zip(names, answers, strict=True)}
    assert statuses.pop("poison") == 422
    assert set(statuses.values()) == {201}
    assert await sql.fetchval("SELECT count(*) FROM rota.live_runs") == 20


async def test_a_poisoned_item_of_a_batch_call_has_its_own_error(engine, sql):
    await sql.execute(POISON.format(table="live_runs"))
    items = [job(name=name) for name in ("one", "poison", "two")]
    results = (await engine.api.post("/v1/jobs/batch", json=items)).json()["results"]
    assert ["error" in result for result in results] == [False, True, False]


async def test_a_poisoned_run_is_buried_and_the_others_are_promoted(engine, sql):
    soon = (datetime.now(UTC) + timedelta(seconds=4)).isoformat()
    fine = [await engine.submit(scheduleType="future", scheduleTime=soon) for _ in range(5)]
    bad = await engine.submit(name="poison", scheduleType="future", scheduleTime=soon)
    await sql.execute(POISON.format(table="live_runs"))
    scheduler = await engine.leading()

    async def promoted():
        await scheduler.leases.tick()
        return await scheduler.promoter.tick()

    await eventually(promoted)
    assert {(await engine.run(run_id))["status"] for run_id in fine} == {"queued"}
    run = await engine.run(bad)
    assert run["status"] == "failed"
    assert "could not be promoted" in run["error"]


async def test_a_poisoned_report_fails_alone(engine, sql):
    runs = [await engine.submit() for _ in range(5)]
    broker = engine.broker()
    await engine.join(broker)
    claims = await broker.claim(5)
    poisoned = claims[2]
    reports = [report(claim, result='"\x00"' if claim is poisoned else '"fine"') for claim in claims]
    answer = await broker.report(reports)
    assert set(answer.rejected) == {poisoned.number}
    assert await sql.fetchval("SELECT count(*) FROM rota.finished_runs") == 4
    assert len(runs) == 5
    failed = [report(claim, Outcome.failed, error="\x00" if claim is poisoned else "e") for claim in claims[2:]]
    assert set((await broker.report(failed)).rejected) == {poisoned.number}


async def test_a_result_that_can_not_be_stored_fails_its_run_with_words(engine, sql):
    await sql.execute("ALTER TABLE rota.finished_runs ADD CHECK (result <> '\"poison\"') NOT VALID")

    async def speak(word: str):
        return word

    fine = [await engine.submit(task="speak", payload={"word": "fine"}) for _ in range(5)]
    bad = await engine.submit(task="speak", payload={"word": "poison"}, maxRetries=0)
    async with engine.running(engine.worker({"speak": speak})):
        run = await engine.until(bad, "failed")
        for run_id in fine:
            await engine.until(run_id, "success")
    assert "could not be stored" in run["error"]


async def test_a_report_for_a_day_without_a_partition_makes_it_and_goes_on(engine, sql):
    run_id = await engine.submit(
        scheduleType="future", scheduleTime=(datetime.now(UTC) + timedelta(days=400)).isoformat()
    )
    assert (await engine.api.post(f"/v1/runs/{run_id}/cancel")).status_code == 202
    assert (await engine.run(run_id))["status"] == "cancelled"
    later = await engine.submit(
        scheduleType="future",
        scheduleTime=(datetime.now(UTC) + timedelta(days=500)).isoformat(),
        task="rota.fail",
        maxRetries=0,
    )
    now = datetime.now(UTC).isoformat()
    assert (await engine.api.put(f"/v1/jobs/job_{later[4:]}", json={"scheduleTime": now})).status_code == 200
    async with engine.running(engine.worker()):
        await engine.until(later, "failed")


class Proxy:
    """Stands between a client and PostgreSQL; on request it cuts the line when the next answer comes."""

    def __init__(self, database_url: str) -> None:
        parts = urlsplit(database_url)
        self._socket = parse_qs(parts.query)["host"][0] + "/.s.PGSQL.5432"
        self._database = parts.path
        self._lose = False
        self.lost = 0

    @asynccontextmanager
    async def listening(self):
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        yield f"postgresql://rota@127.0.0.1:{port}{self._database}?sslmode=disable"
        server.close()

    def lose_next_answer(self) -> None:
        self._lose = True

    async def _connected(self, reader, writer):
        to_reader, to_writer = await asyncio.open_unix_connection(self._socket)
        await asyncio.gather(
            self._pump(reader, to_writer, is_answer=False), self._pump(to_reader, writer, is_answer=True)
        )

    async def _pump(self, reader, writer, *, is_answer):
        with suppress(ConnectionError):
            while data := await reader.read(65536):
                # An answer that ends with ReadyForQuery (idle) comes after the commit.
                if is_answer and self._lose and data.endswith(b"Z\x00\x00\x00\x05I"):
                    self._lose = False
                    self.lost += 1
                    break
                writer.write(data)
                await writer.drain()
        writer.close()


@pytest.fixture
async def cut(database_url):
    """A pool whose next answer can be lost: (database, proxy)."""
    proxy = Proxy(database_url)
    async with proxy.listening() as url:
        database = await Database.connect(url, size=2)
        yield database, proxy
        await database.close()


async def test_a_claim_whose_answer_was_lost_is_given_back_uncharged(engine, sql, cut):
    database, proxy = cut
    broker = engine.broker(database=database)
    await engine.join(broker)
    assert await broker.claim(1) == []  # the statement is prepared: the next exchange is the claim itself
    run_id = await engine.submit()
    proxy.lose_next_answer()
    with pytest.raises(DatabaseUnavailableError):
        await broker.claim(1)
    assert proxy.lost == 1
    assert await sql.fetchval("SELECT worker_id FROM rota.live_runs") is not None, "the claim was committed"
    assert await broker.reconcile(frozenset()) == 1
    assert await sql.fetchval("SELECT worker_id FROM rota.live_runs") is None
    (claim,) = await broker.claim(1)
    assert (claim.run_id, claim.attempt) == (plain(run_id), 0)


async def test_a_worker_whose_claim_was_cut_runs_it_all_the_same(engine, cut):
    database, proxy = cut
    worker = engine.worker(broker=engine.broker(database=database))
    async with engine.running(worker):
        warm = await engine.submit()
        await engine.until(warm, "success")
        claim = worker._broker.claim

        async def claim_and_lose(room):
            proxy.lose_next_answer()
            worker._broker.claim = claim
            return await claim(room)

        worker._broker.claim = claim_and_lose
        run_id = await engine.submit()
        run = await engine.until(run_id, "success")
    assert proxy.lost == 1
    assert (run["attempt"], run["attempts"]) == (1, [])


async def test_a_report_whose_answer_was_lost_is_repeated_and_recorded_once(engine, sql, cut):
    database, proxy = cut
    worker = engine.worker(broker=engine.broker(database=database))
    async with engine.running(worker):
        warm = await engine.submit()
        await engine.until(warm, "success")
        told = worker._broker.report

        async def report_and_lose(reports):
            proxy.lose_next_answer()
            worker._broker.report = told
            return await told(reports)

        worker._broker.report = report_and_lose
        run_id = await engine.submit()
        await engine.until(run_id, "success")
        await eventually(lambda: not worker.slots.reporting)
    assert proxy.lost == 1
    assert worker.slots.reporter.fenced == 0, "a repeat is 'recorded', not fenced"
    assert await sql.fetchval("SELECT count(*) FROM rota.finished_runs") == 2
