"""Security headers on every answer, unless it sets its own."""

from __future__ import annotations

from collections.abc import Awaitable

from starlette.applications import Starlette
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

GUARDING = [
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
    (b"referrer-policy", b"no-referrer"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
]
# A year, as browsers recommend; without subdomains, which are not ours.
GUARDING_TLS = [*GUARDING, (b"strict-transport-security", b"max-age=31536000")]
_NAMES = frozenset(name for name, _ in GUARDING_TLS)


class GuardedApplication(Starlette):
    """An application that adds them to every answer, including those of unexpected errors."""

    def build_middleware_stack(self) -> ASGIApp:
        return GuardingHeaders(super().build_middleware_stack())


class GuardingHeaders:
    """Adds the headers an answer lacks."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        guarding = GUARDING_TLS if scope.get("scheme") == "https" else GUARDING

        def send_guarded(message: Message) -> Awaitable[None]:  # not async: that would cost a coroutine per message
            if message["type"] == "http.response.start":
                message["headers"] = _joined(message.get("headers", []), guarding)
            return send(message)

        await self._app(scope, receive, send_guarded)


def guard(response: Response, scope: Scope) -> None:
    """Adds the headers that a response lacks, before it is sent."""
    response.raw_headers = _joined(response.raw_headers, GUARDING_TLS if scope.get("scheme") == "https" else GUARDING)


def _joined(own: list[tuple[bytes, bytes]], guarding: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    if _NAMES.isdisjoint([name for name, _ in own]):
        return own + guarding
    names = {name for name, _ in own}
    return own + [pair for pair in guarding if pair[0] not in names]
