"""GET /metrics: the installation in numbers, for those who may see them."""

from __future__ import annotations

import asyncio
import socket
import urllib.request

import httpx
import pytest

from metric_lines import total, values
from rota.access.authenticator import Authenticator
from rota.api.app import build_app
from rota.errors import DatabaseUnavailableError
from rota.metrics.metrics_port import MetricsPort
from rota.metrics.publishing import metrics_services
from rota.service import ServiceGroup
from rota.settings import Settings
from support import eventually, job


async def text_of(client, **options):
    answer = await client.get("/metrics", **options)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    return answer.text


async def test_it_counts_runs_letters_gates_and_workers_of_all_namespaces(engine, sql):
    api = engine.api
    for _ in range(3):
        await engine.submit(task="nobody.has.it")
    await engine.submit(scheduleType="future", delaySeconds=3600, pool="mail")
    await engine.recurring(scheduleType="interval", everySeconds=600)
    await api.post("/v1/jobs", json=job(task="x"), headers={"Rota-Namespace": "shop"})
    await engine.join(engine.broker(), "rota.echo", slots=7, pools=("default", "mail"))
    scheduler = await engine.leading()
    await engine.submit(task="x", concurrencyKey="k", concurrencyLimit=1)
    await scheduler.admitter.tick()
    await sql.execute("UPDATE rota.live_runs SET ready_at = ready_at - interval '90 s' WHERE namespace = 'shop'")
    await sql.execute(
        "UPDATE rota.jobs SET fired_through = now() - interval '1 h', next_fire_at = now() - interval '1 min'"
    )
    await sql.execute(
        "INSERT INTO rota.gates (namespace, kind, key, state) VALUES ('shop', 'breaker', 'b', 'open'), "
        "('shop', 'rate', 'r', NULL)"
    )
    await sql.execute(
        "INSERT INTO rota.dead_letters (namespace, run_id, job_id, name, task) "
        "SELECT 'shop', id, id, 'n', 't' FROM (SELECT gen_random_uuid() AS id FROM generate_series(1, 4)) AS x"
    )
    text = await text_of(api)
    assert total(text, "rota_runs", namespace="default", status="queued") == 4
    assert total(text, "rota_runs", namespace="default", pool="mail", status="scheduled") == 1
    assert total(text, "rota_runs", namespace="shop", status="queued") == 1
    assert values(text, "rota_oldest_queued_seconds", namespace="shop")[0] >= 90
    assert values(text, "rota_pool_slots", namespace="default", pool="mail") == [7]
    assert values(text, "rota_pool_slots_used", namespace="default", pool="default") == [0]
    assert values(text, "rota_workers", state="live") == [1]
    assert values(text, "rota_workers", state="gone") == [0]
    assert values(text, "rota_dead_letters", namespace="shop") == [4]
    assert values(text, "rota_breakers", namespace="shop", state="open") == [1]
    assert values(text, "rota_schedules_overdue", namespace="default") == [1]
    assert values(text, "rota_database_up") == [1]


async def test_runs_at_a_gate_are_counted_by_its_kind(engine):
    scheduler = await engine.leading()
    for _ in range(3):
        await engine.submit(task="x", concurrencyKey="k", concurrencyLimit=1)
    await scheduler.admitter.catch_up()
    text = await text_of(engine.api)
    assert values(text, "rota_blocked_runs", gate="limit") == [2]
    assert total(text, "rota_runs", status="blocked") == 2


async def test_many_scrapers_cost_the_database_one_look(make_api, monkeypatch):
    async with make_api() as api:
        looks = 0
        installation = api.services.installation_gauges._installation
        look = installation.look

        async def counted():
            nonlocal looks
            looks += 1
            return await look()

        monkeypatch.setattr(installation, "look", counted)
        await asyncio.gather(*(text_of(api) for _ in range(10)))
        assert looks == 1


async def test_without_a_database_the_server_says_so_and_shows_no_old_numbers(make_api, monkeypatch):
    async with make_api() as api:
        await api.post("/v1/jobs", json=job(task="x"))
        gauges = api.services.installation_gauges
        assert total(await text_of(api), "rota_runs") == 1

        async def away():
            raise DatabaseUnavailableError("away")

        monkeypatch.setattr(gauges._installation, "look", away)
        gauges._looked_at -= 60
        text = await text_of(api)
        assert values(text, "rota_database_up") == [0]
        assert values(text, "rota_runs") == []
        assert total(text, "rota_runs_submitted_total") == 1


async def test_it_needs_a_token_with_the_right_to_operate(api, somebody):
    assert (await (await somebody.with_token()).get("/metrics")).status_code == 401
    assert (await (await somebody("submitter")).get("/metrics")).status_code == 403


async def test_an_operator_of_a_namespace_sees_that_one_alone(api, somebody):
    for namespace in ("shop", "bank"):
        await api.post("/v1/jobs", json=job(task="x"), headers={"Rota-Namespace": namespace})
    text = await text_of(await somebody("operator", namespace="shop"))
    assert total(text, "rota_runs", namespace="shop") == 1
    assert "bank" not in text
    assert "process_" not in text
    assert "bank" in await text_of(await somebody("operator", everywhere=True))


async def test_it_can_be_opened_to_everyone(api):
    app = build_app(api.services, Authenticator("other"), "test", metrics_public=True)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://rota") as anyone:
        assert values(await text_of(anyone), "rota_database_up") == [1]
        assert (await anyone.get("/v1/stats")).status_code == 401


@pytest.fixture
def port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


async def read_port(port):
    def read():
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            return answer.read().decode()

    return await asyncio.to_thread(read)


async def test_a_port_of_the_process_shows_the_same(make_api, port):
    async with make_api() as api:
        settings = Settings(metrics_port=port)
        refresh = api.services.installation_gauges.refresh
        async with ServiceGroup(metrics_services(settings, api.services.metrics, refresh)) as group:
            await eventually(lambda: group.services[0].server)
            assert values(await read_port(port), "rota_database_up") == [1]


async def test_a_port_that_is_taken_is_taken_over_when_it_is_free(port):
    first, second = (MetricsPort("127.0.0.1", port, lambda name=name: name) for name in (b"first", b"second"))
    second.interval_seconds = 0.05
    await first.open()
    async with ServiceGroup([second]):
        assert await read_port(port) == "first"
        await first.close()
        await eventually(lambda: second.server)
        assert await read_port(port) == "second"
