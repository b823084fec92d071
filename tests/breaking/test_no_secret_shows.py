"""Everything started with marked secrets, used badly, and then searched for the marks."""

from __future__ import annotations

import asyncio
import traceback
from collections import defaultdict
from contextlib import suppress

import psutil
import pytest

import commands
from rota.api.routes import OPERATIONS
from rota.blobs import BlobError, Blobs
from rota.errors import RotaError, SetupError
from rota.settings import Settings
from rota.store.postgres.database import Database
from scenarios.fleet import Fleet
from support import eventually, family_of, in_time

MARK = "tell-nobody"
PASSWORD, TOKEN, SECRET, BLOBS, AWS, WRONG = (
    f"{MARK}-{word}" for word in ("db", "token", "secret", "blobs", "aws", "wrong")
)
TASKS = f'''
import os
import rota

app = rota.App("leaky")


def everything(context):
    return " ".join([*context.secrets.values(), *(value for value in os.environ.values() if "{MARK}" in value)])


@app.task(name="say", retries=0)
async def say(context: rota.Context) -> str:
    print(everything(context))
    context.logger.warning(everything(context))
    context.progress(0.5, everything(context))
    raise ValueError(everything(context))


@app.task(name="give", retries=0)
def give(context: rota.Context) -> dict:
    return {{"all": everything(context), everything(context): 1, "much": "x" * 100_000}}


@app.task(name="apart", retries=0, isolation="process")
def apart(context: rota.Context) -> str:
    print(everything(context))
    raise ValueError(everything(context))
'''
RUNS = (
    ("say", {}),
    ("give", {}),
    ("apart", {}),
    ("script", {"payload": {"script": "env.sh"}}),
    ("http", {"payload": {"url": "http://127.0.0.1:9/"}}),
)


@pytest.fixture
async def fleet(database_url, tmp_path):
    """`rota up` with a mark in everything that is secret; its object storage is away."""
    (tmp_path / "leaky.py").write_text(TASKS)
    fleet = Fleet(
        {
            "ROTA_DATABASE_URL": database_url.replace("rota@", f"rota:{PASSWORD}@"),
            "ROTA_LISTEN_URL": database_url.replace("rota@", f"rota:{PASSWORD}@"),
            "ROTA_TOKEN": TOKEN,
            "ROTA_SECRET_API_KEY": SECRET,
            "ROTA_BLOBS": f"s3://ada:{BLOBS}@bucket/x?sig={BLOBS}",
            "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
            "AWS_ACCESS_KEY_ID": "ada",
            "AWS_SECRET_ACCESS_KEY": AWS,
            "AWS_REGION": "us-east-1",
            "ROTA_LOG_LEVEL": "debug",
            "PYTHONPATH": str(tmp_path),
        }
    )
    (fleet.home / "scripts").mkdir()
    script = fleet.home / "scripts" / "env.sh"
    script.write_text("#!/bin/sh\nenv | sort\nenv >&2\nexit 3\n")
    script.chmod(0o755)
    (fleet.home / "admin.token").write_text(TOKEN)
    yield fleet
    await fleet.stop()


async def command(fleet, *arguments, **environment):
    """What a command of ours says, all of it."""
    process = await asyncio.create_subprocess_exec(
        *commands.ROTA,
        *arguments,
        env=fleet._environment | environment,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await in_time(process.communicate())
    return said.decode()


async def answers(fleet, runs):
    """What every reading operation says, also to those who have no business here."""
    for operation in OPERATIONS:
        if operation.method == "GET":
            for run in runs:
                names = {"runId": run["runId"], "jobId": run["jobId"], "pool": "default", "task": "fail"}
                path = operation.path.format_map(defaultdict(lambda: "wfr_" + "0" * 32, names))
                query = {"search": "a"} if path == "/v1/logs" else {}
                yield (await fleet.client.get(path, params=query)).text
    yield (await fleet.client.get("/openapi.json")).text
    for header in (f"Bearer {WRONG}", f"Basic {WRONG}", WRONG):
        yield (await fleet.client.get("/v1/jobs", headers={"Authorization": header})).text
    large = {"name": "a", "scheduleType": "immediate", "task": "say", "payload": {"a": "x" * 100_000}}
    yield (await fleet.client.post("/v1/jobs", json=large)).text


async def stored(sql):
    """Every row of every table, and what the server shows of those who are connected."""
    tables = await sql.fetch(
        "SELECT oid::regclass::text FROM pg_class WHERE relkind = 'r' AND relnamespace = 'rota'::regnamespace"
    )
    for (table,) in tables:
        for (text,) in await sql.fetch(f"SELECT t::text FROM {table} AS t"):
            yield f"{table}: {text}"
    for row in await sql.fetch("SELECT * FROM pg_stat_activity"):
        yield str(dict(row))


def processes(fleet):
    """The command lines of all that belong to this home; their environments are for their owner alone."""
    for process in family_of(fleet.home):
        with suppress(psutil.NoSuchProcess):
            yield " ".join([*process.cmdline(), process.name()])


def files(home):
    return [path for path in home.rglob("*") if path.is_file() and path.name != "admin.token"]


@pytest.mark.scenario
async def test_no_secret_shows_anywhere(fleet, postgres, sql):
    supervisor = await fleet.start("up", "--workers", "1", "--app", "leaky:app")
    await fleet.connect()

    async def worker():
        return [one for one in await fleet.workers() if one["status"] == "live"]

    await eventually(worker)
    runs = []
    for task, fields in RUNS:
        made = await fleet.submit(task, maxRetries=0, **fields)
        runs.append(await fleet.until(made["runId"], "success", "failed", within=60))
    found = [text async for text in answers(fleet, runs)]
    assert any("***" in text for text in found)  # the tasks did what they could
    found += [
        await command(fleet, "jobs"),
        await command(fleet, "runs"),
        await command(fleet, "logs", runs[0]["runId"]),
    ]
    found += [await command(fleet, "jobs", ROTA_TOKEN=WRONG)]
    found += [text async for text in stored(sql)]
    lines = list(processes(fleet))
    assert len(lines) >= 3
    assert await supervisor.terminate() == 0
    found += lines
    left = files(fleet.home)
    assert supervisor.log in left
    found += [path.read_text(errors="replace") for path in left]
    found.append(postgres.log_file.read_text(errors="replace"))
    assert [text for text in found if MARK in text] == []


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://ada:{MARK}@127.0.0.1:9/db",
        f"postgresql://ada:{MARK}/x@127.0.0.1:9/db",
        f"postgresql://ada:{MARK}#x@127.0.0.1:9/db",
        f"postgresql://ada:{MARK}?x@127.0.0.1:9/db",
        f"postgresql://ada:x:{MARK}/x@127.0.0.1:9/db",
        f"postgresql://ada:{MARK}%@127.0.0.1:9/db",
        f"postgresql://ada:[{MARK}@127.0.0.1:9/db",
        f"postgresql://127.0.0.1:{MARK}/db",
        f"postgresql://127.0.0.1:9/db?password={MARK}&{MARK}={MARK}",
        f"{MARK}://127.0.0.1/db",
        MARK,
        f"host=127.0.0.1 password={MARK}",
    ],
)
async def test_an_address_of_a_database_that_does_not_work_is_not_quoted(url):
    with pytest.raises(RotaError) as caught:
        await Database.connect(url)
    assert MARK not in str(caught.value)
    shown = traceback.format_exception(caught.value)
    assert not any(MARK in line for line in shown if not line.lstrip().startswith("File"))


@pytest.mark.parametrize("variable", ["ROTA_DATABASE_URL", "ROTA_LISTEN_URL"])
async def test_commands_do_not_quote_an_address_that_they_cannot_read(postgres, database_url, variable):
    fleet = Fleet({"ROTA_DATABASE_URL": database_url, variable: f"postgresql://ada:{MARK}/x@127.0.0.1:9/db"})
    for role in ("scheduler", "worker"):
        said = await command(fleet, role)
        assert variable in said
        assert MARK not in said
        assert "Traceback" not in said
    await fleet.stop()


@pytest.mark.parametrize(
    "where",
    [
        f"s3://ada:{MARK}@bucket/x?sig={MARK}",
        f"ftp://ada:{MARK}@host/x",
        f"https://a.blob.core.windows.net/c?sig={MARK}",
        f"az://ada:{MARK}@x/y?sig={MARK}",
    ],
)
async def test_an_address_of_object_storage_is_shown_without_its_secrets(monkeypatch, where):
    for name, value in (("AWS_ENDPOINT_URL", "http://127.0.0.1:9"), ("AWS_SECRET_ACCESS_KEY", MARK)):
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "ada")
    monkeypatch.setattr("rota.blobs._RETRIES", {"max_retries": 0})
    monkeypatch.setattr("rota.blobs.TIMEOUT_SECONDS", 2.0)
    with pytest.raises((SetupError, BlobError)) as caught:
        await Blobs.open(where).get("a")
    assert MARK not in str(caught.value)


def test_settings_do_not_show_what_is_secret_when_they_are_printed():
    address = f"postgresql://ada:{MARK}@host/db"
    found = Settings.from_environment(
        {
            "ROTA_DATABASE_URL": address,
            "ROTA_LISTEN_URL": address,
            "ROTA_BLOBS": f"s3://ada:{MARK}@bucket",
            "ROTA_TOKEN": MARK,
            "ROTA_SECRET_A": MARK,
            "AWS_SECRET_ACCESS_KEY": MARK,
        }
    )
    assert MARK not in repr(found)
    assert set(found.hidden) == {MARK}


def test_a_password_is_hidden_as_it_is_written_and_as_it_is_meant():
    found = Settings.from_environment({"ROTA_DATABASE_URL": "postgresql://ada:a%2Fb%40c@host/db?password=d%23efg"})
    assert set(found.hidden) == {"a%2Fb%40c", "a/b@c", "d%23efg", "d#efg"}
