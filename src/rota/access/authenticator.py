"""Who is asking: the admin token, a key, a JWT, or the session of somebody who signed in."""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import tempfile
from pathlib import Path
from typing import NamedTuple

from starlette.requests import Request

from rota.access.credential_cache import KEY_PREFIX, SESSION_PREFIX, CredentialCache, digest
from rota.access.jwt_verifier import TokenVerifier
from rota.api.problems import HttpProblemError
from rota.domain.rights import EVERYWHERE, Grant, Identity, Role
from rota.errors import InvalidTokenError, KeysUnavailableError, SetupError

ADMIN = Identity(name="admin", kind="admin", grants={EVERYWHERE: Grant(Role.ADMIN)})
COOKIE = "rota_session"
SECURE_COOKIE = "__Host-rota_session"  # browsers take it over TLS only, for this very host
CSRF_HEADER = "x-csrf-token"
LONGEST_TOKEN = 8192
_SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
_SAME_SITE = (None, "same-origin", "none")


class Authenticated(NamedTuple):
    """Who it is, and the session's secret when it was a cookie that said so."""

    identity: Identity
    session: str | None = None


class Authenticator:
    """Knows the admin token, and whom to ask about other credentials."""

    def __init__(
        self, token: str, *, ring: CredentialCache | None = None, verifier: TokenVerifier | None = None
    ) -> None:
        if not token:
            raise SetupError("The admin token is empty: remove its file, and a new one is made.")
        self._token = token.encode()
        self._ring = ring
        self._verifier = verifier
        self._authorities = {"admin": digest(token)}
        if verifier is not None:
            self._authorities["jwt"] = verifier.fingerprint

    async def authenticate(self, request: Request) -> Authenticated:
        """The caller behind a request; raises 401, or 403 for a request that another site's page may have made."""
        headers = request.headers.getlist("authorization")
        if not headers:
            return await self._of_session(request)
        if len(headers) > 1:
            raise _unknown("send one Authorization header, not several")
        scheme, _, token = headers[0].partition(" ")
        if scheme.lower() != "bearer":
            raise _unknown("send `Authorization: Bearer <token>`")
        return Authenticated(await self.identify(token.strip()))

    async def identify(self, token: str) -> Identity:
        """Whose token it is; raises 401."""
        if hmac.compare_digest(token.encode(), self._token):
            return ADMIN
        if len(token) > LONGEST_TOKEN:
            raise _unknown("the token is too long")
        if token.startswith(KEY_PREFIX):
            if identity := await self._in_ring(token):
                return identity
            raise _unknown("the key is unknown, has expired or was revoked")
        if self._verifier is None:
            raise _unknown("the token is not valid")
        try:
            return await self._verifier.verify(token)
        except KeysUnavailableError as error:
            raise HttpProblemError(503, "Keys unavailable", str(error), {"Retry-After": "5"}) from error
        except InvalidTokenError as error:
            raise _unknown(str(error)) from error

    async def _of_session(self, request: Request) -> Authenticated:
        # Over TLS only the cookie that no other host of the domain can set.
        session = request.cookies.get(SECURE_COOKIE if request.url.scheme == "https" else COOKIE)
        if session is None:
            raise _unknown(
                "send `Authorization: Bearer <token>`; the admin token is in admin.token of Rota's home directory"
            )
        if len(session) > LONGEST_TOKEN or not session.startswith(SESSION_PREFIX):
            raise _unknown("the session is not valid; sign in again")
        identity = await self._in_ring(session)
        if identity is None:
            raise _unknown("the session is over; sign in again")
        if request.method not in _SAFE_METHODS:
            check_same_site(request)
            given = request.headers.get(CSRF_HEADER, "")
            if not hmac.compare_digest(given.encode(), csrf_token(session).encode()):
                raise HttpProblemError(403, "Forbidden", f"send the session's csrfToken as {CSRF_HEADER}")
        return Authenticated(identity, session)

    async def _in_ring(self, secret: str) -> Identity | None:
        return await self._ring.identify(secret, authorities=self._authorities) if self._ring else None

    def authority_of(self, identity: Identity) -> bytes | None:
        """What a session of theirs depends on besides a key: it ends when that is changed."""
        return self._authorities.get(identity.kind)


def csrf_token(session: str) -> str:
    """What a page of our own must send along with a change: other sites can't know it."""
    return hmac.new(session.encode(), b"csrf", hashlib.sha256).hexdigest()


def check_same_site(request: Request) -> None:
    """Raises 403 for a request that a browser says comes from a page of another site."""
    origin, host = request.headers.get("origin"), request.headers.get("host", "")
    other = origin is not None and origin.partition("://")[2] != host
    if other or request.headers.get("sec-fetch-site") not in _SAME_SITE:
        raise HttpProblemError(403, "Forbidden", "this request comes from a page of another site")


def _unknown(detail: str) -> HttpProblemError:
    return HttpProblemError(401, "Not authenticated", detail, {"WWW-Authenticate": "Bearer"})


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
