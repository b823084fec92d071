"""Places that tenants share: a namespace gets at most half of them and an owner a fifth, so that no tenant can keep the
others out."""

from __future__ import annotations

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
        self._taken: dict[tuple[str, ...], int] = {}  # of all, of each namespace, and of each owner

    @property
    def taken(self) -> int:
        return self._taken.get((), 0)

    def check(self, namespace: str, owner: str) -> None:
        """Raises OverloadedError when no place is left for this owner."""
        what, advice, taken = self._what, self._advice, self._taken
        if taken.get((), 0) >= self.most:
            raise OverloadedError(f"too many requests on this server {what}; {advice}")
        if taken.get((namespace, owner), 0) >= self.most // 5:
            raise OverloadedError(f"{self.most // 5} of your requests {what} on this server already; {advice}")
        if taken.get((namespace,), 0) >= self.most // 2:
            raise OverloadedError(f"too many requests of namespace {namespace!r} {what} here; {advice}")

    def place(self, namespace: str, owner: str) -> Place:
        """Takes a place while it is entered; does not check whether one is left."""
        return Place(self._taken, namespace, owner)


class Place:
    """The place of one request."""

    __slots__ = ("_keys", "_taken")

    def __init__(self, taken: dict[tuple[str, ...], int], namespace: str, owner: str) -> None:
        self._taken = taken
        self._keys = ((), (namespace,), (namespace, owner))

    def __enter__(self) -> None:
        taken = self._taken
        for key in self._keys:
            taken[key] = taken.get(key, 0) + 1

    def __exit__(self, *_error: object) -> None:
        taken = self._taken
        for key in self._keys:
            left = taken[key] - 1
            if left:
                taken[key] = left
            else:
                del taken[key]
