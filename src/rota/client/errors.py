"""What can go wrong between a client and its server."""

from __future__ import annotations

from typing import Any

from rota.errors import RotaError


class ServerUnreachableError(RotaError):
    """No Rota server answers at the address."""


class AnswerError(RotaError):
    """The server answered with a problem document."""

    def __init__(self, status: int, problem: dict[str, Any]) -> None:
        super().__init__(problem.get("detail") or problem.get("title") or f"the server answered with {status}")
        self.status = status
        self.problem = problem
