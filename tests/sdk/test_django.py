"""Submitting in a transaction of Django's."""

from __future__ import annotations

import django
import psycopg
import pytest
from django.conf import settings
from django.db import connections, transaction
from psycopg.conninfo import conninfo_to_dict

import rota
from rota.errors import SetupError

COUNT = "SELECT count(*) FROM rota.runs"


class UndoneError(Exception):
    """Rolls back."""


@pytest.fixture
def connection(database_url):
    """Django's connection to this test's database."""
    if not settings.configured:
        settings.configure(USE_TZ=True)
        django.setup()
    where = conninfo_to_dict(database_url)
    described = {"ENGINE": "django.db.backends.postgresql", "NAME": where["dbname"], "USER": where["user"]}
    connections.settings["default"] = connections.configure_settings({"default": described | {"HOST": where["host"]}})[
        "default"
    ]
    yield connections["default"]
    connections["default"].close()
    del connections["default"]


@pytest.fixture
def count_runs(database_url):
    """What others see."""
    with psycopg.connect(database_url, autocommit=True) as outside:
        yield lambda: outside.execute(COUNT).fetchone()[0]


@pytest.fixture
def greet():
    app = rota.App("tests")

    @app.task
    def greet(name: str) -> None: ...

    return greet


@transaction.atomic
def submit_and_undo(greet, connection):
    greet.sync.within(connection).submit("Grace")
    raise UndoneError


def test_the_commit_of_an_atomic_block_shows_the_job(connection, count_runs, greet):
    with transaction.atomic():
        run = greet.sync.within(connection).submit("Ada")
        assert count_runs() == 0
    assert run.id.startswith("run_")
    assert count_runs() == 1


def test_a_block_that_raises_leaves_nothing(connection, count_runs, greet):
    with pytest.raises(UndoneError):
        submit_and_undo(greet, connection)
    assert count_runs() == 0


def test_a_savepoint_that_is_undone_takes_its_job_along(connection, count_runs, greet):
    with transaction.atomic():
        greet.sync.within(connection).submit("Ada")
        with pytest.raises(UndoneError):
            submit_and_undo(greet, connection)
    assert count_runs() == 1


def test_without_a_block_nothing_is_submitted(connection, count_runs, greet):
    with pytest.raises(SetupError, match=r"transaction\.atomic"):
        greet.sync.within(connection).submit("Ada")
    assert count_runs() == 0


def test_transactions_by_hand_are_known(connection, count_runs, greet):
    connection.set_autocommit(False)
    greet.sync.within(connection).submit("Ada")
    assert count_runs() == 0
    connection.commit()
    assert count_runs() == 1
    connection.set_autocommit(True)
