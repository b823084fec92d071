"""Ids: UUIDv7 whose time part is the moment a run is planned for, shown as `job_…` and `run_…`.

The id carries the planned time, not the time of creation, so that history is partitioned, pruned and listed by when
things ran: a job submitted today for next year belongs to next year's partition. Ids that one process makes for the
same millisecond grow, also where ids for other times were made in between, so that what comes together stays in order.

Make no ids of version 8: it is kept for those that name the database of a job, once there are several (decision 0028).
"""

from __future__ import annotations

import os
import random
import sys
from array import array
from datetime import UTC, datetime
from hashlib import sha256
from uuid import UUID, SafeUUID

from rota.errors import BadInputError

_VERSION_AND_VARIANT = (0x7 << 76) | (0b10 << 62)
LOW_MASK = (1 << 62) - 1
_RANDOM_MASK = (0xFFF << 64) | LOW_MASK
_NOISE_BITS = 74
_STEP_BITS = 40
_GROWING = 1 << (_NOISE_BITS - 1 - _STEP_BITS)  # after this many ids, 8 billion, the growing part starts again
_random = random.SystemRandom()
_generator = random.Random(_random.getrandbits(256))  # noqa: S311 - ids are names, not secrets
_getrandbits = _generator.getrandbits
FIRST_ID = UUID(int=0)
LAST_ID = UUID(int=(1 << 128) - 1)
_HEX_DIGITS = frozenset("0123456789abcdef")
_ID_LENGTH = 32
_TAIL_LENGTH = 16
_TAILS = 1 << 64
_new, _set, _unknown = object.__new__, object.__setattr__, SafeUUID.unknown


class _Maker:
    """Makes ids whose part after the time grows with every id, by random steps."""

    def __init__(self) -> None:
        self._noise = 0
        self._left = 0

    def __call__(self, planned: float) -> UUID:
        """A new id for this planned time (seconds since the epoch)."""
        milliseconds = _milliseconds(planned)
        if self._left <= 0:
            self._noise = _getrandbits(_NOISE_BITS - 1)  # the upper half is left to grow into
            self._left = _GROWING
        self._left -= 1
        self._noise += 1 + _getrandbits(_STEP_BITS)
        noise = self._noise
        return _made((milliseconds << 80) | ((noise >> 62 & 0xFFF) << 64) | (noise & LOW_MASK) | _VERSION_AND_VARIANT)

    def series(self, planned: float, count: int) -> range:
        """New ids for this planned time, as numbers, each greater than the one before by one."""
        first = self(planned).int
        if (first & LOW_MASK) + count > LOW_MASK:  # the series would run into the bits of the version
            self._left = 0
            return self.series(planned, count)
        self._noise += count
        return range(first, first + count)

    def begin_anew(self) -> None:
        """A forked process must not make the ids that its parent makes."""
        _generator.seed(_random.getrandbits(256))
        self._left = 0


new_id = _Maker()
os.register_at_fork(after_in_child=new_id.begin_anew)


def fire_id(job_id: UUID, nominal: datetime) -> UUID:
    """The id of a schedule's run: a function of (job, nominal time), so no time can have two runs."""
    moment = nominal.timestamp()
    digest = sha256(job_id.bytes + round(moment * 1_000_000).to_bytes(8, "big", signed=True)).digest()
    return _compose(moment, int.from_bytes(digest[:10], "big"))


def backfill_id(operation: UUID, nominal: datetime, made: float) -> UUID:
    """The id of a backfill's run: of the moment it was made (seconds since the epoch); the rest is a function of
    (backfill, nominal time)."""
    micros = round(nominal.timestamp() * 1_000_000)
    digest = sha256(operation.bytes + micros.to_bytes(8, "big", signed=True)).digest()
    return _compose(made, int.from_bytes(digest[:10], "big"))


def declared_id(namespace: str, app: str, name: str) -> UUID:
    """The id of a declared job: a function of its name, so that no name can have two jobs."""
    digest = sha256(b"\0".join(part.encode() for part in ("declared", namespace, app, name))).digest()
    return _compose(0.0, int.from_bytes(digest[:10], "big"))


def floor_id(moment: datetime) -> UUID:
    """The smallest id of this moment: time filters become ranges of ids."""
    return UUID(int=_milliseconds(moment.timestamp()) << 80)


def shard_of(job_id: UUID, shards: int) -> int:
    """The shard whose owner looks after this job and its runs."""
    return (job_id.int & LOW_MASK) % shards


def day_of(run_id: UUID) -> str:
    """The UTC day a run belongs to, as its history does: 2026-11-16."""
    return datetime.fromtimestamp((run_id.int >> 80) / 1000, UTC).date().isoformat()


def ids_of(series: range) -> list[UUID]:
    """The ids of a series."""
    return [_made(number) for number in series]


def show_job(job_id: UUID) -> str:
    return f"job_{job_id.hex}"


def show_run(run_id: UUID) -> str:
    return f"run_{run_id.hex}"


def show_following(shown: str, steps: int) -> str:
    """The id this many steps after another one of a series, in the same form."""
    prefix, _, digits = shown.partition("_")
    return f"{prefix}_{int(digits, 16) + steps:0{_ID_LENGTH}x}"


def show_series(shown: str, count: int) -> list[str]:
    """An id and those that follow it, in the same form; takes a fraction of the time of showing each by itself."""
    prefix, tail = shown[:-_TAIL_LENGTH], int(shown[-_TAIL_LENGTH:], 16)
    if tail + count > _TAILS:
        return [show_following(shown, step) for step in range(count)]
    tails = array("Q", range(tail, tail + count))
    if sys.byteorder == "little":
        tails.byteswap()
    digits = tails.tobytes().hex()
    return [prefix + digits[at : at + _TAIL_LENGTH] for at in range(0, len(digits), _TAIL_LENGTH)]


def show_one_shot(run_id: UUID) -> tuple[str, str]:
    """A one-shot job and its run have the same id, shown in both forms."""
    digits = run_id.hex
    return f"job_{digits}", f"run_{digits}"


def show_key_id(key_id: UUID) -> str:
    return f"key_{key_id.hex}"


def is_key_id(text: str) -> bool:
    """Whether it looks like the id of a key; names of other things must not."""
    return is_generated(text, "key_")


def find_job_id(text: str) -> UUID | None:
    """The id behind `job_…`; None for any other text, such as an id that somebody chose."""
    return UUID(hex=text[4:]) if is_generated(text, "job_") else None


def is_generated(text: str, prefix: str) -> bool:
    """Whether a text has the form of a generated id with this prefix."""
    digits = text[len(prefix) :]
    return text.startswith(prefix) and len(digits) == _ID_LENGTH and _HEX_DIGITS.issuperset(digits)


def parse_key(text: str) -> UUID:
    """The id behind `key_…`; raises BadInputError for anything else."""
    return _parse(text, "key_", "keyId")


def show_workflow(workflow_id: UUID) -> str:
    return f"wf_{workflow_id.hex}"


def show_workflow_run(flow: UUID) -> str:
    return f"wfr_{flow.hex}"


def parse_workflow(text: str) -> UUID:
    """The id behind `wf_…`; raises BadInputError for anything else."""
    return _parse(text, "wf_", "workflowId")


def parse_workflow_run(text: str) -> UUID:
    """The id behind `wfr_…`; raises BadInputError for anything else."""
    return _parse(text, "wfr_", "workflowRunId")


def show_operation(operation: UUID) -> str:
    return f"op_{operation.hex}"


def parse_operation(text: str) -> UUID:
    """The id behind `op_…`; raises BadInputError for anything else."""
    return _parse(text, "op_", "operationId")


def parse_run(text: str) -> UUID:
    """The id behind `run_…`; raises BadInputError for anything else."""
    return _parse(text, "run_", "runId")


def _compose(planned: float, noise: int) -> UUID:
    return _made((_milliseconds(planned) << 80) | (noise & _RANDOM_MASK) | _VERSION_AND_VARIANT)


def _made(number: int) -> UUID:
    # Built by hand: the constructor's checks would take most of the time of a new id.
    identifier = _new(UUID)
    _set(identifier, "int", number)
    _set(identifier, "is_safe", _unknown)
    return identifier


def _milliseconds(moment: float) -> int:
    return max(0, int(moment * 1000))


def _parse(text: str, prefix: str, field: str) -> UUID:
    if not is_generated(text, prefix):
        raise BadInputError(f"not an id of the form {prefix} and {_ID_LENGTH} hex digits: {text[:80]!r}", field=field)
    return UUID(hex=text[len(prefix) :])
