"""A real Prometheus scrapes a fleet; its own tools find nothing wrong with what it gets, nor with our rules."""

from __future__ import annotations

import asyncio
import json
import math
import re
import time
from bisect import bisect_left
from pathlib import Path

import asyncpg
import httpx
import psutil
import pytest

import commands
from prometheus import Prometheus, promtool, require_prometheus
from rota.metrics.catalogue import BOUNDS, Metrics
from rota.metrics.exposition import exposition
from support import family_of, free_port, job, wait_until

DEPLOY = Path(__file__).parents[2] / "deploy"
RULES = DEPLOY / "prometheus" / "rota-rules.yml"
DASHBOARD = DEPLOY / "grafana" / "rota.json"
RUNS = 1500
PROCESSES = 4  # the API, the scheduler, two workers


def neighbouring_ports(many):
    """The first of so many free ports in a row."""
    ports = [free_port()]
    while len(ports) < many:
        ports.append(free_port())
        if ports[-1] != ports[-2] + 1:
            ports = ports[-1:]
    return ports[0]


@pytest.fixture
def fleet(tmp_path, database_url):
    require_prometheus()
    port = neighbouring_ports(PROCESSES)
    who = commands.Commands(
        tmp_path,
        free_port(),
        HOME=str(tmp_path),
        ROTA_DATABASE_URL=database_url,
        ROTA_METRICS_PORT=str(port),
        ROTA_METRICS_TASK_LABEL="on",
    )
    who.metrics_port = port
    with who.running("up", "--workers", str(PROCESSES - 2)):
        wait_until(lambda: len([one for one in who.ask("/v1/workers")["items"] if one["status"] == "live"]) == 2)
        yield who


@pytest.fixture
def watcher(fleet, tmp_path):
    targets = [f"127.0.0.1:{fleet.metrics_port + number}" for number in range(PROCESSES)]
    with Prometheus(tmp_path, targets, RULES) as prometheus:
        yield prometheus


def submit(who, many, **fields):
    body = {"job": job(task="rota.echo", **fields), "payloads": [{}] * many}
    done = who.ask("/v1/jobs/batch", "POST", body=body)
    assert not done["refused"]


def successes(prometheus):
    return prometheus.value('sum(rota_attempts_ended_total{outcome="success"})') or 0


def lags_in(database_url):
    """How late each run started, by the history."""

    async def read():
        connection = await asyncpg.connect(database_url)
        try:
            rows = await connection.fetch(
                "SELECT extract(epoch FROM started_at - nominal_at)::float8 AS lag FROM rota.finished_runs"
            )
        finally:
            await connection.close()
        return sorted(row["lag"] for row in rows)

    return asyncio.run(read())


@pytest.mark.slow
def test_start_lag_agrees_with_the_history_and_promtool_with_the_text(fleet, watcher, database_url):
    for _ in range(3):
        submit(fleet, RUNS // 5)
    submit(fleet, 2 * RUNS // 5, scheduleType="future", delaySeconds=2)
    wait_until(lambda: successes(watcher) == RUNS, within=120)
    lags = lags_in(database_url)
    assert len(lags) == RUNS
    assert watcher.value("sum(rota_start_lag_seconds_count)") == RUNS
    for share in (0.5, 0.95, 0.99):
        shown = watcher.value(f"histogram_quantile({share}, sum by (le) (rota_start_lag_seconds_bucket))")
        recorded = lags[math.ceil(share * len(lags)) - 1]
        assert abs(bisect_left(BOUNDS, shown) - bisect_left(BOUNDS, recorded)) <= 1, (share, shown, recorded)
    assert watcher.value("sum(rota_runs_submitted_total)") == RUNS
    assert {labels["task"] for labels, _ in watcher.query("rota_attempts_started_total > 0")} == {"rota.echo"}
    assert watcher.value("max by (namespace, pool) (rota_pool_slots)") == 200
    assert sorted(labels["role"] for labels, _ in watcher.query("rota_build_info")) == [
        "api",
        "scheduler",
        "worker",
        "worker",
    ]
    for number in range(PROCESSES):
        text = httpx.get(f"http://127.0.0.1:{fleet.metrics_port + number}/metrics").text
        promtool("check", "metrics", text=text)
    wait_until(lambda: watcher.query("rota:start_lag_seconds:p99"))


@pytest.mark.slow
def test_the_counters_of_a_restarted_worker_begin_at_zero_and_rates_stay_right(fleet, watcher):
    submit(fleet, RUNS)
    wait_until(lambda: successes(watcher) == RUNS, within=120)
    began = time.time()
    started = 'rota_attempts_started_total{task="rota.echo"}'
    before = {labels["instance"]: value for labels, value in watcher.query(f"{started} > 0")}
    # The window must begin with samples of all that ran before, and none of the time when it still ran.
    wait_until(lambda: watcher.value(f"min(timestamp({started}))") > began + 1.5)
    workers = [process for process in family_of(fleet.rota_home) if _is_worker(process)]
    assert len(workers) == 2
    for process in workers:
        process.kill()
    wait_until(lambda: watcher.value("count(changes(process_start_time_seconds[1m]) > 0)") == 2, within=120)
    submit(fleet, RUNS // 3)
    wait_until(lambda: successes(watcher) == RUNS // 3, within=120)
    after = {labels["instance"]: value for labels, value in watcher.query(started)}
    assert sum(after.values()) == RUNS // 3
    assert all(watcher.value(f'resets({started[:-1]}, instance="{instance}"}}[2m])') >= 1 for instance in before)
    window = math.floor(time.time() - began)
    grown = watcher.value(f'sum(increase(rota_attempts_ended_total{{outcome="success"}}[{window}s]))')
    # Prometheus extrapolates to the ends of the window, the more the fewer samples a busy machine lets it have. If it
    # took the reset for a loss this would be below zero, and if it took the new count for growth as much as all runs.
    assert 0.7 * RUNS / 3 < grown < RUNS


def _is_worker(process):
    try:
        return "worker" in process.cmdline()
    except psutil.Error:
        return False


def test_promtool_finds_nothing_wrong_with_the_rules():
    require_prometheus()
    assert "SUCCESS" in promtool("check", "rules", str(RULES))
    promtool("check", "config", str(RULES.parent / "prometheus.yml"))


def test_promtool_finds_nothing_wrong_with_any_metric():
    require_prometheus()
    metrics = Metrics(role="test", version="0", task_label=True)
    for instrument in metrics.registry.read():
        one = instrument.of(*("x" for _ in instrument.labels))
        if instrument.kind == "histogram":
            one.observe([0.2, 7.0])
    promtool("check", "metrics", text=exposition(metrics.registry).decode())


@pytest.mark.parametrize("file", [RULES, DASHBOARD], ids=["rules", "dashboard"])
def test_every_metric_in_rules_and_dashboard_exists(file):
    known = set()
    for instrument in Metrics().registry.read():
        suffixes = ("_bucket", "_sum", "_count") if instrument.kind == "histogram" else ("",)
        known |= {instrument.name + suffix for suffix in suffixes}
    found = set(re.findall(r"\b(?:rota|process)_[a-z_]+\b", file.read_text()))
    assert len(found) > 8
    assert found <= known


def test_every_query_of_the_dashboard_can_be_read_by_prometheus(tmp_path):
    require_prometheus()
    board = json.loads(DASHBOARD.read_text())
    queries = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    assert len(queries) > 20
    rules = [{"record": f"query:{number}", "expr": query} for number, query in enumerate(queries)]
    file = tmp_path / "queries.yml"
    file.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))  # JSON is YAML too
    assert "SUCCESS" in promtool("check", "rules", str(file))
