"""The servers that peers stand on: Redis as Debian has it, and Rota's embedded PostgreSQL with Rota's settings."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import subprocess
from pathlib import Path
from typing import Protocol

import asyncpg

from bench.peers.processes import MeasureError
from rota.store.postgres.embedded import EmbeddedPostgres

START_SECONDS = 10.0


class Server(Protocol):
    """What a measure needs of a server."""

    durability: str

    @property
    def pid(self) -> int:
        """Its first process."""

    async def start(self) -> str:
        """Starts it; returns its version."""

    async def stop(self) -> None:
        """Ends it."""

    async def fresh(self) -> str:
        """Empties it; returns where to connect."""

    async def written(self) -> int | None:
        """Bytes of log written so far, where there is one."""


class RedisServer:
    """In a folder of its own, on a Unix socket, without persistence until told."""

    durability = "Redis, memory only"

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._socket = folder / "redis.sock"
        self._process: subprocess.Popen[bytes] | None = None

    @staticmethod
    def is_installed() -> bool:
        """Whether there is a redis-server to start."""
        return shutil.which("redis-server") is not None

    @property
    def pid(self) -> int:
        """Its one process."""
        return self._process.pid if self._process else 0

    async def start(self) -> str:
        """Starts it and waits until it answers."""
        binary = shutil.which("redis-server") or "redis-server"
        options = ["--port", "0", "--unixsocket", str(self._socket), "--dir", str(self._folder)]
        with (self._folder / "redis.log").open("ab") as log:
            self._process = subprocess.Popen(  # noqa: ASYNC220 - returns once the child has its program
                [binary, *options, "--save", "", "--appendonly", "no"], stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        async with asyncio.timeout(START_SECONDS):
            while True:
                with contextlib.suppress(OSError):
                    information = await self._command("INFO server")
                    break
                await asyncio.sleep(0.05)
        lines = dict(line.split(":", 1) for line in information.splitlines() if ":" in line)
        return lines["redis_version"]

    async def stop(self) -> None:
        """Ends it; nothing is kept."""
        if self._process:
            self._process.kill()
            await asyncio.to_thread(self._process.wait)

    async def fresh(self) -> str:
        """Empties it."""
        await self._command("FLUSHALL")
        return f"unix://{self._socket}"

    async def append_only(self, *, wanted: bool) -> None:
        """Switches to a log that is synced every second, or back."""
        await self._command("CONFIG SET appendfsync everysec")
        await self._command(f"CONFIG SET appendonly {'yes' if wanted else 'no'}")

    async def written(self) -> int | None:
        """Not asked of Redis."""
        return None

    async def _command(self, line: str) -> str:
        reader, writer = await asyncio.open_unix_connection(str(self._socket))
        try:
            writer.write(f"{line}\r\n".encode())
            head = (await reader.readline()).decode()
            if head.startswith("-"):
                raise MeasureError(f"Redis refused {line}: {head.strip()}")
            if head.startswith("$"):
                return (await reader.readexactly(int(head[1:]))).decode()
            return head
        finally:
            writer.close()


class PostgresServer:
    """The embedded PostgreSQL with exactly the settings that Rota gives it; every measure has an empty database."""

    durability = "PostgreSQL, fsync at every commit"

    def __init__(self, folder: Path) -> None:
        self._server = EmbeddedPostgres(folder)
        self._number = 0
        self.log_file = self._server.log_file

    @property
    def pid(self) -> int:
        """The postmaster."""
        return int((self._server.data / "postmaster.pid").read_text().split("\n", 1)[0])

    async def start(self) -> str:
        """Starts it."""
        await self._server.start()
        return str(await self._value("SHOW server_version"))

    async def stop(self) -> None:
        """Ends it."""
        await self._server.stop()

    async def fresh(self) -> str:
        """A new database; the one before goes, so that no vacuum of it disturbs."""
        connection = await asyncpg.connect(self._server.url("postgres"))
        try:
            if self._number:
                await connection.execute(f"DROP DATABASE bench{self._number} WITH (FORCE)")
            self._number += 1
            await connection.execute(f"CREATE DATABASE bench{self._number}")
            await connection.execute("CHECKPOINT")
        finally:
            await connection.close()
        return self._server.url(f"bench{self._number}")

    async def written(self) -> int:
        """Bytes of write-ahead log."""
        return int(await self._value("SELECT (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint"))

    async def log_statements(self, *, wanted: bool) -> None:
        """Whether every statement goes to the log, in which they can be counted."""
        await self._value(f"ALTER SYSTEM SET log_statement = '{'all' if wanted else 'none'}'")
        await self._value("SELECT pg_reload_conf()")

    async def _value(self, query: str) -> str:
        connection = await asyncpg.connect(self._server.url("postgres"))
        try:
            return str(await connection.fetchval(query))
        finally:
            await connection.close()
