"""The hot statements keep their index plans, whatever the statistics say and however much waits."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest

from rota.domain.ids import new_id
from rota.store.postgres.statements import load, load_all

WAITING = 100_000


@pytest.fixture
async def crowded(database, sql):
    """100,000 upcoming runs that nobody has analysed, and as many ready runs of a task our worker does not know."""
    await sql.execute(
        """INSERT INTO rota.upcoming_runs (namespace, id, job_id, job_version, owner, name, task, pool, priority,
                                           tags, payload, options, cause, shard, nominal_at, run_at, created_at)
           SELECT 'default', id, id, 1, 'o', 'n', 'rota.echo', 'default', 0, '{}', NULL, '{}', 'submit', n % 64,
                  now() + interval '1 day', now() + interval '1 day' + n * interval '1 second', now()
             FROM (SELECT gen_random_uuid() AS id, n FROM generate_series(1, $1::int) AS n) AS s""",
        WAITING,
    )
    await sql.execute(
        """INSERT INTO rota.live_runs (namespace, id, job_id, job_version, owner, name, task, pool, priority, tags,
                                        payload, options, cause, shard, nominal_at, run_at, created_at, ready_at, lane)
            SELECT 'default', id, id, 1, 'o', 'n', 'unknown', 'default', 0, '{}', NULL, '{}', 'submit', n % 64,
                   now(), now(), now(), now() - interval '1 hour',
                   rota.lane_of('default', 'default', 'unknown', 0::smallint)
              FROM (SELECT gen_random_uuid() AS id, n FROM generate_series(1, $1::int) AS n) AS s""",
        WAITING,
    )
    return database


async def explain(database, name, /, **parameters):
    """The plan as it was executed, then rolled back."""
    statement = load(name)
    async with database.raw() as connection:
        transaction = connection.transaction()
        await transaction.start()
        rows = await connection.fetch(
            f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement.text}", *statement.bind(parameters)
        )
        await transaction.rollback()
    return json.loads(rows[0][0])[0]["Plan"]


def nodes(plan):
    yield plan
    for child in plan.get("Plans", []):
        yield from nodes(child)


def scans(plan, table):
    return [node for node in nodes(plan) if node.get("Relation Name") == table and "Scan" in node["Node Type"]]


@pytest.mark.parametrize("statement", ["claim", "claim_shared"])
async def test_claim_walks_its_lanes_and_nothing_else(crowded, engine, statement):
    await engine.submit()
    broker = engine.broker()
    worker_id = await engine.join(broker, "rota.echo", "rota.sleep")
    lanes = broker._lanes["default", "default"]
    one_each = [1] * len(lanes)
    shares = {"tenants": one_each, "held": one_each, "weights": one_each, "most": [80] * len(lanes)}
    plan = await explain(
        crowded,
        statement,
        worker_id=worker_id,
        lanes=lanes,
        begin_at=[0.0] * len(lanes),
        room=100,
        lookahead=timedelta(seconds=1),
        portion=100,
        **(shares if statement == "claim_shared" else {}),
    )
    used = scans(plan, "live_runs")
    assert {node.get("Index Name") for node in used} == {"live_runs_ready", None}
    assert [node["Node Type"] for node in used if "Index Name" not in node] == ["Tid Scan"]
    assert plan["Actual Rows"] == 1
    # What waits for others costs nothing: a handful of pages, not the thousands the table has.
    assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] < 200


async def test_promote_begins_at_what_is_due(crowded, engine, sql):
    await sql.execute(
        "UPDATE rota.upcoming_runs SET run_at = now() WHERE id IN (SELECT id FROM rota.upcoming_runs LIMIT 10)"
    )
    scheduler = await engine.leading()
    owned = scheduler.leases.owned
    plan = await explain(
        crowded,
        "promote",
        scheduler_id=scheduler.id,
        shards=list(owned),
        epochs=list(owned.values()),
        lookahead=timedelta(seconds=1),
        limit=200,
        missed_after=timedelta(seconds=60),
        begin_at=[0.0] * len(owned),
    )
    used = scans(plan, "upcoming_runs")
    assert {node.get("Index Name") for node in used} == {"upcoming_runs_due", None}
    assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] < 1000


STATEMENTS = [
    (
        "due_jobs",
        {
            "scheduler_id": uuid4(),
            "shards": [1],
            "epochs": [1],
            "horizon": timedelta(seconds=6),
            "late_after": timedelta(seconds=5),
            "late_limit": 10,
            "limit": 100,
            "begin_at": [0.0],
        },
        {"jobs": {"jobs_due"}},
    ),
    (
        "report_success",
        {
            "namespaces": ["default"],
            "run_ids": [uuid4()],
            "claims": [1],
            "started": [0.0],
            "ended": [0.0],
            "results": [None],
            "result_blobs": [None],
        },
        {"live_runs": {"live_runs_pkey"}},
    ),
    (
        "expiring_runs",
        {"scheduler_id": uuid4(), "shards": [1], "epochs": [1], "limit": 100},
        {"live_runs": {"live_runs_expiring"}, "held_runs": {"held_runs_expiring"}},
    ),
    ("worker_signals", {"worker_id": uuid4()}, {"live_runs": {"live_runs_asked"}}),
    ("claims_of_worker", {"worker_id": uuid4(), "made_within": None}, {"live_runs": {"live_runs_claimed"}}),
    ("claims_of_gone_workers", {"limit": 100}, {"live_runs": {"live_runs_claimed"}}),
    (
        "recalled_runs",
        {"scheduler_id": uuid4(), "shards": [1], "epochs": [1], "limit": 100},
        {"held_runs": {"held_runs_gate"}},
    ),
    ("cancel_runs", {"namespace": "default", "run_ids": [uuid4()], "reason": "why"}, {"live_runs": {"live_runs_pkey"}}),
    (
        "open_runs_of_job",
        {"namespace": "default", "job_id": uuid4()},
        {"live_runs": {"live_runs_pkey", "live_runs_of_job"}},
    ),
    ("unbound_runs", {"namespace": "default", "job_id": uuid4(), "version": 1}, {"live_runs": {"live_runs_of_job"}}),
    (
        "list_runs",
        {
            "namespace": "default",
            "first": UUID(int=0),
            "before": UUID(int=2**128 - 1),
            "statuses": None,
            "limit": 50,
            "one_shots": False,
        },
        {"live_runs": {"live_runs_pkey"}, "upcoming_runs": {"upcoming_runs_pkey"}},
    ),
    (
        "get_open_run",
        {"namespace": "default", "run_id": uuid4()},
        {"live_runs": {"live_runs_pkey"}, "upcoming_runs": {"upcoming_runs_pkey"}},
    ),
]


async def test_limits_and_buckets_are_found_by_their_keys(database, sql):
    await sql.execute(
        "INSERT INTO rota.limits (namespace, subject, requests_per_second, changed_at, number)"
        " SELECT 'default', 's' || n, 1, now(), n FROM generate_series(1, 5000) AS n"
    )
    await sql.execute(
        "INSERT INTO rota.buckets (namespace, subject, kind, tokens, granted, counted_at, full_at)"
        " SELECT 'default', 's' || n, 'requests', 1, 0, now(), now() FROM generate_series(1, 5000) AS n"
    )
    changed = await explain(database, "changed_limits", number=5000)
    assert {node["Index Name"] for node in scans(changed, "limits")} == {"limits_changed"}
    assert changed["Shared Hit Blocks"] + changed["Shared Read Blocks"] < 10, "it is asked all the time"
    listed = await explain(database, "list_limits", namespace="default", after="s1000", limit=50, with_unlimited=False)
    assert {node["Index Name"] for node in scans(listed, "limits")} == {"limits_pkey"}
    assert {node["Index Name"] for node in scans(listed, "buckets")} == {"buckets_pkey"}
    assert sum(node["Actual Rows"] for node in scans(listed, "limits")) == 50
    taken = await explain(
        database,
        "take_tokens",
        namespace="default",
        subject="s77",
        kind="requests",
        per_second=1.0,
        burst=5.0,
        wanted=1,
        least=1,
    )
    (writing,) = [node for node in nodes(taken) if node["Node Type"] == "ModifyTable"]
    assert writing["Conflict Arbiter Indexes"] == ["buckets_pkey"]
    assert taken["Shared Hit Blocks"] + taken["Shared Read Blocks"] < 30


async def test_looking_for_the_payloads_of_objects_reads_few_of_them(database, sql):
    await sql.execute(
        "INSERT INTO rota.payloads (namespace, id, body)"
        " SELECT 'n' || n % 3, gen_random_uuid(), '[]' FROM generate_series(1, 30000) AS n"
    )
    job_id = uuid4()
    plan = await explain(database, "payload_objects", keys=["k"], job_ids=[job_id], first=job_id, last=job_id)
    assert {node.get("Index Name") for node in scans(plan, "payloads")} == {"payloads_pkey"}
    assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] < 200, "it reads all of them"


async def test_a_bucket_is_changed_in_place(database, sql):
    """No index grows with what is taken: every change is heap-only, and pruned as it goes."""
    for _ in range(300):
        await database.fetch(
            "take_tokens",
            namespace="default",
            subject="a",
            kind="requests",
            per_second=1.0,
            burst=5.0,
            wanted=1,
            least=1,
        )
    assert await sql.fetchval("SELECT pg_relation_size('rota.buckets') / 8192") <= 2
    assert await sql.fetchval("SELECT pg_relation_size('rota.buckets_pkey') / 8192") <= 2


async def test_statements_use_the_indexes_they_name(crowded):
    for name, values, tables in STATEMENTS:
        plan = await explain(crowded, name, **values)
        for table, indexes in tables.items():
            found = scans(plan, table)
            assert found, f"{name} does not touch {table}"
            # Servers before version 17 go by id alone (migration 0005).
            used = {node.get("Index Name") for node in found} - {f"{table}_by_id"}
            assert used <= indexes, f"{name} scans {table} otherwise"


# Each look at a table that may be large must be led by one of these; a namespace alone leads to everything in it.
LEADERS = re.compile(
    r"\b(ctid|id|run_id|job_id|chosen_id|key|lane|worker_id|shard|next_fire_at|expires_at|gate_key|order|limit|app)\b"
)
# They count what waits, up to a limit, and now and then: there is no index for it.
COUNTING = {"count_owners", "count_waiting", "count_namespaces", "count_live", "count_others", "sample_waiting",
            "group_dead_letters", "take_sample", "measure_pool", "count_live_everywhere", "count_upcoming_everywhere",
            "count_held_everywhere", "count_dead_letters_everywhere"}  # fmt: skip
# What it is led by depends on its values: tests/store/test_list_plans.py.
SEARCHING = {"search_runs"}
# It steps from namespace to namespace, one entry of the index each: its own test counts what it reads.
STEPPING = {"payload_objects"}
LOOKING = sorted(load_all().keys() - COUNTING - SEARCHING - STEPPING)
LARGE = ("live_runs", "upcoming_runs", "held_runs", "finished_runs", "attempts", "jobs", "payloads", "dead_letters",
         "submission_keys", "chosen_ids")  # fmt: skip


# All statements in one test: each alone would need a database of its own, which takes longer than planning them all.
@pytest.mark.parametrize("tuples", [0, 10_000_000])
async def test_no_plan_depends_on_statistics(database, tuples):
    """Planned for tables that look empty or huge, every statement must lead into large tables by what it looks for.

    A table that was empty when somebody counted is the worst: reading all of it then looks cheaper than any index.
    """
    async with database.raw() as connection:
        await connection.execute("SELECT rota.make_day(current_date)")
        await connection.execute(
            "UPDATE pg_class SET reltuples = $1, relpages = $2"
            " WHERE relnamespace = 'rota'::regnamespace AND relkind IN ('r', 'i')",
            float(tuples),
            tuples // 30,
        )
        found = [f"{name} {problem}" for name in LOOKING for problem in _read_whole(await _plan(connection, name))]
    assert not found, "\n".join(found)


async def _plan(connection, name):
    """As it is planned for any values."""
    statement = load(name).text
    parameters = len((await connection.prepare(statement)).get_parameters())
    await connection.execute(f"PREPARE asked AS {statement}")
    values = f"({', '.join(['NULL'] * parameters)})" if parameters else ""
    plan = json.loads(await connection.fetchval(f"EXPLAIN (FORMAT JSON) EXECUTE asked{values}"))[0]["Plan"]
    await connection.execute("DEALLOCATE asked")
    return plan


def _read_whole(plan):
    """The large tables that nothing leads into, in words."""
    for node in nodes(plan):
        if node.get("Relation Name", "").startswith(LARGE) and "Scan" in node["Node Type"]:
            condition = node.get("Index Cond", "") + node.get("TID Cond", "")
            if not LEADERS.search(_left_sides(condition)):
                yield f"reads all of {node['Relation Name']}: {condition!r}"


def _left_sides(condition: str) -> str:
    """The columns of an index condition, without what they are compared with."""
    plain = re.findall(r"\(+(\w+) (?:=|<|>|<=|>=) ", condition)
    inside = re.findall(r"\(policies ->> '(\w+)'::text\) = ", condition)
    together = re.findall(r"ROW\(namespace, ([\w, ]+)\) > ", condition)
    return " ".join(plain + inside + together)


async def test_a_look_for_runs_that_ended_reads_one_day_for_each(database, sql):
    for day in ("2031-01-01", "2031-01-02", "2031-01-03"):
        await sql.execute(f"SELECT rota.make_day('{day}')")
    ids = [new_id(datetime(2031, 1, 2, 12, tzinfo=UTC).timestamp()) for _ in range(20)]
    plan = await explain(
        database, "ended_runs", namespaces=["default"] * len(ids), run_ids=ids, first=min(ids), last=max(ids)
    )
    looked = [
        node
        for node in nodes(plan)
        if node.get("Relation Name", "").startswith("finished_runs") and node["Actual Loops"]
    ]
    assert [node["Actual Loops"] for node in looked] == [len(ids)], "other days are pruned, each id by itself"
    assert all(node["Index Name"].endswith("_pkey") for node in looked)


async def test_the_latest_run_of_a_job_is_found_by_its_index_however_much_waits(crowded, engine):
    job_id = UUID((await engine.submit()).removeprefix("run_"))
    before = new_id(datetime.now(UTC).timestamp() + 60)
    for name, values in (
        ("latest_run_of_job", {"namespace": "default", "job_id": job_id}),
        ("statuses_of_jobs", {"namespaces": ["default"], "job_ids": [job_id]}),
    ):
        plan = await explain(crowded, name, **values, before=before)
        assert plan["Actual Rows"] == 1
        assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] < 100, name


async def test_a_list_stops_at_its_limit(crowded):
    first, last = "00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff"
    plan = await explain(
        crowded,
        "list_runs",
        namespace="default",
        first=first,
        before=last,
        statuses=None,
        limit=50,
        one_shots=False,
    )
    read = sum(node["Actual Rows"] for table in ("live_runs", "upcoming_runs") for node in scans(plan, table))
    assert read < 200, "a page is merged from the ends of the indexes, not sorted out of everything"
