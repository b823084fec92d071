"""Who may do what: roles per namespace, the rights they give, and whose jobs these cover.

Each API operation needs one right. A role gives rights; a key's scopes can remove some. Rights over jobs and runs cover
the caller's own or every owner's in the namespace: operators and admins have all, and a grant that `sees` all reads all
and changes its own.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Literal
from uuid import UUID

import msgspec

EVERYWHERE = "*"


class Right(StrEnum):
    """The right that an operation needs."""

    READ = "read"
    SUBMIT = "submit"
    CHANGE = "change"
    APPROVE = "approve"  # what a workflow waits for
    OPERATE = "operate"
    ADMINISTER = "administer"


class Role(StrEnum):
    """A role in a namespace; each includes the ones before it."""

    VIEWER = "viewer"
    SUBMITTER = "submitter"
    OPERATOR = "operator"
    ADMIN = "admin"

    @property
    def rights(self) -> frozenset[Right]:
        return _RIGHTS[self]


_RIGHTS = {
    Role.VIEWER: frozenset({Right.READ}),
    Role.SUBMITTER: frozenset({Right.READ, Right.SUBMIT, Right.CHANGE, Right.APPROVE}),
    Role.OPERATOR: frozenset({Right.READ, Right.SUBMIT, Right.CHANGE, Right.APPROVE, Right.OPERATE}),
    Role.ADMIN: frozenset(Right),
}


class Grant(msgspec.Struct, frozen=True):
    """A role in a namespace. `sees`: whose jobs a viewer or submitter may read."""

    role: Role
    sees: Literal["own", "all"] = "own"

    @property
    def sight(self) -> Literal["own", "all"]:
        """Whose jobs it may read."""
        return "all" if self.reaches_all(Right.READ) else "own"

    def reaches_all(self, right: Right) -> bool:
        """Whether this right covers every owner's jobs."""
        return self.role in (Role.OPERATOR, Role.ADMIN) or (right is Right.READ and self.sees == "all")


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """An authenticated caller. `name` is the owner of what they submit."""

    name: str
    kind: Literal["admin", "key", "jwt"]
    grants: dict[str, Grant]
    scopes: frozenset[Right] | None = None  # None: all rights of the role
    key_id: UUID | None = None
    expires_at: datetime | None = None

    def grant_in(self, namespace: str) -> Grant | None:
        """The grant for this namespace, or None."""
        return self.grants.get(namespace) or self.grants.get(EVERYWHERE)

    def home_for(self, namespace: str) -> str:
        """The namespace that what they do there counts in: that one if they have a role in it, else one of their own;
        no namespace ("") if they have no role at all."""
        return namespace if self.grant_in(namespace) else min(self.grants, default="")

    @property
    def rules_everywhere(self) -> bool:
        """Whether they are admin of all namespaces, as operations across namespaces require."""
        return EVERYWHERE in self.grants and self.may(Right.ADMINISTER, EVERYWHERE)

    def rights_in(self, namespace: str) -> frozenset[Right]:
        return frozenset(right for right in Right if self.may(right, namespace))

    def may(self, right: Right, namespace: str) -> bool:
        """Whether they have this right there, at least over their own jobs."""
        grant = self.grant_in(namespace)
        return grant is not None and right in grant.role.rights and (self.scopes is None or right in self.scopes)


class Caller(msgspec.Struct, frozen=True):
    """The namespace and owner behind a request."""

    namespace: str
    owner: str
    only: str | None = None  # the owner whose jobs they may name; None: any

    def own(self, key: str) -> str:
        """A key as stored: each owner has their own keys, so that no key leads to another owner's job."""
        return f"{self.owner}\n{key}"  # no owner has a line break
