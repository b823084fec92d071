"""Who did what: recorded before it is done, and its outcome afterwards.

The entry is committed before the handler runs, so that no change goes unrecorded even in a crash. Payloads and headers
of jobs stay out of the trail: not every reader of the trail may see them.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from rota.domain.ids import new_id
from rota.store.access.audit_trail import AuditEntry, AuditTrail
from rota.telemetry import get_logger

_LONGEST_REQUEST = 4000
_LONGEST_NAME = 200
KEPT_BACK = frozenset({"payload", "headers", "token", "url", "secret"})
# A key or a session in the wrong place; its prefix may be shown.
_SECRETS = re.compile(r"\b(rota(?:session)?_[0-9a-f]{10})_[\w-]+")
_FLEETING = ("version", "updatedTime", "nextFireTimes", "storageError")
_encoder = msgspec.json.Encoder()
_log = get_logger("audit")


class Auditor:
    def __init__(self, trail: AuditTrail, *, now: Any) -> None:
        self.trail = trail
        self._now = now

    async def begin(self, action: str, call: Any, known: frozenset[str] = frozenset()) -> None:
        """Records a request; raises if it can't, and then nothing is done.

        Of the body, only `known` fields are shown: anything else was sent by mistake.
        """
        entry = self.entry_of(action, call, known)
        await self.trail.add(entry)
        call.entry = entry.id

    async def record(self, entry: AuditEntry, status: int) -> None:
        """Records what is over already."""
        await self.trail.add(entry)
        await self.trail.add_outcome(entry.id, status, None, None)

    def entry_of(self, action: str, call: Any, known: frozenset[str] = frozenset()) -> AuditEntry:
        """A request as the trail shows it, in a namespace of the actor: the requested one if they have a role there."""
        identity, named = call.access.identity, call.access.namespace
        namespace = identity.home_for(named)
        return AuditEntry(
            id=new_id(self._now().timestamp()),
            namespace=namespace,
            actor=identity.name,
            kind=identity.kind,
            key_id=identity.key_id,
            source=call.request.client.host if call.request.client else "",
            action=action,
            object=_name(call.path),
            request=_shown(call.body, known) if namespace == named else _json(namespace=named),
        )

    def repeated(self, entry: AuditEntry, count: int) -> AuditEntry:
        """An entry for this many like the given one."""
        new = new_id(self._now().timestamp())
        return msgspec.structs.replace(entry, id=new, object=None, request=_json(repeated=count))

    async def end(self, call: Any, status: int) -> None:
        """Records the outcome; the change stays even if that fails."""
        try:
            change = None if call.change is None else _encoder.encode(call.change).decode()
            await self.trail.add_outcome(call.entry, status, call.made, change)
        except Exception:  # noqa: BLE001 - what was done must not be answered as a failure
            _log.exception("could not record an outcome", entry=str(call.entry), status=status)


def difference(before: Any, after: Any) -> dict[str, Any]:
    """The fields that differ between two answers about the same object, with both values."""
    old, new = _fields(before), _fields(after)
    return {
        name: "…" if name in KEPT_BACK else {"from": old.get(name), "to": value}
        for name, value in new.items()
        if name not in _FLEETING and old.get(name) != value
    }


def _fields(struct: Any) -> dict[str, Any]:
    if struct is None:
        return {}
    values = ((field.encode_name, getattr(struct, field.name)) for field in msgspec.structs.fields(struct))
    return {name: bytes(value) if isinstance(value, msgspec.Raw) else value for name, value in values}


def _name(path: dict[str, str]) -> str | None:
    """The object in the path, sanitised: it has not been checked yet."""
    given = next(iter(path.values()), None)
    if given is None:
        return None
    shown = "".join(character if character.isprintable() else "�" for character in given[:_LONGEST_NAME])
    return _SECRETS.sub(r"\1_…", shown)


def _shown(body: bytes, known: frozenset[str]) -> str | None:
    """A request's body as the trail shows it."""
    if not body:
        return None
    try:
        # Only the fields that are shown are decoded: a payload may be large.
        given = msgspec.json.decode(body, type=dict[str, msgspec.Raw] | list[msgspec.Raw])
        if isinstance(given, dict):
            given = {name[:_LONGEST_NAME]: _field(value) if name in known else "…" for name, value in given.items()}
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return _json(unreadable=f"{len(body)} bytes")
    shown = _encoder.encode(given)
    if isinstance(given, list) or len(shown) > _LONGEST_REQUEST:
        count = f" of {len(given)} items" if isinstance(given, list) else ""
        shown = _encoder.encode({"large": f"{len(body)} bytes{count}"})
    return _SECRETS.sub(r"\1_…", shown.decode()).replace("\\u0000", "\\ufffd")


def _json(**fields: Any) -> str:
    return _encoder.encode(fields).decode()


def _field(value: msgspec.Raw) -> Any:
    return _masked(msgspec.json.decode(value))


def _masked(value: Any) -> Any:
    """The value without fields that must not be recorded, at any depth."""
    if isinstance(value, dict):
        return {name[:_LONGEST_NAME]: "…" if name in KEPT_BACK else _masked(inner) for name, inner in value.items()}
    return [_masked(inner) for inner in value] if isinstance(value, list) else value
