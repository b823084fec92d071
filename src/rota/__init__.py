"""Rota: a distributed job scheduler on PostgreSQL."""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from rota.contract.jobs import Breaker, Misfire, RateLimit, Retry
from rota.errors import BadInputError, ConflictError, DuplicateError, KeyReusedError, RotaError
from rota.sdk.app import App
from rota.sdk.calls import Call
from rota.sdk.errors import NotAcceptedError, RunFailedError
from rota.sdk.middleware import Middleware
from rota.sdk.sending import Job, Run
from rota.sdk.task import Task
from rota.worker.arguments import ArgumentsError
from rota.worker.context import Context, Final, Snooze

if TYPE_CHECKING:
    from rota.client import AsyncClient, Client

__all__ = [
    "App",
    "ArgumentsError",
    "AsyncClient",
    "BadInputError",
    "Breaker",
    "Call",
    "Client",
    "ConflictError",
    "Context",
    "DuplicateError",
    "Final",
    "Job",
    "KeyReusedError",
    "Middleware",
    "Misfire",
    "NotAcceptedError",
    "RateLimit",
    "Retry",
    "RotaError",
    "Run",
    "RunFailedError",
    "Snooze",
    "Task",
    "__version__",
]

__version__ = version("rota")
_CLIENTS = ("AsyncClient", "Client")


def __getattr__(name: str) -> Any:
    """Clients bring an HTTP library along, which workers and their children can do without."""
    if name in _CLIENTS:
        return getattr(import_module("rota.client"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
