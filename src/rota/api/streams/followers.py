"""Clients that follow something: one poll for all of them, and none while there are none.

Each costs memory and a part of every poll, so their number is limited, and shared by those who follow.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Generic, Protocol, TypeVar

from rota.api.http.shares import Shares
from rota.service import Service

MOST_FOLLOWERS = 500


class _Holder(Protocol):
    """The namespace and owner that follow."""

    namespace: str
    holder: str


_FollowerT = TypeVar("_FollowerT", bound=_Holder)


class Followers(Service, Generic[_FollowerT]):
    """One poll for all followers; sleeps while there are none."""

    interval_seconds = 0.2

    def __init__(self, shares: Shares) -> None:
        super().__init__()
        self._followers: set[_FollowerT] = set()
        self._asleep = True
        self.shares = shares

    @property
    def pause_seconds(self) -> float | None:
        """None while there are no followers."""
        return None if self._asleep else self.interval_seconds

    def check_room(self, namespace: str, holder: str) -> None:
        """Raises OverloadedError when there are too many followers in all, of a namespace, or of a holder."""
        self.shares.check(namespace, holder)

    async def tick(self) -> int:
        """One poll for all of them; returns the largest number of rows for one follower."""
        self._asleep = not self._followers
        return 0 if self._asleep else await self._poll()

    @contextmanager
    def _registered(self, follower: _FollowerT) -> Iterator[_FollowerT]:
        with self.shares.place(follower.namespace, follower.holder):
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
