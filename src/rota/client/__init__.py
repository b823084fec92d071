"""The API clients `AsyncClient` and `Client`, with the same methods, generated from one source."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rota.client._sync.client import Client
from rota.client.bodies import NewJob
from rota.client.errors import AnswerError, ServerUnreachableError
from rota.client.server_address import check_url
from rota.contract.jobs import Breaker, Misfire, RateLimit, Retry

if TYPE_CHECKING:
    from rota.client.async_client import AsyncClient

__all__ = [
    "AnswerError",
    "AsyncClient",
    "Breaker",
    "Client",
    "Misfire",
    "NewJob",
    "RateLimit",
    "Retry",
    "ServerUnreachableError",
    "check_url",
]


def __getattr__(name: str) -> Any:
    """The asynchronous client, imported when it is first used: a command needs no asyncio."""
    if name != "AsyncClient":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from rota.client.async_client import AsyncClient  # noqa: PLC0415 - see above

    globals()[name] = AsyncClient
    return AsyncClient
