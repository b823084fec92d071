"""The statements, one .sql file each, loaded by name and cached.

A run carries the same columns wherever it is. They are named once, in `columns.txt`; a statement says
`{run}` for the bare list and `{x.run}` for the list qualified with the alias x. That is the only
substitution there is, it happens when the file is loaded, and no value ever enters a statement's text.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

_LIST = re.compile(r"\{(?:(\w+)\.)?run\}")


@cache
def load(name: str) -> str:
    """The text of a statement, ready to be prepared."""
    text = files(__name__).joinpath(f"{name}.sql").read_text(encoding="utf-8")
    return _LIST.sub(lambda match: _columns(match.group(1)), text)


def load_all() -> None:
    """Reads every statement now: files that change under a process that runs must not mix with what it has."""
    for file in files(__name__).iterdir():
        if file.name.endswith(".sql"):
            load(file.name.removesuffix(".sql"))


def _columns(alias: str | None) -> str:
    names = files(__name__).joinpath("columns.txt").read_text(encoding="utf-8").split()
    return ", ".join(f"{alias}.{name}" if alias else name for name in names)
