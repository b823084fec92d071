"""Clients for the API, `AsyncClient` and `Client`: the same methods, made from one source."""

from __future__ import annotations

from rota.client.asynchronous import AsyncClient
from rota.client.bodies import NewJob
from rota.client.connecting import check_url
from rota.client.errors import AnswerError, ServerUnreachableError
from rota.client.synchronous import Client
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
