"""Places for those who follow something: each costs memory and a part of every look, so there are only so many.

A namespace gets half of them and a single holder a fifth, so that nobody keeps all others out.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from rota.errors import OverloadedError

MOST_FOLLOWERS = 500
MOST_OF_A_NAMESPACE = 250
MOST_OF_A_HOLDER = 100


class Holder(Protocol):
    """Somebody who follows."""

    namespace: str
    holder: str


def check_follower_slots(followers: Collection[Holder], namespace: str, holder: str, what: str) -> None:
    """Raises OverloadedError when there is no place for one more."""
    if len(followers) >= MOST_FOLLOWERS:
        raise OverloadedError(f"too many {what} are being followed on this server; try again later")
    neighbours = [follower.holder for follower in followers if follower.namespace == namespace]
    if neighbours.count(holder) >= MOST_OF_A_HOLDER:
        raise OverloadedError(f"you follow {MOST_OF_A_HOLDER} {what} on this server already; try again later")
    if len(neighbours) >= MOST_OF_A_NAMESPACE:
        raise OverloadedError(f"too many {what} of namespace {namespace!r} are being followed here; try again later")
