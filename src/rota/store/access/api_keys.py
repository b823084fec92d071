"""Keys and sessions: kept as hashes, found by them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec

from rota.domain.rights import Grant, Identity, Right
from rota.errors import NotFoundError
from rota.store.postgres.database import Database
from rota.telemetry import get_logger

_log = get_logger("keys")
_grants = msgspec.json.Decoder(dict[str, Grant])
_encoder = msgspec.json.Encoder()


class NewKey(msgspec.Struct, frozen=True, kw_only=True):
    """What is stored of a new key or session."""

    id: UUID
    kind: str
    namespace: str
    name: str
    prefix: str
    hash: bytes
    identity: Identity
    parent: UUID | None = None
    authority: bytes | None = None
    created_by: str
    expires_at: datetime | None


class KnownCredential(msgspec.Struct, frozen=True):
    """Who a key or a session stands for, while it is in force."""

    id: UUID
    identity: Identity
    authority: bytes | None
    unused: bool  # for a minute or longer


class ApiKeys:
    """Writes and finds keys."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, new: NewKey) -> datetime:
        """Keeps it; when it was made."""
        who = new.identity
        made: datetime = await self._database.fetch_value(
            "add_api_key",
            id=new.id,
            kind=new.kind,
            namespace=new.namespace,
            name=new.name,
            prefix=new.prefix,
            hash=new.hash,
            owner=who.name,
            grants=_encoder.encode(who.grants).decode(),
            scopes=None if who.scopes is None else sorted(who.scopes),
            identity=who.kind,
            parent=new.parent,
            authority=new.authority,
            created_by=new.created_by,
            expires_at=new.expires_at,
        )
        return made

    async def find(self, hashes: Sequence[bytes]) -> dict[bytes, KnownCredential]:
        """The keys among these that are in force."""
        rows = await self._database.fetch("find_api_keys", hashes=list(hashes))
        found = {}
        for row in rows:
            try:
                found[row["hash"]] = _known(row)
            except (ValueError, msgspec.MsgspecError) as error:  # of a later release: this one does not know it
                _log.warning("a key can't be read", key_id=str(row["id"]), error=str(error))
        return found

    async def list(self, namespace: str, before: UUID, limit: int) -> Sequence[Any]:
        """Keys of a namespace, latest first."""
        return await self._database.fetch("list_api_keys", namespace=namespace, before=before, limit=limit)

    async def revoke(self, namespaces: Sequence[str], key_id: UUID, by: str) -> Any:
        """Ends a key of one of these namespaces; raises NotFoundError."""
        row = await self._database.fetch_row(
            "revoke_api_key", namespaces=list(namespaces), key_id=key_id, revoked_by=by
        )
        if row is None:
            raise NotFoundError("there is no such key")
        return row

    async def end_session(self, digest: bytes) -> None:
        """Ends a session."""
        await self._database.fetch("end_session", hash=digest)

    async def note_use(self, ids: Sequence[UUID]) -> None:
        """These were used just now."""
        await self._database.fetch("note_key_use", ids=sorted(ids))


def grants_of(row: Any) -> dict[str, Grant]:
    """What a key's row grants."""
    return _grants.decode(row["grants"])


def _known(row: Any) -> KnownCredential:
    identity = Identity(
        name=row["owner"],
        kind=row["identity"],
        grants=grants_of(row),
        scopes=None if row["scopes"] is None else frozenset(Right(word) for word in row["scopes"]),
        key_id=row["id"] if row["identity"] == "key" and row["parent"] is None else row["parent"],
        expires_at=row["expires_at"],
    )
    return KnownCredential(row["id"], identity, row["authority"], row["unused"])
