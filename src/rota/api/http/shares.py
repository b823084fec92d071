"""Places that tenants share: a namespace gets at most half of them and an owner a fifth, so that no tenant can keep the
others out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from rota.errors import OverloadedError

MOST_REQUESTS = 12_500  # that a server handles at a time, also those that wait for runs


class Shares:
    """At most `most` requests of a kind on this server.

    Errors say `what` these requests do ("follow logs") and what the caller can do instead (`advice`).
    """

    def __init__(self, most: int, *, what: str, advice: str = "try again later") -> None:
        self.most = most
        self._what = what
        self._advice = advice
        self._taken: Counter[tuple[str, ...]] = Counter()  # of all, of each namespace, and of each owner

    @property
    def taken(self) -> int:
        return self._taken[()]

    def check(self, namespace: str, owner: str) -> None:
        """Raises OverloadedError when no place is left for this owner."""
        what, advice = self._what, self._advice
        if self._taken[()] >= self.most:
            raise OverloadedError(f"too many requests on this server {what}; {advice}")
        if self._taken[namespace, owner] >= self.most // 5:
            raise OverloadedError(f"{self.most // 5} of your requests {what} on this server already; {advice}")
        if self._taken[(namespace,)] >= self.most // 2:
            raise OverloadedError(f"too many requests of namespace {namespace!r} {what} here; {advice}")

    @contextmanager
    def place(self, namespace: str, owner: str) -> Iterator[None]:
        """Takes a place; does not check whether one is left."""
        keys: list[tuple[str, ...]] = [(), (namespace,), (namespace, owner)]
        self._taken.update(keys)
        try:
            yield
        finally:
            self._taken.subtract(keys)
            for key in keys:
                if not self._taken[key]:
                    del self._taken[key]
