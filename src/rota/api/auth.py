"""Who is asking: a bearer token, checked in constant time."""

from __future__ import annotations

import hmac
import os
import secrets
import tempfile
from pathlib import Path

from starlette.requests import Request

from rota.api.problems import HttpError
from rota.errors import SetupError
from rota.intake.definitions import Caller
from rota.settings import DEFAULT_NAMESPACE

ADMIN = "admin"


class Authenticator:
    """Knows the admin token."""

    def __init__(self, token: str) -> None:
        if not token:
            raise SetupError("The admin token is empty: remove its file, and a new one is made.")
        self._token = token.encode()

    def authenticate(self, request: Request) -> Caller:
        """The caller behind a request; raises 401."""
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not hmac.compare_digest(token.strip().encode(), self._token):
            raise HttpError(
                401,
                "Not authenticated",
                "send `Authorization: Bearer <token>`; the admin token is in admin.token of Rota's home directory",
                {"WWW-Authenticate": "Bearer"},
            )
        return Caller(DEFAULT_NAMESPACE, ADMIN)


def admin_token(path: Path) -> str:
    """The admin token; made at the first start, readable by its owner alone."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and (token := path.read_text().strip()):
        return token
    # Written whole beside, then linked: nobody ever reads half a token, and of two that start together one wins.
    handle, beside = tempfile.mkstemp(dir=path.parent, prefix=".admin.token-")  # with mode 600
    with os.fdopen(handle, "w") as file:
        file.write(secrets.token_urlsafe(32) + "\n")
        file.flush()
        os.fsync(file.fileno())
    try:
        os.link(beside, path)
    except FileExistsError:
        if not path.read_text().strip():
            Path(beside).replace(path)
    Path(beside).unlink(missing_ok=True)
    return path.read_text().strip()
