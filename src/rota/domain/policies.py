"""Policies: what a run waits for besides its time.

A run without policies is plain and never meets a gate. Other runs carry theirs as JSON with resolved keys: a limit,
rate or breaker without a key is per job, or per task for jobs that run once.
"""

from __future__ import annotations

from typing import Annotated, Literal
from uuid import UUID

import msgspec
from msgspec import Meta

from rota.domain.ids import show_job

# Wider bounds than the API's, so that stored values can always be computed with.
Count = Annotated[int, Meta(ge=1, le=1_000_000_000)]
Span = Annotated[float, Meta(gt=0, le=1e9)]
Overlap = Literal["allow", "skip", "queue", "replace"]


class Policies(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """The policies of a run; None and defaults are left out."""

    order: str | None = None
    let_go: bool = False
    limit: str | None = None
    most: Count = 1
    rate: str | None = None
    count: Count = 1
    per: Span = 1.0
    burst: Count = 1
    breaker: str | None = None
    failures: Count = 5
    cooldown: Span = 60.0
    overlap: Overlap = "allow"
    opens: bool = False  # a workflow run: admission opens it
    after: dict[str, str] = {}  # the jobs it depends on: their ids (hex), with those that people know them by
    window: Span | None = None  # how long before its own time a run of these counts, in seconds; None: the same time
    awaited: bool = False  # other jobs depend on its job


class _Order(msgspec.Struct):
    order: str | None = None


_PLAIN = Policies()
_order_decoder = msgspec.json.Decoder(_Order)
_decoder = msgspec.json.Decoder(Policies)
_encoder = msgspec.json.Encoder()


def decode_policies(text: str | None) -> Policies:
    """Decodes policies. Unreadable ones must not stop other runs; of these only the order is kept, since no two runs of
    an ordering key can be live."""
    if text is None:
        return _PLAIN
    try:
        return _decoder.decode(text)
    except (msgspec.MsgspecError, RecursionError):
        pass
    try:
        return Policies(order=_order_decoder.decode(text).order)
    except (msgspec.MsgspecError, RecursionError):
        return _PLAIN


def encode_policies(policies: Policies) -> str | None:
    """Encodes policies; None for a plain run."""
    return None if policies == _PLAIN else _encoder.encode(policies).decode()


def keep_mark(policies: str | None, before: str | None) -> str | None:
    """Policies, with the mark that other jobs depend on the job if it had that before."""
    if not decode_policies(before).awaited:
        return policies
    return encode_policies(msgspec.structs.replace(decode_policies(policies), awaited=True))


def key_of(given: str | None, job_id: UUID | None, task: str) -> str:
    """The key under which runs share a limit: the given one, else the recurring job, else the task."""
    if given is not None:
        return f"key:{given}"
    return f"task:{task}" if job_id is None else show_job(job_id)


def show_key(key: str) -> str:
    """A key in words."""
    kind, found, name = key.partition(":")
    if not found:
        return f"job {key}"
    return f"key {name!r}" if kind == "key" else f"task {name!r}"
