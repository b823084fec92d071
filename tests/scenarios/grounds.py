"""The grounds that scenarios run on: ways of reaching the database.

A scenario runs on the grounds that can make a difference to it, and in a long run on all of them. Two things differ.
Behind PgBouncer each statement is a transaction of its own kind, on a connection that is somebody else's a moment
later: what claims, fences and records must hold there too. And behind it nobody listens, just as without NOTIFY, so
what is learnt by looking is tried there; the third ground is for those scenarios that are about how soon it is learnt,
and tries them where PgBouncer is not installed.
"""

from __future__ import annotations

import pytest

from support import LONG

GROUNDS = ("direct", "pgbouncer", "without-notify")


def on(*grounds: str, fixture: str = "ground") -> pytest.MarkDecorator:
    """Marks a scenario with its grounds."""
    return pytest.mark.parametrize(fixture, GROUNDS if LONG else grounds, indirect=True)
