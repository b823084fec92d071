"""A worker's health, for supervisors and probes: GET /healthz on a port of its own (page_server.py)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from rota.errors import SetupError
from rota.page_server import OK, SECONDS, UNAVAILABLE, PageServer, ServedPage


class WorkerHealth(msgspec.Struct, frozen=True):
    """A worker's state; one that is not `well` should be restarted."""

    well: bool
    status: str
    detail: str | None


class HealthyOrNot(Protocol):
    """A worker."""

    def health(self) -> WorkerHealth: ...


def worst_health(workers: Sequence[HealthyOrNot]) -> WorkerHealth:
    """The state of the worker of this process that is worst off."""
    states = [worker.health() for worker in workers]
    return min(states, key=lambda state: (state.well, state.detail is None, state.status == "live"))


class HealthServer(PageServer):
    """Serves GET /healthz."""

    def __init__(self, host: str, port: int, health: Callable[[], WorkerHealth], *, seconds: float = SECONDS) -> None:
        pages = {"/healthz": lambda: _page_of(health())}
        try:
            super().__init__(host, port, pages, name="rota-health", seconds=seconds)
        except OSError as error:
            raise SetupError(f"ROTA_WORKER_PORT: port {port} on {host} can't be used ({error})") from None


def _page_of(state: WorkerHealth) -> ServedPage:
    body = {"status": state.status} | ({"detail": state.detail} if state.detail else {})
    return ServedPage(msgspec.json.encode(body), OK if state.well else UNAVAILABLE)
