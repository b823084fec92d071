"""The limits of namespaces, owners and keys, in memory.

Every process that accepts jobs reads changes once a second, in one statement for all tenants; a change made through
this process is in force at once. Defaults for everyone else come from the settings.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, get_args

import msgspec

from rota.domain.limits import WHOLE, Kind, Limits, Rate
from rota.domain.rights import Caller
from rota.errors import BadInputError, TooLargeError
from rota.service import Service
from rota.settings import Settings
from rota.store.access.limits import LimitTable

_NONE = Limits()
_FIELDS = Limits.__struct_fields__
_Tenant = tuple[str, str]  # namespace and subject


class TenantLimits(Service):
    """Limits by namespace and subject; read at first use, and followed from then on."""

    interval_seconds = 1.0
    jitter = 0.0

    def __init__(self, table: LimitTable, defaults: Limits = _NONE) -> None:
        super().__init__()
        self._table = table
        self._defaults = defaults
        self._rows: dict[_Tenant, Limits] = {}
        self._numbers: dict[_Tenant, int] = {}  # of the latest change of each
        self._rates: dict[tuple[str, str, Kind], Rate | None] = {}
        self._default_rates: dict[Kind, Rate | None] = {kind: defaults.rate(kind) for kind in get_args(Kind)}
        fields = msgspec.structs.asdict(defaults).items()
        self._liftable_defaults = {
            name: value for name, value in fields if name != "most_fan_out" and value is not None
        }
        self.waiting_of_namespaces: dict[_Tenant, int] = {}  # how many runs may wait, where that is limited
        self.waiting_of_owners: dict[_Tenant, int] = {}
        self._reading = asyncio.Lock()
        self.number: int | None = None  # of the last change that was read
        self.changes = 0  # that were noted here: code that remembers a limit compares

    async def tick(self) -> int:
        """Reads what has changed, once the limits are in use."""
        return 0 if self.number is None else await self.read()

    async def load(self) -> None:
        """Reads everything at the first call."""
        if self.number is None:
            async with self._reading:
                if self.number is None:
                    await self._read()

    async def read(self) -> int:
        """Reads what has changed; returns how many limits."""
        async with self._reading:
            return await self._read()

    async def change(self, namespace: str, subject: str, changes: Mapping[str, Any]) -> Any:
        """Changes limits, in force here at once; a subject without a row gets one with the present defaults."""
        defaults = {} if subject == WHOLE else self._liftable_defaults
        row = await self._table.change(namespace, subject, changes, defaults)
        self._note(row)
        return row

    def of(self, namespace: str, subject: str) -> Limits:
        """The limits of a subject; the defaults where it has none of its own."""
        return self._rows.get((namespace, subject)) or (_NONE if subject == WHOLE else self._defaults)

    def rate_of_key(self, namespace: str, key: str, kind: Kind) -> Rate | None:
        """The rate limit of one key, which has no default: defaults apply to its owner."""
        return self._rates.get((namespace, key, kind))

    def rate(self, namespace: str, subject: str, kind: Kind) -> Rate | None:
        """The rate limit of a subject; None: unlimited."""
        return self._rates.get((namespace, subject, kind), self._default_rates[kind] if subject else None)

    @property
    def has_defaults(self) -> bool:
        """Whether there are default limits that an admin can lift for a subject."""
        return bool(self._liftable_defaults)

    @property
    def bounds_waiting(self) -> bool:
        """Whether waiting runs are limited for any owner or namespace."""
        return bool(self.waiting_of_namespaces) or self.bounds_owners

    @property
    def bounds_owners(self) -> bool:
        """Whether waiting runs are limited for any owner."""
        return bool(self.waiting_of_owners) or self._defaults.most_waiting is not None

    def check_batch(self, caller: Caller, count: int) -> None:
        """Raises TooLargeError for too many jobs in one request."""
        most = self._least(caller, "largest_batch")
        if most is not None and count > most:
            raise TooLargeError(f"{count} jobs in one request; the limit is {most}")

    def takes_payloads(self, caller: Caller, characters: int) -> bool:
        """Whether no payload of this many characters is over the limit."""
        most = self._least(caller, "largest_payload_bytes") if self._rows else None
        return most is None or 4 * characters <= most  # a character has at most four bytes

    def check_payload(self, caller: Caller, payload: str | None) -> None:
        """Raises BadInputError for a payload over the limit."""
        if payload is None or not self._rows:
            return
        most = self._least(caller, "largest_payload_bytes")
        if most is not None and (size := len(payload.encode())) > most:
            raise BadInputError(f"is {size} bytes; the limit is {most}", field="payload")

    def most_fan_out(self, caller: Caller) -> int | None:
        """How many jobs one run may submit; None: any number."""
        both = (self._least(caller, "most_fan_out"), self._defaults.most_fan_out)
        return min((value for value in both if value is not None), default=None)

    def _least(self, caller: Caller, field: str) -> int | None:
        """The tighter of the namespace's and the owner's limit."""
        both = (self._rows.get((caller.namespace, subject), _NONE) for subject in (WHOLE, caller.owner))
        return min((value for limits in both if (value := getattr(limits, field)) is not None), default=None)

    async def _read(self) -> int:
        rows = await self._table.changed_since(self.number or 0)
        for row in rows:
            self._note(row)
            self.number = row["number"]
        self.number = self.number or 0
        return len(rows)

    def _note(self, row: Any) -> None:
        limits = Limits(**{field: row[field] for field in _FIELDS})
        tenant = (row["namespace"], row["subject"])
        if row["number"] < self._numbers.get(tenant, 0):
            return  # older than a change made here
        self.changes += 1
        self._numbers[tenant] = row["number"]
        self._rows[tenant] = limits
        waiting = self.waiting_of_namespaces if tenant[1] == WHOLE else self.waiting_of_owners
        waiting.pop(tenant, None)
        if limits.most_waiting is not None:
            waiting[tenant] = limits.most_waiting
        for kind in self._default_rates:
            self._rates[*tenant, kind] = limits.rate(kind)


def default_limits(settings: Settings) -> Limits:
    """The limits of subjects that have none of their own."""
    return Limits(
        requests_per_second=settings.requests_per_second or None,
        jobs_per_second=settings.jobs_per_second or None,
        most_waiting=settings.most_waiting_per_owner or None,
        most_fan_out=settings.most_fan_out,
    )
