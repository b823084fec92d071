"""The one place where rights are enforced.

Every operation says what it needs: a right, `ANYONE` (any authenticated caller) or `PUBLIC` (no credentials). A right
must be the caller's in the namespace of the request before the handler is called. Where it covers only the caller's own
jobs, the job or run in the path must be theirs; another's is answered as not found. Handlers that list or select limit
themselves to `Access.only`, the owner of those jobs.

An owner never changes, so what was the caller's stays so until the handler is done.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec

from rota.access.authenticator import Authenticated, Authenticator, Credentials
from rota.access.limits.rate_limiter import UNLIMITED, RateLimiter, RateStatus
from rota.contract.fields import NamespaceName
from rota.domain.ids import parse_job, parse_run, show_key_id
from rota.domain.limits import Kind
from rota.domain.rights import EVERYWHERE, Identity, Right
from rota.errors import BadInputError, ForbiddenError, NotFoundError
from rota.settings import DEFAULT_NAMESPACE

NAMESPACE_HEADER = "Rota-Namespace"
PUBLIC: Final = "public"  # without credentials
ANYONE: Final = "anyone"  # every authenticated caller
Needs = Right | Literal["public", "anyone"]
_NOWHERE = ""  # no namespace has this name
_ANONYMOUS = Identity(name="", kind="jwt", grants={})


class AccessDeniedError(ForbiddenError):
    """A known caller lacks a right; `access` is for the audit trail."""

    def __init__(self, message: str, access: Access) -> None:
        super().__init__(message)
        self.access = access


class HiddenError(NotFoundError):
    """An object is another owner's or does not exist: the answer is the same."""

    def __init__(self, message: str, access: Access) -> None:
        super().__init__(message)
        self.access = access


class Access(msgspec.Struct, frozen=True):
    """The caller, the namespace, and the owner whose jobs they are limited to (None: all owners)."""

    identity: Identity
    namespace: str
    only: str | None
    session: str | None = None


async def authorize(
    needs: Needs,
    credentials: Credentials,
    *,
    namespace: str | None,
    path: Mapping[str, str],
    services: Any,
    authenticator: Authenticator,
) -> tuple[Access, RateStatus]:
    """The access of a request that names this namespace and, in its path, these objects.

    Raises NotAuthenticatedError, RateLimitedError, AccessDeniedError or HiddenError. Every request of a known caller
    counts towards their limits, even a refused one, and before the database is asked about its objects.
    """
    if needs == PUBLIC:
        return Access(_ANONYMOUS, "", None), UNLIMITED
    proven = await authenticator.authenticate(credentials)
    try:
        access = _authorize(needs, proven, _namespace(namespace, proven.identity))
    except AccessDeniedError as error:
        await take(services.limiter, error.access, "requests")
        raise
    except BadInputError:
        await take(services.limiter, Access(proven.identity, _NOWHERE, None), "requests")
        raise
    rate_status = await take(services.limiter, access, "requests")
    if access.only is not None:
        await _check_object(path, services, access)
    return access, rate_status


def _authorize(needs: Needs, proven: Authenticated, namespace: str) -> Access:
    identity = proven.identity
    if not isinstance(needs, Right):
        return Access(identity, namespace, None, proven.session)
    grant = identity.grant_in(namespace)
    access = Access(identity, namespace, identity.name, proven.session)
    if grant is None:
        raise AccessDeniedError(f"you have no role in namespace {namespace!r}", access)
    if needs not in grant.role.rights:
        role = f"your role in namespace {namespace!r} is {grant.role.value}"
        raise AccessDeniedError(f"{role}, which may not {needs.value}", access)
    if not identity.may(needs, namespace):
        raise AccessDeniedError(f"this needs the scope {needs.value!r}, which your key lacks", access)
    return msgspec.structs.replace(access, only=None) if grant.reaches_all(needs) else access


async def take(limiter: RateLimiter, access: Access, kind: Kind, amount: int = 1) -> RateStatus:
    """Counts requests or jobs towards the limits of the caller, their key and the namespace.

    Raises RateLimitedError, or TooLargeError for more than a bucket can hold. A caller without a role in the requested
    namespace uses up the limits of their own.
    """
    identity = access.identity
    namespace = identity.home_for(access.namespace)
    if identity.kind == "admin" and kind == "requests":
        return UNLIMITED  # admins must get in to repair things
    key = None if identity.key_id is None else show_key_id(identity.key_id)
    return await limiter.take(namespace, "" if identity.kind == "admin" else identity.name, kind, amount, key=key)


async def _check_object(path: Mapping[str, str], services: Any, access: Access) -> None:
    job, run = path.get("jobId"), path.get("runId")
    if job and await services.jobs.owner(access.namespace, parse_job(job)) != access.only:
        raise HiddenError("there is no such job", access)
    if run and not await services.runs.owned(access.namespace, [parse_run(run)], access.only):
        raise HiddenError("there is no such run", access)


def _namespace(named: str | None, identity: Identity) -> str:
    """The named one, else the caller's only one, else the default."""
    if named is None:
        return home_of(identity)
    try:
        return msgspec.convert(named, NamespaceName)
    except msgspec.ValidationError:
        words = "is not the name of a namespace: 1 to 100 letters, digits and _.:-"
        raise BadInputError(words, field=NAMESPACE_HEADER) from None


def home_of(identity: Identity) -> str:
    """The namespace of requests that name none: the identity's only one, else the default."""
    if len(identity.grants) == 1 and EVERYWHERE not in identity.grants:
        return next(iter(identity.grants))
    return DEFAULT_NAMESPACE
