"""Three grounds for scenarios: a direct connection, a real PgBouncer in transaction mode, and without NOTIFY."""

from __future__ import annotations

import asyncio
import os
import pwd
import shutil
import subprocess
import tempfile
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from fleet import Fleet
from grounds import GROUNDS

from support import free_port


def find_pgbouncer() -> str | None:
    return shutil.which("pgbouncer", path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin")


class PgBouncer:
    """A real one, in transaction mode, in front of a server on a Unix socket."""

    def __init__(self, socket_directory: Path) -> None:
        self.port = free_port()
        self.directory = Path(tempfile.mkdtemp(prefix="rota-pgbouncer-"))
        config = self.directory / "pgbouncer.ini"
        config.write_text(
            f"""[databases]
* = host={socket_directory} user=rota
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {self.port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 10
max_client_conn = 500
max_db_connections = 20
server_login_retry = 1
log_connections = 0
log_disconnections = 0
logfile = {self.directory}/log
"""
        )
        command = [find_pgbouncer() or "pgbouncer", "-q", str(config)]
        if os.geteuid() == 0:
            # It refuses to run as root; it must be the account that may use the socket.
            account = pwd.getpwuid(socket_directory.stat().st_uid)
            os.chown(self.directory, account.pw_uid, account.pw_gid)
            command[1:1] = ["-u", account.pw_name]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL)

    def url(self, database_url: str) -> str:
        return f"postgresql://rota@127.0.0.1:{self.port}/{urlsplit(database_url).path.lstrip('/')}"

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(10)
        shutil.rmtree(self.directory, ignore_errors=True)


@pytest.fixture(scope="session")
def pgbouncer(postgres):
    if find_pgbouncer() is None:
        if os.environ.get("CI"):
            pytest.fail("PgBouncer must be installed in CI (apt-get install pgbouncer)")
        pytest.skip("PgBouncer is not installed (apt-get install pgbouncer)")
    bouncer = PgBouncer(postgres.socket_directory)
    yield bouncer
    bouncer.stop()


@pytest.fixture(params=GROUNDS)
def ground(request, database_url):
    """Settings that tell processes how to reach this test's database."""
    if request.param == "pgbouncer":
        return {"ROTA_DATABASE_URL": request.getfixturevalue("pgbouncer").url(database_url)}
    notify = "off" if request.param == "without-notify" else "on"
    return {"ROTA_DATABASE_URL": database_url, "ROTA_NOTIFY": notify}


@pytest.fixture
async def fleet(ground, request):
    """Processes on one of the grounds; their logs are shown when the scenario fails."""
    fleet = Fleet(ground)
    yield fleet
    if request.session.testsfailed:
        print(fleet.logs())
    await fleet.stop()
    await asyncio.sleep(0)
