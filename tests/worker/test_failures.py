"""What a worker's own log says of failures: a line for each run that failed for good, and no flood."""

from __future__ import annotations

from uuid import UUID

import pytest
from structlog.testing import capture_logs

from rota.domain.job import RunOptions, encode_options
from rota.domain.run import Claim, Outcome, Report
from rota.worker.executor import describe
from rota.worker.failure_log import MOST_LINES, STRETCH_SECONDS, FailureLog, _first_line, _place

RUN = UUID(int=1)


@pytest.mark.parametrize("error", [None, "", " \n ", "\x0b"])
def test_an_error_without_a_word_is_told_as_one(error):
    assert _first_line(error) == "no message"


def test_the_first_line_is_told():
    assert _first_line("\n no such customer \nmore") == "no such customer "


def test_the_line_of_code_is_told_also_of_an_error_in_a_group():
    try:
        raise ExceptionGroup("several", [ValueError("no stock")])  # noqa: TRY301 - for its traceback
    except ExceptionGroup as problem:
        error, trace = describe(problem)
    assert _first_line(error) == "ExceptionGroup: several (1 sub-exception): ValueError: no stock"
    assert _place(trace).startswith(" (test_failures.py, line ")


class Clock:
    """A clock that a test moves."""

    now = 0.0

    def __call__(self):
        return self.now


def ended(outcome=Outcome.failed, *, attempt=0, retries=0, task="shop.sell"):
    options = encode_options(RunOptions(max_retries=retries))
    claim = Claim("default", RUN, RUN, 1, task, 0, None, None, options, None, 0, 0, attempt, 0)
    return Report(claim, outcome, 0.0, 1.0, error="ValueError: no stock")


def events(logs):
    return [entry["event"] for entry in logs]


async def told(*reports, **options):
    log = FailureLog(**options)
    with capture_logs() as logs:
        for report in reports:
            log.note(report)
    return events(logs)


@pytest.mark.parametrize("outcome", [Outcome.failed, Outcome.timed_out, Outcome.final, Outcome.interrupted])
async def test_a_run_that_fails_for_good_is_one_line_with_its_error(outcome):
    assert await told(ended(outcome)) == ["shop.sell failed for good: ValueError: no stock"]


async def test_an_attempt_that_is_repeated_is_told_only_where_that_is_asked_for():
    first, last = (ended(attempt=attempt, retries=1) for attempt in (0, 1))
    assert await told(first, last) == ["shop.sell failed for good: ValueError: no stock"]
    assert await told(first, last, every_attempt=True) == [
        "shop.sell failed: ValueError: no stock",
        "shop.sell failed for good: ValueError: no stock",
    ]


@pytest.mark.parametrize("outcome", [Outcome.cancelled, Outcome.snoozed, Outcome.released, Outcome.expired])
async def test_what_is_no_failure_is_not_told(outcome):
    assert await told(ended(outcome), every_attempt=True) == []


async def test_a_flood_is_summed_up_and_the_next_failure_after_it_is_told_again():
    clock = Clock()
    log = FailureLog(monotonic=clock)
    with capture_logs() as logs:
        for number in range(5000):
            log.note(ended(task="shop.sell" if number % 2 else "shop.buy"))
        assert len(logs) == MOST_LINES
        await log.tick()
        assert len(logs) == MOST_LINES, "the stretch is not over"
        clock.now += STRETCH_SECONDS
        await log.tick()
        log.note(ended())
    each = (5000 - MOST_LINES) // 2
    assert events(logs)[MOST_LINES:] == [f"{2 * each} more failed", "shop.sell failed for good: ValueError: no stock"]
    assert logs[MOST_LINES]["tasks"] == f"shop.buy ({each}), shop.sell ({each})"


async def test_what_was_only_counted_is_told_when_the_worker_ends():
    log = FailureLog()
    with capture_logs() as logs:
        for _ in range(MOST_LINES + 3):
            log.note(ended())
        await log.close()
    assert events(logs)[-1] == "3 more failed"


async def test_while_nothing_fails_it_sleeps():
    log = FailureLog()
    assert log.pause_seconds is None
    with capture_logs():
        log.note(ended())
    assert log.pause_seconds == STRETCH_SECONDS
