"""The statements of the test kit alone, one .sql file each."""

from __future__ import annotations

from functools import cache
from importlib.resources import files


@cache
def load(name: str) -> str:
    """The text of a statement."""
    return files(__name__).joinpath(f"{name}.sql").read_text(encoding="utf-8")
