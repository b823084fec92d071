"""A real PgBouncer for tests."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path
from urllib.parse import urlsplit

from support import free_port, leave_out, wait_until


def find_pgbouncer() -> str | None:
    return shutil.which("pgbouncer", path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin")


def require_pgbouncer() -> None:
    """Skips where it is not installed; CI installs it."""
    if find_pgbouncer() is None:
        leave_out("PgBouncer is not installed (apt-get install pgbouncer)")


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
        self._command = [find_pgbouncer() or "pgbouncer", "-q", str(config)]
        if os.geteuid() == 0:
            # It refuses to run as root; it must be the account that may use the socket.
            account = pwd.getpwuid(socket_directory.stat().st_uid)
            os.chown(self.directory, account.pw_uid, account.pw_gid)
            self._command[1:1] = ["-u", account.pw_name]
        self.process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        """Starts it, and waits until it takes connections."""
        process = subprocess.Popen(self._command, stdin=subprocess.DEVNULL)
        wait_until(self._listens)
        return process

    def _listens(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def url(self, database_url: str) -> str:
        return f"postgresql://rota@127.0.0.1:{self.port}/{urlsplit(database_url).path.lstrip('/')}"

    def restart(self) -> None:
        """Cuts all connections and starts it again."""
        self.process.kill()
        self.process.wait(10)
        self.process = self._start()

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(10)
        shutil.rmtree(self.directory, ignore_errors=True)
