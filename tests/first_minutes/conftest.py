"""One `rota up` for all that only needs a server; its directories have spaces in their names."""

from __future__ import annotations

import http.server
import shutil
import tempfile
import threading
from pathlib import Path

import pytest
from newcomer import Newcomer

import support
from support import memory

TASKS = """
import rota

app = rota.App()


@app.task
async def greet(name: str) -> str:
    return f"Hello, {name}!"


@app.task
def stumble() -> None:
    raise LookupError("no such customer")
"""


@pytest.fixture(scope="session")
def free_port():
    return support.free_port


@pytest.fixture
def short_path():
    """A directory whose path is short enough for a socket in it."""
    with tempfile.TemporaryDirectory(prefix="rota-first-", dir=memory()) as place:
        Path(place).chmod(0o755)
        yield Path(place)


@pytest.fixture(scope="session")
def project():
    """A directory with some tasks."""
    place = Path(tempfile.mkdtemp(prefix="rota first ", dir=memory()))
    (place / "tasks.py").write_text(TASKS)
    yield place
    shutil.rmtree(place, ignore_errors=True)


@pytest.fixture(scope="session")
def up(project, free_port):
    """A newcomer whose `rota up --app tasks:app` is running."""
    home = project / "my home"
    home.mkdir()
    who = Newcomer(home, free_port())
    with who.running("up", "--app", "tasks:app", "--workers", "1", cwd=project) as background:
        who.background = background
        who.wait_for_worker()
        yield who
        assert background.stop() == 0, background.said


@pytest.fixture
def newcomer(short_path, free_port):
    """Somebody for whom nothing is running."""
    return Newcomer(short_path, free_port())


class _OtherProgram(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        """Says nothing: a command in this process has its errors read."""


@pytest.fixture
def other_program():
    """The port of a web server in this process that is not Rota's."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _OtherProgram) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()
