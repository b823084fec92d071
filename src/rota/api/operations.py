"""An operation: method, path, types, and the function behind it. The API and its OpenAPI document come from it."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from functools import cache, cached_property
from typing import Any, get_type_hints
from uuid import UUID

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from rota.access.audit import KEPT_BACK
from rota.access.authenticator import CSRF_HEADER, Authenticator, Credentials
from rota.access.authorization import (
    NAMESPACE_HEADER,
    PUBLIC,
    Access,
    AccessDeniedError,
    Authorizer,
    HiddenError,
    Needs,
)
from rota.access.credential_cache import FRESH_SECONDS
from rota.access.limits.rate_limiter import UNLIMITED, RateStatus
from rota.api.http.body_budget import Hold
from rota.api.http.messages import IncomingRequest, JsonResponse
from rota.api.problems import response_of
from rota.contract.aliases import SCHEDULE, has_other_words, in_our_words, known_names, known_parameters, unknown
from rota.contract.json_rules import bad_json, check_names, decoder_of, excess_of
from rota.domain.ids import is_generated, parse_run
from rota.domain.rights import Right
from rota.errors import BadInputError, DatabaseUnavailableError, NotFoundError, RotaError
from rota.fair_turns import act_for
from rota.telemetry import get_logger

_BODY_LIMIT_BYTES = 1024 * 1024
_COOKIE = "rota_session"
_SECURE_COOKIE = "__Host-rota_session"  # browsers accept it over TLS only, and from this host only
_INTERNAL_ERROR = 500
_CLIENT_CLOSED = 499
_TOO_MANY = 429
_MOST_NAMED = 20  # wrong parameters
_ARRIVING = "not known yet"  # whose request it is
_RECORDED = (Right.CHANGE, Right.APPROVE, Right.OPERATE, Right.ADMINISTER)
_encoder = msgspec.json.Encoder()
_log = get_logger("api")
NO_QUERY: Mapping[str, str] = {}


class ApiRequest:
    """One request, read and authorized."""

    def __init__(
        self,
        request: IncomingRequest,
        access: Access,
        body: bytes,
        authenticator: Authenticator,
        rate_status: RateStatus = UNLIMITED,
        hold: Hold | None = None,
        query: Mapping[str, str] = NO_QUERY,
    ) -> None:
        self.request = request
        self.query = query
        self._hold = hold
        self.authenticator = authenticator
        self.access = access
        self.namespace = access.namespace
        self.caller = access.caller
        self.body = body
        self.rate_status = rate_status
        # For the audit trail: its entry, the object that was created, and the change.
        self.entry: UUID | None = None
        self.made: str | None = None
        self.change: Any = None
        self._job_id: UUID | None = None

    @property
    def only(self) -> str | None:
        """The owner whose jobs this call is limited to; None: all owners of the namespace."""
        return self.access.only

    def weigh(self, size: int) -> None:
        """Counts memory that this request takes besides its body; raises OverloadedError when there is too little."""
        if self._hold is not None:
            self._hold.grow_by(size)

    @property
    def path(self) -> dict[str, str]:
        return dict(self.request.path_params)

    async def find_job(self, jobs: Any) -> None:
        """Finds the job in the path by the id that was chosen for it; raises NotFoundError."""
        text = self.path.get("jobId")
        self._job_id = None if text is None else await jobs.find_id(self.namespace, text)
        if text is not None and self._job_id is None:
            raise NotFoundError("there is no such job")

    @property
    def job_id(self) -> UUID:
        """The job in the path, by its generated id."""
        assert self._job_id is not None  # noqa: S101 - an operation finds it before its handler is called
        return self._job_id

    @property
    def run_id(self) -> UUID:
        """The run in the path; raises NotFoundError for what can't be the id of a run."""
        text = self.path["runId"]
        if not is_generated(text, "run_"):
            raise NotFoundError("there is no such run")
        return parse_run(text)

    async def check_still_known(self) -> None:
        """Raises 401 when the caller's key, token or session has ended; for slow answers."""
        await self.authenticator.authenticate(credentials_of(self.request))

    async def is_still_known(self) -> bool:
        """Whether a stream should go on: the caller's key, token or session has not ended."""
        try:
            await self.check_still_known()
        except DatabaseUnavailableError:
            return True  # unknown; the stream itself notices that the database is away
        except RotaError:
            return False
        return True

    async def until_gone(self) -> None:
        """Returns when the client has hung up; for slow answers."""
        while (await self.request.receive())["type"] != "http.disconnect":
            pass


Handler = Callable[[Any, ApiRequest], Awaitable[Any]]


@dataclass(eq=False)
class Operation:
    """One line of the API's contract, written as a decorator above its handler.

    The handler's docstring is its summary, and its return type the answer unless another is given.
    """

    method: str
    path: str
    needs: Needs
    _: KW_ONLY
    handler: Handler = field(init=False)
    summary: str = field(init=False)
    answer: Any = None
    media_type: str = "application/json"
    status: int = 200
    body: Any = None
    query: dict[str, str] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    body_limit: int = _BODY_LIMIT_BYTES
    others: dict[int, str] = field(default_factory=dict)  # other success statuses, and what they mean
    errors: tuple[int, ...] = ()

    def __call__(self, handler: Handler) -> Operation:
        self.handler = handler
        self.summary = (handler.__doc__ or "").rstrip(".")
        self.answer = self.answer or get_type_hints(handler)["return"]
        return self

    async def answer_to(self, request: IncomingRequest, services: Any, authorizer: Authorizer) -> Response:
        """Authenticates, reads, calls and answers; every error becomes a problem document."""
        act_for(_ARRIVING)
        authenticator = authorizer.authenticator
        try:
            began = time.monotonic()
            access, rate_status = await authorizer.authorize(
                self.needs,
                credentials_of(request),
                namespace=_joined_header(request, NAMESPACE_HEADER),
                path=request.path_params,
            )
            namespace, owner = access.namespace, access.identity.name
            act_for(f"namespace {namespace}")
            query = self._read_query(request) if request.scope["query_string"] else NO_QUERY
            if self.needs != PUBLIC and access.identity.kind != "admin":  # admins must get in to repair things
                services.requests.check(namespace, owner)
            with services.requests.place(namespace, owner), services.body_budget.hold(namespace) as hold:
                body = await request.read(self.body_limit, hold) if self.body else b""
                call = ApiRequest(request, access, body, authenticator, rate_status, hold, query)
                if self.needs != PUBLIC and time.monotonic() - began > FRESH_SECONDS:
                    await call.check_still_known()  # the body was slow, and the key may have ended meanwhile
                return await self._answer(services, call)
        except (AccessDeniedError, HiddenError) as error:
            return await self._refuse(services, ApiRequest(request, error.access, b"", authenticator), error)
        except Exception as error:  # noqa: BLE001 - the last line of defence; logged whole
            return self._response_of(error)

    @cached_property
    def recorded(self) -> bool:
        """Whether the audit trail records it: all changes, but not submissions (routes/submit.py records schedules)."""
        return self.needs in _RECORDED and self.method != "GET"

    async def _refuse(self, services: Any, call: ApiRequest, error: AccessDeniedError | HiddenError) -> Response:
        """A refused change is recorded too; its body is not read."""
        response = response_of(error)
        try:
            if self.method != "GET":
                await services.refusals.record(self.handler.__name__, call, response.status_code)
        except RotaError as failure:
            return self._response_of(failure)
        return response

    async def _answer(self, services: Any, call: ApiRequest) -> Response:
        try:
            if self.recorded:
                shown = shown_fields(self.body) if self.body else frozenset()
                await services.auditor.begin(self.handler.__name__, call, shown)
            if "jobId" in call.request.path_params:
                await call.find_job(services.jobs)
            answer = await self.handler(services, call)
            response = answer if isinstance(answer, Response) else json_response(answer, self.status)
        except Exception as error:  # noqa: BLE001 - answered like any other, then recorded
            response = self._response_of(error)
        if call.entry is not None:
            await services.auditor.end(call, response.status_code)
        if call.rate_status is not UNLIMITED and response.status_code != _TOO_MANY:
            response.raw_headers += call.rate_status.raw_headers
        return response

    def _response_of(self, error: Exception) -> Response:
        if isinstance(error, ClientDisconnect):
            return Response(status_code=_CLIENT_CLOSED)
        response = response_of(error if isinstance(error, RotaError) else RotaError("internal error"))
        if response.status_code == _INTERNAL_ERROR:
            _log.error("an operation failed", operation=f"{self.method} {self.path}", exc_info=error)
        return response

    @cached_property
    def _parameters(self) -> Mapping[str, str]:
        """Every name by which a parameter of the query is known, and the parameter's own."""
        return known_parameters(self.query)

    def _read_query(self, request: Request) -> Mapping[str, str]:
        """The parameters under our names; raises BadInputError with all that are unknown or given twice."""
        found: dict[str, str] = {}
        wrong = []
        for name, value in request.query_params.multi_items():
            parameter = self._parameters.get(name)
            if parameter is None:
                wrong.append(unknown("parameter", name, self._parameters))
            elif parameter in found:
                given_as = "" if name == parameter else f": it means {parameter}"
                wrong.append((name, f"given more than once{given_as}"))
            else:
                found[parameter] = value
        if wrong:
            raise BadInputError.of(wrong[:_MOST_NAMED])
        return found


def only_header(request: IncomingRequest, name: str) -> str | None:
    """A header that can be given once; raises BadInputError for a second one, which another server may prefer."""
    given = request.all_headers(name)
    if len(given) > 1:
        raise BadInputError("given more than once", field=name)
    return given[0] if given else None


def _joined_header(request: IncomingRequest, name: str) -> str | None:
    """All headers of this name as one: two are refused like a name with a comma, when the caller is known."""
    given = request.all_headers(name)
    return ", ".join(given) if given else None


def session_cookie(request: Request) -> str:
    return _SECURE_COOKIE if request.url.scheme == "https" else _COOKIE


def credentials_of(request: IncomingRequest) -> Credentials:
    """The credentials in a request; an Authorization header takes precedence over a cookie."""
    if given := request.all_headers("authorization"):
        return Credentials(given)
    headers = request.headers
    return Credentials(
        session=request.cookies.get(session_cookie(request)),
        csrf_token=headers.get(CSRF_HEADER, ""),
        method=request.method,
        origin=headers.get("origin"),
        host=headers.get("host", ""),
        fetch_site=headers.get("sec-fetch-site"),
    )


def json_response(answer: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return JsonResponse(_encoder.encode(answer), status, headers)


@cache
def shown_fields(kind: Any) -> frozenset[str]:
    """The names of fields that the audit trail shows, under every name by which they are known."""
    if not has_other_words(kind):
        return frozenset()
    return frozenset({SCHEDULE} | {name for name, field in known_names(kind).items() if field not in KEPT_BACK})


def decode(body: bytes | msgspec.Raw, kind: type) -> Any:
    """The body as this type; raises BadInputError naming the field."""
    if excess := excess_of(bytes(body)):
        raise BadInputError(f"the body {excess}")
    try:
        try:
            found = decoder_of(kind).decode(body)
        except msgspec.ValidationError:
            if not has_other_words(kind):
                raise
            found = in_our_words(body, kind)
        check_names(body, found)
    except msgspec.MsgspecError as error:
        raise bad_json(error, kind) from None
    except (UnicodeDecodeError, RecursionError):
        raise BadInputError("the body is not valid JSON") from None
    return found
