"""A small HTTP client for the API: what the command line stands on."""

from __future__ import annotations

from typing import Any, Self

import httpx

from rota.errors import RotaError

TIMEOUT_SECONDS = 30.0


class ServerUnreachableError(RotaError):
    """No server answers at the address."""


class AnswerError(RotaError):
    """The server answered with a problem document."""

    def __init__(self, status: int, problem: dict[str, Any]) -> None:
        super().__init__(problem.get("detail") or problem.get("title") or f"the server answered with {status}")
        self.status = status
        self.problem = problem


class Client:
    """Calls the API with a token and turns problems into errors."""

    def __init__(self, url: str, token: str | None) -> None:
        self.url = url
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._http = httpx.Client(base_url=url, headers=headers, timeout=TIMEOUT_SECONDS)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_details: object) -> None:
        self._http.close()

    def call(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        query: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
    ) -> Any:
        """The decoded answer; raises AnswerError or ServerUnreachableError."""
        wanted = {name: value for name, value in (query or {}).items() if value is not None}
        try:
            response = self._http.request(method, path, json=body, params=wanted, headers=headers)
        except httpx.TransportError as error:
            raise ServerUnreachableError(f"no Rota server answers at {self.url} ({error})") from error
        if response.is_success:
            return response.json()
        try:
            problem = response.json()
        except ValueError:
            problem = {"title": response.text[:200]}
        raise AnswerError(response.status_code, problem)
