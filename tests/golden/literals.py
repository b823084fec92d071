"""Literals in Rota's source, found by their form rather than by the names around them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from itertools import pairwise

from internals import SOURCE

_BAD_STATUS = range(400, 600)


@cache
def nodes() -> tuple[ast.AST, ...]:
    """Every node of every module."""
    trees = (ast.parse(path.read_text(encoding="utf-8")) for path in sorted(SOURCE.rglob("*.py")))
    return tuple(node for tree in trees for node in ast.walk(tree))


def calls(*names: str) -> Iterator[ast.Call]:
    """Calls of functions, methods or classes with one of these names."""
    return (node for node in nodes() if isinstance(node, ast.Call) and _callee(node) in names)


def statuses_with_titles() -> set[tuple[int, str]]:
    """An HTTP status of an error with a text behind it, in a call or a table: that is how problems are written down."""
    found = set()
    for node in nodes():
        if isinstance(node, ast.Call):
            words = {keyword.arg: keyword.value for keyword in node.keywords}
            items = [*node.args, *(words[name] for name in ("status", "title") if name in words)]
        elif isinstance(node, ast.Tuple):
            items = node.elts
        else:
            continue
        for status, title in pairwise(map(literal, items)):
            if type(status) is int and status in _BAD_STATUS and isinstance(title, str):
                found.add((status, title))
    return found


def texts(pattern: str) -> set[str]:
    """String literals of modules, and quoted texts of SQL files, that are like this from end to end."""
    wanted = re.compile(pattern)
    found = {value for node in nodes() if isinstance(value := literal(node), str)}
    for path in SOURCE.rglob("*.sql"):
        found.update(re.findall(r"'([^'\n]*)'", path.read_text(encoding="utf-8")))
    return {text for text in found if wanted.fullmatch(text)}


def literal(node: ast.AST | None) -> object:
    """The value that is written out here; None where there is none."""
    return node.value if isinstance(node, ast.Constant) else None


def _callee(call: ast.Call) -> str | None:
    function = call.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", None)
