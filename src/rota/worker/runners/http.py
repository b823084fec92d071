"""HTTP jobs. Every address that is connected to is checked (http_addresses.py), redirects included.

The request names its run in `Rota-Run-Id`, `Rota-Job-Id`, `Rota-Attempt` and `Rota-Nominal-Time`, and carries an
`Idempotency-Key` that is the same on every attempt. The response, up to a limit, is the run's result.
"""

from __future__ import annotations

import base64
import os
import ssl
import time
from importlib.metadata import version
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import aiohttp
import msgspec
from msgspec import UNSET
from yarl import URL

from rota.domain.runner_payloads import HttpCall, check_url, parse_http_call
from rota.domain.text import clean_text
from rota.errors import BadInputError
from rota.http_addresses import SETTING, AddressGuard, is_address, is_refusal
from rota.task.context import Context, Final, PlainError
from rota.telemetry import get_logger
from rota.time_limits import time_limit
from rota.tracing import current_trace

BODY_LIMIT_BYTES = 48 * 1024  # the encoded result must fit the run's row
HEADER_LIMIT_BYTES = 8 * 1024
LONGEST_SECONDS = 3600.0
CONNECT_SECONDS = 30.0
READ_BYTES = 16 * 1024
EXCERPT = 2000
_log = get_logger("http")
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_KEEP_METHOD = frozenset({307, 308})


class HttpCallError(PlainError):
    """The request could not be made, or was not answered as expected."""


class HttpRunner:
    """Makes requests."""

    def __init__(self, guard: AddressGuard) -> None:
        self._guard = guard
        self._session: aiohttp.ClientSession | None = None

    async def run(self, task: str, payload: Any, context: Context) -> Any:  # noqa: ARG002 - one task, one name
        try:
            call = parse_http_call(payload)
        except BadInputError as error:
            raise Final(": ".join([*(field for field, _ in error.fields), str(error)])) from None
        context.begin()
        began = time.monotonic()
        try:
            async with time_limit(None if context.deadline else LONGEST_SECONDS):
                answer = await self._follow(call, _headers(call, context), context)
        except TimeoutError:
            raise HttpCallError(
                f"{call.verb} {_shown(call.url)} was not answered within {LONGEST_SECONDS:g} s"
            ) from None
        answer["seconds"] = round(time.monotonic() - began, 3)
        if not call.expects(answer["status"]):
            problem = HttpCallError(f"{call.verb} {_shown(answer['url'])} answered {answer['status']}")
            problem.add_note(f"body:\n{answer.get('body', '')[:EXCERPT]}")
            raise problem
        return answer

    async def close(self) -> None:
        if self._session:
            await self._session.close()

    async def _follow(self, call: HttpCall, headers: dict[str, str], context: Context) -> dict[str, Any]:
        url, method = call.url, call.verb
        body: bytes | None = None
        if call.body is not UNSET:
            body = call.body.encode()
        elif call.json is not UNSET:
            body = msgspec.json.encode(call.json)
        for left in reversed(range(call.max_redirects + 1)):
            answer, target = await self._request(method, url, headers, body, context)
            if target is None or not call.follow_redirects:
                return answer
            if not left:
                raise HttpCallError(f"{_shown(call.url)} answered with more than {call.max_redirects} redirects")
            target = _joined(url, target)
            if answer["status"] not in _KEEP_METHOD and method != "HEAD":
                method, body = "GET", None
                headers = {name: value for name, value in headers.items() if name.lower() != "content-type"}
            if _origin(target) != _origin(url):
                # Headers meant for one host must not reach another.
                headers = {name: value for name, value in headers.items() if name in _FOR_ALL_HOSTS}
            url = target
        raise AssertionError("unreachable")

    async def _request(
        self, method: str, url: str, headers: dict[str, str], body: bytes | None, context: Context
    ) -> tuple[dict[str, Any], str | None]:
        session = self._open()
        try:
            async with session.request(method, URL(url), headers=headers, data=body, allow_redirects=False) as response:
                target = response.headers.get("Location") if response.status in _REDIRECTS else None
                return await _read(response, url, context), target
        except aiohttp.ClientConnectorError as error:
            raise _not_reached(url, error, context) from None
        except (aiohttp.ClientError, ValueError) as error:
            raise HttpCallError(f"{method} {_shown(url)} failed: {str(error) or type(error).__name__}") from None

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(limit=0, socket_factory=self._guard.make_socket)
            self._session = aiohttp.ClientSession(
                connector=connector,
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS),
                trust_env=False,
                auto_decompress=True,
            )
        return self._session


def _not_reached(url: str, error: aiohttp.ClientConnectorError, context: Context) -> Exception:
    """The words for the job's owner, who must not learn what the names of our network mean; the log has the rest."""
    _log.info("an HTTP job could not connect", run_id=context.run_id, host=error.host, error=str(error.os_error))
    if not is_refusal(error.os_error):
        return HttpCallError(f"{_shown(url)} can't be reached: {_reason(error)}")
    if is_address(error.host):
        return Final(f"{_shown(url)}: {error.os_error}")
    return Final(f"{_shown(url)}: the worker's {SETTING} does not let HTTP jobs call the address of this host")


def _reason(error: aiohttp.ClientConnectorError) -> str:
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return "its name can't be resolved"
    if isinstance(error.os_error, ssl.SSLError):
        return str(error.os_error)
    return os.strerror(error.os_error.errno) if error.os_error.errno else "none of its addresses answers"


async def _read(response: aiohttp.ClientResponse, url: str, context: Context) -> dict[str, Any]:
    data = b""
    while len(data) <= BODY_LIMIT_BYTES + READ_BYTES and (some := await response.content.read(READ_BYTES)):
        data += some
    cut = len(data) > BODY_LIMIT_BYTES
    answer: dict[str, Any] = {"status": response.status, "url": _shown(url), "headers": _few(response)}
    try:
        text = context.mask(clean_text(data.decode("utf-8", "ignore" if cut else "strict")))
        answer["body"] = text[:BODY_LIMIT_BYTES] if cut else text
    except UnicodeDecodeError:
        # Mask before base64 hides the secrets.
        masked = context.mask(data.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
        answer["bodyBase64"] = base64.b64encode(masked[:BODY_LIMIT_BYTES]).decode()
    if cut:
        answer["cut"] = True
        response.close()
    return answer


def _few(response: aiohttp.ClientResponse) -> dict[str, str]:
    kept: dict[str, str] = {}
    size = 0
    for name, value in response.headers.items():
        size += len(name) + len(value)
        if size > HEADER_LIMIT_BYTES:
            break
        if name.lower() != "set-cookie":
            kept[name] = clean_text(value)
    return kept


_FOR_ALL_HOSTS = frozenset({"User-Agent", "Rota-Run-Id", "Rota-Job-Id", "Rota-Attempt", "Rota-Nominal-Time"})


def _headers(call: HttpCall, context: Context) -> dict[str, str]:
    headers = {
        "User-Agent": f"rota/{version('rota')}",
        "Rota-Run-Id": context.run_id,
        "Rota-Job-Id": context.job_id,
        "Rota-Attempt": str(context.attempt),
        "Rota-Nominal-Time": context.nominal_time.isoformat(),
        "Idempotency-Key": context.idempotency_key,
    }
    headers |= current_trace() or {}
    if call.json is not UNSET:
        headers["Content-Type"] = "application/json"
    given = {name.lower() for name in call.headers}
    return {name: value for name, value in headers.items() if name.lower() not in given} | call.headers


def _joined(url: str, target: str) -> str:
    try:
        joined = str(URL(url).join(URL(target)))
        check_url(joined)
    except (ValueError, BadInputError) as error:
        raise HttpCallError(f"{_shown(url)} redirects to an invalid address: {error}") from None
    return joined


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)


def _shown(url: str) -> str:
    """The address without user, password and query, which may be secret."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    where = f"[{host}]" if ":" in host else host
    return urlunsplit((parts.scheme, f"{where}:{parts.port}" if parts.port else where, parts.path, "", ""))
