"""PostgreSQL over TLS: every way to the database believes only the right server, and says what to do about another."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg
import pytest
from installed import postgres_built_with
from structlog.testing import capture_logs

import commands
from certificates import Authority
from rota.compose import open_database
from rota.errors import DatabaseUnavailableError, SetupError
from rota.settings import Settings
from rota.store.postgres.database import Database
from rota.store.postgres.embedded import EmbeddedPostgres
from rota.store.postgres.listener import Listener
from rota.store.report.task_transactions import TaskTransactions
from rota.store.schema.migrate import migrate
from rota.testing.databases import SERVER_VARIABLE, databases
from support import eventually, free_port, in_time

ONLY_TLS = "local all all trust\nhostssl all rota 127.0.0.1/32 trust\nhostssl all guest 127.0.0.1/32 cert\n"


class Server:
    """A PostgreSQL that speaks nothing but TLS on a port of this machine."""

    def __init__(self, directory: Path, binaries: Path) -> None:
        self.authority = Authority(directory)
        self.stranger = Authority(directory, "stranger")
        self.files = self.authority.sign("postgres", "localhost")  # for this name, and not for 127.0.0.1
        self.guest = self.authority.sign("guest")
        self.port = free_port()
        given = {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "ssl": "on",
            "ssl_cert_file": str(self.files.certificate),
            "ssl_key_file": str(self.files.key),
            "ssl_ca_file": str(self.authority.file),
            "fsync": "off",
        }
        self._directory = directory
        self._postgres = _OnPort(directory, settings=given, binaries=binaries)

    def start(self) -> None:
        self._postgres.give(self._directory)
        asyncio.run(self._postgres.start())
        (self._postgres.data / "pg_hba.conf").write_text(ONLY_TLS)
        asyncio.run(self._prepare())

    def stop(self) -> None:
        asyncio.run(self._postgres.stop())

    def url(self, *, host: str = "localhost", user: str = "rota", database: str = "rota", **query: object) -> str:
        words = "&".join(f"{name}={value}" for name, value in query.items())
        return f"postgresql://{user}@{host}:{self.port}/{database}?{words}"

    def verified(self, **options: str) -> str:
        return self.url(sslmode="verify-full", sslrootcert=self.authority.file, **options)

    async def _prepare(self) -> None:
        connection = await asyncpg.connect(self._postgres.url("rota"))
        await connection.execute("CREATE ROLE guest SUPERUSER LOGIN")
        await connection.execute("SELECT pg_reload_conf()")
        await connection.close()


class _OnPort(EmbeddedPostgres):
    """The embedded server with other binaries: its socket is called by its port."""

    def url(self, database: str = "rota") -> str:
        return f"{super().url(database)}&port={self._settings['port']}"

    def give(self, directory: Path) -> None:
        """Lets the account that the server runs under read its certificates."""
        if self._account is None:
            return
        directory.chmod(0o755)
        for file in directory.iterdir():
            shutil.chown(file, self._account.pw_uid, self._account.pw_gid)


@pytest.fixture(scope="module")
def server():
    binaries = postgres_built_with("openssl")
    directory = Path(tempfile.mkdtemp(prefix="rota-tls-"))
    server = Server(directory, binaries)
    server.start()
    yield server
    server.stop()
    shutil.rmtree(directory, ignore_errors=True)


@asynccontextmanager
async def connected(url):
    database = await Database.connect(url, size=1)
    try:
        yield database
    finally:
        await database.close()


async def is_encrypted(connection):
    return await connection.fetchval("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()")


async def test_the_pool_and_migrations_use_a_verified_connection(server):
    async with connected(server.verified()) as database:
        await migrate(database)
        async with database.raw() as connection:
            assert await is_encrypted(connection)


async def test_a_client_may_show_a_certificate_of_its_own(server):
    own = {"sslcert": server.guest.certificate, "sslkey": server.guest.key}
    async with connected(server.verified(user="guest", **own)) as database, database.raw() as connection:
        assert await connection.fetchval("SELECT current_user") == "guest"
        assert (
            await connection.fetchval("SELECT client_dn FROM pg_stat_ssl WHERE pid = pg_backend_pid()") == "/CN=guest"
        )
    with pytest.raises(SetupError, match="PostgreSQL refused the connection"):
        await Database.connect(server.verified(user="guest"))


async def test_the_listener_uses_a_verified_connection(server):
    heard = []
    listener = Listener(server.verified(), ["rota_ready"], lambda _channel, payload: heard.append(payload))
    listening = asyncio.create_task(listener.run())
    try:
        await eventually(lambda: listener.connected)
        async with connected(server.verified()) as database:
            database.wake(pools=["a pool"])
            await eventually(lambda: "a pool" in heard)
    finally:
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)


CLAIM = None  # nothing is completed


@pytest.mark.parametrize("plain", [False, True])
async def test_transactional_tasks_use_a_verified_connection(server, plain):
    transactions = TaskTransactions(server.verified(), size=1)
    query = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()"
    async with transactions.begin(CLAIM, plain=plain) as transaction:
        if plain:
            assert transaction.connection.execute(query).fetchone() == (True,)
        else:
            assert await transaction.connection.fetchval(query)
    await transactions.close()


@pytest.mark.parametrize("plain", [False, True])
async def test_transactional_tasks_refuse_a_server_that_is_not_the_right_one(server, plain):
    transactions = TaskTransactions(server.url(sslmode="verify-full", sslrootcert=server.stranger.file), size=1)
    with pytest.raises(DatabaseUnavailableError, match="sslrootcert"):
        async with transactions.begin(CLAIM, plain=plain):
            pass
    await transactions.close()


def test_the_test_kit_makes_its_databases_over_tls(server, monkeypatch):
    monkeypatch.setenv(SERVER_VARIABLE, server.verified(database="postgres"))
    with databases() as made, made.fresh() as url:
        assert "sslmode=verify-full" in url

        async def look():
            connection = await asyncpg.connect(url)
            try:
                return await is_encrypted(connection), await connection.fetchval("SELECT count(*) FROM rota.migrations")
            finally:
                await connection.close()

        encrypted, count = asyncio.run(look())
        assert encrypted
        assert count > 0


async def refused(url):
    with pytest.raises(SetupError) as caught:
        async with open_database(Settings(database_url=url), size=1, name="test"):
            pass
    return str(caught.value)


async def test_a_server_of_another_authority_is_refused_with_what_to_do(server):
    said = await refused(server.url(sslmode="verify-full", sslrootcert=server.stranger.file))
    assert "certificate is not believed" in said
    assert "sslrootcert" in said


async def test_a_server_with_another_name_is_refused_with_what_to_do(server):
    said = await refused(server.verified(host="127.0.0.1"))
    assert "certificate is not for this host" in said
    assert "127.0.0.1" in said


async def test_a_file_of_authorities_that_is_missing_is_named(server):
    said = await refused(server.url(sslmode="verify-full", sslrootcert="/nowhere.pem"))
    assert "/nowhere.pem" in said
    assert "ROTA_DATABASE_URL" in said


async def test_a_server_without_tls_is_refused_where_tls_is_asked_for(postgres):
    async with _tcp_to(postgres) as port:
        said = await refused(f"postgresql://rota@127.0.0.1:{port}/postgres?sslmode=require")
        assert "does not speak TLS" in said
        assert "sslmode" in said


async def test_prefer_falls_back_to_plain_text_and_says_nothing(postgres):
    """As it is documented: who wants to be sure writes verify-full."""
    async with (
        _tcp_to(postgres) as port,
        connected(f"postgresql://rota@127.0.0.1:{port}/postgres?sslmode=prefer") as database,
        database.raw() as connection,
    ):
        assert not await is_encrypted(connection)


async def test_a_listener_that_meets_the_wrong_server_warns_with_what_to_do(server):
    listener = Listener(server.url(sslmode="verify-full", sslrootcert=server.stranger.file), ["rota_ready"], print)
    with capture_logs() as logs:
        listening = asyncio.create_task(listener.run())
        told = await eventually(lambda: [entry for entry in logs if entry["log_level"] == "warning"])
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)
    assert "sslrootcert" in told[0]["error"]


async def test_rota_migrate_works_over_tls(server):
    process = await asyncio.create_subprocess_exec(
        *commands.ROTA,
        "migrate",
        env=commands.environment(ROTA_DATABASE_URL=server.verified()),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    out, _ = await in_time(process.communicate())
    assert process.returncode == 0, out


@asynccontextmanager
async def _tcp_to(postgres):
    """A port of this machine that leads to the embedded server, which listens on its socket alone."""
    path = str(postgres.socket_directory / ".s.PGSQL.5432")

    async def lead(reader, writer):
        there, back = await asyncio.open_unix_connection(path)
        await asyncio.gather(_pump(reader, back), _pump(there, writer))

    relay = await asyncio.start_server(lead, "127.0.0.1", 0)
    try:
        yield relay.sockets[0].getsockname()[1]
    finally:
        relay.close()


async def _pump(reader, writer):
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        pass
    finally:
        writer.close()
