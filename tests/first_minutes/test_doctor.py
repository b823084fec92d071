"""`rota doctor`: what is wrong is found, in words that say how to mend it; nothing else is called wrong."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from unittest import mock
from urllib.parse import urlsplit

import asyncpg
import pytest

import rota
from rota.ops.doctor import database as databases
from rota.ops.doctor import fleet, machine, server
from rota.ops.doctor.checkup import examine
from rota.ops.doctor.findings import Finding, State, collect
from rota.ops.doctor.settings import read_settings
from rota.settings import Settings
from rota.store.postgres.database import Database
from support import wait_until

PASSWORD = "hunter-two"  # noqa: S105 - of a role that lives as long as a test


def found_by(who, **variables):
    """What it finds, without a process."""
    with mock.patch.dict(os.environ, who.environment | variables, clear=True):
        found = asyncio.run(examine(os.environ))
    assert all(finding.fix or finding.state is not State.problem for finding in found), found
    return found


def of_state(found, state, check=None):
    return [one.words for one in found if one.state == state and check in (None, one.check)]


def mending(found, check):
    return " ".join(one.fix or "" for one in found if one.check == check)


def test_with_everything_up_nothing_is_wrong(up):
    done = up("doctor", "--json")
    told = done.json
    found = [Finding(one["check"], State(one["state"]), one["detail"], one["toDo"]) for one in told["findings"]]
    problems = of_state(found, "problem")
    assert all("runs wait" in one for one in problems), "left by other tests"
    assert (done.code, told["problems"]) == (1 if problems else 0, len(problems))
    assert told["warnings"] == len(of_state(found, "warning"))
    words = " ".join(of_state(found, "ok"))
    for part in (
        "answers at",
        "admin in all namespaces",
        "1 in pool default",
        "all 64 shards",
        "up to date",
        "stores, returns",
    ):
        assert part in words


def test_before_anything_runs_it_says_what_to_start_and_ends_well(newcomer):
    found = found_by(newcomer)
    assert of_state(found, "problem") == []
    assert "rota up" in mending(found, "server")
    assert "rota up" in mending(found, "database")


@pytest.mark.parametrize("columns", [40, 80])
def test_on_a_terminal_every_line_fits_and_every_finding_begins_with_its_state_in_words(newcomer, columns):
    code, lines = newcomer.on_terminal(columns, "doctor")
    assert code == 0
    wide = [line for line in lines if len(line) > columns and " " in line.strip()]
    assert wide == []
    assert all(re.match(r"(ok|warning|problem) +\S|  |\d+ warning", line) for line in lines), lines
    assert not any("\x1b" in line for line in lines)


def test_in_a_pipe_a_finding_is_a_line(newcomer):
    lines = newcomer("doctor").out.splitlines()
    assert all(re.match(r"(ok|warning|problem) +[a-z ]+: ", line) for line in lines[:-1])


def test_bad_settings_are_all_named_at_once_and_the_rest_is_looked_at_all_the_same(newcomer):
    found = found_by(newcomer, ROTA_SLOTS="many", ROTA_DRAIN_SECONDS="-1", ROTA_DATABSE_URL="x", ROTA_PORT="0")
    problems = " ".join(of_state(found, "problem", "settings"))
    for name in ("ROTA_SLOTS", "ROTA_DRAIN_SECONDS", "ROTA_PORT"):
        assert name in problems
    assert "ROTA_DATABSE_URL is not a setting" in " ".join(of_state(found, "warning", "settings"))
    assert "did you mean ROTA_DATABASE_URL?" in mending(found, "settings")
    assert of_state(found, "ok", "home")


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({"ROTA_URL": "http://127.0.0.1:9999", "ROTA_PORT": "8888"}, "different ports"),
        ({"ROTA_LISTEN_URL": "postgresql:///x", "ROTA_NOTIFY": "off"}, "disables it"),
        ({"ROTA_TLS_KEY": "/nowhere/key.pem"}, "go together"),
        ({"ROTA_HOST": "0.0.0.0"}, "in plain text"),  # noqa: S104 - not listened on
        ({"ROTA_WORKER_PORT": "7000", "ROTA_PORT": "7000"}, "are the same"),
    ],
)
def test_settings_that_contradict_each_other_are_told(environment, words):
    _, findings = read_settings(dict(environment))
    assert any(words in finding.words and finding.fix for finding in findings), findings


def test_no_secret_is_shown(newcomer):
    done = newcomer(
        "doctor",
        ROTA_DATABASE_URL=f"postgresql://ann:{PASSWORD}@127.0.0.1:1/x",
        ROTA_TOKEN="t0ken-of-mine",  # noqa: S106 - none
        ROTA_BLOBS=f"s3://key:{PASSWORD}@nowhere/x?secret={PASSWORD}",
        ROTA_JWT_SECRET="0123456789abcdef0123456789abcdef",  # noqa: S106 - none
        AWS_ENDPOINT_URL="http://127.0.0.1:1",
        AWS_SECRET_ACCESS_KEY=PASSWORD,
    )
    assert done.code == 1
    for secret in (PASSWORD, "t0ken-of-mine", "0123456789abcdef"):
        assert secret not in done.said


def test_a_file_in_place_of_the_home_is_a_problem(newcomer):
    newcomer.rota_home.touch()
    found = found_by(newcomer)
    assert "is not a directory" in " ".join(of_state(found, "problem", "home"))
    assert "ROTA_HOME" in mending(found, "home")


def test_a_token_file_that_others_can_read_is_told(newcomer):
    newcomer.rota_home.mkdir()
    token = newcomer.rota_home / "admin.token"
    token.write_text("x")
    token.chmod(0o644)
    found = found_by(newcomer)
    assert of_state(found, "warning", "token file")
    assert f"chmod 600 {token}" in mending(found, "token file")


AS_SOMEBODY_ELSE = """
import os
from pathlib import Path
from rota.ops.doctor.machine import check_home
from rota.settings import Settings
os.setuid(65534)
print(*check_home(Settings(home=Path(os.environ["PLACE"]))))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
@pytest.mark.parametrize("made", [True, False])
def test_a_home_that_is_not_ours_to_write_to_is_a_problem(short_path, made):
    place = short_path / "home"
    if made:
        place.mkdir(mode=0o755)
    command = [sys.executable, "-c", AS_SOMEBODY_ELSE]
    done = subprocess.run(command, env=os.environ | {"PLACE": str(place)}, capture_output=True, text=True, check=True)
    assert "State.problem" in done.stdout
    assert "set ROTA_HOME to another" in done.stdout


def test_a_port_that_another_program_has_is_a_problem(newcomer, other_program):
    found = found_by(newcomer, ROTA_PORT=str(other_program))
    assert f"pid {os.getpid()}" in " ".join(of_state(found, "problem", "port"))
    assert "is not a Rota server" in " ".join(of_state(found, "problem", "server"))


def test_a_server_that_was_named_and_does_not_answer_is_a_problem(newcomer, free_port):
    found = found_by(newcomer, ROTA_URL=f"http://127.0.0.1:{free_port()}")
    assert of_state(found, "problem", "server")


def test_a_token_that_is_not_accepted_is_a_problem_and_the_database_tells_of_the_fleet(up):
    found = found_by(up, ROTA_TOKEN="nonsense")  # noqa: S106 - none
    assert "ROTA_TOKEN" in " ".join(of_state(found, "problem", "token"))
    assert "1 in pool default" in " ".join(of_state(found, "ok", "workers"))
    assert "all 64 shards" in " ".join(of_state(found, "ok", "schedulers"))


def test_storage_that_can_not_be_reached_is_a_problem(newcomer):
    found = found_by(
        newcomer,
        ROTA_BLOBS="s3://nowhere/x",
        AWS_ENDPOINT_URL="http://127.0.0.1:1",
        AWS_ACCESS_KEY_ID="x",
        AWS_SECRET_ACCESS_KEY="yyyy",  # noqa: S106 - none
    )
    assert "could not store" in " ".join(of_state(found, "problem", "object storage"))
    assert "ROTA_BLOBS" in mending(found, "object storage")


def test_the_probe_leaves_nothing_in_storage(up):
    found_by(up)
    assert not list((up.rota_home / "blobs").rglob("doctor/*"))


OLDER = "import rota; rota.__version__ = '0.0.1'; from rota.cli.main import main; main()"


def test_an_older_server_without_scheduler_and_workers_is_told(newcomer, postgres, database_url):
    environment = newcomer.environment | {"ROTA_DATABASE_URL": database_url}
    with subprocess.Popen([sys.executable, "-c", OLDER, "api"], env=environment, stderr=subprocess.DEVNULL) as api:
        try:
            found = wait_until(
                lambda: [
                    one
                    for one in [found_by(newcomer)]
                    if "Rota 0.0.1 answers" in str(of_state(one, "warning", "server"))
                ]
            )[0]
            newcomer.in_process("submit", "x", "--task", "rota.echo")
            later = found_by(newcomer)
        finally:
            api.terminate()
    assert "update the server" in mending(found, "server")
    assert of_state(found, "warning", "workers") == ["none is live: nothing runs"]
    assert of_state(found, "problem", "schedulers") == ["none is running: no job becomes due"]
    assert of_state(later, "problem", "waiting") == ["runs wait in pool default, which no live worker serves"]
    assert "rota worker --pools default" in mending(later, "waiting")


@pytest.fixture
async def guarded(postgres, database_url):
    """The database as a role sees it that must give a password."""
    rules = postgres.data / "pg_hba.conf"
    before = rules.read_text()
    admin = await asyncpg.connect(database_url)
    await admin.execute(f"CREATE ROLE walled LOGIN PASSWORD '{PASSWORD}' CONNECTION LIMIT 3")
    rules.write_text(f"local all walled scram-sha-256\n{before}")
    await admin.execute("SELECT pg_reload_conf()")
    parts = urlsplit(database_url)
    yield lambda password: f"postgresql://walled:{password}@{parts.path}?{parts.query}"
    rules.write_text(before)
    await admin.execute("SELECT pg_reload_conf()")
    await admin.execute("DROP ROLE walled")
    await admin.close()


async def test_a_wrong_password_is_a_problem_that_names_the_setting(newcomer, guarded):
    found = await asyncio.to_thread(found_by, newcomer, ROTA_DATABASE_URL=guarded("wrong-one"))
    assert "password authentication failed" in " ".join(of_state(found, "problem", "database"))
    assert "ROTA_DATABASE_URL" in mending(found, "database")
    assert "wrong-one" not in str(found)


async def test_a_role_without_rights_and_with_few_connections_is_told(newcomer, guarded):
    found = await asyncio.to_thread(found_by, newcomer, ROTA_DATABASE_URL=guarded(PASSWORD))
    assert "has no rights" in " ".join(of_state(found, "problem", "schema"))
    assert "rota database-roles" in mending(found, "schema")
    assert "the role's connection limit is 3" in " ".join(of_state(found, "warning", "connections"))


async def examined(database_url):
    database = await Database.connect(database_url, size=1)
    try:
        return await database.examine(), [
            one async for one in databases.check_schema(database, await database.examine())
        ]
    finally:
        await database.close()


async def test_server_settings_that_hurt_are_told(sql, database_url):
    name = await sql.fetchval("SELECT current_database()")
    await sql.execute(f"ALTER DATABASE {name} SET synchronous_commit = off")
    facts, _ = await examined(database_url)
    standby = facts | {"standby": True}
    assert next(databases.check_kind(standby, pooled=False, embedded=False)).state is State.problem
    assert "fsync is off" in next(databases.check_durability(facts)).words, "as it is for all tests"
    assert (
        "synchronous_commit is off"
        in next(databases.check_durability(facts | {"fsync": True, "full_page_writes": True})).words
    )


async def test_a_transaction_that_has_been_open_for_long_is_told(sql, database_url, monkeypatch):
    monkeypatch.setattr(databases, "OLD_TRANSACTION_SECONDS", 0)
    async with sql.transaction():
        await sql.fetchval("SELECT 1")
        facts, _ = await examined(database_url)
    assert any("transaction has been open" in one.words for one in databases.check_upkeep(facts))


async def test_a_schema_that_lacks_a_step_is_a_problem(sql, database_url):
    await sql.execute("DELETE FROM rota.migrations WHERE number = (SELECT max(number) FROM rota.migrations)")
    _, (finding,) = await examined(database_url)
    assert finding.state is State.problem
    assert "rota migrate" in finding.fix


async def test_a_database_without_a_schema_is_told_and_nothing_is_made_there(newcomer, postgres, database_url):
    admin = await asyncpg.connect(database_url)
    await admin.execute("DROP SCHEMA rota CASCADE")
    found = await asyncio.to_thread(found_by, newcomer, ROTA_DATABASE_URL=database_url)
    assert of_state(found, "warning", "schema") == ["there is none yet"]
    assert await admin.fetchval("SELECT count(*) FROM pg_namespace WHERE nspname = 'rota'") == 0
    await admin.close()


@pytest.mark.parametrize(("seconds", "side"), [(120, "ahead of"), (-120, "behind")])
def test_clocks_that_differ_are_told_with_what_it_matters_for(seconds, side):
    now = datetime.now(UTC)
    (finding,) = server.check_clock(server.ServerAnswer("1", now, ready=True), now + timedelta(seconds=seconds))
    assert finding.state is State.warning
    assert f"120 s {side} the server's" in finding.words
    assert next(server.check_clock(server.ServerAnswer("1", now, ready=True), now)).state is State.ok


def test_little_room_on_the_disk_is_told(tmp_path):
    settings = Settings(home=tmp_path)
    free = shutil.disk_usage(tmp_path).free
    assert next(machine.check_disk(settings, little=2 * free, too_little=0)).state is State.warning
    assert next(machine.check_disk(settings, little=2 * free, too_little=2 * free)).state is State.problem
    assert next(machine.check_disk(settings, little=0, too_little=0)).state is State.ok


def test_shards_without_a_scheduler_are_counted():
    shards = [{"shard": number, "owner": "one" if number else None} for number in range(64)]
    assert "1 of 64 shards have no scheduler" in next(fleet.check_shards(shards, "owner")).words


def test_zone_data_is_told_by_its_releases():
    words = next(machine.check_zones()).words
    assert re.fullmatch(r"data of release \S+( and \S+)*", words), words


def test_old_zone_data_is_told():
    assert next(machine.check_zones(datetime(2100, 1, 1, tzinfo=UTC))).state is State.warning
    assert next(machine.check_versions()).words.startswith(f"Rota {rota.__version__} on Python")


async def test_a_check_that_fails_itself_is_a_finding_and_not_a_traceback():
    async def broken():
        raise LookupError("nobody thought of this")

    (finding,) = await collect("thing", broken())
    assert finding.state is State.problem
    assert "nobody thought of this" in finding.words


async def test_what_waits_where_nobody_serves_its_namespace_or_its_pool_is_paused_is_told(engine, sql):
    await engine.join(engine.broker())
    await engine.submit()
    await engine.api.post("/v1/pools/default/pause")
    told = list(fleet.check_fleet(await databases.fetch_fleet(engine.database), owner="owner"))
    assert any("pool default is paused" in finding.words for finding in told)
    await sql.execute(
        "UPDATE rota.live_runs SET namespace = 'other', lane = rota.lane_of('other', pool, task, priority)"
    )
    told = list(fleet.check_fleet(await databases.fetch_fleet(engine.database), owner="owner"))
    assert any("pool default of namespace other, which no live worker serves" in finding.words for finding in told)


@pytest.mark.parametrize("url", ["localhost:7682", "http://me:sEcret@127.0.0.1:9"])
def test_an_address_that_is_none_is_a_problem_and_shows_no_password(newcomer, url):
    done = newcomer("doctor", ROTA_URL=url)
    assert done.code == 1
    assert "sEcret" not in done.said
    assert "ROTA_URL" in done.said


@pytest.mark.parametrize("sees", ["own", "all"])
def test_what_a_key_can_not_see_is_told_and_not_called_well(up, tmp_path, sees):
    wanted = ["--sees-all"] if sees == "all" else []
    made = up.in_process("token", "create", f"bob-{sees}", "--role", "submitter", *wanted, "--json").json
    run = up.in_process("submit", "hello", "--task", "no.such", "--json").json["runId"]
    try:
        found = found_by(up, ROTA_TOKEN=made["key"], ROTA_HOME=str(tmp_path))
    finally:
        up.in_process("cancel", run)
    assert of_state(found, "warning", "schedulers") == ["this token can't see them"]
    unseen = [f"this token sees bob-{sees}'s runs only: others may wait unseen"]
    if sees == "own":
        assert of_state(found, "ok", "waiting") == ["nothing of bob-own's waits"]
        assert of_state(found, "warning", "waiting") == unseen
        assert "operator" in mending(found, "waiting")
    else:
        assert "no.such" in str(of_state(found, "problem", "waiting"))
        assert of_state(found, "warning", "waiting") == []


def waiting_for(task, *, pool="default", workers):
    queued = [{"task": task, "pool": pool, "paused": False}]
    live = [{"status": "live", "host": "h", "pid": 1, "pools": pools, "tasks": tasks} for pools, tasks in workers]
    seen = {"workers": live, "queued": queued, "shards": []}
    return [one for one in fleet.check_fleet(seen, owner="owner") if one.check == "waiting"]


def test_a_shell_job_that_nobody_runs_is_told_the_setting_and_not_an_application():
    (told,) = waiting_for("shell", workers=[(["default"], ["rota.echo"])])
    assert told.words == "shell jobs wait, and no live worker runs such jobs"
    assert told.fix == "start one that does: ROTA_ALLOW_SHELL=on rota worker"


@pytest.mark.parametrize(
    ("task", "command"),
    [("shell", "ROTA_ALLOW_SHELL=on rota worker --pools night"), ("a.b", "rota worker --app MODULE:APP --pools night")],
)
def test_a_task_that_only_workers_of_other_pools_run_is_told_with_its_pool(task, command):
    (told,) = waiting_for(task, pool="night", workers=[(["default"], [task]), (["night"], ["rota.echo"])])
    assert told.words == f"{task} waits in pool night, and no live worker of that pool runs it, though others do"
    assert told.fix == f"start one there: {command}"


@pytest.mark.parametrize("task", ["http", "script"])
def test_a_script_or_http_job_that_nobody_runs_needs_no_application(task):
    (told,) = waiting_for(task, workers=[(["default"], ["rota.echo"])])
    assert told.fix == "start one that does: rota worker"
