"""Destinations: where events are sent."""

from __future__ import annotations

import time
from typing import Any
from uuid import uuid4

import msgspec

from rota.api.backend import Backend
from rota.api.operations import ApiRequest, Operation, decode
from rota.api.paging import NAME_CURSOR, PAGE_PARAMETERS, read_limit, read_name_cursor, read_number_cursor
from rota.api.streams.sse import read_switch
from rota.contract.destinations import (
    DeliveryList,
    DeliveryOut,
    DestinationIn,
    DestinationList,
    DestinationName,
    DestinationOut,
    DestinationTest,
)
from rota.contract.fleet import EventOut
from rota.destinations.definitions import DestinationDefinition, Rotation
from rota.destinations.messages import Message
from rota.domain.events import INSTALLATION
from rota.domain.rights import Right
from rota.errors import BadInputError, ConflictError, ForbiddenError, NotFoundError
from rota.store.deliver.destinations import MOST_DESTINATIONS

_EVERYWHERE = {"everywhere": "true: of the whole installation; for admins of all namespaces"}


@Operation("GET", "/v1/destinations", Right.OPERATE, query=_EVERYWHERE | PAGE_PARAMETERS)
async def list_destinations(services: Backend, call: ApiRequest) -> DestinationList:
    """List destinations by name, without what is secret of them."""
    limit = read_limit(call.query)
    rows = await services.destinations.find_page(_place(call), read_name_cursor(call.query), limit)
    cursor = f"{NAME_CURSOR}{rows[-1]['name']}" if len(rows) == limit else None
    return DestinationList(items=[_show(row) for row in rows], next_cursor=cursor)


@Operation("GET", "/v1/destinations/{destination}", Right.OPERATE, query=_EVERYWHERE, errors=(404,))
async def get_destination(services: Backend, call: ApiRequest) -> DestinationOut:
    """Get a destination."""
    return _show(await _find(services, call))


@Operation("PUT", "/v1/destinations/{destination}", Right.OPERATE, body=DestinationIn, query=_EVERYWHERE, errors=(409,))
async def put_destination(services: Backend, call: ApiRequest) -> DestinationOut:
    """Create or change a destination. A secret that is made for a webhook is in this answer and in no other."""
    place, name = _place(call), _name(call)
    wanted: DestinationIn = decode(call.body, DestinationIn)
    await _check_apprise(services, place, name, wanted)
    definition = DestinationDefinition(services.sender.sealer, wanted, call.caller.owner)
    row, is_made = await services.destinations.put(place, name, definition.apply)
    if row is None:
        raise ConflictError(f"there are {MOST_DESTINATIONS} destinations, and can't be more")
    call.made = name if is_made else None
    return _show(row, definition.secret)


@Operation("DELETE", "/v1/destinations/{destination}", Right.OPERATE, query=_EVERYWHERE, errors=(404,))
async def delete_destination(services: Backend, call: ApiRequest) -> DestinationOut:
    """Delete a destination. What waited to be sent to it is not sent."""
    row = await services.destinations.delete(_place(call), _name(call))
    if row is None:
        raise _no_such_destination()
    return _show(row)


@Operation("POST", "/v1/destinations/{destination}/rotate", Right.OPERATE, query=_EVERYWHERE, errors=(404,))
async def rotate_destination(services: Backend, call: ApiRequest) -> DestinationOut:
    """Give a webhook a new secret, which is in this answer and in no other. For a day both secrets sign."""
    rotation = Rotation(services.sender.sealer, call.caller.owner)
    row, _ = await services.destinations.put(_place(call), _name(call), rotation.apply)
    return _show(row, rotation.secret)


@Operation("POST", "/v1/destinations/{destination}/test", Right.OPERATE, query=_EVERYWHERE, errors=(404,))
async def try_destination(services: Backend, call: ApiRequest) -> DestinationTest:
    """Send a test message now and say how that went."""
    row = await _find(services, call)
    event = EventOut(
        event_id=0,
        namespace=row["namespace"],
        time=services.now,
        event="destination.test",
        subject=row["name"],
        detail=f"a test message that {call.caller.owner} asked for",
    )
    began = time.monotonic()
    attempt = await services.sender.send(row, Message(f"msg_test_{uuid4().hex}", event))
    seconds = round(time.monotonic() - began, 3)
    return DestinationTest(delivered=attempt.is_delivered, answer=attempt.answer, error=attempt.error, seconds=seconds)


@Operation(
    "GET",
    "/v1/destinations/{destination}/deliveries",
    Right.OPERATE,
    query=_EVERYWHERE | PAGE_PARAMETERS,
    errors=(404,),
)
async def list_deliveries(services: Backend, call: ApiRequest) -> DeliveryList:
    """List what was sent to a destination, or waits to be, latest event first."""
    limit, before = read_limit(call.query), read_number_cursor(call.query)
    row = await _find(services, call)
    rows = await services.destinations.deliveries(row["id"], before, limit)
    cursor = str(rows[-1]["event_id"]) if len(rows) == limit else None
    return DeliveryList(items=[_show_delivery(row) for row in rows], next_cursor=cursor)


def _place(call: ApiRequest) -> str:
    """The namespace of the destination; raises ForbiddenError for that of the installation."""
    if not read_switch(call, "everywhere"):
        return call.namespace
    if not call.access.identity.rules_everywhere:
        raise ForbiddenError("only an admin of all namespaces may look at or change destinations of the installation")
    return INSTALLATION


async def _find(services: Backend, call: ApiRequest) -> Any:
    row = await services.destinations.find(_place(call), _name(call))
    if row is None:
        raise _no_such_destination()
    return row


async def _check_apprise(services: Backend, place: str, name: str, wanted: DestinationIn) -> None:
    """Has Apprise look at an address before it is kept."""
    if wanted.url is None:
        return
    kind = wanted.kind
    if kind is None:
        before = await services.destinations.find(place, name)
        kind = before["kind"] if before else "webhook"
    if kind == "apprise":
        await services.sender.apprise.check(wanted.url)


def _show(row: Any, secret: str | None = None) -> DestinationOut:
    return DestinationOut(
        name=row["name"],
        everywhere=row["namespace"] == INSTALLATION,
        kind=row["kind"],
        address=row["shown"],
        kinds=list(row["kinds"]),
        least_severity=row["least_severity"],
        enabled=row["enabled"],
        pending=row.get("pending", 0),
        failures=row["failures"],
        changed_by=row["changed_by"],
        created_at=row["created_at"],
        changed_time=row["changed_at"],
        secret=secret,
    )


def _show_delivery(row: Any) -> DeliveryOut:
    is_over = row["ended_at"] is not None
    return DeliveryOut(
        event_id=row["event_id"],
        event=row["kind"],
        subject=row["subject"],
        status=("delivered" if row["is_delivered"] else "given up") if is_over else "pending",
        attempts=row["attempts"],
        answer=row["answer"],
        error=row["error"],
        made_time=row["made_at"],
        last_time=row["tried_at"],
        next_time=None if is_over else row["next_at"],
    )


def _name(call: ApiRequest) -> str:
    try:
        return msgspec.convert(call.path["destination"], DestinationName)
    except msgspec.ValidationError:
        words = "must have 1 to 100 letters, digits, dots, underscores or hyphens"
        raise BadInputError(words, field="destination") from None


def _no_such_destination() -> NotFoundError:
    return NotFoundError("there is no such destination")


OPERATIONS = (
    *(list_destinations, get_destination, put_destination, delete_destination),
    *(rotate_destination, try_destination, list_deliveries),
)
