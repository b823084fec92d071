"""The commands that run a part of Rota, beside a `rota up` that runs already."""

from __future__ import annotations

import psycopg
import pytest

from support import free_port


def test_an_api_on_a_taken_port_is_refused(rota):
    done = rota("api")
    assert done.code == 2
    assert f"Port {rota.port} on 127.0.0.1 can't be used" in done.said


@pytest.mark.parametrize(
    ("where", "words"),
    [
        ("tasks", "needs MODULE:APP"),
        ("../tasks:app", "needs MODULE:APP"),
        ("no_such_module:app", "there is no module 'no_such_module'"),
        ("json:app", "json has no 'app'"),
        ("json:loads", "'loads' is of type function, not a rota.App"),
    ],
)
def test_an_app_that_can_not_be_loaded_is_refused(rota, tmp_path, where, words):
    done = rota.in_process("up", "--home", str(tmp_path), "--port", str(free_port()), "--app", where)
    assert done.code == 2
    assert words in done.err
    assert done.err.count("\n") == 1


def test_dev_wants_an_app_that_could_be_one(rota, tmp_path):
    done = rota.in_process("dev", "tasks.py", "--home", str(tmp_path), "--port", str(free_port()))
    assert done.code == 2
    assert done.err == "error: rota dev needs MODULE:APP, such as tasks:app, not 'tasks.py'\n"


def test_a_worker_without_its_database_says_what_to_start(rota, tmp_path):
    done = rota("worker", "--home", str(tmp_path))
    assert done.code == 1
    assert "start `rota up` first" in done.err


def test_migrate_has_nothing_to_do_where_up_has_been(rota):
    done = rota("migrate")
    assert done.code == 0
    assert done.out == "The schema is up to date.\n"


def test_the_databases_address_is_told_and_works(rota):
    url = rota("database-url").out.strip()
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT shards FROM rota.constants").fetchone() == (64,)
