"""Policies between the API's fields and what travels with a run."""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter
from typing import Any
from uuid import UUID

import msgspec
from msgspec import UNSET

from rota.contract.jobs import Breaker, JobIn, JobOut, JobPatch, RateLimit
from rota.domain.job import SCRIPT_TASK
from rota.domain.policies import Policies, decode_policies, encode_policies, key_of
from rota.errors import BadInputError

_KEY = "key:"
# Policies that are no fields of the job, or that need a look at other jobs.
_NOT_FIELDS = ("opens", "after", "window", "awaited")


class PolicyFields(msgspec.Struct, frozen=True):
    """The fields of a job that make its policies, by their API names; None: not given."""

    ordering_key: str | None = None
    ordering_on_failure: str | None = None
    concurrency_key: str | None = None
    concurrency_limit: int | None = None
    rate_limit: RateLimit | None = None
    breaker: Breaker | None = None
    overlap: str | None = None


class FieldGroup:
    """Fields of a job that are read together, since most jobs have none of them."""

    def __init__(self, *names: str) -> None:
        self.names = names
        self._read = attrgetter(*names)
        defaults = {field.name: field.default for field in msgspec.structs.fields(JobIn)}
        self._defaults = tuple(defaults[name] for name in names)

    def given(self, wanted: JobIn) -> dict[str, Any]:
        """Those that have a value, by name."""
        values = self._read(wanted)
        if values == self._defaults:
            return {}
        pairs = zip(self.names, values, strict=True)
        return {name: value for name, value in pairs if value is not None and value is not UNSET}


POLICY_FIELDS = FieldGroup(*PolicyFields.__struct_fields__)


def policies_of(wanted: JobIn, job_id: UUID | None) -> str | None:
    """The policies of a new job's runs; `job_id` is for recurring jobs. Raises BadInputError naming the field."""
    given = POLICY_FIELDS.given(wanted)
    return _encode(PolicyFields(**given), job_id, wanted.task or SCRIPT_TASK) if given else None


def patched_policies(before: str | None, patch: JobPatch, job_id: UUID | None, task: str) -> str | None:
    """Policies with some fields changed, for a task that may have changed too."""
    changes = {name: getattr(patch, name) for name in POLICY_FIELDS.names if getattr(patch, name) is not UNSET}
    if changes.get("ordering_key", UNSET) is None:
        changes.setdefault("ordering_on_failure", None)
    if changes.get("concurrency_limit", UNSET) is None:
        changes.setdefault("concurrency_key", None)
    kept = decode_policies(before)
    encoded = _encode(msgspec.structs.replace(_fields_of(kept), **changes), job_id, task)
    marks = {name: getattr(kept, name) for name in _NOT_FIELDS}
    return encode_policies(msgspec.structs.replace(decode_policies(encoded), **marks))


def with_dependencies(policies: str | None, needs: Mapping[UUID, str], window: float | None) -> str | None:
    """Policies of a job that depends on these, which people know by these ids."""
    after = {need.hex: shown for need, shown in needs.items()}
    changed = msgspec.structs.replace(decode_policies(policies), after=after, window=window if after else None)
    return encode_policies(changed)


def show_policies(out: JobOut, text: str | None) -> None:
    """Adds a job's policies to its representation."""
    if text is None:
        return
    policies = decode_policies(text)
    fields = _fields_of(policies)
    if policies.after:
        out.dependencies = sorted(policies.after.values())
        out.dependency_window_seconds = policies.window
    for name in POLICY_FIELDS.names:
        if (value := getattr(fields, name)) is not None:
            setattr(out, name, value)


def _encode(fields: PolicyFields, job_id: UUID | None, task: str) -> str | None:
    _check(fields, job_id)
    given: dict[str, Any] = {}
    if fields.ordering_key is not None:
        given |= {"order": fields.ordering_key, "let_go": fields.ordering_on_failure == "release"}
    if fields.concurrency_limit is not None:
        given |= {"limit": key_of(fields.concurrency_key, job_id, task), "most": fields.concurrency_limit}
    if (rate := fields.rate_limit) is not None:
        given |= {"rate": key_of(rate.key, job_id, task), "count": rate.limit, "per": rate.per_seconds}
        given["burst"] = rate.limit if rate.burst is None else rate.burst
    if (breaker := fields.breaker) is not None:
        given |= {"breaker": key_of(breaker.key, job_id, task)}
        given |= {"failures": breaker.failures, "cooldown": breaker.cooldown_seconds}
    if fields.overlap is not None:
        given["overlap"] = fields.overlap
    return encode_policies(Policies(**given))


def _check(fields: PolicyFields, job_id: UUID | None) -> None:
    if fields.concurrency_key is not None and fields.concurrency_limit is None:
        raise BadInputError("required with concurrencyKey: how many may run at a time", field="concurrencyLimit")
    if fields.ordering_on_failure is not None and fields.ordering_key is None:
        raise BadInputError("needs an orderingKey", field="orderingOnFailure")
    if fields.overlap is not None and job_id is None:
        raise BadInputError("is for recurring jobs; this one runs once", field="overlap")


def _fields_of(policies: Policies) -> PolicyFields:
    rate = breaker = None
    if policies.rate is not None:
        burst = None if policies.burst == policies.count else policies.burst
        rate = RateLimit(limit=policies.count, per_seconds=policies.per, burst=burst, key=_given(policies.rate))
    if policies.breaker is not None:
        key = _given(policies.breaker)
        breaker = Breaker(failures=policies.failures, cooldown_seconds=policies.cooldown, key=key)
    return PolicyFields(
        ordering_key=policies.order,
        ordering_on_failure=("release" if policies.let_go else "hold") if policies.order is not None else None,
        concurrency_key=_given(policies.limit),
        concurrency_limit=policies.most if policies.limit is not None else None,
        rate_limit=rate,
        breaker=breaker,
        overlap=policies.overlap if policies.overlap != "allow" else None,
    )


def _given(key: str | None) -> str | None:
    """The key that was given; None when it was derived from the job or task."""
    return key.removeprefix(_KEY) if key is not None and key.startswith(_KEY) else None
