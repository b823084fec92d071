"""Databases for tests: each a clone of one that was migrated before, since migrating takes far longer than cloning."""

from __future__ import annotations

import itertools
from contextlib import asynccontextmanager
from typing import Any

import pytest

from rota.store.postgres import database as databases
from rota.store.postgres.database import Database
from support import GUARD_SECONDS

TEMPLATE = "rota_template"
_numbers = itertools.count(1)


@asynccontextmanager
async def cloned(postgres: Any, template: str = TEMPLATE):
    """The address of a new database like the template, to which nothing may be connected."""
    name = f"test_{next(_numbers)}"
    postgres.admin.execute(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY FILE_COPY")
    yield postgres.url(name)
    postgres.admin.execute(f"DROP DATABASE {name} WITH (FORCE)")


@asynccontextmanager
async def pool_on(url: str):
    """A pool of connections."""
    with pytest.MonkeyPatch.context() as patch:
        # A busy machine may need longer for a connection than a server that starts may take.
        patch.setattr(databases, "CONNECT_SECONDS", GUARD_SECONDS)
        database = await Database.connect(url, size=8)
    try:
        yield database
    finally:
        await database.close()
