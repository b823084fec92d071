"""Under a narrow role, bound or not, every statement goes into large tables by the same way as under the owner.

Row level security keeps conditions that might tell something of hidden rows away from indexes.
"""

from __future__ import annotations

import json
import re

import pytest
from role_statements import SERVER_STATEMENTS, WORKER_STATEMENTS

from rota.store.postgres.statements import load
from rota.store.schema.role_rights import SERVER, WORKER

# They count what waits, up to a limit, and now and then: there is no index for it.
COUNTING = {"count_owners", "count_waiting"}
LARGE = ("live_runs", "upcoming_runs", "held_runs", "finished_runs", "attempts", "jobs", "payloads", "dead_letters",
         "submission_keys", "chosen_ids", "log_chunks", "departures")  # fmt: skip
BOUND = {"namespaces": ("ours", "more"), "pools": ("ours", "more")}
# What row level security adds, which is no more than a filter.
ADDED = re.compile(r"'\{ours,more\}'")


def nodes(plan):
    yield plan
    for child in plan.get("Plans", []):
        yield from nodes(child)


async def scans_of(connection, name):
    """Each look at a large table: how, by which index and with which conditions on it."""
    text = load(name).text
    parameters = len((await connection.prepare(text)).get_parameters())
    await connection.execute(f"PREPARE asked AS {text}")
    values = f"({', '.join(['NULL'] * parameters)})" if parameters else ""
    plan = json.loads(await connection.fetchval(f"EXPLAIN (FORMAT JSON) EXECUTE asked{values}"))[0]["Plan"]
    await connection.execute("DEALLOCATE asked")
    return [
        (
            node["Relation Name"],
            node["Node Type"],
            node.get("Index Name"),
            _conditions(node.get("Index Cond", "") + node.get("TID Cond", "")),
        )
        for node in nodes(plan)
        if node.get("Relation Name", "").startswith(LARGE) and "Scan" in node["Node Type"]
    ]


def _conditions(condition):
    """The columns an index is asked for, without what row level security adds."""
    parts = [part for part in condition.split(" AND ") if not ADDED.search(part)]
    return sorted(re.findall(r"\(+(\w+) (?:=|<|>|<=|>=) ", " ".join(parts)))


@pytest.mark.parametrize(
    ("kind", "bound", "statements"),
    [(SERVER, {}, SERVER_STATEMENTS), (WORKER, {}, WORKER_STATEMENTS), (WORKER, BOUND, WORKER_STATEMENTS)],
    ids=["server", "worker", "bound worker"],
)
@pytest.mark.parametrize("tuples", [0, 10_000_000])
async def test_a_narrow_role_has_the_plans_of_the_owner(
    kind, bound, statements, tuples, make_role, connect, database, sql
):
    await make_role(WORKER, **BOUND)  # somebody is bound: the tables have policies
    pool = await connect(await make_role(kind, **bound), pool=True)
    await sql.execute(
        "UPDATE pg_class SET reltuples = $1, relpages = $2"
        " WHERE relnamespace = 'rota'::regnamespace AND relkind IN ('r', 'i')",
        float(tuples),
        tuples // 30,
    )
    others = {}
    async with pool.raw() as narrow, database.raw() as owner:
        for name in sorted(statements - COUNTING):
            theirs, ours = await scans_of(narrow, name), await scans_of(owner, name)
            if theirs != ours:
                others[name] = (theirs, ours)
    assert not others
