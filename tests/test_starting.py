"""Processes that start before PostgreSQL takes them: they wait where that helps, and say why."""

from __future__ import annotations

import asyncio

import pytest
from structlog.testing import capture_logs

import commands
from gated_server import gated
from rota import compose
from rota.compose import open_database
from rota.errors import DatabaseUnavailableError, SetupError
from rota.settings import Settings
from rota.store.postgres.database import Database
from support import eventually, free_port, in_time

RECOVERING = ("57P03", "the database system is starting up")
FULL = ("53300", "sorry, too many clients already")


@pytest.fixture
async def gate(database_url):
    async with gated(database_url) as gate:
        yield gate


def settings(url: str, tmp_path) -> Settings:
    return Settings(home=tmp_path, database_url=url)


@pytest.mark.parametrize("refusal", [RECOVERING, FULL])
async def test_a_start_waits_for_a_server_that_has_no_room_yet_and_says_so_once(gate, tmp_path, refusal, monkeypatch):
    monkeypatch.setattr(compose, "_LONGEST_PAUSE_SECONDS", 0.2)
    gate.shut(*refusal)

    async def start() -> int:
        async with open_database(settings(gate.url, tmp_path), size=1, name="test", patient=True) as database:
            return await database.fetch_value("read_constants")

    with capture_logs() as logs:
        starting = asyncio.create_task(start())
        await eventually(lambda: gate.refused >= 3)
        gate.open()
        assert await in_time(starting) == 64
    said = [(entry["event"], entry.get("reason")) for entry in logs if entry["component"] == "starting"]
    assert said == [("waiting for PostgreSQL", f"connect: {refusal[1]}"), ("PostgreSQL answers", None)]


async def test_a_server_that_is_lost_again_between_two_steps_of_a_start_is_waited_for(gate, tmp_path, monkeypatch):
    monkeypatch.setattr(compose, "_LONGEST_PAUSE_SECONDS", 0.2)
    lost = 0

    async def bring_up_to_date(_database):
        nonlocal lost
        lost += 1
        if lost < 3:
            raise DatabaseUnavailableError("transaction: the database system is shutting down")

    monkeypatch.setattr(compose, "bring_up_to_date", bring_up_to_date)
    async with open_database(settings(gate.url, tmp_path), size=1, name="test", patient=True):
        assert lost == 3


@pytest.mark.parametrize(
    "refusal",
    [
        ("28P01", 'password authentication failed for user "rota"'),
        ("3D000", 'database "nowhere" does not exist'),
        ("42501", 'permission denied for database "rota"'),
        ("08P01", "server login failed: FATAL password authentication failed"),  # as PgBouncer says it
    ],
)
async def test_a_start_with_a_wrong_address_fails_at_once(gate, tmp_path, refusal):
    gate.shut(*refusal)
    with pytest.raises(SetupError, match=refusal[1].split(":")[-1].strip()[:20]) as raised:
        async with open_database(settings(gate.url, tmp_path), size=1, name="test", patient=True):
            pass
    assert "ROTA_DATABASE_URL" in str(raised.value)
    assert gate.refused == 1


async def test_a_host_that_does_not_exist_fails_at_once(tmp_path):
    with pytest.raises(SetupError, match="Check ROTA_DATABASE_URL"):
        async with open_database(
            settings("postgresql://rota@nowhere.invalid/rota", tmp_path), size=1, name="test", patient=True
        ):
            pass


async def test_an_embedded_server_that_was_not_started_is_not_waited_for(tmp_path, monkeypatch):
    monkeypatch.delenv("ROTA_SUPERVISED", raising=False)
    with pytest.raises(SetupError, match="rota up"):
        async with open_database(Settings(home=tmp_path), size=1, name="test", patient=True):
            pass


@pytest.mark.parametrize("command", ["api", "scheduler", "worker"])
async def test_each_process_starts_as_soon_as_postgresql_takes_it(gate, sql, tmp_path, command):
    gate.shut(*RECOVERING)
    environment = commands.environment(ROTA_HOME=str(tmp_path), ROTA_DATABASE_URL=gate.url, ROTA_PORT=str(free_port()))
    process = await asyncio.create_subprocess_exec(
        *commands.ROTA, command, env=environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    try:
        await eventually(lambda: gate.refused >= 3)
        assert process.returncode is None
        gate.open()

        async def is_up():
            return await sql.fetchval(
                "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1 AND datname = current_database()",
                f"rota-{command}",
            )

        await eventually(is_up)
    finally:
        process.terminate()
        said = (await in_time(process.communicate()))[0].decode()
    assert said.count("waiting for PostgreSQL") == 1, said


async def test_the_last_words_of_a_server_are_not_told_as_a_state_of_the_driver(gate):
    database = await Database.connect(gate.url, size=1)
    try:
        assert await database.fetch_value("read_constants") == 64
        gate.say("57P01", "terminating connection due to administrator command")
        await asyncio.sleep(0.1)  # they arrive while nothing was asked
        with pytest.raises(DatabaseUnavailableError, match="read_constants: PostgreSQL closed the connection"):
            await database.fetch_value("read_constants")
        assert await database.fetch_value("read_constants") == 64, "on a new connection"
    finally:
        await database.close()
