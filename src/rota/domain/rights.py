"""Who may do what: roles per namespace, the rights they give, and whose jobs these reach.

An operation of the API needs one right. A role gives rights; a key's scopes may take some of them away again. Rights
over jobs, and all that comes of them, reach the caller's own or every owner's in the namespace: operators and admins
have all, a grant that `sees` all reads all and changes its own.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Literal
from uuid import UUID

import msgspec

EVERYWHERE = "*"


class Right(StrEnum):
    """What an operation needs."""

    READ = "read"
    SUBMIT = "submit"
    CHANGE = "change"
    OPERATE = "operate"
    ADMINISTER = "administer"


class Role(StrEnum):
    """A role in a namespace; each may do what those before it may."""

    VIEWER = "viewer"
    SUBMITTER = "submitter"
    OPERATOR = "operator"
    ADMIN = "admin"

    @property
    def rights(self) -> frozenset[Right]:
        """What it may do."""
        return _RIGHTS[self]


_RIGHTS = {
    Role.VIEWER: frozenset({Right.READ}),
    Role.SUBMITTER: frozenset({Right.READ, Right.SUBMIT, Right.CHANGE}),
    Role.OPERATOR: frozenset({Right.READ, Right.SUBMIT, Right.CHANGE, Right.OPERATE}),
    Role.ADMIN: frozenset(Right),
}


class Grant(msgspec.Struct, frozen=True):
    """A role in a namespace. `sees` says whose jobs a viewer or submitter may read."""

    role: Role
    sees: Literal["own", "all"] = "own"

    @property
    def sight(self) -> Literal["own", "all"]:
        """Whose jobs it reads."""
        return "all" if self.reaches_all(Right.READ) else "own"

    def reaches_all(self, right: Right) -> bool:
        """Whether this right is one over every owner's jobs."""
        return self.role in (Role.OPERATOR, Role.ADMIN) or (right is Right.READ and self.sees == "all")


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """A caller who proved who they are. `name` is the owner of what they submit."""

    name: str
    kind: Literal["admin", "key", "jwt"]
    grants: dict[str, Grant]
    scopes: frozenset[Right] | None = None  # None: all that the role gives
    key_id: UUID | None = None
    expires_at: datetime | None = None

    def grant_in(self, namespace: str) -> Grant | None:
        """What they are in this namespace, or None."""
        return self.grants.get(namespace) or self.grants.get(EVERYWHERE)

    @property
    def rules_everywhere(self) -> bool:
        """Whether they are admin of all namespaces: what concerns several is theirs alone to decide."""
        return EVERYWHERE in self.grants and self.may(Right.ADMINISTER, EVERYWHERE)

    def rights_in(self, namespace: str) -> frozenset[Right]:
        """What they may do there."""
        return frozenset(right for right in Right if self.may(right, namespace))

    def may(self, right: Right, namespace: str) -> bool:
        """Whether they have this right there, over something at least."""
        grant = self.grant_in(namespace)
        return grant is not None and right in grant.role.rights and (self.scopes is None or right in self.scopes)


class Caller(msgspec.Struct, frozen=True):
    """On whose behalf a request is made."""

    namespace: str
    owner: str

    def own(self, key: str) -> str:
        """A key as it is stored: each owner has keys of their own, so that none leads to another owner's job."""
        return f"{self.owner}\n{key}"  # no owner has a line break
