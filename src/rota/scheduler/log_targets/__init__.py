"""Where logs are sent: Elasticsearch or OpenSearch, Loki, or JSON lines in a file or on standard output."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from rota.errors import RotaError

_encoder = msgspec.json.Encoder()


class TargetError(RotaError):
    """The target did not take the lines; they are sent again later. What it may have taken comes twice."""


class ExportedLine(msgspec.Struct, frozen=True, rename="camel"):
    """A line of a log, with what is known of its run; None: history no longer has the run."""

    time: str
    namespace: str
    run_id: str
    job_id: str | None
    task: str | None
    pool: str | None
    attempt: int
    stream: str
    line: str
    number: int
    claim: int

    @property
    def key(self) -> str:
        """The same whenever the line is sent."""
        return f"{self.run_id}-{self.claim}-{self.number}"

    def encoded(self) -> bytes:
        """As a JSON object."""
        return _encoder.encode(self)


class RefusedLine(NamedTuple):
    """A line that the target will never take, and why."""

    line: ExportedLine
    reason: str


class LogTarget(ABC):
    """Takes lines."""

    @abstractmethod
    async def send(self, lines: Sequence[ExportedLine]) -> list[RefusedLine]:
        """Sends lines; returns those that were refused for what they are. Raises TargetError: send all again."""

    async def close(self) -> None:  # noqa: B027 - most have nothing open
        """Closes connections."""
