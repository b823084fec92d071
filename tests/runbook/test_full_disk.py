"""The database's disk is full: what is refused, what goes on, and that it mends itself once there is room again."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path

import asyncpg
import pytest

from rota.store.postgres.database import Database
from rota.store.postgres.embedded import EmbeddedPostgres
from rota.store.schema.migrate import migrate
from support import GUARD_SECONDS, eventually, job

pytestmark = pytest.mark.scenario

SMALL = {
    "fsync": "off",
    "shared_buffers": "16MB",
    "wal_buffers": "1MB",
    "min_wal_size": "32MB",
    "max_wal_size": "64MB",
    "checkpoint_timeout": "30s",
}
# What PostgreSQL says when a table can't grow, for machines where nothing may be mounted.
PRETEND = """
CREATE FUNCTION public.no_room() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE EXCEPTION 'could not extend file "base/1/2": No space left on device' USING ERRCODE = 'disk_full'; END $$;
CREATE TRIGGER no_room BEFORE INSERT ON rota.live_runs FOR EACH STATEMENT EXECUTE FUNCTION public.no_room();
CREATE TRIGGER no_room BEFORE INSERT ON rota.payloads FOR EACH STATEMENT EXECUTE FUNCTION public.no_room();
CREATE TRIGGER no_room BEFORE INSERT ON rota.finished_runs FOR EACH STATEMENT EXECUTE FUNCTION public.no_room()
"""


class SmallDisk:
    """A server on a file system of its own in memory, and a file that takes all the room."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.server = EmbeddedPostgres(home / "disk", settings=SMALL)
        self.url = self.server.url()

    async def start(self) -> None:
        self.home.chmod(0o755)
        disk = self.home / "disk"
        disk.mkdir()
        call("mount", "-t", "tmpfs", "-o", "size=256m,mode=755", "none", disk)  # raises where nothing may be mounted
        await self.server.start()

    async def fill(self) -> None:
        with (self.home / "disk" / "filler").open("wb", buffering=0) as filler, suppress(OSError):
            while True:
                filler.write(bytes(1 << 16))

    async def free(self) -> None:
        (self.home / "disk" / "filler").unlink()

    async def stop(self) -> None:
        await self.server.stop()
        call("umount", self.home / "disk")


def call(*command) -> None:
    subprocess.run(command, check=True, timeout=GUARD_SECONDS, capture_output=True)


class PretendedDisk:
    """A database that says that its disk is full."""

    def __init__(self, url: str) -> None:
        self.url = url

    async def fill(self) -> None:
        await self._execute(PRETEND)

    async def free(self) -> None:
        await self._execute("DROP FUNCTION public.no_room() CASCADE")

    async def _execute(self, statements: str) -> None:
        connection = await asyncpg.connect(self.url)
        await connection.execute(statements)
        await connection.close()


@pytest.fixture(params=["small", "pretended"])
async def disk(request, database_url):
    """A disk that can be filled. Where nothing may be mounted only the pretended one is tried."""
    if request.param == "pretended":
        yield PretendedDisk(database_url)
        return
    home = Path(tempfile.mkdtemp(prefix="rota-disk-"))
    small = SmallDisk(home)
    try:
        await small.start()
    except (OSError, subprocess.SubprocessError):
        shutil.rmtree(home, ignore_errors=True)
        pytest.skip("no file system may be mounted here; the pretended disk is tried instead")
    database = await Database.connect(small.url, size=1)
    await migrate(database)
    await database.close()
    yield small
    await small.stop()
    shutil.rmtree(home, ignore_errors=True)
    shutil.rmtree(small.server.socket_directory, ignore_errors=True)


async def test_a_full_disk_refuses_loses_nothing_and_mends_itself(disk, open_engine):
    async with open_engine(disk.url) as engine, engine.running(engine.scheduler(), engine.worker()):
        first = await engine.submit()
        await engine.until(first, "success")
        await disk.fill()
        accepted, refusal = await submit_until_refused(engine)
        assert refusal.status_code == 503
        assert refusal.headers["retry-after"]
        assert "disk is full" in refusal.json()["detail"]
        assert (await engine.run(first))["status"] == "success", "what is there can be read"

        await disk.free()

        async def accepts() -> str | None:
            answer = await engine.api.post("/v1/jobs", json=job())
            return answer.json()["runId"] if answer.status_code == 201 else None

        accepted.append(await eventually(accepts, within=60))
        ends = [await engine.until(run_id, "success", within=60) for run_id in accepted]
        assert {end["attempt"] for end in ends} == {1}


async def submit_until_refused(engine) -> tuple[list[str], object]:
    """Runs that were accepted, and the first refusal."""
    accepted: list[str] = []
    for _ in range(4000):
        body = job(payload={"text": secrets.token_hex(25_000)}, maxRetries=10)
        answer = await engine.api.post("/v1/jobs", json=body)
        if answer.status_code != 201:
            return accepted, answer
        accepted.append(answer.json()["runId"])
    raise AssertionError(f"the disk never filled up ({os.getpid()})")
