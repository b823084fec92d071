"""The admin token: made once, whole, and never empty."""

from __future__ import annotations

import pytest

from rota.access.authenticator import Authenticator, admin_token
from rota.errors import SetupError


def test_it_is_made_once_and_readable_by_its_owner_alone(tmp_path):
    path = tmp_path / "home" / "admin.token"
    token = admin_token(path)
    assert len(token) >= 32
    assert admin_token(path) == token
    assert path.stat().st_mode & 0o777 == 0o600
    assert [file.name for file in path.parent.iterdir()] == ["admin.token"]


def test_an_empty_file_left_by_a_crash_is_replaced(tmp_path):
    path = tmp_path / "admin.token"
    path.touch()
    assert len(admin_token(path)) >= 32


def test_an_empty_token_lets_nobody_in():
    with pytest.raises(SetupError):
        Authenticator("")
