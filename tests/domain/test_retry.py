"""How long a run waits before its next attempt."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.domain.job import RunOptions, decode_options, encode_options
from rota.domain.retry import RetryPolicy

STRATEGIES = ("exponential", "linear", "fibonacci", "fixed")


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        ("exponential", [5, 10, 20, 40, 80, 160]),
        ("linear", [5, 10, 15, 20, 25, 30]),
        ("fibonacci", [5, 5, 10, 15, 25, 40]),
        ("fixed", [5, 5, 5, 5, 5, 5]),
    ],
)
def test_each_strategy_waits_as_its_name_says(strategy, expected):
    policy = RetryPolicy(strategy=strategy, base_seconds=5, jitter=0)
    assert [policy.delay(failed) for failed in range(1, 7)] == expected


def test_the_defaults_are_exponential_from_5_seconds_to_an_hour_with_a_tenth_of_jitter():
    assert RetryPolicy() == RetryPolicy("exponential", 5.0, 3600.0, 0.1)
    assert RunOptions().max_retries == 3


@pytest.mark.parametrize("strategy", ["exponential", "linear", "fibonacci"])
@pytest.mark.parametrize("failed", [20_000, 1_000_000])
def test_a_delay_never_exceeds_the_cap_however_many_attempts_failed(strategy, failed):
    assert RetryPolicy(strategy=strategy, max_seconds=3600, jitter=0).delay(failed) == 3600


def test_a_cap_below_the_base_wins():
    assert RetryPolicy(base_seconds=100, max_seconds=7, jitter=0).delay(1) == 7


@given(
    st.sampled_from(STRATEGIES),
    st.floats(min_value=0, max_value=1e6),
    st.floats(min_value=0, max_value=1e6),
    st.floats(min_value=0, max_value=1),
    st.integers(min_value=1, max_value=2000),
    st.integers(),
)
def test_jitter_stays_within_its_share_and_below_the_cap(strategy, base, cap, jitter, failed, seed):
    exact = RetryPolicy(strategy, base, cap, 0.0).delay(failed)
    delay = RetryPolicy(strategy, base, cap, jitter).delay(failed, random.Random(seed))
    assert 0 <= delay <= cap
    assert exact * (1 - jitter) - 1e-6 <= delay <= exact * (1 + jitter) + 1e-6


def test_jitter_spreads_runs_that_failed_together():
    noise = random.Random(1)
    delays = [RetryPolicy().delay(1, noise) for _ in range(200)]
    assert len(set(delays)) > 100
    assert min(delays) < 4.7
    assert max(delays) > 5.3


@given(st.sampled_from(STRATEGIES), st.integers(min_value=1, max_value=300))
def test_without_jitter_a_delay_never_shrinks_with_more_failures(strategy, failed):
    policy = RetryPolicy(strategy=strategy, jitter=0)
    assert policy.delay(failed + 1) >= policy.delay(failed)


@pytest.mark.parametrize(
    "options",
    [RunOptions(), RunOptions(max_retries=0), RunOptions(9, RetryPolicy("fibonacci", 1.5, 60.0, 0.0))],
    ids=["defaults", "no retries", "all of its own"],
)
def test_options_come_back_from_their_column_as_they_were(options):
    assert decode_options(encode_options(options)) == options


def test_default_options_leave_no_trace_in_their_column():
    assert encode_options(RunOptions()) == "{}"


@pytest.mark.parametrize("text", ['{"retry": {"factor": 3}}', "no JSON", '{"headers": {"tenant": 5}}'])
def test_options_that_can_not_be_read_are_not_tried_again(text):
    assert decode_options(text) == RunOptions(max_retries=0)
