"""The synchronous client is made from the asynchronous one."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def make_sync():
    """The tool, as a module."""
    spec = importlib.util.spec_from_file_location("make_sync", ROOT / "tools" / "make_sync.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_what_is_made_is_up_to_date(make_sync):
    assert make_sync.outdated() == [], "run `make sync`"


def test_what_is_made_says_so_and_has_nothing_asynchronous_left(make_sync):
    for source, target, _ in make_sync.PAIRS:
        first, rest = (ROOT / target).read_text().split("\n", 1)
        assert source in first
        assert not re.search(r"\basync|\bawait\b|Async[A-Z]", rest)


def test_a_file_that_was_changed_by_hand_is_found(make_sync, monkeypatch):
    _, target, _ = make_sync.PAIRS[0]
    monkeypatch.setattr(make_sync, "_read", lambda _target: (ROOT / target).read_text() + "# mine\n")
    assert target in make_sync.outdated()


# Whoever speaks HTTP loads one of these; asyncio brings ssl.
HTTP_LIBRARIES = ("httptools", "http.client", "urllib.request", "aiohttp", "httpx", "uvicorn", "ssl", "asyncio")


COMMAND = "import sys; sys.argv = ['rota', *{}]; from rota.cli.entry import main; main()"
# What only some commands use: a server, workers, a database, and what draws on the screen.
FOR_SOME_COMMANDS = (
    *("asyncpg", "uvloop", "starlette", "psutil", "cryptography", "obstore", "structlog", "jwt", "multiprocessing"),
    *("rota.api", "rota.cli.bulk_submit", "rota.cli.process_start", "rota.compose", "rota.scheduler", "rota.sdk"),
    *("rota.store", "rota.worker", "rich.live", "rich.progress"),
)


@pytest.mark.parametrize("arguments", [["--help"], ["submit", "x", "--task", "rota.echo"], ["jobs"]], ids=" ".join)
def test_a_command_loads_what_it_uses_and_no_more(arguments, tmp_path):
    look = (
        "import atexit, sys; "
        f"atexit.register(lambda: print('loaded:', *sorted({{*sys.modules}} & {{*{FOR_SOME_COMMANDS}}}))); "
        f"{COMMAND.format(arguments)}"
    )
    environment = os.environ | {"ROTA_URL": "http://127.0.0.1:9", "ROTA_TOKEN": "t", "ROTA_HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", look], env=environment, check=False, capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "loaded:"


def test_until_its_entry_point_is_loaded_a_command_loads_nothing_else():
    """Nothing else can be interrupted with a traceback."""
    look = "import sys; before = {*sys.modules}; import rota.cli.entry; print(*sorted({*sys.modules} - before))"
    done = subprocess.run([sys.executable, "-c", look], check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["__future__", "rota", "rota.cli", "rota.cli.entry"]


@pytest.mark.parametrize(
    ("act", "loaded"),
    [
        ("import rota", []),
        ("import rota; rota.Client", []),
        (f"{COMMAND.format(['--help'])}", []),
        (f"{COMMAND.format(['bench', '--help'])}", []),
        ("import rota; rota.Client('http://127.0.0.1:1', 't')", ["httptools"]),
        ("import rota; rota.AsyncClient('http://127.0.0.1:1', 't')", ["asyncio", "httptools", "ssl"]),
    ],
)
def test_http_libraries_are_loaded_by_those_who_use_them(act, loaded):
    look = (
        f"import atexit, sys; names = {HTTP_LIBRARIES}; "
        f"atexit.register(lambda: print('loaded:', *sorted(name for name in names if name in sys.modules))); {act}"
    )
    done = subprocess.run([sys.executable, "-c", look], check=True, capture_output=True, text=True)
    assert done.stdout.splitlines()[-1].split()[1:] == loaded
