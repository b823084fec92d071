"""Sessions: signing in with a cookie, for pages in a browser; and who the caller is.

The cookie holds a secret of its own, not the token used to sign in, and scripts can't read it (HttpOnly). Browsers send
it from our own pages only (SameSite), and changes also need the session's CSRF token.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta

from starlette.requests import Request
from starlette.responses import Response

from rota.access.authenticator import csrf_token
from rota.access.authorization import ANYONE, PUBLIC, Access, home_of, take
from rota.access.credential_cache import FRESH_SECONDS, SESSION_PREFIX, digest, make_secret
from rota.api.backend import Backend
from rota.api.operations import ApiRequest, Operation, credentials_of, decode, json_response, session_cookie
from rota.api.pages import page_response
from rota.contract.access import GrantOut, SessionIn, SessionOut, SignedOut
from rota.domain.ids import new_id
from rota.domain.rights import Identity
from rota.errors import NotAuthenticatedError
from rota.store.access.api_keys import NewKey

_LASTS = timedelta(hours=12)


@Operation(
    "POST", "/v1/session", PUBLIC, body=SessionIn, answer=SessionOut, status=201, errors=(401, 403, 413, 429, 503)
)
async def sign_in(services: Backend, call: ApiRequest) -> Response:
    """Sign in: exchange a token for a session cookie."""
    credentials_of(call.request).check_same_site()
    wanted: SessionIn = decode(call.body, SessionIn)
    authenticator = call.authenticator
    identity = await authenticator.identify(wanted.token.strip())
    call.access = Access(identity, home_of(identity), None)
    await take(services.limiter, call.access, "requests")
    now = services.now
    expires_at = min(filter(None, (now + _LASTS, identity.expires_at)))
    if expires_at <= now:
        raise NotAuthenticatedError("the token has expired")
    await services.auditor.begin("sign_in", call)
    secret = make_secret(SESSION_PREFIX)
    await services.keys.add(
        NewKey(
            id=new_id(now.timestamp()),
            kind="session",
            namespace="",
            name="session",
            prefix=secret.prefix,
            hash=secret.hash,
            identity=identity,
            parent=identity.key_id,
            authority=authenticator.authority_of(identity),
            created_by=identity.name,
            expires_at=expires_at,
        )
    )
    response = json_response(_show(identity, secret.text), 201)
    _set_cookie(call.request, response, secret.text, round((expires_at - now).total_seconds()))
    return response


@Operation("GET", "/v1/session", ANYONE)
async def who_am_i(services: Backend, call: ApiRequest) -> SessionOut:  # noqa: ARG001 - the shape of a handler
    """Read who the caller is and what they may do."""
    return _show(call.access.identity, call.access.session)


@Operation("DELETE", "/v1/session", ANYONE, answer=SignedOut)
async def sign_out(services: Backend, call: ApiRequest) -> Response:
    """Sign out."""
    if call.access.session is not None:
        await services.auditor.begin("sign_out", call)
        await services.keys.end_session(digest(call.access.session))
        services.credentials.forget()
        await asyncio.sleep(FRESH_SECONDS)  # other servers may have looked it up a moment ago
    response = json_response(SignedOut())
    _set_cookie(call.request, response, "", 0)
    return response


@Operation("GET", "/sign-in", PUBLIC, answer=str, media_type="text/html")
async def sign_in_page(services: Backend, call: ApiRequest) -> Response:  # noqa: ARG001 - the shape of a handler
    """The sign-in page."""
    return page_response("sign_in.html")


@Operation("GET", "/", PUBLIC, answer=str, media_type="text/html")
async def front_page(services: Backend, call: ApiRequest) -> Response:  # noqa: ARG001 - the shape of a handler
    """The front page: what this server is."""
    return page_response("front.html")


def _set_cookie(request: Request, response: Response, value: str, seconds: int) -> None:
    response.set_cookie(
        session_cookie(request),
        value,
        max_age=seconds,
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
    )


def _show(identity: Identity, session: str | None) -> SessionOut:
    return SessionOut(
        name=identity.name,
        kind=identity.kind,
        grants=[
            GrantOut(namespace=namespace, role=grant.role, sees=grant.sight)
            for namespace, grant in sorted(identity.grants.items())
        ],
        scopes=None if identity.scopes is None else sorted(identity.scopes),
        expires_time=identity.expires_at,
        csrf_token=None if session is None else csrf_token(session),
    )


OPERATIONS = (sign_in, who_am_i, sign_out, front_page, sign_in_page)
