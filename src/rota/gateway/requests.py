"""What a gateway is asked to submit: one job, or a set of jobs that differ in their payloads alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rota.contract.jobs import JobIn, Submitted
from rota.errors import RotaError

Payload = str | RotaError | None  # checked JSON, or the error that it has


class JobRequest(NamedTuple):
    """A requested job; with an idempotency key, the request's hash tells a repeat from another request."""

    job: JobIn
    key: str | None = None
    request_hash: bytes = b""


class Repeated(Submitted, kw_only=True):
    """The first answer to a repeated request."""


class SetRequest(NamedTuple):
    """A requested set; its job has no payload. With `positions`, only these jobs of an earlier set with the same key
    are repeated."""

    job: JobIn
    payloads: Sequence[Payload]
    key: str | None = None
    request_hash: bytes = b""
    positions: Sequence[int] | None = None
