"""The synchronous client is made from the asynchronous one."""

from __future__ import annotations

import importlib.util
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


@pytest.mark.parametrize(
    ("act", "loaded"),
    [
        ("import rota", []),
        ("import rota; rota.Client", []),
        ("import sys; sys.argv = ['rota', '--help']; from rota.cli.entry import main; main()", []),
        ("import sys; sys.argv = ['rota', 'bench', '--help']; from rota.cli.entry import main; main()", []),
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
