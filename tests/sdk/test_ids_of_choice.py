"""Ids that programs choose for their jobs."""

from __future__ import annotations

import asyncio

import asyncpg
import psycopg
import pytest

import rota
from rota.contract.jobs import JobIn
from rota.domain.rights import Caller
from rota.errors import BadInputError, ConflictError, SetupError

COUNT = "SELECT (SELECT count(*) FROM rota.runs) + (SELECT count(*) FROM rota.jobs)"


async def test_a_job_has_the_id_of_its_options(send, engine, sql):
    run = await send.with_options(job_id="welcome-17").submit(to="Ada")
    assert run.job_id == "welcome-17"
    assert (await engine.run(run.id))["jobId"] == "welcome-17"
    with pytest.raises(ConflictError, match="welcome-17"):
        await send.with_options(job_id="welcome-17").submit(to="Ada")
    schedule = await send.cron("@daily").with_options(job_id="daily").submit(to="everybody")
    assert schedule.id == "daily"
    assert await sql.fetchval(COUNT) == 2


async def test_the_same_idempotency_key_gets_the_first_run(send, sql):
    again = send.with_options(job_id="welcome-17", idempotency_key="k")
    assert [(await again.submit(to="Ada")).id for _ in range(2)] == [(await again.submit(to="Ada")).id] * 2
    assert await sql.fetchval(COUNT) == 1


async def test_a_task_sees_the_chosen_id_of_its_job(app, engine):
    @app.task(name="look")
    async def look(context: rota.Context) -> str:
        return context.job_id

    async with engine.running(engine.worker({"look": look.function})):
        run = await look.with_options(job_id="welcome-17").submit()
        assert await run.result(timeout=60) == "welcome-17"


async def test_a_job_of_a_transaction_has_its_id_once_it_is_committed(send, sql, database_url):
    chosen = send.with_options(job_id="welcome-17")
    connection = await asyncpg.connect(database_url)
    transaction = connection.transaction()
    await transaction.start()
    assert (await chosen.within(connection).submit(to="Ada")).job_id == "welcome-17"
    with pytest.raises(ConflictError):
        await chosen.within(connection).submit(to="Ada")
    await transaction.rollback()
    async with connection.transaction():
        await chosen.within(connection).submit(to="Ada")
        await send.cron("@daily").with_options(job_id="daily").within(connection).submit(to="everybody")
    await connection.close()
    with pytest.raises(ConflictError):
        await chosen.submit(to="Ada")
    assert await sql.fetchval(COUNT) == 2


async def test_a_transaction_of_code_that_can_not_await_has_chosen_ids_too(send, sql, database_url):
    def submit():
        with psycopg.connect(database_url) as connection, connection.transaction():
            return send.sync.with_options(job_id="welcome-17").within(connection).submit(to="Ada").job_id

    assert await asyncio.to_thread(submit) == "welcome-17"
    assert await sql.fetchval("SELECT chosen_id FROM rota.chosen_ids") == "welcome-17"


async def test_of_transactions_at_the_same_time_one_gets_the_id(send, sql, database_url):
    async def submit():
        connection = await asyncpg.connect(database_url)
        try:
            async with connection.transaction():
                return await send.with_options(job_id="welcome-17").within(connection).submit(to="Ada")
        except ConflictError as error:
            return error
        finally:
            await connection.close()

    made = await asyncio.gather(*(submit() for _ in range(8)))
    assert sum(isinstance(one, ConflictError) for one in made) == 7
    assert await sql.fetchval(COUNT) == 1


async def test_a_schema_that_does_not_know_chosen_ids_is_named(send, sql, database_url):
    await sql.execute("DROP FUNCTION rota.submit_v2")
    async with sql.transaction():
        with pytest.raises(SetupError, match="rota migrate"):
            await send.with_options(job_id="welcome-17").within(sql).submit(to="Ada")
        await send.within(sql).submit(to="Ada")


async def test_a_declared_schedule_is_identified_by_its_name(engine):
    wanted = JobIn(name="tick", task="tick", schedule_type="interval", every_seconds=60, job_id="tick")
    with pytest.raises(BadInputError, match="by its name"):
        engine.api.services.gateway.job_builder.declared(wanted, Caller("default", "tester"), "app")
