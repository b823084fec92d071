"""Databases for tests: one server, one migrated template, a clone for each test.

Tests can set the clock of these databases (sql/make_clock.sql). That needs a search path in each database: PostgreSQL
does not copy settings from a template.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import shutil
import tempfile
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import asyncpg

from rota.errors import SetupError
from rota.store.postgres.database import Database
from rota.store.postgres.embedded import EmbeddedPostgres
from rota.store.postgres.statements import load
from rota.store.schema.migrate import migrate

SERVER_VARIABLE = "ROTA_TEST_DATABASE_URL"
# Tests need no durability: without it cloning a database takes about 20 ms.
_QUICK = {
    "fsync": "off",
    "full_page_writes": "off",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "max_connections": "200",
}
_ROOM_BYTES = 4 * 1024**3
# Objects that a test creates without a schema go to public, not to the clock's or Rota's schema.
SEARCH_PATH = "public, rota_time, pg_catalog"
T = TypeVar("T")


class Databases:
    """Makes databases on a running server. Closing it drops the template."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._prefix = f"rota_test_{uuid4().hex[:12]}"
        self._numbers = itertools.count(1)
        # Its own loop, which runs only during calls: the test may have none or another.
        self._loop = asyncio.new_event_loop()
        self._admin: Any = None

    @property
    def _template(self) -> str:
        return f"{self._prefix}_template"

    def open(self) -> None:
        """Makes the template; raises SetupError if the server does not allow it."""
        self._run(self._open())

    def close(self) -> None:
        """Drops the template."""
        try:
            if self._admin is not None:
                self._run(self._drop(self._template))
                self._run(self._admin.close())
        finally:
            self._loop.close()

    @contextmanager
    def fresh(self) -> Iterator[str]:
        """The URL of a new database, which is dropped at the end."""
        name = f"{self._prefix}_{next(self._numbers)}"
        self._run(self._clone(name))
        try:
            yield _with_database(self._url, name)
        finally:
            self._run(self._drop(name))

    async def _open(self) -> None:
        try:
            self._admin = await asyncpg.connect(self._url)
            await self._admin.execute(f"CREATE DATABASE {self._template}")
        except (OSError, ValueError, asyncpg.PostgresError) as error:
            raise SetupError(f"{SERVER_VARIABLE}: no database for tests can be made there: {error}") from error
        await self._set_search_path(self._template)
        database = await Database.connect(_with_database(self._url, self._template), size=1, search_path=SEARCH_PATH)
        try:
            async with database.raw() as connection:
                await connection.execute(load("make_clock", "rota.testing").text)
            await migrate(database)
            async with database.raw() as connection:
                await connection.execute(load("turn_functions", "rota.testing").text)
                await connection.execute(load("limit_shards", "rota.testing").text)
        finally:
            await database.close()

    async def _clone(self, name: str) -> None:
        await self._admin.execute(f"CREATE DATABASE {name} TEMPLATE {self._template} STRATEGY FILE_COPY")
        await self._set_search_path(name)

    async def _drop(self, name: str) -> None:
        try:
            await self._admin.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        except asyncpg.InsufficientPrivilegeError:
            # A superuser's process uses it, probably autovacuum: only superusers can end those. Without FORCE
            # PostgreSQL stops autovacuum and waits a few seconds for others.
            await self._admin.execute(f"DROP DATABASE IF EXISTS {name}")

    async def _set_search_path(self, name: str) -> None:
        await self._admin.execute(f"ALTER DATABASE {name} SET search_path = {SEARCH_PATH}")

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._loop.run_until_complete(work)


@contextmanager
def databases() -> Iterator[Databases]:
    """Databases on the server of ROTA_TEST_DATABASE_URL, whose role must be able to create them, or on an embedded one.

    Starting the embedded one takes about two seconds: keep it for all tests.
    """
    with _server() as url:
        found = Databases(url)
        try:
            found.open()
            yield found
        finally:
            found.close()


@contextmanager
def _server() -> Iterator[str]:
    if given := os.environ.get(SERVER_VARIABLE):
        yield given
        return
    home = Path(tempfile.mkdtemp(prefix="rota-test-", dir=_memory()))
    server = EmbeddedPostgres(home, settings=_QUICK)
    loop = asyncio.new_event_loop()
    try:
        loop.run_until_complete(server.start())
        yield server.url("postgres")
    finally:
        loop.run_until_complete(server.stop())
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()
        shutil.rmtree(home, ignore_errors=True)
        shutil.rmtree(server.socket_directory, ignore_errors=True)


def _memory() -> Path | None:
    """A file system in memory with enough room, if there is one: a clone has hundreds of files."""
    place = Path("/dev/shm")  # noqa: S108 - a new directory in it, made by mkdtemp
    return place if os.access(place, os.W_OK) and shutil.disk_usage(place).free > _ROOM_BYTES else None


def _with_database(url: str, name: str) -> str:
    return urlunsplit(urlsplit(url)._replace(path=f"/{name}"))
