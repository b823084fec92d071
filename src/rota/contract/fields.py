"""Field types that several objects share."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache
from typing import Annotated, Literal, Protocol

import msgspec
from msgspec import Meta

from rota.domain.text import UNSEEN

PriorityName = Literal["critical", "high", "normal", "low"]
RunStatusName = Literal[
    "scheduled", "blocked", "queued", "running", "retrying", "success", "failed", "cancelled", "skipped"
]
JobStatusName = Literal[RunStatusName, "paused", "completed"]

# A plain $ would also match before a last line break.
_PLAIN = r"^[^\x00-\x1f\x7f]*(?!\n)$"
_SEEN = rf"^[^{UNSEEN}]*(?!\n)$"
_TRIMMED = rf"^[^\s{UNSEEN}]([^{UNSEEN}]*[^\s{UNSEEN}])?(?!\n)$"
_WORD = r"^[A-Za-z0-9][A-Za-z0-9_.:-]*(?!\n)$"
Name = Annotated[str, Meta(min_length=1, max_length=200, pattern=_SEEN)]
OwnerName = Annotated[str, Meta(min_length=1, max_length=200, pattern=_TRIMMED)]
# You can still search for names that were stored before the rules became this strict.
StoredName = Annotated[str, Meta(min_length=1, max_length=200, pattern=_PLAIN)]
TaskName = Annotated[str, Meta(min_length=1, max_length=200, pattern=_WORD)]
PoolName = Annotated[str, Meta(min_length=1, max_length=100, pattern=_WORD)]
NamespaceName = Annotated[str, Meta(min_length=1, max_length=100, pattern=_WORD)]
Tag = Annotated[str, Meta(min_length=1, max_length=100, pattern=rf"^[^{UNSEEN},]+(?!\n)$")]
Tags = Annotated[list[Tag], Meta(max_length=50)]
Key = Annotated[str, Meta(min_length=1, max_length=255, pattern=_PLAIN)]
Moment = Annotated[datetime, Meta(tz=True)]
Payload = Annotated[msgspec.Raw, Meta(extra_json_schema={"type": "object", "additionalProperties": True})]
Retries = Annotated[int, Meta(ge=0, le=1000)]
Positive = Annotated[float, Meta(ge=0, le=366 * 86400.0)]
Seconds = Annotated[float, Meta(gt=0, le=366 * 86400.0)]
Headers = Annotated[
    dict[
        Annotated[str, Meta(min_length=1, max_length=100, pattern=_WORD)],
        Annotated[str, Meta(max_length=2000, pattern=_PLAIN)],
    ],
    Meta(max_length=50),
]
# Generated, or chosen by the job's submitter. A chosen one must not look generated, nor mean a place in a path.
JobId = Annotated[str, Meta(min_length=1, max_length=200, pattern=r"^[A-Za-z0-9_.:-]+(?!\n)$")]
ChosenId = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=200,
        pattern=r"^(?!(?:job|run|key)_[0-9A-Fa-f]{32}$)(?!(?:\.{1,2}|batch)$)[A-Za-z0-9_.:-]+(?!\n)$",
    ),
]
# Another job, by its id or, if only one schedule has it, by its name.
JobRef = Annotated[str, Meta(min_length=1, max_length=200, pattern=_SEEN)]
Dependencies = Annotated[list[JobRef], Meta(max_length=100)]
RunId = Annotated[str, Meta(pattern=r"^run_[0-9a-f]{32}(?!\n)$")]
Jitter = Annotated[float, Meta(ge=0, le=86400.0)]
Limit = Annotated[int, Meta(ge=1, le=1_000_000)]
CalendarName = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_.-]{1,100}(?!\n)$")]
CalendarNames = Annotated[list[CalendarName], Meta(max_length=20)]
Dst = Literal["shift", "skip", "strict"]
MisfirePolicy = Literal["skip", "latest", "all"]
OnFailure = Literal["hold", "release"]
OnDuplicate = Literal["reject", "replace", "keep"]


@cache
def wire_name(field: str) -> str:
    """A field's name on the wire: maxRetries for max_retries."""
    first, *others = field.split("_")
    return first + "".join(word.capitalize() for word in others)


class In(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """A request object: unknown fields are refused."""


class Out(msgspec.Struct, rename="camel", omit_defaults=True):
    """A response object: fields with default values are left out."""


# The moment of creation, in answers. Servers send it as `createdAt` and, for one more release, as `createdTime`.
# Clients read answers with either, from the release before and the one after.
NOT_GIVEN = datetime.min.replace(tzinfo=UTC)
FormerName = Annotated[datetime, Meta(extra_json_schema={"deprecated": True})]


class _Created(Protocol):
    created_at: datetime
    created_time: datetime


def fill_created(out: _Created) -> None:
    """Gives an answer the moment of its creation under both names."""
    if out.created_at is NOT_GIVEN:
        out.created_at = out.created_time
    else:
        out.created_time = out.created_at
