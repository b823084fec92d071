"""Who is asking: a bearer token, checked in constant time."""

from __future__ import annotations

import hmac
import os
import secrets
from pathlib import Path

from starlette.requests import Request

from rota.api.definitions import Caller
from rota.api.problems import HttpError
from rota.settings import DEFAULT_NAMESPACE

ADMIN = "admin"


class Authenticator:
    """Knows the admin token."""

    def __init__(self, token: str) -> None:
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
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return path.read_text().strip()
    with os.fdopen(handle, "w") as file:
        file.write(secrets.token_urlsafe(32) + "\n")
    return path.read_text().strip()
