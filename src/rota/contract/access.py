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
    """a name for people"""
    role: Role
    owner: OwnerName | None = None
    """on whose behalf it acts; the caller if not given"""
    sees: Sees = "own"
    scopes: Annotated[list[Right], Meta(min_length=1, max_length=len(Right))] | None = None
    everywhere: bool = False
    """whether it is valid in all namespaces"""
    expires_time: Moment | None = None
    """when it ends to be valid; or give `expiresSeconds`"""
    expires_seconds: Seconds | None = None
    """after how long it ends to be valid"""


class KeyOut(Out, kw_only=True):
    """A key without its secret."""

    key_id: str
    name: str
    """a name for people"""
    prefix: str
    """how it begins, to tell it from others"""
    owner: str
    """on whose behalf it acts"""
    namespace: str
    role: str
    sees: str
    scopes: list[str] | None = None
    status: Literal["active", "expired", "revoked"]
    """whether it can be used"""
    created_at: datetime = NOT_GIVEN
    """when it was created"""
    created_time: FormerName = NOT_GIVEN
    """the same as `createdAt`, by its former name; the next release leaves it out"""
    created_by: str
    expires_time: datetime | None = None
    revoked_time: datetime | None = None
    """when it was revoked"""
    revoked_by: str | None = None
    """who revoked it"""
    last_used_time: datetime | None = None
    """when it was last used"""

    def __post_init__(self) -> None:
        fill_created(self)


class KeyCreated(KeyOut, kw_only=True):
    """A new key with its secret, which is shown only once."""

    key: str
    """the secret: give it as bearer token"""


class KeyList(Out, kw_only=True):
    """A page of keys."""

    items: list[KeyOut]
    """keys, latest first"""
    next_cursor: str | None


class SessionIn(In, kw_only=True):
    """Signing in: with the admin token, a key or a JWT."""

    token: Annotated[str, Meta(min_length=1, max_length=8192)]
    """the admin token, a key or a JWT"""


class GrantOut(Out, kw_only=True):
    """The caller's role in a namespace."""

    namespace: str
    role: str
    sees: str


class SessionOut(Out, kw_only=True):
    """The caller. Send `csrfToken` with every change made with the session's cookie."""

    name: str
    """who it is"""
    kind: str
    """what identified them"""
    grants: list[GrantOut]
    """their roles"""
    scopes: list[str] | None = None
    expires_time: datetime | None = None
    """when the session ends"""
    csrf_token: str | None = None
    """send it with every change"""


class SignedOut(msgspec.Struct, rename="camel"):
    """The session is over."""

    status: Literal["signed out"] = "signed out"
    """says that it is over"""


class AuditOut(Out, kw_only=True):
    """Who did what, when, from where, to which object. Without a `status` the outcome is unknown."""

    audit_id: str
    """the entry's id"""
    time: datetime
    actor: str
    actor_kind: str
    key_id: str | None = None
    """the key that was used"""
    source: str
    """the address it came from"""
    action: str
    """what was done"""
    object: str | None = None
    """to which object"""
    request: Any = None
    """what was sent, without payloads and secrets"""
    status: int | None = None
    """the HTTP status of the answer"""
    change: Any = None
    """what changed, from and to"""


class AuditList(Out, kw_only=True):
    """A page of the audit trail."""

    items: list[AuditOut]
    """entries, latest first"""
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
    """whose limits these are; null: those of the whole namespace"""
    requests_per_second: float | None
    request_burst: int | None
    jobs_per_second: float | None
    job_burst: int | None
    most_waiting: int | None
    largest_payload_bytes: int | None
    largest_batch: int | None
    most_fan_out: int | None
    changed_time: datetime
    """when they were last changed"""
    requests_left: int | None = None
    """how many requests may come now"""
    jobs_left: int | None = None
    """how many jobs may come now"""
    waiting: int | None = None
    """how many runs waited at the last count"""


class LimitsList(Out, kw_only=True):
    """Limits: first the whole namespace, then by subject."""

    items: list[LimitsOut]
    """limits"""
    next_cursor: str | None
