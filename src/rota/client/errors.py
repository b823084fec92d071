"""What can go wrong between a client and its server."""

from __future__ import annotations

from typing import Any

from rota.errors import RotaError


class ServerUnreachableError(RotaError):
    """No Rota server answers at the address. `advised`: the message says by itself what to do about it."""

    def __init__(self, message: str, *, advised: bool = False) -> None:
        super().__init__(message)
        self.advised = advised


class AnswerError(RotaError):
    """The server answered with a problem document; `retry_after_seconds` is when it asks to be asked again."""

    def __init__(self, status: int, problem: dict[str, Any], retry_after_seconds: float | None = None) -> None:
        super().__init__(problem.get("detail") or problem.get("title") or f"the server answered with {status}")
        self.status = status
        self.problem = problem
        self.retry_after_seconds = retry_after_seconds
