"""The one place where rights are enforced.

Every operation says what it needs: a right, `ANYONE` (any authenticated caller) or `PUBLIC` (no credentials). A right
must be the caller's in the namespace of the request before the handler is called. Where it covers only the caller's own
jobs, the job or run in the path must be theirs; another's is answered as not found. Handlers that list or select limit
themselves to `Access.only`, the owner of those jobs.

An owner never changes, so what was the caller's stays so until the handler is done.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal

import msgspec

from rota.access.authenticator import Authenticated, Authenticator, Credentials
from rota.access.limits.rate_limiter import UNLIMITED, Payer, RateLimiter, RateStatus
from rota.contract.fields import NamespaceName
from rota.domain.ids import is_generated, parse_run, show_key_id
from rota.domain.limits import Kind
from rota.domain.rights import EVERYWHERE, Caller, Identity, Right
from rota.errors import BadInputError, ForbiddenError, NotFoundError
from rota.settings import DEFAULT_NAMESPACE

NAMESPACE_HEADER = "Rota-Namespace"
PUBLIC: Final = "public"  # without credentials
ANYONE: Final = "anyone"  # every authenticated caller
Needs = Right | Literal["public", "anyone"]
_NOWHERE = ""  # no namespace has this name
_MOST_REMEMBERED = 10_000  # decisions


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


class Access:
    """The caller, the namespace, and the owner whose jobs they are limited to (None: all owners)."""

    __slots__ = ("caller", "identity", "namespace", "only", "payer", "session")

    def __init__(self, identity: Identity, namespace: str, only: str | None, session: str | None = None) -> None:
        self.identity = identity
        self.namespace = namespace
        self.only = only
        self.session = session
        self.caller = Caller(namespace, identity.name, only)
        # A caller without a role in the requested namespace uses up the limits of their own.
        self.payer: Payer = (
            identity.home_for(namespace),
            "" if identity.kind == "admin" else identity.name,
            None if identity.key_id is None else show_key_id(identity.key_id),
        )


_PUBLIC = Access(Identity(name="", kind="jwt", grants={}), "", None)


class Authorizer:
    """Decides what the callers of one server may do.

    A decision is remembered while the proof of the caller's identity is believed: a second for a key (decision 0014),
    and for the admin token as long as the process runs. It depends on nothing else that can change.
    """

    def __init__(self, authenticator: Authenticator, services: Any) -> None:
        self.authenticator = authenticator
        self._services = services
        self._decided: dict[tuple[Needs, str, str | None], tuple[Access, Callable[[], bool]]] = {}

    async def authorize(
        self, needs: Needs, credentials: Credentials, *, namespace: str | None, path: Mapping[str, str]
    ) -> tuple[Access, RateStatus]:
        """The access of a request that names this namespace and, in its path, these objects.

        Raises NotAuthenticatedError, RateLimitedError, AccessDeniedError or HiddenError. Every request of a known
        caller counts towards their limits, even a refused one, and before the database is asked about its objects.
        """
        if needs == PUBLIC:
            return _PUBLIC, UNLIMITED
        access = self._recall(needs, credentials, namespace) or await self._decide(needs, credentials, namespace)
        limiter = self._services.limiter
        rate_status = take_now(limiter, access, "requests") or await take(limiter, access, "requests")
        if access.only is not None and path:
            await _check_object(path, self._services, access)
        return access, rate_status

    def _recall(self, needs: Needs, credentials: Credentials, namespace: str | None) -> Access | None:
        if len(credentials.authorization) != 1:
            return None
        decided = self._decided.get((needs, credentials.authorization[0], namespace))
        return decided[0] if decided is not None and decided[1]() else None

    async def _decide(self, needs: Needs, credentials: Credentials, namespace: str | None) -> Access:
        proven = await self.authenticator.authenticate(credentials)
        limiter = self._services.limiter
        try:
            access = _authorize(needs, proven, _namespace(namespace, proven.identity))
        except AccessDeniedError as error:
            await take(limiter, error.access, "requests")
            raise
        except BadInputError:
            await take(limiter, Access(proven.identity, _NOWHERE, None), "requests")
            raise
        if proven.still_true is not None and proven.session is None:
            if len(self._decided) >= _MOST_REMEMBERED:
                self._decided.clear()
            self._decided[needs, credentials.authorization[0], namespace] = access, proven.still_true
        return access


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
    return Access(identity, namespace, None, proven.session) if grant.reaches_all(needs) else access


def take_now(limiter: RateLimiter, access: Access, kind: Kind, amount: int = 1) -> RateStatus | None:
    """As `take`, from the tokens that this server has in hand; None, and nothing is taken, if those are not enough."""
    if kind == "requests" and access.identity.kind == "admin":
        return UNLIMITED  # admins must get in to repair things
    return limiter.take_now(access.payer, kind, amount)


async def take(limiter: RateLimiter, access: Access, kind: Kind, amount: int = 1) -> RateStatus:
    """Counts requests or jobs towards the limits of the caller, their key and the namespace.

    Raises RateLimitedError, or TooLargeError for more than a bucket can hold.
    """
    taken = take_now(limiter, access, kind, amount)
    if taken is not None:
        return taken
    namespace, subject, key = access.payer
    return await limiter.take(namespace, subject, kind, amount, key=key)


async def _check_object(path: Mapping[str, str], services: Any, access: Access) -> None:
    job, run = path.get("jobId"), path.get("runId")
    if job:
        job_id = await services.jobs.find_id(access.namespace, job)
        if job_id is None or await services.jobs.owner(access.namespace, job_id) != access.only:
            raise HiddenError("there is no such job", access)
    if run:
        run_ids = [parse_run(run)] if is_generated(run, "run_") else []
        if not run_ids or not await services.runs.owned(access.namespace, run_ids, access.only):
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
