"""Servers that an incident may break: each test its own, never the one that the others share."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

import asyncpg

from rota.store.postgres.database import Database
from rota.store.postgres.embedded import EmbeddedPostgres
from rota.store.schema.migrate import migrate
from support import eventually, in_time


async def run_tool(server: EmbeddedPostgres, name: str, *arguments: str) -> None:
    """Runs pg_basebackup, pg_dump, … of the server's own version, as a person would."""
    program = server._binaries / name
    process = await asyncio.create_subprocess_exec(program, *arguments, stderr=asyncio.subprocess.PIPE)
    _, error = await in_time(process.communicate())
    assert process.returncode == 0, error.decode()


class Ground:
    """A PostgreSQL with archived WAL, which can be taken back to an earlier moment; tools of its own version."""

    def __init__(self, **settings: str) -> None:
        self.home = Path(tempfile.mkdtemp(prefix="rota-runbook-"))
        self.archive = self.home / "archive"
        other = os.environ.get("ROTA_TEST_POSTGRES")
        self.server = EmbeddedPostgres(
            self.home,
            settings={
                "shared_buffers": "32MB",
                "fsync": "off",
                "wal_level": "replica",
                "archive_mode": "on",
                "archive_command": f"cp %p {self.archive}/%f",
                "restore_command": f"cp {self.archive}/%f %p",
                **settings,
            },
            binaries=Path(other) if other else None,
        )
        self.url = self.server.url()

    async def start(self) -> None:
        self.archive.mkdir()
        self._give(self.archive)
        self.home.chmod(0o755)
        await self.server.start()
        database = await Database.connect(self.url, size=1)
        await migrate(database)
        await database.close()

    async def now(self) -> str:
        """The database's time, in words a recovery target understands."""
        connection = await asyncpg.connect(self.url)
        try:
            # The WAL that says so must be in the archive before the server is gone.
            moment = await connection.fetchval("SELECT clock_timestamp()::text")
            await connection.execute("SELECT pg_switch_wal()")
            return moment
        finally:
            await connection.close()

    async def go_back(self, backup: Path, moment: str) -> None:
        """Stops the server and brings it back as it was at `moment`."""
        await self.server.stop()
        data = self.server.data
        data.rename(data.with_name("data-of-before"))
        await asyncio.to_thread(shutil.copytree, backup, data)
        (data / "recovery.signal").touch()
        with (data / "postgresql.auto.conf").open("a") as settings:
            settings.write(f"recovery_target_time = '{moment}'\nrecovery_target_action = 'promote'\n")
        self._give(data)
        with suppress(asyncpg.ReadOnlySQLTransactionError):
            await self.server.start()  # it is on its way: until the moment is reached it only reads
        await eventually(self._writes)

    async def _writes(self) -> bool:
        connection = await asyncpg.connect(self.url)
        try:
            return not await connection.fetchval("SELECT pg_is_in_recovery()")
        finally:
            await connection.close()

    async def stop(self) -> None:
        await self.server.stop()
        shutil.rmtree(self.home, ignore_errors=True)
        shutil.rmtree(self.server.socket_directory, ignore_errors=True)

    def _give(self, path: Path) -> None:
        """To the account that PostgreSQL runs under."""
        if account := self.server._account:
            for one in (path, *path.rglob("*")):
                os.chown(one, account.pw_uid, account.pw_gid)
