"""Keys, sessions, and who somebody is."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from rota.contract.fields import In, Moment, Name, Out, Seconds
from rota.domain.rights import Right, Role

KeyId = Annotated[str, Meta(pattern=r"^key_[0-9a-f]{32}(?!\n)$")]
Sees = Literal["own", "all"]
RoleName = Literal["viewer", "submitter", "operator", "admin"]


class KeyIn(In, kw_only=True):
    """A key to make."""

    name: Name
    role: Role
    owner: Name | None = None
    sees: Sees = "own"
    scopes: Annotated[list[Right], Meta(min_length=1, max_length=len(Right))] | None = None
    everywhere: bool = False
    expires_time: Moment | None = None
    expires_seconds: Seconds | None = None


class KeyOut(Out, kw_only=True):
    """A key: everything but its secret."""

    key_id: str
    name: str
    prefix: str
    owner: str
    namespace: str
    role: str
    sees: str
    scopes: list[str] | None = None
    status: Literal["active", "expired", "revoked"]
    created_time: datetime
    created_by: str
    expires_time: datetime | None = None
    revoked_time: datetime | None = None
    revoked_by: str | None = None
    last_used_time: datetime | None = None


class KeyCreated(KeyOut, kw_only=True):
    """A new key with its secret, which is shown this once."""

    key: str


class KeyList(Out, kw_only=True):
    """A page of keys."""

    items: list[KeyOut]
    next_cursor: str | None


class SessionIn(In, kw_only=True):
    """Signing in: with the admin token, a key or a JWT."""

    token: Annotated[str, Meta(min_length=1, max_length=8192)]


class GrantOut(Out, kw_only=True):
    """What somebody is in a namespace."""

    namespace: str
    role: str
    sees: str


class SessionOut(Out, kw_only=True):
    """Who is asking. `csrfToken` goes with every change that is made with the session's cookie."""

    name: str
    kind: str
    grants: list[GrantOut]
    scopes: list[str] | None = None
    expires_time: datetime | None = None
    csrf_token: str | None = None


class SignedOut(msgspec.Struct, rename="camel"):
    """The session is over."""

    status: Literal["signed out"] = "signed out"
