"""The statements: one .sql file each, in the folder of the module that runs it, found by name.

A statement names its parameters, `:worker_id`; they are bound in the order in which they first appear. A run has the
same columns wherever it is, listed in `run_columns.txt`: `{run}` stands for that list, `{x.run}` for the list qualified
with the alias x. Nothing else is done to the text, and no value ever enters it.

A statement whose header says `Plan: custom` is planned at each call, with its values: a generic plan names every
partition of history and locks them all, hundreds of them after a year.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from importlib.resources import files
from operator import itemgetter
from typing import Any

# What is passed over (comments, strings), the columns of a run, and a parameter; not a ::cast, nor a slice [a:b].
_TOKEN = re.compile(r"--[^\n]*|'[^']*'|\{(?:(?P<alias>\w+)\.)?run\}|(?<![:\w\])]):(?P<name>[a-z_]\w*)")


class Statement:
    """A statement ready to be prepared, with the names of its parameters in order."""

    def __init__(self, name: str, source: str, run_columns: list[str]) -> None:
        self.name = name
        self.custom = "\n-- Plan: custom" in source
        numbers: dict[str, str] = {}

        def bound(token: re.Match[str]) -> str:
            if name := token["name"]:
                return numbers.setdefault(name, f"${len(numbers) + 1}")
            if not token[0].startswith("{"):
                return token[0]
            return ", ".join(f"{token['alias']}.{column}" if token["alias"] else column for column in run_columns)

        self.text = _TOKEN.sub(bound, source)
        self.names = tuple(numbers)
        # An itemgetter of a single name gives no tuple.
        self._values: Callable[[Mapping[str, Any]], tuple[Any, ...]] = (
            itemgetter(*self.names)
            if len(numbers) > 1
            else lambda parameters: tuple(parameters[name] for name in numbers)
        )

    def bind(self, parameters: Mapping[str, Any]) -> tuple[Any, ...]:
        """The values in the statement's order; raises TypeError when one is missing or unknown."""
        try:
            values = self._values(parameters)
        except KeyError:
            values = None
        if values is None or len(parameters) != len(values):
            raise TypeError(f"{self.name}: parameters {sorted(parameters)} given, {sorted(self.names)} expected")
        return values


def load(name: str, package: str = "rota.store") -> Statement:
    """The statement of this name, in any folder of the package."""
    return load_all(package)[name]


@cache
def load_all(package: str = "rota.store") -> dict[str, Statement]:
    """Every statement of a package, read at once: files replaced under a running process must not mix."""
    columns = (files("rota.store") / "postgres" / "run_columns.txt").read_text(encoding="utf-8").split()
    found: dict[str, Statement] = {}
    for folder in files(package).iterdir():
        for file in folder.iterdir() if folder.is_dir() else ():
            name, dot, ending = file.name.partition(".")
            if dot + ending == ".sql":
                if name in found:
                    raise ValueError(f"there are two statements named {name}")
                found[name] = Statement(name, file.read_text(encoding="utf-8"), columns)
    return found
