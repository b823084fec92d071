"""Databases for tests: made by a role that may do no more than that, and gone afterwards."""

from __future__ import annotations

import asyncio
import threading
import time
from urllib.parse import urlsplit

import asyncpg
import pytest

from rota.errors import SetupError
from rota.testing import Databases, running_sync


@pytest.fixture
def url_of_a_plain_role(postgres):
    """A role of the server's that may create databases and nothing else."""
    ask(postgres.url("postgres"), "CREATE ROLE tester LOGIN CREATEDB")
    yield postgres.url("postgres").replace("rota@", "tester@")
    ask(postgres.url("postgres"), "DROP ROLE tester")


def ask(url, statement):
    async def fetch():
        connection = await asyncpg.connect(url)
        try:
            return await connection.fetch(statement)
        finally:
            await connection.close()

    return asyncio.run(fetch())


def test_a_role_that_may_create_databases_is_enough(url_of_a_plain_role, rota_app):
    databases = Databases(url_of_a_plain_role)
    databases.open()
    with databases.fresh() as first, databases.fresh() as second:
        with running_sync(rota_app, database_url=first) as kit:
            rota_app.tasks["kit_tasks.double"].sync.submit(2)
            assert [run.result for run in kit.run_until_idle()] == [4]
        with running_sync(rota_app, database_url=second) as kit:
            assert kit.submitted() == []
    databases.close()
    left = ask(url_of_a_plain_role, "SELECT datname FROM pg_database WHERE pg_get_userbyid(datdba) = 'tester'")
    assert left == []


def test_a_superusers_process_in_the_database_is_waited_for(postgres, url_of_a_plain_role):
    """Autovacuum's, for one: whoever is no superuser may not end it."""
    databases = Databases(url_of_a_plain_role)
    databases.open()
    with databases.fresh() as url:
        name = urlsplit(url).path[1:]
        linger = f"SELECT pg_sleep(1) FROM pg_database WHERE datname = '{name}'"
        lingering = threading.Thread(target=ask, args=(postgres.url(name), linger))
        lingering.start()
        inside = f"SELECT 1 FROM pg_stat_activity WHERE datname = '{name}' AND query LIKE '%pg_sleep(1)%'"
        while not ask(postgres.url("postgres"), inside):
            time.sleep(0.01)
    lingering.join()
    assert ask(url_of_a_plain_role, f"SELECT 1 FROM pg_database WHERE datname = '{name}'") == []
    databases.close()


def test_what_a_test_creates_lands_in_public(rota_database_url):
    ask(rota_database_url, "CREATE TABLE made_by_a_test (id integer)")
    (row,) = ask(rota_database_url, "SELECT schemaname FROM pg_tables WHERE tablename = 'made_by_a_test'")
    assert row["schemaname"] == "public"


def test_a_server_that_can_not_be_reached_is_told_as_that():
    databases = Databases("postgresql://nobody@127.0.0.1:9/none")
    with pytest.raises(SetupError, match="ROTA_TEST_DATABASE_URL"):
        databases.open()
    databases.close()
