"""The claim with the roles: what a token's subject is in which namespace.

Either an object, {"orders": "viewer", "mail": {"role": "submitter", "sees": "all"}}, which is written for Rota and must
be right; or a list, ["orders:viewer", …], as groups and roles of identity providers come, with what is for others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from rota.contract.fields import Name
from rota.domain.rights import EVERYWHERE, Grant, Role
from rota.errors import InvalidTokenError
from rota.settings import DEFAULT_NAMESPACE

_RANKS = {role: rank for rank, role in enumerate(Role)}
_ABSENT = object()
_UNREADABLE = "the roles of the token can't be read"


class GivenGrant(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A grant as it is written in a claim."""

    role: Role
    sees: Literal["own", "all"] = "own"


@dataclass(frozen=True, kw_only=True)
class RolesClaim:
    """Which claim it is, and what those are who have none."""

    name: str
    default_role: Role | None = None

    def read(self, claims: dict[str, Any]) -> dict[str, Grant]:
        """The grants by namespace; raises InvalidTokenError for a claim that can't be understood."""
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
    """Of several roles in one namespace the highest."""
    found: dict[str, Role] = {}
    for namespace, role in filter(None, map(_entry, given)):
        found[namespace] = max(role, found.get(namespace, role), key=_RANKS.__getitem__)
    return {namespace: Grant(role) for namespace, role in found.items()}


def _entry(given: Any) -> tuple[str, Role] | None:
    """None for what means something to somebody else."""
    namespace, _, role = given.rpartition(":") if isinstance(given, str) else ("", "", "")
    # A group that somebody named "*:admin" must not make an admin of everything.
    if role not in _RANKS or namespace == EVERYWHERE:
        return None
    try:
        namespace.encode()
        return msgspec.convert(namespace, Name), Role(role)
    except (msgspec.ValidationError, UnicodeEncodeError):
        return None
