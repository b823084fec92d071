"""StatsD: what a server on a UDP port gets."""

from __future__ import annotations

import asyncio
import socket

import pytest

from rota.errors import SetupError
from rota.metrics.catalogue import Metrics
from rota.metrics.publishing import metrics_services
from rota.metrics.statsd import StatsdSender, packed, quantile_of
from rota.service import ServiceGroup
from rota.settings import Settings
from support import eventually


@pytest.fixture
def statsd():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        server.setblocking(False)
        yield server


def received(server):
    lines = []
    while True:
        try:
            packet = server.recv(65536)
        except BlockingIOError:
            return lines
        assert len(packet) <= 1400
        lines += packet.decode().split("\n")


def sender(metrics, server, **options):
    async def nothing():
        pass

    choices = {"refresh": nothing, "tags": False, "seconds": 0.05} | options
    return StatsdSender(metrics.registry, server.getsockname(), **choices)


async def test_counters_are_sent_as_what_was_added(statsd):
    metrics = Metrics()
    counter = metrics.submitted.of("default", "mail")
    one = sender(metrics, statsd)
    await one.open()
    counter.add(3)
    await one.tick()
    assert "rota_runs_submitted_total.default.mail:3|c" in received(statsd)
    await one.tick()
    assert not [line for line in received(statsd) if line.startswith("rota_runs_submitted_total")]
    counter.add(2)
    await one.close()  # the last ones are sent when the process ends
    assert "rota_runs_submitted_total.default.mail:2|c" in received(statsd)


async def test_gauges_and_quantiles_are_sent_as_they_are_with_tags(statsd):
    metrics = Metrics()
    metrics.runs.replace({("default", "a|b,c", "queued"): 7.0})
    metrics.start_lag.of("default", "mail").observe([0.002] * 90 + [0.2] * 10)
    one = sender(metrics, statsd, tags=True)
    await one.open()
    await one.tick()
    lines = received(statsd)
    assert "rota_runs:7|g|#namespace:default,pool:a_b_c,status:queued" in lines
    tags = "|#namespace:default,pool:mail"
    assert f"rota_start_lag_seconds.count:100|c{tags}" in lines
    assert f"rota_start_lag_seconds.p50:0.0025|g{tags}" in lines
    assert f"rota_start_lag_seconds.p99:0.25|g{tags}" in lines
    await one.close()


async def test_names_have_no_separators_of_their_own(statsd):
    metrics = Metrics()
    metrics.submitted.of("a.b:c", "ü d").add()
    one = sender(metrics, statsd)
    await one.open()
    await one.tick()
    assert "rota_runs_submitted_total.a_b_c.__d:1|c" in received(statsd)
    await one.close()


async def test_the_setting_sends_at_an_interval_and_a_server_that_is_away_harms_nothing(statsd):
    host, port = statsd.getsockname()
    metrics = Metrics()
    counter = metrics.submitted.of("default", "default")
    settings = Settings(statsd=f"{host}:{port}", statsd_seconds=0.02)
    async with ServiceGroup(metrics_services(settings, metrics)):
        counter.add(5)
        await eventually(lambda: "rota_runs_submitted_total.default.default:5|c" in received(statsd))
        statsd.close()
        for _ in range(20):
            counter.add()
            await asyncio.sleep(0.01)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as again:
            again.bind((host, port))
            again.setblocking(False)
            counter.add(1000)
            await eventually(lambda: any("rota_runs_submitted_total" in line for line in received(again)))


@pytest.mark.parametrize("address", ["nowhere", ":8125", "host:", "host:0", "host:65536", "host:x"])
def test_a_bad_address_is_refused_at_the_start(address):
    with pytest.raises(SetupError, match="ROTA_STATSD must be host:port"):
        Settings.from_environment({"ROTA_STATSD": address})


def test_an_address_of_version_6_is_read():
    assert Settings.from_environment({"ROTA_STATSD": "[::1]:8125"}).statsd_address == ("::1", 8125)


def test_packets_hold_whole_lines():
    lines = [f"line-{number}:1|c" for number in range(1000)]
    packets = list(packed(iter(lines)))
    assert len(packets) > 5
    assert [line for packet in packets for line in packet.decode().split("\n")] == lines


def test_a_quantile_above_all_bounds_is_the_largest_bound():
    assert quantile_of((1, 2), [0, 0, 5], 0.5) == 2
    assert quantile_of((1, 2), [3, 1, 0], 0.5) == 1
