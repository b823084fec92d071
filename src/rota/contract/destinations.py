"""Destinations of events: what is stored and shown. Addresses and secrets are taken, and never shown again."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta

from rota.contract.fields import In, Out
from rota.domain.events import ALERTS, Severity

DestinationName = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_.-]{1,100}(?!\n)$")]
DestinationKind = Literal["webhook", "apprise"]
EventKind = Annotated[str, Meta(pattern=r"^[a-z]+\.[a-z_]*(?!\n)$", max_length=100)]


class DestinationIn(In, kw_only=True):
    """Where events are sent, and which of them. What is left out stays as it is, or has its default if it is new."""

    kind: DestinationKind | None = None
    """`webhook`: the event as JSON, signed; `apprise`: a message for people, to a service that Apprise knows"""
    url: Annotated[str, Meta(min_length=1, max_length=2000)] | None = None
    """`https://…` of a webhook, or an address of Apprise such as `slack://…`; never shown again"""
    secret: Annotated[str, Meta(max_length=200)] | None = None
    """what signs webhooks: `whsec_` and 24 to 64 bytes in base64; made and shown once if you give none"""
    kinds: Annotated[list[EventKind], Meta(min_length=1, max_length=50)] | None = None
    """kinds of events; `worker.` stands for all that begin so. `["alert."]` if not given"""
    least_severity: Severity | None = None
    """only events that are at least so severe; those that don't say are `info`"""
    enabled: bool | None = None
    """`false`: it gets nothing, and events that happen meanwhile are not sent later"""


class DestinationOut(Out, kw_only=True):
    """A destination without what is secret of it."""

    name: str
    """its name"""
    everywhere: bool
    """whether it gets events of the whole installation"""
    kind: DestinationKind
    """`webhook` or `apprise`"""
    address: str
    """of its address what may be seen: scheme and host of a webhook, scheme of the others"""
    kinds: list[str]
    """kinds of events that it gets"""
    least_severity: str | None = None
    """how severe they must be"""
    enabled: bool
    """whether it gets any"""
    pending: int
    """how many messages wait to be sent"""
    failures: int
    """how often in a row sending has failed; 0: it works"""
    changed_by: str
    """who changed it last"""
    created_at: datetime
    """when it was created"""
    changed_time: datetime
    """when it was changed last"""
    secret: str | None = None
    """the secret that signs, in the answer to the request that made it and nowhere else"""


class DestinationList(Out, kw_only=True):
    """A page of destinations."""

    items: list[DestinationOut]
    """destinations by name"""
    next_cursor: str | None


class DeliveryOut(Out, kw_only=True):
    """An event on its way to a destination."""

    event_id: int
    """the event's number"""
    event: str | None
    """its kind; null: the event is no longer kept"""
    subject: str | None
    """what it is about"""
    status: Literal["pending", "delivered", "given up"]
    """`given up`: it could not be sent for three days"""
    attempts: int
    """how often it was tried"""
    answer: int | None
    """the HTTP status of the last attempt"""
    error: str | None
    """why the last attempt failed"""
    made_time: datetime
    """since when it waited to be sent"""
    last_time: datetime | None
    """when it was tried last"""
    next_time: datetime | None
    """when it is tried again"""


class DeliveryList(Out, kw_only=True):
    """Deliveries, latest event first."""

    items: list[DeliveryOut]
    """deliveries, latest event first"""
    next_cursor: str | None


class DestinationTest(Out, kw_only=True):
    """How a test message fared."""

    delivered: bool
    """whether it was taken"""
    answer: int | None
    """the HTTP status"""
    error: str | None
    """why it was not taken"""
    seconds: float
    """how long it took"""


DEFAULT_KINDS = [ALERTS]
