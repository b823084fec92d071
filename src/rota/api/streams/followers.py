"""Clients that follow something: one poll for all of them, and none while there are none.

Each costs memory and a part of every poll, so their number is limited. A namespace gets half of them and a single
holder a fifth, so that none can keep all others out.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Generic, Protocol, TypeVar

from rota.errors import OverloadedError
from rota.service import Service

MOST_FOLLOWERS = 500
MOST_OF_A_NAMESPACE = 250
MOST_OF_A_HOLDER = 100


class _Holder(Protocol):
    """The namespace and owner that follow."""

    namespace: str
    holder: str


_FollowerT = TypeVar("_FollowerT", bound=_Holder)


class Followers(Service, Generic[_FollowerT]):
    """One poll for all followers; sleeps while there are none."""

    interval_seconds = 0.2
    what = ""  # in messages

    def __init__(self) -> None:
        super().__init__()
        self._followers: set[_FollowerT] = set()
        self._asleep = True

    @property
    def pause_seconds(self) -> float | None:
        """None while there are no followers."""
        return None if self._asleep else self.interval_seconds

    def check_room(self, namespace: str, holder: str) -> None:
        """Raises OverloadedError when there are too many followers in all, of a namespace, or of a holder."""
        if len(self._followers) >= MOST_FOLLOWERS:
            raise OverloadedError(f"too many {self.what} are being followed on this server; try again later")
        neighbours = [one.holder for one in self._followers if one.namespace == namespace]
        if neighbours.count(holder) >= MOST_OF_A_HOLDER:
            raise OverloadedError(f"you follow {MOST_OF_A_HOLDER} {self.what} on this server already; try again later")
        if len(neighbours) >= MOST_OF_A_NAMESPACE:
            raise OverloadedError(
                f"too many {self.what} of namespace {namespace!r} are being followed here; try again later"
            )

    async def tick(self) -> int:
        """One poll for all of them; returns the largest number of rows for one follower."""
        self._asleep = not self._followers
        return 0 if self._asleep else await self._poll()

    @contextmanager
    def _registered(self, follower: _FollowerT) -> Iterator[_FollowerT]:
        self._followers.add(follower)
        if self._asleep:
            self.wake()
        try:
            yield follower
        finally:
            self._followers.discard(follower)

    @abstractmethod
    async def _poll(self) -> int:
        """One round, with at least one follower."""
