"""Rota: a distributed job scheduler on PostgreSQL."""

from importlib.metadata import version

from rota.contract.jobs import Breaker, Misfire, RateLimit, Retry
from rota.errors import RotaError
from rota.sdk.app import App
from rota.sdk.calls import Call
from rota.sdk.errors import NotAcceptedError, RunFailedError
from rota.sdk.middleware import Middleware
from rota.sdk.sending import Job, Run
from rota.sdk.task import Task
from rota.worker.context import Context, Final, Snooze

__all__ = [
    "App",
    "Breaker",
    "Call",
    "Context",
    "Final",
    "Job",
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
