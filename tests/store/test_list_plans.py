"""Lists read what matches, by an index, and not the runs of others, however many there are."""

from __future__ import annotations

import json
import random
import time
from datetime import UTC, datetime, timedelta

import pytest

from rota.domain.ids import FIRST_ID, LAST_ID, floor_id
from rota.store.postgres.statements import load
from rota.store.read.runs import RunFilter, Runs

OTHERS = 100_000
FILTERS = ("owner", "statuses", "name", "tag", "task")
_IDS = """
  FROM (SELECT n, due,
               (substr(rota.id_floor(due)::text, 1, 14) || '7' || substr(gen_random_uuid()::text, 16))::uuid AS id
          FROM (SELECT n, {due} AS due FROM generate_series($1::bigint, $2::bigint) AS n) AS s) AS s"""
HISTORY = f"""
INSERT INTO rota.finished_runs (namespace, id, job_id, job_version, owner, name, task, pool, priority, tags, payload,
                                options, cause, shard, nominal_at, run_at, attempt, created_at, status, finished_at)
SELECT 'default', id, id, 1, 'owner-' || n % 10, 'job ' || n, 'task-' || n % 10, 'default', 0,
       CASE WHEN n % 10 = 0 THEN ARRAY['nightly', 'tag-' || n % 77] ELSE '{{}}' END, NULL, '{{}}', 'submit', n % 64,
       due, due, 1, due, 'success', due
{_IDS.format(due="date_trunc('day', now() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC' + n * interval '800 milliseconds'")}"""
UPCOMING = f"""
INSERT INTO rota.upcoming_runs (namespace, id, job_id, job_version, owner, name, task, pool, priority, tags, payload,
                                options, cause, shard, nominal_at, run_at, created_at)
SELECT 'default', id, id, 1, 'owner-' || n % 10, 'job ' || n, 'task-' || n % 10, 'default', 0,
       CASE WHEN n % 10 = 0 THEN ARRAY['nightly', 'tag-' || n % 77] ELSE '{{}}' END, NULL, '{{}}', 'submit', n % 64,
       due, due, now()
{_IDS.format(due="now() + interval '1 day' + n * interval '1 second'")}"""
MINE = """
UPDATE rota.{table} SET owner = 'me', name = 'mine', task = 'mine', tags = '{{mine}}'{more}
 WHERE name IN ('job 5', 'job 50000')"""


@pytest.fixture
async def crowd(database, sql):
    """100,000 runs of others in the current day and as many upcoming, and two of ours among each, far from the end."""
    await sql.execute(HISTORY, 1, OTHERS)
    await sql.execute(UPCOMING, 1, OTHERS)
    await sql.execute(MINE.format(table="finished_runs", more=", status = 'failed'"))
    await sql.execute(MINE.format(table="upcoming_runs", more=", attempt = 1"))
    return database


@pytest.fixture(params=["never analysed", "analysed"])
async def counted(request, crowd, sql):
    """The same, with statistics and without."""
    if request.param == "analysed":
        await sql.execute("ANALYZE rota.finished_runs; ANALYZE rota.upcoming_runs")
    return crowd


MATCHING = {"owner": "me", "statuses": ["failed", "retrying"], "name": "mine", "tag": "mine", "task": "mine"}
NOTHING = {"owner": "no", "statuses": ["skipped", "cancelled"], "name": "no", "tag": "no", "task": "no"}
ASKED = [
    *({one: values[one]} for values in (MATCHING, NOTHING) for one in FILTERS),
    {"owner": "me", "statuses": ["failed"]},
    {"owner": "owner-1", "statuses": ["cancelled"]},
    {"task": "task-1", "statuses": ["skipped"]},
    {"name": "mine", "tag": "nightly"},
    {"owner": "me", "task": "mine", "name": "mine", "tag": "mine", "statuses": ["failed", "retrying", "success"]},
    {"owner": "owner-1", "task": "task-2"},
]


@pytest.fixture
def plans(counted, monkeypatch):
    """Lets a list be explained instead of read; the plan as it was executed."""
    explained = []

    async def explain(statements, name, /, **parameters):
        statement = load(name)
        if not name.endswith("_runs"):
            return await statements.run(statement, statement.bind(parameters), None)
        await statements._connection.execute("SET LOCAL plan_cache_mode = force_custom_plan")
        assert statement.custom
        rows = await statements._connection.fetch(
            f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement.text}", *statement.bind(parameters)
        )
        explained.append(json.loads(rows[0][0])[0]["Plan"])
        return []

    monkeypatch.setattr("rota.store.postgres.database.Statements.fetch", explain)

    async def plan(**wanted):
        await Runs(counted).find_soon("default", RunFilter(**wanted), 50)
        return explained.pop()

    return plan


def nodes(plan):
    yield plan
    for child in plan.get("Plans", []):
        yield from nodes(child)


def read_of(plan, table):
    """How many rows were read of a table, whether shown or not."""
    return sum(
        node["Actual Loops"]
        * (node["Actual Rows"] + node.get("Rows Removed by Filter", 0) + node.get("Rows Removed by Index Recheck", 0))
        for node in nodes(plan)
        if node.get("Relation Name", "").startswith(table)
    )


async def test_no_filter_reads_the_runs_of_others(plans):
    now = datetime.now(UTC)
    first = floor_id(datetime(now.year, now.month, now.day, tzinfo=UTC))
    for wanted in ASKED:
        plan = await plans(first=first, **wanted)
        # A stretch in order, then what the index finds.
        for table in ("finished_runs", "upcoming_runs"):
            assert read_of(plan, table) <= 3100, f"{wanted} reads {table}"
        assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] < 12_000, f"{wanted} touches too much"


async def test_what_is_rare_is_found_by_its_labels_and_nothing_else(plans):
    for wanted in ({one: value} for one, value in MATCHING.items()):
        plan = await plans(first=FIRST_ID, **wanted)
        bitmaps = [node for node in nodes(plan) if node["Node Type"] == "Bitmap Index Scan" and node["Actual Loops"]]
        assert bitmaps
        used = {node["Index Name"] for node in bitmaps}
        assert all("label" in name for name in used), f"{wanted} uses {used}"
        assert not [node for node in nodes(plan) if node["Node Type"] == "Seq Scan" and node["Actual Loops"]]


async def test_a_frequent_value_fills_its_page_from_the_end(plans):
    for wanted in ({"task": "task-1"}, {"tag": "nightly"}, {"statuses": ["success"]}, {"owner": "owner-1"}):
        plan = await plans(first=FIRST_ID, **wanted)
        assert not [node for node in nodes(plan) if node["Node Type"] == "Bitmap Index Scan" and node["Actual Loops"]]


VALUES = {
    "owner": ["ada", "bob", "cleo"],
    "task": ["a", "b", "rare"],
    "name": ["x", "y", "z"],
    "tag": ["red", "blue", "green"],
}
STATUSES = ["scheduled", "retrying", "blocked", "queued", "running", "success", "failed", "cancelled", "skipped"]


async def test_lists_have_exactly_what_a_naive_filter_has_page_by_page(database, sql, monkeypatch):
    """With random runs everywhere, and so short a stretch in order that most is found by labels."""
    monkeypatch.setattr("rota.store.read.runs._WALK", 3)
    chance = random.Random(time.time_ns())
    await _random_runs(sql, chance)
    rows = await sql.fetch("SELECT * FROM rota.runs ORDER BY id DESC")
    for _ in range(150):
        wanted = {name: chance.choice(values) for name, values in VALUES.items() if chance.random() < 0.35}
        if chance.random() < 0.4:
            wanted["statuses"] = chance.sample(STATUSES, chance.randint(1, 3))
        if chance.random() < 0.5:
            wanted["first"] = chance.choice(rows)["id"]
        expected = [row["id"] for row in rows if row["namespace"] == "default" and _fits(row, **wanted)]
        found, before, limit = [], LAST_ID, chance.choice([1, 4, 50])
        while page := await Runs(database).find_soon("default", RunFilter(before=before, **wanted), limit):
            found += [row["id"] for row in page]
            before = page[-1]["id"]
        assert found == expected, wanted


def _fits(row, first=FIRST_ID, statuses=None, tag=None, **equal):
    return (
        row["id"] >= first
        and (statuses is None or row["status"] in statuses)
        and (tag is None or tag in row["tags"])
        and all(row[name] == value for name, value in equal.items())
    )


async def _random_runs(sql, chance):
    columns = (
        "namespace, id, job_id, job_version, owner, name, task, pool, priority, tags, options, cause, shard,"
        " nominal_at, run_at, created_at, attempt"
    )
    now = datetime.now(UTC)
    for number in range(400):
        table = chance.choice(["upcoming_runs", "held_runs", "live_runs", "finished_runs", "finished_runs"])
        due = now + timedelta(seconds=chance.uniform(-80_000, 80_000))
        values = [
            chance.choice(["default", "default", "default", "other"]),
            floor_id(due + timedelta(microseconds=number)),
            chance.choice(VALUES["owner"]),
            chance.choice(VALUES["name"]),
            chance.choice(["a", "a", "b", "b", "rare"]),
            chance.sample(VALUES["tag"], chance.randint(0, 2)),
            due,
            chance.choice([0, 0, 1]),
        ]
        common = "$1, $2, $2, 1, $3, $4, $5, 'default', 0, $6, '{}', 'submit', 0, $7, $7, now(), $8"
        more, extra = {
            "upcoming_runs": ("", ""),
            "held_runs": (", gate", ", 'pause'"),
            "live_runs": (", ready_at, lane", ", $7, rota.lane_of($1, 'default', $5, 0::smallint)"),
            "finished_runs": (", status, finished_at", f", '{chance.choice(STATUSES[5:])}', now()"),
        }[table]
        await sql.execute(
            f"INSERT INTO rota.{table} ({columns}{more}) VALUES ({common}{extra}) ON CONFLICT DO NOTHING", *values
        )
