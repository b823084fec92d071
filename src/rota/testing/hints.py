"""Hints inside one process: whoever waits is told, and nothing goes to the database."""

from __future__ import annotations

import asyncio

from rota.store.postgres.database import Database
from rota.store.postgres.wakeups import Notifier


class Hints(Notifier):
    """Remembers that there was one."""

    def __init__(self, database: Database) -> None:
        super().__init__(database, enabled=False)
        self.some = asyncio.Event()

    def hint(self, channel: str, payload: str = "") -> None:  # noqa: ARG002 - whoever hears of one looks at everything
        """Something may be to be done."""
        self.some.set()
