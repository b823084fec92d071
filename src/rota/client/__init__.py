"""The API clients `AsyncClient` and `Client`, with the same methods, generated from one source."""

from __future__ import annotations

from rota.client._sync.client import Client
from rota.client.async_client import AsyncClient
from rota.client.bodies import NewJob
from rota.client.errors import AnswerError, ServerUnreachableError
from rota.client.server_address import check_url
from rota.contract.jobs import Breaker, Misfire, RateLimit, Retry

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
