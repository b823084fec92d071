"""Instruments: bounded, exact, and readable for Prometheus."""

from __future__ import annotations

import random

import pytest

from rota.metrics.catalogue import BOUNDS, Metrics
from rota.metrics.exposition import exposition
from rota.metrics.instruments import MOST_SERIES, OTHER, Counter, Distribution, Gauge, Histogram, Registry


def shown(registry, **options):
    return exposition(registry, **options).decode().splitlines()


@pytest.mark.parametrize("many", [1, 5, 12, 13, 500])
def test_values_are_counted_in_the_first_bucket_whose_bound_they_do_not_exceed(many):
    values = [random.choice([*BOUNDS, random.random() * 100, -0.5, 1e9]) for _ in range(many)]
    one = Distribution(BOUNDS)
    one.observe(list(values))
    expected = [sum(value <= bound for value in values) for bound in BOUNDS]
    assert [sum(one.counts[: place + 1]) for place in range(len(BOUNDS))] == expected
    assert sum(one.counts) == many
    assert one.sum == pytest.approx(sum(values))


def test_a_histogram_is_shown_with_cumulated_buckets():
    registry = Registry()
    histogram = registry.add(Histogram("waits", "How long.", ("pool",), (0.5, 1)))
    histogram.of("a").observe([0.25, 0.75, 5.0])
    assert shown(registry) == [
        "# HELP waits How long.",
        "# TYPE waits histogram",
        'waits_bucket{pool="a",le="0.5"} 1',
        'waits_bucket{pool="a",le="1"} 2',
        'waits_bucket{pool="a",le="+Inf"} 3',
        'waits_sum{pool="a"} 6',
        'waits_count{pool="a"} 3',
    ]


def test_labels_are_quoted():
    registry = Registry()
    registry.add(Counter("c_total", "Back\\slash\nand line.", ("pool",))).of('a"b\\c\nd').add(2)
    assert shown(registry) == [
        "# HELP c_total Back\\\\slash\\nand line.",
        "# TYPE c_total counter",
        'c_total{pool="a\\"b\\\\c\\nd"} 2',
    ]


def test_beyond_the_most_series_counts_go_to_other_and_none_is_lost():
    counter = Counter("c_total", "", ("namespace", "outcome"))
    for number in range(MOST_SERIES + 100):
        counter.of(f"tenant-{number}", "failed").add()
    assert len(counter.series()) == MOST_SERIES + 1
    assert counter.of(OTHER, "failed").value == 100
    counter.of("tenant-0", "failed").add()
    assert counter.of("tenant-0", "failed").value == 2  # a known one keeps its place
    assert sum(one.value for _, one in counter.series()) == MOST_SERIES + 101


def test_gauges_keep_the_largest_and_show_what_is_there_now():
    gauge = Gauge("g", "", ("namespace",))
    gauge.replace({(f"tenant-{number}",): float(number) for number in range(MOST_SERIES + 2)})
    values = {labels[0]: one.value for labels, one in gauge.series()}
    assert values[f"tenant-{MOST_SERIES + 1}"] == MOST_SERIES + 1
    assert values[OTHER] == 0 + 1
    gauge.replace({("left",): 1.0})
    assert [labels for labels, _ in gauge.series()] == [("left",)]


def test_the_oldest_of_all_others_is_the_oldest():
    gauge = Metrics().oldest_queued
    gauge.replace({(f"tenant-{number}", "default"): 10.0 + number for number in range(MOST_SERIES + 3)})
    assert {labels: one.value for labels, one in gauge.series()}[OTHER, OTHER] == 12


def test_a_tenant_sees_what_is_theirs_alone():
    metrics = Metrics(version="1", role="api")
    metrics.submitted.of("shop", "default").add()
    metrics.submitted.of("bank", "default").add()
    lines = shown(metrics.registry, namespace="shop")
    assert [line for line in lines if not line.startswith("#")] == [
        'rota_runs_submitted_total{namespace="shop",pool="default"} 1'
    ]


def test_every_metric_has_words_and_a_name_that_says_its_kind():
    for instrument in Metrics().registry.read():
        assert instrument.words.endswith(".")
        assert instrument.name.endswith("_total") == (instrument.kind == "counter")
        assert instrument.name.startswith(("rota_", "process_"))
