"""The row 'attempt' of SEMANTICS.md: what is charged, what is tried again and when, what is buried."""

from itertools import product

import pytest

from rota.domain.job import RunOptions, encode_options
from rota.domain.retry import MAX_LOSSES, RetryPolicy
from rota.domain.run import Disposition, Outcome, Verdict, judge

BACKOFF = RetryPolicy("linear", base_seconds=7, jitter=0)
BURIED = Verdict(Disposition.bury, charged=True)
GIVEN_BACK = Verdict(Disposition.release)


def verdict(outcome, *, max_retries=3, attempt=0, losses=0):
    """The verdict on an attempt of a run with these retries; `attempt` were charged before."""
    return judge(outcome, options=encode_options(RunOptions(max_retries, BACKOFF)), attempt=attempt, losses=losses)


@pytest.mark.parametrize("attempt", [0, 3, 50])
@pytest.mark.parametrize("max_retries", [0, 3])
@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        pytest.param(Outcome.success, Verdict(Disposition.succeed, charged=True), id="a success succeeds"),
        pytest.param(Outcome.released, GIVEN_BACK, id="one given back before its start is not charged"),
        pytest.param(
            Outcome.cancelled, Verdict(Disposition.cancel, charged=True), id="a cancelled one ends with all its retries"
        ),
        pytest.param(Outcome.final, BURIED, id="one not worth another try is buried"),
    ],
)
def test_some_outcomes_decide_whatever_retries_are_left(outcome, expected, max_retries, attempt):
    assert verdict(outcome, max_retries=max_retries, attempt=attempt, losses=2) == expected


@pytest.mark.parametrize(("attempt", "seconds"), [(0, 7), (1, 14), (2, 21)])
def test_a_failed_attempt_is_charged_and_tried_again_after_its_backoff(attempt, seconds):
    expected = Verdict(Disposition.retry, charged=True, delay_seconds=seconds)
    assert verdict(Outcome.failed, attempt=attempt) == expected


@pytest.mark.parametrize("attempt", [0, 1, 2])
def test_the_run_of_a_lost_worker_is_charged_and_tried_again_at_once(attempt):
    expected = Verdict(Disposition.retry, charged=True, delay_seconds=0)
    assert verdict(Outcome.lost, attempt=attempt) == expected


@pytest.mark.parametrize("outcome", [Outcome.failed, Outcome.lost])
@pytest.mark.parametrize(("max_retries", "attempt"), [(0, 0), (1, 1), (3, 3), (3, 4)])
def test_a_run_whose_retries_are_used_up_is_buried(outcome, max_retries, attempt):
    assert verdict(outcome, max_retries=max_retries, attempt=attempt) == BURIED


def test_a_run_is_started_once_more_than_it_has_retries():
    fates = [verdict(Outcome.failed, max_retries=3, attempt=attempt).disposition for attempt in range(4)]
    assert fates == [Disposition.retry] * 3 + [Disposition.bury]


@pytest.mark.parametrize("attempt", [0, 3])
def test_one_stopped_by_its_workers_shutdown_is_given_back_uncharged(attempt):
    assert verdict(Outcome.interrupted, attempt=attempt, losses=MAX_LOSSES) == GIVEN_BACK


@pytest.mark.parametrize("losses", range(MAX_LOSSES - 1))
def test_one_stopped_because_its_worker_lost_the_database_is_not_charged(losses):
    assert verdict(Outcome.cut_off, losses=losses) == Verdict(Disposition.release, loss=True)


def test_the_fifth_such_loss_in_a_row_buries_it():
    assert MAX_LOSSES == 5
    assert verdict(Outcome.cut_off, losses=4) == Verdict(Disposition.bury, charged=True, loss=True)


@pytest.mark.parametrize("outcome", [Outcome.lost, Outcome.cut_off, Outcome.interrupted])
def test_without_retries_a_run_that_may_have_started_is_never_silently_run_again(outcome):
    found = verdict(outcome, max_retries=0)
    assert (found.disposition, found.charged) == (Disposition.bury, True)


@pytest.mark.parametrize("outcome", list(Outcome))
def test_only_a_failed_attempt_waits_and_no_wait_is_negative(outcome):
    for max_retries, attempt, losses in product((0, 1, 3), range(5), range(6)):
        found = verdict(outcome, max_retries=max_retries, attempt=attempt, losses=losses)
        assert found.delay_seconds >= 0
        assert found.delay_seconds == 0 or outcome in (Outcome.failed, Outcome.timed_out)
        assert found.disposition is not Disposition.retry or found.charged
