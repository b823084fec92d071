"""Who sent a request: the holder of the admin token, a key, a JWT, or a session cookie."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from rota.access.credential_cache import KEY_PREFIX, SESSION_PREFIX, Belief, CredentialCache, digest
from rota.access.jwt_parsing import LONGEST_TOKEN
from rota.access.jwt_verifier import TokenVerifier
from rota.domain.rights import EVERYWHERE, Grant, Identity, Role
from rota.errors import ForbiddenError, NotAuthenticatedError, SetupError
from rota.private_files import kept_secret

_ADMIN = Identity(name="admin", kind="admin", grants={EVERYWHERE: Grant(Role.ADMIN)})
CSRF_HEADER = "x-csrf-token"
_SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
_SAME_SITE = (None, "same-origin", "none")


class Credentials(NamedTuple):
    """The credentials of a request, and what the browser says about the page that sent it."""

    authorization: Sequence[str] = ()  # all Authorization headers
    session: str | None = None  # in the cookie
    csrf_token: str = ""
    method: str = "GET"
    origin: str | None = None
    host: str = ""
    fetch_site: str | None = None

    def check_same_site(self) -> None:
        """Raises ForbiddenError if the browser says that a page of another site sent the request."""
        other = self.origin is not None and self.origin.partition("://")[2] != self.host
        if other or self.fetch_site not in _SAME_SITE:
            raise ForbiddenError("this request comes from a page of another site")


class Authenticated(NamedTuple):
    """The caller, and the session's secret when a cookie proved it.

    While `still_true` says so, the same Authorization header proves the same; None: it must be looked at again.
    """

    identity: Identity
    session: str | None = None
    still_true: Callable[[], bool] | None = None


_PROVEN_ADMIN = Authenticated(_ADMIN, None, lambda: True)  # the token stays the same while the process runs


class Authenticator:
    """Knows the admin token; asks the credential cache and the token verifier about others."""

    def __init__(
        self, token: str, *, credentials: CredentialCache | None = None, verifier: TokenVerifier | None = None
    ) -> None:
        if not token:
            raise SetupError("The admin token is empty: remove its file, and a new one is made.")
        self._token = token.encode()
        self._credentials = credentials
        self._verifier = verifier
        self._authorities = {"admin": digest(token)}
        if verifier is not None:
            self._authorities["jwt"] = verifier.fingerprint

    async def authenticate(self, given: Credentials) -> Authenticated:
        """The caller; raises NotAuthenticatedError, or ForbiddenError for a request from a page of another site."""
        if not given.authorization:
            return await self._of_session(given)
        if len(given.authorization) > 1:
            raise NotAuthenticatedError("send one Authorization header, not several")
        scheme, _, token = given.authorization[0].partition(" ")
        if scheme.lower() != "bearer":
            raise NotAuthenticatedError("send `Authorization: Bearer <token>`")
        return await self._prove(token.strip())

    async def identify(self, token: str) -> Identity:
        """The holder of a token; raises NotAuthenticatedError."""
        return (await self._prove(token)).identity

    async def _prove(self, token: str) -> Authenticated:
        if hmac.compare_digest(token.encode(), self._token):
            return _PROVEN_ADMIN
        if len(token) > LONGEST_TOKEN:
            raise NotAuthenticatedError("the token is too long")
        if token.startswith(KEY_PREFIX):
            if self._credentials and (belief := await self._find(token)):
                return Authenticated(belief.known.identity, None, partial(self._credentials.holds, belief))
            raise NotAuthenticatedError("the key is unknown, has expired or was revoked")
        if self._verifier is None:
            raise NotAuthenticatedError("the token is not valid")
        return Authenticated(await self._verifier.verify(token))

    async def _of_session(self, given: Credentials) -> Authenticated:
        session = given.session
        if session is None:
            raise NotAuthenticatedError(
                "send `Authorization: Bearer <token>`; the admin token is in admin.token of Rota's home directory"
            )
        if len(session) > LONGEST_TOKEN or not session.startswith(SESSION_PREFIX):
            raise NotAuthenticatedError("the session is not valid; sign in again")
        belief = await self._find(session)
        if belief is None:
            raise NotAuthenticatedError("the session is over; sign in again")
        if given.method not in _SAFE_METHODS:
            given.check_same_site()
            if not hmac.compare_digest(given.csrf_token.encode(), csrf_token(session).encode()):
                raise ForbiddenError(f"send the session's csrfToken as {CSRF_HEADER}")
        return Authenticated(belief.known.identity, session)

    async def _find(self, secret: str) -> Belief | None:
        return await self._credentials.find(secret, authorities=self._authorities) if self._credentials else None

    def authority_of(self, identity: Identity) -> bytes | None:
        """What a session of this identity depends on apart from its key: if this changes, the session ends."""
        return self._authorities.get(identity.kind)


def csrf_token(session: str) -> str:
    """The token that our pages send with each change; other sites can't know it."""
    return hmac.new(session.encode(), b"csrf", hashlib.sha256).hexdigest()


def admin_token(path: Path) -> str:
    """The admin token; created at the first start."""
    return kept_secret(path)
