"""The one place where rights are enforced.

Every operation says which right it needs; there is no operation without. Before its handler is called, the caller must
have that right in the namespace of the request, and when the right reaches no further than the caller's own jobs, the
job or run in the path must be theirs: another's is answered as if it were not there. What a handler lists or selects
itself it bounds by `Admission.only`, the owner whose jobs the right is limited to.

An owner never changes, so what was found to be the caller's stays so until the handler is done.
"""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec
from starlette.requests import Request

from rota.access.authenticator import Authenticated, Authenticator
from rota.access.limits.rate_limiter import UNLIMITED, RateLimiter, RateStatus
from rota.contract.fields import NamespaceName
from rota.domain.ids import parse_job, parse_run, show_key_id
from rota.domain.limits import Kind
from rota.domain.rights import EVERYWHERE, Identity, Right
from rota.errors import BadInputError, ForbiddenError, NotFoundError
from rota.settings import DEFAULT_NAMESPACE

NAMESPACE_HEADER = "Rota-Namespace"
PUBLIC: Final = "public"  # whoever it is, and nobody in particular
ANYONE: Final = "anyone"  # whoever has proven who they are
Needs = Right | Literal["public", "anyone"]
NOWHERE = ""  # no namespace is called so
NOBODY = Identity(name="", kind="jwt", grants={})


class RefusedError(ForbiddenError):
    """Somebody who is known may not do this: who it was, for the audit trail."""

    def __init__(self, message: str, admission: Admission) -> None:
        super().__init__(message)
        self.admission = admission


class HiddenError(NotFoundError):
    """An object is not the caller's, or not there at all: the answer is the same."""

    def __init__(self, message: str, admission: Admission) -> None:
        super().__init__(message)
        self.admission = admission


class Admission(msgspec.Struct, frozen=True):
    """Who is let in, where, and with whose jobs they may deal (None: everybody's there)."""

    identity: Identity
    namespace: str
    only: str | None
    session: str | None = None


async def admit(
    needs: Needs, request: Request, services: Any, authenticator: Authenticator
) -> tuple[Admission, RateStatus]:
    """Lets a request in; raises 401, 429, 403, or 404 for an object that is not the caller's.

    Every request of somebody who is known counts towards their limits, also one that is refused, and before the
    database is asked about what they ask for.
    """
    if needs == PUBLIC:
        return Admission(NOBODY, "", None), UNLIMITED
    proven = await authenticator.authenticate(request)
    try:
        admission = _admit(needs, proven, _namespace(request, proven.identity))
    except RefusedError as error:
        await take(services.limiter, error.admission, "requests")
        raise
    except BadInputError:
        await take(services.limiter, Admission(proven.identity, NOWHERE, None), "requests")
        raise
    allowance = await take(services.limiter, admission, "requests")
    if admission.only is not None:
        await _check_object(request, services, admission)
    return admission, allowance


def _admit(needs: Needs, proven: Authenticated, namespace: str) -> Admission:
    identity = proven.identity
    if not isinstance(needs, Right):
        return Admission(identity, namespace, None, proven.session)
    grant = identity.grant_in(namespace)
    admission = Admission(identity, namespace, identity.name, proven.session)
    if grant is None:
        raise RefusedError(f"you have no role in namespace {namespace!r}", admission)
    if needs not in grant.role.rights:
        role = f"your role in namespace {namespace!r} is {grant.role.value}"
        raise RefusedError(f"{role}, which may not {needs.value}", admission)
    if not identity.may(needs, namespace):
        raise RefusedError(f"your key is not for this: it lacks the scope {needs.value!r}", admission)
    return msgspec.structs.replace(admission, only=None) if grant.reaches_all(needs) else admission


async def take(limiter: RateLimiter, admission: Admission, kind: Kind, amount: int = 1) -> RateStatus:
    """Counts requests or jobs towards the limits of the caller, of their key and of the namespace; raises 429.

    Who has no role in the namespace of the request does not use up its limits, but those of their own.
    """
    identity, namespace = admission.identity, admission.namespace
    if identity.kind == "admin" and kind == "requests":
        return UNLIMITED  # whoever mends things must be let in
    if identity.grant_in(namespace) is None:
        namespace = next(iter(identity.grants), NOWHERE)
    key = None if identity.key_id is None else show_key_id(identity.key_id)
    return await limiter.take(namespace, "" if identity.kind == "admin" else identity.name, kind, amount, key=key)


async def _check_object(request: Request, services: Any, admission: Admission) -> None:
    if job := request.path_params.get("jobId"):
        owner = await services.jobs.owner(admission.namespace, parse_job(job))
        if owner != admission.only:
            raise HiddenError("there is no such job", admission)
    if run := request.path_params.get("runId"):
        run_id = parse_run(run)
        if not await services.runs.owned(admission.namespace, [run_id], admission.only):
            raise HiddenError("there is no such run", admission)


def _namespace(request: Request, identity: Identity) -> str:
    """The one that is named; else the caller's only one, else the default."""
    named = request.headers.get(NAMESPACE_HEADER)
    if named is not None:
        try:
            return msgspec.convert(named, NamespaceName)
        except msgspec.ValidationError:
            words = "is not the name of a namespace: 1 to 100 letters, digits and _.:-"
            raise BadInputError(words, field=NAMESPACE_HEADER) from None
    return home_of(identity)


def home_of(identity: Identity) -> str:
    """The namespace that is meant where none is named: their only one, else the default."""
    if len(identity.grants) == 1 and EVERYWHERE not in identity.grants:
        return next(iter(identity.grants))
    return DEFAULT_NAMESPACE
