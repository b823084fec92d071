"""The statements, one .sql file each, loaded by name and cached.

A run carries the same columns wherever it is. They are named once, in `columns.txt`; a statement says
`{run}` for the bare list and `{x.run}` for the list qualified with the alias x. That is the only
substitution there is, it happens when the file is loaded, and no value ever enters a statement's text.

Before version 17 PostgreSQL may answer `namespace = … AND id = ANY (…)` by reading the whole namespace: it looks up a
list of values in the second column of an index only when its statistics say so. For such a server the namespace is
compared in a way that no index serves, which leaves the one on the id alone (migration 0005).
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

_LIST = re.compile(r"\{(?:(\w+)\.)?run\}")
_MANY_IDS = re.compile(
    r"(?P<alias>\w+)\.namespace = (?P<namespace>ANY \([^)]*\)|\$\d+) AND (?P<ids>(?P=alias)\.(?:id|run_id) = ANY)"
)


@cache
def load(name: str, *, by_id: bool = False) -> str:
    """The text of a statement, ready to be prepared; `by_id` for a server before version 17."""
    text = files(__name__).joinpath(f"{name}.sql").read_text(encoding="utf-8")
    text = _LIST.sub(lambda match: _columns(match.group(1)), text)
    return _MANY_IDS.sub(r"(\g<alias>.namespace || '') = \g<namespace> AND \g<ids>", text) if by_id else text


@cache
def load_all() -> None:
    """Reads every statement now: files that change under a process that runs must not mix with what it has."""
    for file in files(__name__).iterdir():
        if file.name.endswith(".sql"):
            for by_id in (False, True):
                load(file.name.removesuffix(".sql"), by_id=by_id)


def _columns(alias: str | None) -> str:
    names = files(__name__).joinpath("columns.txt").read_text(encoding="utf-8").split()
    return ", ".join(f"{alias}.{name}" if alias else name for name in names)
