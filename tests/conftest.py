"""Fixtures: a real PostgreSQL for the whole session, a fresh database cloned for each test."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import signal
import tempfile
import time
import urllib.request
from contextlib import suppress
from pathlib import Path

import asyncpg
import psycopg
import pytest
import pytest_asyncio
import structlog
from hypothesis import HealthCheck, settings

from databases import TEMPLATE, cloned, pool_on
from engine import Engine
from listening import listening
from pgbouncer import PgBouncer, require_pgbouncer
from rota.store.postgres.embedded import EmbeddedPostgres
from rota.store.schema.migrate import migrate
from serving import clients_of, serving
from support import examples, memory

# What starts many processes for each test, and is for CI rather than for every change: `make test-slow`.
SLOW = (
    "bench/",
    "chaos/test_chaos.py",
    "chaos/test_flow_faults.py",
    "cli/test_cli_live.py",
    "docs/test_stories.py",
    "docs/test_site.py",
    "examples/",
    "first_minutes/test_copied_home.py",
    "first_minutes/test_disk.py",
    "first_minutes/test_init.py",
    "generated_clients/",
    "runbook/",
    "scenarios/",
    "store/test_embedded_account.py",
    "testing/test_plugin.py",
    "upgrade/test_side_by_side.py",
    "worker/test_secrets_out_of_reach.py",
)
# Nobody pulls the plug on a test: what guards against that is off, and cloning a database takes 20 ms.
QUICK = {
    "fsync": "off",
    "full_page_writes": "off",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "max_connections": "200",
    "autovacuum_naptime": "1min",
}
OWN = pytest.StashKey[Path]()
KEPT_SECONDS = 24 * 3600.0

# How long one example takes says more about what else the machine does than about the code.
settings.register_profile(
    "rota", deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=examples(100)
)
settings.load_profile("rota")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config):
    """Ctrl-C reaches what tests start, and temporary files go where no other session of pytest puts its own.

    A shell without job control starts what runs in the background with SIGINT ignored, and children inherit that.

    Each session takes from the directory they share what lets other accounts pass, and as root PostgreSQL runs under
    another account: the databases of a session would be cut off from their files by the next one that starts.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if config.option.basetemp is None and not hasattr(config, "workerinput"):
        for old in Path(tempfile.gettempdir()).glob("rota-tests-*"):
            with suppress(FileNotFoundError):  # another session tidies up as well
                if time.time() - old.stat().st_mtime > KEPT_SECONDS:
                    shutil.rmtree(old, ignore_errors=True)
        parent = Path(tempfile.mkdtemp(prefix="rota-tests-"))
        config.option.basetemp = str(parent / "pytest")
        config.stash[OWN] = parent


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session, exitstatus):
    """What is left after a failure is kept, to be looked at."""
    parent = session.config.stash.get(OWN, None)
    if parent and exitstatus != pytest.ExitCode.TESTS_FAILED:
        shutil.rmtree(parent, ignore_errors=True)


def pytest_collection_modifyitems(items):
    """Marks what is slow by where it is, so that nobody has to think of it."""
    here = Path(__file__).parent
    for item in items:
        if str(item.path.relative_to(here)).startswith(SLOW):
            item.add_marker("slow")


@pytest.fixture(autouse=True)
def own_logging():
    """A test that configures logging, as a command in this process does, does it for itself alone."""
    yield
    if structlog.is_configured():
        structlog.reset_defaults()
        structlog.contextvars.clear_contextvars()
        logging.getLogger("asyncpg").setLevel(logging.NOTSET)


@pytest.fixture(scope="session")
def postgres():
    """One server for all tests: the embedded one, or that of ROTA_TEST_POSTGRES (a directory with its binaries)."""
    home = Path(tempfile.mkdtemp(prefix="rota-test-", dir=memory()))
    other = os.environ.get("ROTA_TEST_POSTGRES")
    server = EmbeddedPostgres(home, settings=QUICK, binaries=Path(other) if other else None)

    async def prepare() -> None:
        async with pool_on(server.url(TEMPLATE)) as database:
            await migrate(database)

    asyncio.run(server.start())
    # It belongs to no event loop, as every test has its own, and stays open, as connecting takes as long as cloning.
    with psycopg.connect(server.url("postgres"), autocommit=True) as server.admin:
        server.admin.execute(f"CREATE DATABASE {TEMPLATE}")
        asyncio.run(prepare())
        yield server
    asyncio.run(server.stop())
    shutil.rmtree(home, ignore_errors=True)
    shutil.rmtree(server.socket_directory, ignore_errors=True)


@pytest.fixture(scope="session")
def pgbouncer(postgres):
    """A pooler in front of that server."""
    require_pgbouncer()
    bouncer = PgBouncer(postgres.socket_directory)
    yield bouncer
    bouncer.stop()


@pytest.fixture
async def database_url(postgres):
    """A migrated database of this test's own."""
    async with cloned(postgres) as url:
        yield url


@pytest.fixture
async def database(database_url):
    """A pool on this test's database."""
    async with pool_on(database_url) as database:
        yield database


@pytest.fixture
async def sql(database_url):
    """A connection for looking behind the curtain: sql.fetch(...), sql.execute(...)."""
    connection = await asyncpg.connect(database_url)
    yield connection
    await connection.close()


@pytest.fixture
async def api(database, tmp_path):
    """The API in this process: api.get(...), api.post(...)."""
    async with serving(database, tmp_path) as client:
        yield client


@pytest.fixture
async def server(api):
    """The API on a port, for clients that need a connection; its `url` says where."""
    async with listening(api.services) as server:
        yield server


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_api(postgres, tmp_path_factory):
    """An API, and a database behind it, for all tests of a module that leave both as they are."""
    async with (
        cloned(postgres) as url,
        pool_on(url) as database,
        serving(database, tmp_path_factory.mktemp("shared")) as client,
    ):
        client.database_url = url
        yield client


@pytest.fixture
def make_api(database, tmp_path):
    """More of them, or with options of their own: async with make_api(...) as api."""
    return lambda **options: serving(database, tmp_path, **options)


@pytest.fixture
def engine(database, database_url, api):
    """Schedulers and workers in this process, on this test's database."""
    return Engine(database, database_url, api)


@pytest.fixture
async def somebody(api):
    """Clients with keys: await somebody("viewer", owner="alice") is one who is a viewer in the default namespace."""
    async with clients_of(api) as make:
        yield make


@pytest.fixture(scope="module")
def s3():
    """A server that speaks S3."""
    from moto.server import ThreadedMotoServer  # noqa: PLC0415 - takes a second, which few tests need

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def bucket(s3, monkeypatch):
    """The name of a bucket of this test's own; the variables that lead to it are set."""
    for name, value in (
        ("AWS_ENDPOINT_URL", s3),
        ("AWS_ACCESS_KEY_ID", "ada"),
        ("AWS_SECRET_ACCESS_KEY", "secret"),
        ("AWS_REGION", "us-east-1"),
    ):
        monkeypatch.setenv(name, value)
    name = f"bucket-{os.urandom(4).hex()}"
    urllib.request.urlopen(urllib.request.Request(f"{s3}/{name}", method="PUT"))
    return name
