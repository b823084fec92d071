"""What a token must say: its subject, expiry, issuer and audience, and the roles it grants."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from rota.contract.fields import Name, OwnerName
from rota.domain.ids import is_key_id
from rota.domain.rights import EVERYWHERE, Grant, Role
from rota.errors import InvalidTokenError
from rota.settings import DEFAULT_NAMESPACE

_RESERVED_SUBJECT = "admin"  # the owner of what is done with the admin token
_LATEST = 253402300799  # the last second of the year 9999
_RANKS = {role: rank for rank, role in enumerate(Role)}
_ABSENT = object()
_UNREADABLE = "the roles of the token can't be read"


@dataclass(frozen=True, kw_only=True)
class Expectations:
    """What every token must say."""

    issuer: str | None = None
    audience: str | None = None
    leeway_seconds: float = 30.0

    def check(self, claims: dict[str, Any], now: float) -> tuple[str, float]:
        """The subject and the expiry of a token; raises InvalidTokenError."""
        expires_at = self._check_times(claims, now)
        if self.issuer is not None and claims.get("iss") != self.issuer:
            raise InvalidTokenError("the token is from another issuer")
        self._check_audience(claims)
        return read_subject(claims.get("sub")), expires_at

    def _check_times(self, claims: dict[str, Any], now: float) -> float:
        expires_at = _time(claims, "exp")
        if expires_at is None:
            raise InvalidTokenError("the token has no exp: tokens must expire")
        if now >= expires_at + self.leeway_seconds:
            raise InvalidTokenError("the token has expired")
        for name in ("nbf", "iat"):
            begins_at = _time(claims, name)
            if begins_at is not None and begins_at > now + self.leeway_seconds:
                raise InvalidTokenError("the token is not valid yet")
        return expires_at

    def _check_audience(self, claims: dict[str, Any]) -> None:
        given = claims.get("aud", [])
        audiences = [given] if isinstance(given, str) else given
        if not isinstance(audiences, list) or not all(isinstance(audience, str) for audience in audiences):
            raise InvalidTokenError("aud of the token can't be read")
        # A token that names an audience is not for us unless that is our name.
        if (audiences or self.audience is not None) and self.audience not in audiences:
            raise InvalidTokenError("the token is for another audience")


def read_subject(subject: Any) -> str:
    """The subject of a token; raises InvalidTokenError unless it is a valid owner."""
    try:
        name = msgspec.convert(subject, OwnerName)
        name.encode()  # refuses half a surrogate pair, which the database can't store
    except (msgspec.ValidationError, UnicodeEncodeError):
        raise InvalidTokenError("sub of the token must be a name of 1 to 200 printable characters") from None
    if is_key_id(name):
        raise InvalidTokenError("sub of the token looks like the id of a key, which is reserved")
    if name == _RESERVED_SUBJECT:
        raise InvalidTokenError(f"sub of the token is {_RESERVED_SUBJECT}, which is reserved")
    return name


def _time(claims: dict[str, Any], name: str) -> float | None:
    if name not in claims:
        return None
    value = claims[name]
    # True is a number in Python.
    known = isinstance(value, int | float) and not isinstance(value, bool)
    if not known or not 0 <= value <= _LATEST:
        raise InvalidTokenError(f"{name} of the token is not a time in seconds")
    return float(value)


class GivenGrant(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A grant as written in a claim."""

    role: Role
    sees: Literal["own", "all"] = "own"


@dataclass(frozen=True, kw_only=True)
class RolesClaim:
    """The claim with the roles, and the role of tokens without it."""

    name: str
    default_role: Role | None = None

    def read(self, claims: dict[str, Any]) -> dict[str, Grant]:
        """The grants by namespace; raises InvalidTokenError."""
        given = self._find(claims)
        if given is _ABSENT:
            return {} if self.default_role is None else {DEFAULT_NAMESPACE: Grant(self.default_role)}
        return _from_list(given) if isinstance(given, list) else _from_object(given)

    def _find(self, claims: dict[str, Any]) -> Any:
        if self.name in claims:  # names may be addresses, which have dots
            return claims[self.name]
        found: Any = claims
        for step in self.name.split("."):
            if not isinstance(found, dict):
                raise InvalidTokenError(_UNREADABLE)
            if step not in found:
                return _ABSENT
            found = found[step]
        return found


def _from_object(given: Any) -> dict[str, Grant]:
    try:
        entries = msgspec.convert(given, dict[Name, Role | GivenGrant])
        "".join(entries).encode()
    except (msgspec.ValidationError, UnicodeEncodeError):
        raise InvalidTokenError(_UNREADABLE) from None
    return {
        namespace: Grant(entry) if isinstance(entry, Role) else Grant(entry.role, entry.sees)
        for namespace, entry in entries.items()
    }


def _from_list(given: list[Any]) -> dict[str, Grant]:
    """The highest of several roles in one namespace."""
    found: dict[str, Role] = {}
    for namespace, role in filter(None, map(_entry, given)):
        found[namespace] = max(role, found.get(namespace, role), key=_RANKS.__getitem__)
    return {namespace: Grant(role) for namespace, role in found.items()}


def _entry(given: Any) -> tuple[str, Role] | None:
    """None for an entry of other applications."""
    namespace, _, role = given.rpartition(":") if isinstance(given, str) else ("", "", "")
    # A group called "*:admin" must not make an admin of all namespaces.
    if role not in _RANKS or namespace == EVERYWHERE:
        return None
    try:
        namespace.encode()
        return msgspec.convert(namespace, Name), Role(role)
    except (msgspec.ValidationError, UnicodeEncodeError):
        return None
