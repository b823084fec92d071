"""Narrow roles of the database: made for one test, and gone after it."""

from __future__ import annotations

import itertools
import os

import asyncpg
import pytest

from rota.store.postgres.database import Database
from rota.store.schema.database_roles import DatabaseRole, DatabaseRoles

_numbers = itertools.count(1)


class Role:
    """A role that can log in, and where."""

    def __init__(self, name, database_url):
        self.name = name
        self.url = database_url.replace("rota@", f"{name}@", 1)


@pytest.fixture
async def make_role(database, database_url, sql):
    """make_role("worker", namespaces=("a",)) gives a role that has its rights; make_role(None) one that has none."""
    made = []

    async def make(kind, *, namespaces=None, pools=None):
        role = Role(f"narrow_{os.getpid()}_{next(_numbers)}", database_url)
        await sql.execute(f"CREATE ROLE {role.name} LOGIN")
        made.append(role)
        if kind:
            await DatabaseRoles(database).set([DatabaseRole(role.name, kind, namespaces, pools)])
        return role

    yield make
    for role in made:
        await sql.execute(f"DROP OWNED BY {role.name}")
        await sql.execute(f"DROP ROLE {role.name}")


@pytest.fixture
async def connect():
    """connect(role) gives a connection as this role; connect(role, pool=True) Rota's own pool."""
    opened = []

    async def open_one(role, *, pool=False):
        connection = await (Database.connect(role.url, size=8) if pool else asyncpg.connect(role.url))
        opened.append(connection)
        return connection

    yield open_one
    for connection in opened:
        await connection.close()
