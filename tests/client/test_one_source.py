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


def test_importing_rota_does_not_load_an_http_client():
    look = (
        "import rota, sys; print('httpx' in sys.modules); rota.Client, rota.AsyncClient; print('httpx' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", look], check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["False", "True"]
