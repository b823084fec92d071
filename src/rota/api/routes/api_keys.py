"""Keys: make, list, revoke."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import Any

from rota.access.credential_cache import FRESH_SECONDS, make_secret
from rota.api.backend import Backend
from rota.api.operations import ApiRequest, Operation, decode
from rota.api.paging import PAGE_PARAMETERS, next_cursor, read_cursor, read_limit
from rota.contract.access import KeyCreated, KeyIn, KeyList, KeyOut
from rota.domain.ids import is_key_id, new_id, parse_key, show_key_id
from rota.domain.rights import EVERYWHERE, Grant, Identity, Right
from rota.errors import BadInputError, ForbiddenError
from rota.store.access.api_keys import NewKey, grants_of

_RESERVED_OWNER = "admin"


@Operation("POST", "/v1/keys", Right.ADMINISTER, body=KeyIn, status=201, errors=(413,))
async def create_key(services: Backend, call: ApiRequest) -> KeyCreated:
    """Make a key; its secret is shown this once."""
    wanted: KeyIn = decode(call.body, KeyIn)
    owner = wanted.owner or wanted.name
    namespace = EVERYWHERE if wanted.everywhere else call.namespace
    secret, grant = make_secret(), Grant(wanted.role, wanted.sees)
    scopes = None if wanted.scopes is None else frozenset(wanted.scopes)
    expires_at = _expiry(wanted, services.now)
    _check_rights(call, wanted, owner)
    _check_expiry(call, expires_at)
    new = NewKey(
        id=new_id(services.now.timestamp()),
        kind="key",
        namespace=namespace,
        name=wanted.name,
        prefix=secret.prefix,
        hash=secret.hash,
        identity=Identity(name=owner, kind="key", grants={namespace: grant}, scopes=scopes),
        created_by=call.caller.owner,
        expires_at=expires_at,
    )
    created_at = await services.keys.add(new)
    call.made = show_key_id(new.id)
    return KeyCreated(
        key=secret.text,
        key_id=show_key_id(new.id),
        name=new.name,
        prefix=new.prefix,
        owner=owner,
        namespace=namespace,
        role=wanted.role,
        sees=grant.sight,
        scopes=None if scopes is None else sorted(scopes),
        status="active",
        created_at=created_at,
        created_by=new.created_by,
        expires_time=new.expires_at,
    )


@Operation("GET", "/v1/keys", Right.ADMINISTER, query=PAGE_PARAMETERS)
async def list_keys(services: Backend, call: ApiRequest) -> KeyList:
    """List keys, without their secrets."""
    limit = read_limit(call.query)
    rows = list(await services.keys.list(call.namespace, read_cursor(call.query), limit))
    if call.access.identity.rules_everywhere:
        rows += await services.keys.list(EVERYWHERE, read_cursor(call.query), limit)
    page = sorted(rows, key=lambda row: row["id"], reverse=True)[:limit]
    return KeyList(items=[_show(row) for row in page], next_cursor=next_cursor([row["id"] for row in page], limit))


@Operation("DELETE", "/v1/keys/{keyId}", Right.ADMINISTER, errors=(404,))
async def revoke_key(services: Backend, call: ApiRequest) -> KeyOut:
    """Revoke a key: once this is answered, no server accepts it any more."""
    namespaces = [call.namespace]
    if call.access.identity.rules_everywhere:
        namespaces.append(EVERYWHERE)
    row = await services.keys.revoke(namespaces, parse_key(call.path["keyId"]), call.caller.owner)
    services.credentials.forget()
    await asyncio.sleep(FRESH_SECONDS)  # other servers may have looked it up a moment ago
    return _show(row)


def _check_rights(call: ApiRequest, wanted: KeyIn, owner: str) -> None:
    """A key has no more rights than its maker."""
    identity = call.access.identity
    if wanted.everywhere and not identity.rules_everywhere:
        raise ForbiddenError("only an admin of all namespaces may make a key for all namespaces")
    if owner == _RESERVED_OWNER and not identity.rules_everywhere:
        raise ForbiddenError("only an admin of all namespaces may use the owner 'admin'")
    if is_key_id(owner):
        raise BadInputError("looks like the id of a key", field="owner")
    rights = wanted.role.rights & frozenset(wanted.scopes or wanted.role.rights)
    if not rights:
        raise BadInputError(
            f"none of these scopes belongs to the role {wanted.role.value}, which has: "
            f"{', '.join(sorted(wanted.role.rights))}",
            field="scopes",
        )
    if missing := rights - identity.rights_in(call.namespace):
        raise ForbiddenError(f"your key can't give rights that it lacks: {', '.join(sorted(missing))}")


def _check_expiry(call: ApiRequest, expires_at: datetime | None) -> None:
    """An expiring key can't make a key that outlives it. (JWTs are short-lived anyway, so this is only for keys.)"""
    identity = call.access.identity
    if identity.kind != "key" or identity.expires_at is None:
        return
    if expires_at is None or expires_at > identity.expires_at:
        ends = f"{identity.expires_at:%Y-%m-%dT%H:%M:%SZ}"
        raise ForbiddenError(f"your key expires at {ends}: the new key must not last longer")


def _expiry(wanted: KeyIn, now: datetime) -> datetime | None:
    if wanted.expires_time is not None and wanted.expires_seconds is not None:
        raise BadInputError("can't be used with expiresTime", field="expiresSeconds")
    if wanted.expires_seconds is not None:
        return now + timedelta(seconds=wanted.expires_seconds)
    if wanted.expires_time is not None and wanted.expires_time <= now:
        raise BadInputError("is in the past", field="expiresTime")
    return wanted.expires_time


def _show(row: Any) -> KeyOut:
    grant = grants_of(row)[row["namespace"]]
    return KeyOut(
        key_id=show_key_id(row["id"]),
        name=row["name"],
        prefix=row["prefix"],
        owner=row["owner"],
        namespace=row["namespace"],
        role=grant.role,
        sees=grant.sight,
        scopes=row["scopes"],
        status="revoked" if row["revoked_at"] else "expired" if row["expired"] else "active",
        created_at=row["created_at"],
        created_by=row["created_by"],
        expires_time=row["expires_at"],
        revoked_time=row["revoked_at"],
        revoked_by=row["revoked_by"],
        last_used_time=row["last_used_at"],
    )


OPERATIONS = (create_key, list_keys, revoke_key)
