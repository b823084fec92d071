"""Connections of the caller's own: sessions, drivers, row factories and encodings."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import psycopg
import pytest
import sqlalchemy
import sqlalchemy.ext.asyncio
import sqlalchemy.orm
from psycopg.rows import class_row, scalar_row
from test_transactions import COUNT, to_sqlalchemy

from rota.errors import SetupError


def of_options(url):
    engine = sqlalchemy.create_engine(to_sqlalchemy(url, "psycopg"))
    return engine, sqlalchemy.orm.Session(engine.execution_options(isolation_level="AUTOCOMMIT"))


def of_connection(url):
    engine = sqlalchemy.create_engine(to_sqlalchemy(url, "psycopg"))
    session = sqlalchemy.orm.Session(engine)
    session.connection(execution_options={"isolation_level": "AUTOCOMMIT"})
    return engine, session


def of_engine(url):
    engine = sqlalchemy.create_engine(to_sqlalchemy(url, "psycopg"), isolation_level="AUTOCOMMIT")
    return engine, sqlalchemy.orm.Session(engine)


@pytest.mark.parametrize("opened", [of_options, of_connection, of_engine])
async def test_a_session_that_commits_each_statement_is_refused(send, sql, database_url, opened):
    def submit():
        engine, session = opened(database_url)
        try:
            with session, pytest.raises(SetupError, match="AUTOCOMMIT"):
                send.sync.within(session).submit(to="Ada")
        finally:
            engine.dispose()

    await asyncio.to_thread(submit)
    assert await sql.fetchval(COUNT) == 0


@pytest.mark.parametrize("way", ["options", "connection"])
async def test_an_async_session_that_commits_each_statement_is_refused(send, sql, database_url, way):
    engine = sqlalchemy.ext.asyncio.create_async_engine(to_sqlalchemy(database_url, "asyncpg"))
    autocommit = {"isolation_level": "AUTOCOMMIT"}
    used = engine.execution_options(**autocommit) if way == "options" else engine
    try:
        async with sqlalchemy.ext.asyncio.AsyncSession(used) as session:
            if way == "connection":
                await session.connection(execution_options=autocommit)
            with pytest.raises(SetupError, match="AUTOCOMMIT"):
                await send.within(session).submit(to="Ada")
    finally:
        await engine.dispose()
    assert await sql.fetchval(COUNT) == 0


@dataclass
class Row:
    answers: str


PSYCOPG = {
    "scalar rows": {"row_factory": scalar_row},
    "rows of a class": {"row_factory": class_row(Row)},
    "LATIN1": {"client_encoding": "LATIN1"},
    "SQL_ASCII": {"client_encoding": "SQL_ASCII"},
}


@pytest.mark.parametrize("options", PSYCOPG.values(), ids=PSYCOPG)
async def test_psycopg_connections_work_whatever_their_rows_and_encodings_are(send, engine, database_url, options):
    def submit():
        with psycopg.connect(database_url, **options) as connection:
            return send.sync.within(connection).submit(to="Ädä 😀")

    runs = [await asyncio.to_thread(submit)]
    async with await psycopg.AsyncConnection.connect(database_url, **options) as connection:
        runs.append(await send.within(connection).submit(to="Ädä 😀"))
    assert [(await engine.run(run.id))["payload"] for run in runs] == [{"to": "Ädä 😀"}] * 2
