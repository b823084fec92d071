"""Keys, sessions, audit and limits."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from rota.contract.fields import NOT_GIVEN, FormerName, In, Moment, Name, Out, OwnerName, Seconds, fill_created
from rota.domain.limits import FASTEST_PER_SECOND, SLOWEST_PER_SECOND
from rota.domain.rights import Right, Role

KeyId = Annotated[str, Meta(pattern=r"^key_[0-9a-f]{32}(?!\n)$")]
Sees = Literal["own", "all"]
RoleName = Literal["viewer", "submitter", "operator", "admin"]
PerSecond = Annotated[float, Meta(ge=SLOWEST_PER_SECOND, le=FASTEST_PER_SECOND)]
Burst = Annotated[int, Meta(ge=1, le=1_000_000_000)]
Most = Annotated[int, Meta(ge=0, le=1_000_000_000)]
Largest = Annotated[int, Meta(ge=1, le=1_000_000_000)]


class KeyIn(In, kw_only=True):
    """A key to make."""

    name: Name
    role: Role
    owner: OwnerName | None = None
    sees: Sees = "own"
    scopes: Annotated[list[Right], Meta(min_length=1, max_length=len(Right))] | None = None
    everywhere: bool = False
    expires_time: Moment | None = None
    expires_seconds: Seconds | None = None


class KeyOut(Out, kw_only=True):
    """A key without its secret."""

    key_id: str
    name: str
    prefix: str
    owner: str
    namespace: str
    role: str
    sees: str
    scopes: list[str] | None = None
    status: Literal["active", "expired", "revoked"]
    created_at: datetime = NOT_GIVEN
    """when it was created"""
    created_time: FormerName = NOT_GIVEN
    """the same as `createdAt`, by its former name; the next release leaves it out"""
    created_by: str
    expires_time: datetime | None = None
    revoked_time: datetime | None = None
    revoked_by: str | None = None
    last_used_time: datetime | None = None

    def __post_init__(self) -> None:
        fill_created(self)


class KeyCreated(KeyOut, kw_only=True):
    """A new key with its secret, which is shown only once."""

    key: str


class KeyList(Out, kw_only=True):
    """A page of keys."""

    items: list[KeyOut]
    next_cursor: str | None


class SessionIn(In, kw_only=True):
    """Signing in: with the admin token, a key or a JWT."""

    token: Annotated[str, Meta(min_length=1, max_length=8192)]


class GrantOut(Out, kw_only=True):
    """The caller's role in a namespace."""

    namespace: str
    role: str
    sees: str


class SessionOut(Out, kw_only=True):
    """The caller. Send `csrfToken` with every change made with the session's cookie."""

    name: str
    kind: str
    grants: list[GrantOut]
    scopes: list[str] | None = None
    expires_time: datetime | None = None
    csrf_token: str | None = None


class SignedOut(msgspec.Struct, rename="camel"):
    """The session is over."""

    status: Literal["signed out"] = "signed out"


class AuditOut(Out, kw_only=True):
    """Who did what, when, from where, to which object. Without a `status` the outcome is unknown."""

    audit_id: str
    time: datetime
    actor: str
    actor_kind: str
    key_id: str | None = None
    source: str
    action: str
    object: str | None = None
    request: Any = None
    status: int | None = None
    change: Any = None


class AuditList(Out, kw_only=True):
    """A page of the audit trail."""

    items: list[AuditOut]
    next_cursor: str | None


class LimitsIn(In, kw_only=True):
    """Limits to change: null removes a limit, a missing field leaves it unchanged."""

    requests_per_second: PerSecond | UnsetType | None = UNSET
    request_burst: Burst | UnsetType | None = UNSET
    jobs_per_second: PerSecond | UnsetType | None = UNSET
    job_burst: Burst | UnsetType | None = UNSET
    most_waiting: Most | UnsetType | None = UNSET
    largest_payload_bytes: Largest | UnsetType | None = UNSET
    largest_batch: Largest | UnsetType | None = UNSET
    most_fan_out: Most | UnsetType | None = UNSET


class LimitsOut(Out, kw_only=True):
    """The limits of a subject (null: the whole namespace). Null: no limit of that kind.

    `requestsLeft` and `jobsLeft`: tokens in the buckets now, without those held by servers. `waiting`: the last count
    of waiting runs.
    """

    subject: str | None
    requests_per_second: float | None
    request_burst: int | None
    jobs_per_second: float | None
    job_burst: int | None
    most_waiting: int | None
    largest_payload_bytes: int | None
    largest_batch: int | None
    most_fan_out: int | None
    changed_time: datetime
    requests_left: int | None = None
    jobs_left: int | None = None
    waiting: int | None = None


class LimitsList(Out, kw_only=True):
    """Limits: first the whole namespace, then by subject."""

    items: list[LimitsOut]
    next_cursor: str | None
