"""Migrations newer than the release that people run add, and do nothing else; those it has are as they were."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from migration_rule import faults_of

from rota.store.schema.migrate import migrations

WHEEL = Path(__file__).parent / "rota-0.2.0-py3-none-any.whl"
PLACE = "rota/store/schema/migrations/"  # where that release has them


def released() -> dict[str, str]:
    """The migrations of the release, by the names of their files."""
    with zipfile.ZipFile(WHEEL) as wheel:
        return {
            name.removeprefix(PLACE): wheel.read(name).decode()
            for name in wheel.namelist()
            if name.startswith(PLACE) and name.endswith(".sql")
        }


def test_migrations_that_were_released_are_as_they_were():
    ours = {f"{step.number:04}_{step.name}.sql": step.sql for step in migrations()}
    assert {name: ours.get(name) for name in released()} == released()


def test_newer_migrations_only_add():
    newer = [step for step in migrations() if f"{step.number:04}_{step.name}.sql" not in released()]
    assert {step.name: faults_of(step.sql) for step in newer} == {step.name: [] for step in newer}


@pytest.mark.parametrize(
    "statement",
    [
        "DROP TABLE rota.attempts;",
        "DROP INDEX rota.live_runs_ready;",
        "DROP FUNCTION rota.submit_v1(text);",
        "ALTER TABLE rota.jobs RENAME COLUMN owner TO account;",
        "ALTER TABLE rota.jobs DROP COLUMN owner;",
        "ALTER TABLE rota.jobs ADD COLUMN weight integer NOT NULL;",
        "ALTER TABLE rota.jobs ADD COLUMN a integer NOT NULL DEFAULT 1, ADD COLUMN b text NOT NULL;",
        "ALTER TABLE rota.jobs ALTER COLUMN version TYPE bigint;",
        "ALTER TABLE rota.jobs ALTER COLUMN payload SET NOT NULL;",
        "ALTER TABLE rota.jobs ADD CHECK (version > 0);",
        "ALTER TABLE rota.jobs ADD CONSTRAINT versions CHECK (version > 0) NOT VALID;",
        "ALTER TABLE rota.live_runs ADD COLUMN day date GENERATED ALWAYS AS (run_at::date) STORED;",
        "ALTER TABLE rota.live_runs ADD COLUMN token uuid DEFAULT gen_random_uuid();",
        "CREATE UNIQUE INDEX one_name ON rota.pools (pool);",
        "CREATE INDEX by_owner ON rota.finished_runs (owner);",
        "UPDATE rota.jobs SET version = 1;",
        "TRUNCATE rota.departures;",
        "LOCK TABLE rota.jobs;",
        "REVOKE ALL ON FUNCTION rota.submit_v1(text) FROM PUBLIC;",
    ],
)
def test_what_the_release_before_would_not_survive_is_found(statement):
    assert faults_of(f"-- why\n{statement}\nCREATE TABLE rota.other (id uuid);")


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE rota.jobs ADD COLUMN weight integer, ADD COLUMN note text NOT NULL DEFAULT 'DROP TABLE x';",
        "ALTER TABLE rota.held_runs DROP CONSTRAINT gates, ADD CONSTRAINT gates CHECK (gate <> '') NOT VALID;",
        "ALTER TABLE rota.payloads ALTER COLUMN body DROP NOT NULL;",
        "CREATE TABLE rota.a (id uuid NOT NULL); CREATE UNIQUE INDEX b ON rota.a (id); UPDATE rota.a SET id = id;",
        "CREATE UNLOGGED TABLE rota.a (id uuid); CREATE UNIQUE INDEX b ON rota.a (id);",
        "CREATE INDEX pools_by_name ON rota.pools (pool);",
        "CREATE FUNCTION rota.f() RETURNS int LANGUAGE sql RETURN 1; REVOKE ALL ON FUNCTION rota.f() FROM PUBLIC;",
        "CREATE OR REPLACE FUNCTION rota.f() RETURNS void LANGUAGE plpgsql AS $$ BEGIN DELETE FROM rota.jobs; END $$;",
        "INSERT INTO rota.constants (shards) VALUES (1);  -- not: DROP TABLE rota.constants;",
    ],
)
def test_what_it_would_survive_is_let_through(statement):
    assert faults_of(statement) == []
