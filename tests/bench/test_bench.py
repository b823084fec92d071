"""The benchmarks still run, in a few seconds each; what they measure that way says nothing about speed.

That is why they run beside the other tests.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

import commands
from bench import http_load
from bench.__main__ import run, scenarios
from bench.charts import bar_chart, line_chart
from bench.front_door.measures import MEASURES
from bench.front_door.report import Taken
from bench.front_door.turns import statements_of
from bench.lab import Lab
from bench.progress import Progress
from rota.ops.bench_load import Spread, percentile
from support import leave_out

ROOT = Path(__file__).parents[2]


def short(name):
    return scenarios(length="short")[name](Progress())


@pytest.mark.alone  # a backlog must not be gone before the second of two workers has started
async def test_throughput_compares_with_the_limit_of_the_same_run():
    found = await short("throughput")
    assert min(found.submit_per_second, found.drain_per_second, found.drain_one_worker_per_second) > 0
    assert found.end_to_end.jobs > 0
    assert found.share_of_limit == found.end_to_end.per_second / found.limit_per_second
    assert found.end_to_end.rota_cpu_ms_per_1000 > 0
    assert found.end_to_end.postgres_cpu_ms_per_1000 > 0
    assert found.end_to_end.wal_bytes_per_job > 100
    assert set(found.peak_memory_bytes) == {"up", "api", "scheduler", "worker"}


async def test_punctuality_reads_the_lag_of_every_run_and_none_is_early():
    found = await short("punctuality")
    assert (found.instant.count, found.steady.count, found.schedules.count) == (500, 500, 200)
    for lag in (found.instant, found.steady, found.schedules):
        assert lag.negative == 0
        assert 0 <= lag.p50 <= lag.p99 <= lag.p999 <= lag.highest


@pytest.mark.parametrize("tool", ["wrk", "own"])
async def test_http_is_measured_with_either_tool(tool, monkeypatch):
    if tool == "own":
        monkeypatch.setattr(http_load.shutil, "which", lambda _name: None)
    elif shutil.which("wrk") is None:
        leave_out("wrk is not installed (apt-get install wrk)")
    found = await short("http")
    assert found.tool == tool
    for answers in (found.rota, found.rota_with_workers, found.limited, found.keyed, found.bare, found.statuses):
        assert answers.accepted_per_second > 0
        assert answers.server_cpu_us > 0
        assert 0 < answers.p50_ms <= answers.p99_ms
    assert len(found.layers) == 8


async def test_growth_puts_what_waits_beside_nothing():
    (found,) = await short("growth")
    assert found.upcoming == 1000
    assert min(found.end_to_end_per_second, found.claim_ms, found.promote_ms) > 0
    assert found.share == found.end_to_end_per_second / found.beside_none_per_second


async def test_gates_lead_through_admission_and_past_it():
    found = await short("gates")
    assert found.keys == 500
    assert min(found.admitted_per_second, found.plain_per_second, found.plain_beside_keys_per_second) > 0
    assert found.next_of_key.count == 19
    assert found.next_of_key.negative == 0


async def test_the_sdk_is_measured_over_http_and_in_transactions():
    found = await short("sdk")
    assert found.round_trip.count == 10
    assert min(found.submitted_per_second, found.within_per_second, found.within_one_by_one_per_second) > 0
    assert min(found.plain_per_second, found.transactional_per_second) > 0


async def test_tenants_cost_a_server_some_time_and_the_database_few_statements():
    found = await short("tenants")
    assert (found.unlimited.statements, found.unlimited.refused) == (0, 0)
    for path in (found.limited, found.limited_twice, found.flood):
        assert path.microseconds > 0
        assert 0 < path.statements < path.requests / 10
    assert found.flood.refused > 9000


async def test_lists_find_the_same_however_many_runs_others_have():
    found = await short("lists")
    assert found.others == 5000
    count = {one.path: one.found for one in found.lists}
    assert (count["/v1/runs?owner=nobody"], count["/v1/runs?owner=me"], count["/v1/runs?owner=owner-7"]) == (0, 5, 5)
    assert (count["/v1/runs?task=mine"], count["/v1/runs?name=mine"], count["/v1/runs?tag=mine"]) == (5, 5, 5)
    assert count["/v1/jobs?task=mine"] == 10, "upcoming ones as well"
    assert min(found.cost.with_indexes, found.cost.without) > 0


async def test_history_of_figures_is_asked_for_in_every_range():
    found = await short("figures")
    points = {look.path: look.points for look in found.looks}
    assert points["/v1/stats/history?range=1h"] >= 45
    assert points["/v1/stats/history?range=24h&pool=pool-7"] >= 1400
    assert points["/v1/stats/history?range=30d"] >= 23
    assert min(found.roll_up_ms, found.sample_ms, found.counting_us) > 0


async def test_readers_are_compared_with_none_and_with_sessions_that_only_compute():
    found = await short("readers")
    for beside in (found.quiet, found.readers, found.control):
        assert beside.waits.count == 3000
        assert 0 < beside.share_kept <= 1


async def test_logs_are_found_by_all_and_by_a_tenant():
    found = await short("logs")
    lines = {(one.text, one.tenant == "all"): one.found for one in found.searches}
    assert lines["Wolpertinger", True] == 1
    assert lines["Wolpertinger", False] == 0
    assert lines["Xanthippe", True] == 0
    assert lines["order", True] == lines["order", False] == 50
    assert min(found.cost.with_index, found.cost.without) > 0
    assert 0 < found.index_bytes < found.text_bytes


async def test_bloat_and_idle_end_in_a_report_with_charts(tmp_path):
    results = await run(["bloat", "idle"], length="short", output=tmp_path)
    assert results.bloat.dead_rows > 0
    assert results.idle.transactions_per_minute > 0
    written = json.loads((tmp_path / "results.json").read_text())
    assert written["bloat"]["end_to_end"]["jobs"] == results.bloat.end_to_end.jobs
    page = (tmp_path / "README.md").read_text()
    assert "beside an open transaction" in page
    assert "![bloat](bloat.svg)" in page
    ET.parse(tmp_path / "bloat.svg")


async def test_users_measure_their_own_server_over_its_api_alone():
    async with Lab(workers=1) as lab:
        command = [*commands.ROTA, "bench", "--jobs", "1000", "--seconds", "1", "--yes"]
        environment = {**os.environ, "ROTA_HOME": str(lab.home), "ROTA_PORT": str(lab.port)}

        def call(*more):
            return subprocess.run(
                [*command, *more], env=environment, capture_output=True, text=True, check=False, timeout=300
            )

        done = await asyncio.to_thread(call, "--json")
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout)
        assert found["throughput"]["jobs"] == 1000
        assert found["throughput"]["endToEndPerSecond"] > 0
        assert (found["instant"]["count"], found["steady"]["count"]) == (100, 500)
        assert found["instant"]["negative"] == found["steady"]["negative"] == 0
        assert found["http"]["acceptedPerSecond"] > 0
        shown = await asyncio.to_thread(call)
        assert "run and recorded" in shown.stdout
        await lab.stop_workers()
        stuck = await asyncio.to_thread(call, "--patience", "2")
        assert stuck.returncode == 1
        assert "are there workers in the pool 'default'?" in stuck.stderr


def test_rota_takes_its_turn_among_its_peers(tmp_path):
    """The others need libraries of their own; `make bench-peers` has them."""
    command = [sys.executable, "-m", "bench.peers", "--only", "rota", "--short", "--output", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "| Rota |" in (tmp_path / "peers.md").read_text()
    (found,) = json.loads((tmp_path / "peers.json").read_text())["peers"]
    assert not found.get("skipped"), found["skipped"]


def front_door(python, output, *names):
    command = [python, "-m", "bench.front_door", "--short", "--output", str(output), "--only", *names]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    assert "# The way users submit" in (output / "front_door.md").read_text()
    return {one["name"]: one for one in json.loads((output / "front_door.json").read_text())["measures"]}


def test_the_front_door_is_measured_through_the_sdk(tmp_path):
    submitted = ["one", "threads", "bulk", "within_bulk", "call", "end_to_end", "round_trip"]
    found = front_door(sys.executable, tmp_path, *submitted, "direct_bulk", "statements")
    for name in submitted:
        rota, *others = found[name]["turns"]
        assert rota["not_measured"] is None, name
        (figures,) = rota["rounds"]
        assert figures["rate"] > 0
        assert figures["microseconds"]["client"] > 0
        for other in others:
            assert other["label"] == "Rota's SDK to a bare server" or "not installed" in other["not_measured"]
        assert found[name]["ratio"] is None
    assert found["one"]["turns"][2]["rate"] > 0
    assert 300 < found["bulk"]["turns"][0]["rounds"][0]["wal_bytes_per_job"] < 3000
    assert any(
        "INSERT" in text or "WITH" in text for text in found["statements"]["turns"][0]["rounds"][0]["statements"]
    )
    direct = found["direct_bulk"]["turns"][0]
    assert direct["rate"] or direct["not_measured"] == "rota.App has no parameter `database`"


def test_the_front_door_is_compared_with_pgqueuer_in_the_same_rounds(tmp_path):
    python = ROOT / ".venv-peers" / "bin" / "python"
    if not python.exists():
        pytest.skip("PGQueuer has no environment here: make bench-front-door makes it")
    found = front_door(str(python), tmp_path, "one", "end_to_end")
    for name in ("one", "end_to_end"):
        assert found[name]["ratio"] > 0
        assert all(turn["not_measured"] is None for turn in found[name]["turns"])


def test_a_ratio_is_of_one_round_and_the_best_yardstick():
    measure = next(one for one in MEASURES if one.name == "end_to_end")
    failed, slow = {"failed": "why"}, rated(0.5)
    taken = Taken(measure, [[rated(20.0), rated(10.0), rated(5.0), slow], [rated(9.0), failed, rated(3.0), slow]])
    assert taken.ratios == [2.0, 3.0]
    assert taken.reason(1) is None
    none = Taken(measure, [[failed, slow, slow, slow]])
    assert (none.ratios, none.reason(0), none.middle(0, "rate")) == ([], "why", None)


def rated(rate):
    return {"rate": rate, "microseconds": {"client": 1.0, "server": 1.0, "elsewhere": 0.0}}


def test_statements_of_each_job_are_counted_and_those_beside_them_are_not():
    line = "2026-11-18 07:00:00.000 UTC [7] LOG:  "
    job = [
        f"{line}statement: BEGIN;",
        f"{line}execute __asyncpg_stmt_1__: -- Submits runs.",
        "\tINSERT INTO runs",
        "\tVALUES ($1)",
        "2026-11-18 07:00:00.000 UTC [7] DETAIL:  Parameters: $1 = '1'",
    ]
    log = [*(job * 10), f"{line}statement: SELECT now()"]
    assert statements_of("\n".join(log), 10) == {"BEGIN;": 1.0, "INSERT INTO runs VALUES ($1)": 1.0}


def test_a_scenario_that_is_not_there_is_named():
    done = subprocess.run(
        [sys.executable, "-m", "bench", "speed"], cwd=ROOT, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 2
    assert "no such scenario: speed" in done.stderr


def test_percentiles_are_nearest_ranks():
    ordered = [float(number) for number in range(1, 101)]
    assert [percentile(ordered, share) for share in (0.5, 0.99, 0.999, 1.0)] == [50, 99, 100, 100]
    spread = Spread.of([0.002, -0.001, 0.004])
    assert (spread.p50, spread.highest, spread.negative) == (2.0, 4.0, 1)


def test_charts_are_well_formed_and_hold_what_they_show():
    chart = bar_chart("Rates & more", "jobs/s", {"<one>": 1234.0, "none": 0.0})
    texts = [node.text for node in ET.fromstring(chart).iter() if node.text]
    assert "Rates & more (jobs/s)" in texts
    assert "<one>" in texts
    assert "1.23k" in texts
    lines = line_chart("Over time", "jobs/s", {"a": [1.0, 2.0], "b": []}, 10)
    assert "20 s" in [node.text for node in ET.fromstring(lines).iter()]
