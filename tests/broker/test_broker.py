"""What every broker does for a worker."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta

import pytest

from engine import plain, report
from rota.broker.protocol import Signal, SignalKind
from rota.domain.run import LogChunk, Outcome, Progress
from support import eventually


def soon(seconds):
    """The fields of a job that is due so many seconds from now."""
    moment = datetime.now(UTC) + timedelta(seconds=seconds)
    return {"scheduleType": "future", "scheduleTime": moment.isoformat()}


async def told(broker, kind, claim=None):
    """Waits until the broker sends this signal."""

    async def heard():
        return Signal(kind, claim) in await broker.signals(1.0)

    return await eventually(heard)


# Joining and leaving


async def test_each_join_is_under_a_new_id(broker, engine, records):
    second = await engine.join(broker)
    assert second != broker.worker_id
    assert (await records.worker(second))["status"] == "live"


async def test_a_worker_that_left_is_on_record_as_stopped_and_gets_nothing_more(broker, records):
    await broker.leave()
    worker = await records.worker(broker.worker_id)
    assert (worker["status"], worker["goneReason"]) == ("gone", "stopped")
    await records.submit()
    assert await broker.claim(10) == []


# Claiming


async def test_no_more_is_claimed_than_there_is_room_for_and_nothing_twice(broker, records):
    runs = {await records.submit() for _ in range(5)}
    first, second = await broker.claim(3), await broker.claim(10)
    assert (len(first), len(second)) == (3, 2)
    assert {f"run_{claim.run_id.hex}" for claim in (*first, *second)} == runs
    assert len({claim.number for claim in (*first, *second)}) == 5


async def test_what_has_the_higher_rank_is_claimed_first(broker, records):
    low = await records.submit(priority="low")
    high = await records.submit(priority="high")
    normal = await records.submit()
    claimed = [claim for _ in range(3) for claim in await broker.claim(1)]
    assert [claim.run_id for claim in claimed] == [plain(high), plain(normal), plain(low)]


async def test_what_is_due_comes_before_what_is_due_soon_and_later_runs_stay(broker, records):
    near = await records.submit(**soon(0.9))
    far = await records.submit(**soon(3600))
    due = await records.submit()
    (first,) = await broker.claim(1)
    assert first.run_id == plain(due)
    (ahead,) = await broker.claim(10)
    assert ahead.run_id == plain(near)
    assert (await records.run(far))["status"] == "scheduled"


async def test_a_claim_says_when_its_run_is_due(broker, records):
    await records.submit(**soon(0.9))
    (claim,) = await broker.claim(1)
    assert claim.ready > (await broker.beat(busy=0, fenced=0, draining=False)).timestamp() - 1
    assert claim.nominal == claim.ready


async def test_tasks_and_pools_that_the_worker_does_not_serve_are_left_alone(broker, records):
    for fields in ({"task": "unknown"}, {"pool": "elsewhere"}):
        run_id = await records.submit(**fields)
        assert await broker.claim(10) == []
        assert (await records.run(run_id))["status"] == "queued"


async def test_nothing_is_claimed_from_a_pool_that_was_paused_before_the_worker_joined(make_broker, engine, records):
    await records.pause("default")
    await records.submit()
    broker = await make_broker()
    await engine.join(broker)
    assert await broker.claim(10) == []


async def test_a_pool_that_is_paused_and_resumed_is_told(broker, records):
    await records.pause("default")
    await records.submit()

    async def nothing_more():
        await broker.signals(0.1)
        claims = await broker.claim(1)
        await broker.report([report(claim, Outcome.released) for claim in claims])
        return not claims

    await eventually(nothing_more)
    await records.resume("default")
    await told(broker, SignalKind.work)

    async def some():
        await broker.signals(0.1)
        return await broker.claim(1)

    assert len(await eventually(some)) == 1


async def test_a_run_that_comes_back_is_claimed_under_another_number(broker, records):
    await records.submit()
    (first,) = await broker.claim(1)
    await broker.report([report(first, Outcome.released)])
    (second,) = await broker.claim(1)
    assert second.run_id == first.run_id
    assert second.number != first.number


# Reporting

RETRY = {"strategy": "fixed", "baseSeconds": 1000, "jitter": 0}


@pytest.mark.parametrize(
    ("outcome", "fields", "status", "attempts"),
    [
        (Outcome.success, {"result": '{"a": 1}'}, "success", 1),
        (Outcome.failed, {"error": "no"}, "retrying", 1),
        (Outcome.final, {"error": "no"}, "failed", 1),
        (Outcome.timed_out, {"error": "late"}, "retrying", 1),
        (Outcome.cancelled, {}, "cancelled", 1),
        (Outcome.interrupted, {}, "queued", 0),
        (Outcome.cut_off, {}, "queued", 0),
        (Outcome.released, {}, "queued", 0),
        (Outcome.expired, {"error": "expired"}, "skipped", 0),
        (Outcome.snoozed, {"snooze_seconds": 1000.0}, "scheduled", 0),
    ],
)
async def test_each_outcome_puts_the_run_where_the_rules_say(broker, records, outcome, fields, status, attempts):
    run_id = await records.submit(maxRetries=3, retry=RETRY)
    (claim,) = await broker.claim(1)
    answer = await broker.report([report(claim, outcome, **fields)])
    assert (answer.fenced, answer.rejected) == (frozenset(), {})
    run = await records.run(run_id)
    assert (run["status"], run["attempt"]) == (status, attempts)


async def test_a_repeated_report_is_known_and_changes_nothing(broker, records):
    runs = [await records.submit(maxRetries=0) for _ in range(2)]
    claims = {claim.run_id: claim for claim in await broker.claim(2)}
    reports = [report(claims[plain(runs[0])], result="1"), report(claims[plain(runs[1])], Outcome.failed, error="no")]
    for _ in range(2):
        answer = await broker.report(reports)
        assert (answer.fenced, answer.rejected) == (frozenset(), {})
    ended = [await records.run(run_id) for run_id in runs]
    assert [(run["status"], run["attempt"]) for run in ended] == [("success", 1), ("failed", 1)]


@pytest.mark.parametrize("outcome", [Outcome.success, Outcome.failed])
async def test_a_report_that_comes_too_late_is_fenced(make_broker, broker, engine, records, outcome):
    run_id = await records.submit()
    (old,) = await broker.claim(1)
    await records.reap(broker.worker_id)
    other = await make_broker()
    await engine.join(other)
    (new,) = await eventually(lambda: other.claim(1))
    answer = await broker.report([report(old, outcome)])
    assert answer.fenced == {old.number}
    await other.report([report(new, result='"new"')])
    run = await records.run(run_id)
    assert (run["status"], run["result"]) == ("success", "new")


async def test_what_can_not_be_stored_is_rejected_alone_and_says_why(broker, records):
    for _ in range(3):
        await records.submit()
    good, bad, other = await broker.claim(3)
    answer = await broker.report([report(good), report(bad, result='"\x00"'), report(other)])
    assert answer.rejected.keys() == {bad.number}
    assert answer.rejected[bad.number]
    runs = [await records.run(f"run_{claim.run_id.hex}") for claim in (good, bad, other)]
    assert [run["status"] for run in runs] == ["success", "running", "success"]


# Beating


async def test_a_beat_is_answered_with_the_time_and_is_on_record(broker, records):
    before = await broker.beat(busy=3, fenced=2, draining=False, ailing="it is slow")
    after = await broker.beat(busy=4, fenced=2, draining=False, ailing="it is slow")
    assert timedelta() < after - before < timedelta(minutes=5)
    worker = await records.worker(broker.worker_id)
    assert (worker["busy"], worker["fencedReports"], worker["detail"]) == (4, 2, "it is slow")


async def test_a_beat_after_the_lease_ended_is_refused_and_nothing_is_claimed(broker, records):
    await records.reap(broker.worker_id)
    await records.submit()
    assert await broker.beat(busy=0, fenced=0, draining=False) is None
    assert await broker.claim(10) == []


async def test_the_lease_of_one_worker_is_none_of_another(make_broker, broker, engine, records):
    other = await make_broker()
    await engine.join(other)
    await records.reap(broker.worker_id)
    assert await other.beat(busy=0, fenced=0, draining=False)


# While a run goes on


async def test_start_progress_and_checkpoint_are_on_record_and_the_next_attempt_gets_the_checkpoint(broker, records):
    run_id = await records.submit(retry={"strategy": "fixed", "baseSeconds": 0.01, "jitter": 0})
    (claim,) = await broker.claim(1)
    started = time.time()
    await broker.update([Progress(claim, started, None, None)])
    assert (await records.run(run_id))["status"] == "running"
    await broker.update([Progress(claim, started, 0.5, "half", '{"page": 7}')])
    run = await records.run(run_id)
    assert (run["progress"], run["progressMessage"], run["checkpoint"]) == ("50%", "half", {"page": 7})
    await broker.report([report(claim, Outcome.failed, error="no")])

    async def again():
        await records.promote()
        return await broker.claim(1)

    (claim,) = await eventually(again)
    assert claim.checkpoint == '{"page": 7}'


async def test_progress_of_a_claim_that_is_over_changes_nothing(broker, records):
    run_id = await records.submit()
    (old,) = await broker.claim(1)
    await broker.report([report(old, Outcome.released)])
    (_new,) = await broker.claim(1)
    await broker.update([Progress(old, time.time(), 0.9, "old", "1")])
    run = await records.run(run_id)
    assert run.get("progressMessage") is None
    assert run.get("checkpoint") is None


async def test_logs_that_are_sent_again_are_there_once_and_in_order(broker, records):
    run_id = await records.submit()
    (claim,) = await broker.claim(1)
    lines = [f"2026-01-01T00:00:0{number}.000Z stdout line {number}" for number in range(3)]
    chunks = [LogChunk(claim, number, f"{line}\n", number == 2) for number, line in enumerate(lines)]
    await broker.write_logs(chunks[:2])
    await broker.write_logs(chunks[:2])
    await broker.write_logs(chunks[2:])
    assert await records.log(run_id) == lines


# Signals


async def test_work_is_told(broker, records):
    await broker.signals(1.0)
    waiting = asyncio.create_task(told(broker, SignalKind.work))
    await records.submit()
    assert await waiting


async def test_a_cancel_is_told_until_it_is_obeyed(broker, records):
    run_id = await records.submit()
    (claim,) = await broker.claim(1)
    await broker.update([Progress(claim, time.time(), None, None)])
    await records.cancel(run_id)
    for _ in range(2):
        await told(broker, SignalKind.cancel, claim.number)
    await broker.report([report(claim, Outcome.cancelled)])
    assert (await records.run(run_id))["status"] == "cancelled"


async def test_a_run_whose_job_changed_before_it_started_is_recalled(broker, records):
    _run_id, job_id = await records.recurring_run()
    (claim,) = await broker.claim(1)
    await records.change(job_id)
    await told(broker, SignalKind.recall, claim.number)


async def test_signals_wait_no_longer_than_asked(broker):
    await broker.signals(0.05)
    began = time.monotonic()
    await asyncio.wait_for(broker.signals(0.05), 10)
    assert time.monotonic() - began < 5


async def test_records_that_went_back_put_all_claims_in_doubt_and_what_is_not_on_record_is_lost(broker, records):
    runs = [await records.submit() for _ in range(2)]
    claims = {claim.run_id: claim for claim in await broker.claim(2)}
    known, lost = (claims[plain(run_id)] for run_id in runs)
    for _ in range(2):
        await broker.beat(busy=2, fenced=0, draining=False)
    await records.go_back(broker.worker_id, runs[1])
    assert await broker.beat(busy=2, fenced=0, draining=False)
    await told(broker, SignalKind.doubt)
    assert await broker.reconcile(frozenset({known.number, lost.number})) == 0
    await told(broker, SignalKind.lost, lost.number)
    answer = await broker.report([report(known), report(lost)])
    assert answer.fenced == {lost.number}
    assert (await records.run(runs[0]))["status"] == "success"


# Reconciling


async def test_what_is_claimed_and_not_held_is_given_back_uncharged(broker, records):
    runs = [await records.submit() for _ in range(3)]
    claims = {claim.run_id: claim for claim in await broker.claim(3)}
    held = claims[plain(runs[0])]
    assert await broker.reconcile(frozenset({held.number})) == 2
    assert await broker.reconcile(frozenset({held.number})) == 0
    again = await broker.claim(10)
    assert {claim.run_id for claim in again} == {plain(run_id) for run_id in runs[1:]}
    assert {claim.attempt for claim in again} == {0}
    assert (await broker.report([report(held)])).fenced == frozenset()
