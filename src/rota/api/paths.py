"""Paths with parameters, as a tree of their parts: finding one costs as much among many as among few."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

Target = TypeVar("Target")
_REST = "{subject}"  # the one parameter that may contain slashes; always the last part


class PathTree(Generic[Target]):
    """What is at paths such as /v1/jobs/{jobId}/runs. A part that is spelled out is preferred to a parameter."""

    def __init__(self) -> None:
        self._exact: dict[str, Target] = {}  # paths without parameters
        self._root: _Node[Target] = _Node()

    def add(self, template: str, target: Target) -> None:
        if "{" not in template:
            self._exact[template] = target
        node = self._root
        for part in template.split("/"):
            node = node.child(part)
        names = [part[1:-1] for part in template.split("/") if part.startswith("{")]
        node.end = names, target

    def find(self, path: str) -> tuple[Target, dict[str, str]] | None:
        """What is at a path, and the parameters in it; None: nothing."""
        if (exact := self._exact.get(path)) is not None:
            return exact, {}
        values: list[str] = []
        found = self._root.find(path.split("/"), 0, values)
        if found is None:
            return None
        names, target = found
        return target, dict(zip(names, values, strict=True))


class _Node(Generic[Target]):
    """The place behind a part of a path."""

    __slots__ = ("_named", "_parameter", "_rest", "end")

    def __init__(self) -> None:
        self._named: dict[str, _Node[Target]] = {}
        self._parameter: _Node[Target] | None = None
        self._rest: _Node[Target] | None = None
        self.end: tuple[list[str], Target] | None = None

    def child(self, part: str) -> _Node[Target]:
        if part == _REST:
            self._rest = self._rest or _Node()
            return self._rest
        if part.startswith("{"):
            self._parameter = self._parameter or _Node()
            return self._parameter
        return self._named.setdefault(part, _Node())

    def find(self, parts: Sequence[str], position: int, values: list[str]) -> tuple[list[str], Target] | None:
        """What is behind the parts from `position` on; adds the values of parameters."""
        if position == len(parts):
            return self.end
        part = parts[position]
        named = self._named.get(part)
        if named is not None and (found := named.find(parts, position + 1, values)) is not None:
            return found
        if self._parameter is not None and part:
            values.append(part)
            if (found := self._parameter.find(parts, position + 1, values)) is not None:
                return found
            values.pop()
        if self._rest is not None:
            values.append("/".join(parts[position:]))
            return self._rest.end
        return None
