"""Rota: a distributed job scheduler on PostgreSQL."""

from __future__ import annotations

# Nothing is imported here: until the command line's entry point is loaded, Ctrl-C shows a traceback.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rota.client import AsyncClient, Client
    from rota.contract.jobs import Breaker, Misfire, RateLimit, Retry
    from rota.errors import BadInputError, ConflictError, DuplicateError, KeyReusedError, RotaError
    from rota.sdk.app import App
    from rota.sdk.call import Call
    from rota.sdk.middleware import Middleware
    from rota.sdk.nodes import Node
    from rota.sdk.placeholders import index, item
    from rota.sdk.results import NotAcceptedError, RunFailedError, WorkflowFailedError
    from rota.sdk.sender import Job, Run
    from rota.sdk.task import Task
    from rota.sdk.workflow import Workflow
    from rota.sdk.workflow_runs import WorkflowRun
    from rota.task.arguments import ArgumentsError
    from rota.task.context import Context, Final, Snooze

    __version__: str

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
    "Node",
    "NotAcceptedError",
    "RateLimit",
    "Retry",
    "RotaError",
    "Run",
    "RunFailedError",
    "Snooze",
    "Task",
    "Workflow",
    "WorkflowFailedError",
    "WorkflowRun",
    "__version__",
    "index",
    "item",
]

# The module of each name, imported when the name is first used: a command needs no SDK, a worker no HTTP client.
_EXPORTS = {
    "rota.client": ("AsyncClient", "Client"),
    "rota.contract.jobs": ("Breaker", "Misfire", "RateLimit", "Retry"),
    "rota.errors": ("BadInputError", "ConflictError", "DuplicateError", "KeyReusedError", "RotaError"),
    "rota.sdk.app": ("App",),
    "rota.sdk.call": ("Call",),
    "rota.sdk.nodes": ("Node",),
    "rota.sdk.placeholders": ("index", "item"),
    "rota.sdk.results": ("NotAcceptedError", "RunFailedError", "WorkflowFailedError"),
    "rota.sdk.middleware": ("Middleware",),
    "rota.sdk.sender": ("Job", "Run"),
    "rota.sdk.task": ("Task",),
    "rota.sdk.workflow": ("Workflow",),
    "rota.sdk.workflow_runs": ("WorkflowRun",),
    "rota.task.arguments": ("ArgumentsError",),
    "rota.task.context": ("Context", "Final", "Snooze"),
}
_MODULES = {name: module for module, names in _EXPORTS.items() for name in names}


def __getattr__(name: str) -> Any:
    from importlib import import_module  # noqa: PLC0415 - see the top

    if name == "__version__":
        found = import_module("importlib.metadata").version("rota")
    elif name in _MODULES:
        found = getattr(import_module(_MODULES[name]), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
