"""Headers that tell browsers and proxies to keep their hands off: on every answer, unless it sets its own."""

from __future__ import annotations

from collections.abc import Awaitable

from starlette.applications import Starlette
from starlette.types import ASGIApp, Message, Receive, Scope, Send

GUARDING = [
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
    (b"referrer-policy", b"no-referrer"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
]
# A year, as browsers want it; other names of the domain are not ours to speak for.
GUARDING_TLS = [*GUARDING, (b"strict-transport-security", b"max-age=31536000")]
_NAMES = frozenset(name for name, _ in GUARDING_TLS)


class GuardedApplication(Starlette):
    """An application whose every answer has them, also those that come of an error nobody caught."""

    def build_middleware_stack(self) -> ASGIApp:
        """What is around the routes."""
        return GuardingHeaders(super().build_middleware_stack())


class GuardingHeaders:
    """Adds what an answer lacks."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes everything on, and the beginning of an answer with more headers."""
        guarding = GUARDING_TLS if scope.get("scheme") == "https" else GUARDING

        def send_guarded(message: Message) -> Awaitable[None]:  # not async: that would cost a coroutine per message
            if message["type"] == "http.response.start":
                message["headers"] = _joined(message.get("headers", []), guarding)
            return send(message)

        await self._app(scope, receive, send_guarded)


def _joined(own: list[tuple[bytes, bytes]], guarding: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    if _NAMES.isdisjoint([name for name, _ in own]):
        return own + guarding
    names = {name for name, _ in own}
    return own + [pair for pair in guarding if pair[0] not in names]
