"""Whole workflows in the kit: by the real rules, in a time that the test moves."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import kit_flows as flows
import pytest

import rota
from rota.errors import ConflictError, ForbiddenError, NotFoundError, SetupError

NEW_YEAR = datetime(2031, 1, 1, tzinfo=UTC)


@pytest.fixture
def rota_app():
    flows.seen.clear()
    flows.failing.clear()
    return flows.app


def states(run):
    return {key: node.status for key, node in run.nodes.items()}


async def test_a_run_goes_from_node_to_node_and_results_travel_along(rota_kit):
    run = await flows.nightly.start()
    ended = await run.result()
    assert states(ended) == dict.fromkeys(("extract", "clean", "load", "notify"), "success")
    day = rota_kit.now.date().isoformat()
    assert flows.seen[0] == ("extract", day)
    assert sorted(flows.seen[1:4]) == [("clean", "a"), ("clean", "b"), ("clean", "c")]
    assert flows.seen[4:] == [("load", 3, 3), ("notify", "done")]
    assert await run.result_of("load") == "3 rows"
    assert ended.nodes["clean"].members.total == 3
    with pytest.raises(KeyError):
        await run.result_of("nobody")


async def test_the_schedule_starts_runs_at_their_times(rota_kit):
    await rota_kit.travel_to(NEW_YEAR)
    await rota_kit.advance(days=3)
    runs = await rota_kit.workflow_runs(flows.nightly, status="success")
    assert [run.start_time.strftime("%d %H:%M") for run in runs] == ["01 01:00", "02 01:00", "03 01:00"]
    days = [what[1] for what in flows.seen if what[0] == "extract"]
    assert days == ["2031-01-01", "2031-01-02", "2031-01-03"]
    assert await rota_kit.workflow_runs("approved") == []


async def test_retries_take_their_time_and_are_over_before_a_node_has_failed(rota_kit):
    flows.failing["extract"] = 2
    run = await flows.nightly.start()
    await rota_kit.run_until_idle()
    assert (await run.look()).nodes["extract"].status in ("queued", "retrying", "running")
    with pytest.raises(SetupError, match="nothing more is due now"):
        await run.result()
    await rota_kit.advance(minutes=5)
    assert (await run.result()).nodes["extract"].status == "success"
    assert flows.seen.count(("extract", flows.seen[0][1])) == 3


async def test_a_failure_skips_what_follows_and_a_resume_runs_it_again(rota_kit):
    flows.failing["extract"] = 3
    run = await flows.nightly.start()
    await rota_kit.run_until_idle(retries=True)
    with pytest.raises(
        rota.WorkflowFailedError, match=r"is failed: extract failed \(ValueError: extract is broken\)"
    ) as failed:
        await run.result()
    assert failed.value.culprit == "extract"
    assert states(failed.value.run) == {
        "extract": "failed",
        "clean": "skipped",
        "load": "skipped",
        "notify": "success",
    }
    assert failed.value.run.nodes["load"].culprit == "extract"
    await run.resume(generation=1)
    with pytest.raises(ConflictError):
        await run.resume(generation=1)
    assert (await run.result()).generation == 2
    assert flows.seen.count(("notify", "done")) == 2


async def test_a_map_tolerates_as_many_failures_as_it_says(rota_kit):
    flows.failing |= {"a": 1}
    ended = await flows.nightly.run()
    assert ended.nodes["clean"].members.failed == 1
    assert ("load", 2, 3) in flows.seen
    flows.failing |= {"a": 1, "b": 1}
    run = await flows.nightly.start()
    with pytest.raises(rota.WorkflowFailedError, match="clean failed"):
        await run.result()
    await run.resume(["clean"])
    assert (await run.result()).nodes["clean"].members.failed == 0


async def test_waits_signals_and_approvals_in_a_time_that_moves(rota_kit):
    run = await flows.approved.start()
    await rota_kit.advance(minutes=59)
    assert (await run.look()).nodes["pause"].status != "success"
    await rota_kit.advance(minutes=1)
    assert (await run.look()).nodes["pause"].status == "success"
    await run.signal("go", {"who": "ada"})
    await rota_kit.run_until_idle()
    assert await run.status() == "running"
    await rota_kit.approve(run, "approval", comment="fine")
    ended = await run.result()
    assert ended.nodes["approval"].status == "success"
    assert flows.seen == [("notify", "ada")]


async def test_a_rejection_fails_the_node_and_a_second_decision_is_refused(rota_kit):
    run = await flows.approved.start()
    await run.signal("go", {"who": "ada"})
    await rota_kit.advance(hours=1)
    await rota_kit.reject(run, "approval", comment="no")
    with pytest.raises(ConflictError):
        await rota_kit.approve(run, "approval")
    with pytest.raises(rota.WorkflowFailedError, match="approval failed"):
        await run.result()
    assert flows.seen == []


async def test_a_signal_that_does_not_come_lets_the_wait_end_as_it_says(rota_kit):
    run = await flows.approved.start()
    await rota_kit.advance(days=2, hours=1)
    found = await run.look()
    assert found.nodes["go"].status == "skipped"
    await rota_kit.advance(days=3)
    with pytest.raises(rota.WorkflowFailedError):
        await run.result()


async def test_a_deadline_stops_the_run_on_time(rota_kit):
    with rota.App("late", owner="admin").workflow("late", deadline="1h") as late:
        late.wait(signal="never")
    await rota_kit.use(late.app)
    run = await late.start()
    await rota_kit.advance(minutes=59)
    assert await run.status() == "running"
    await rota_kit.advance(minutes=1)
    assert await run.status() == "failed"


async def test_a_cancelled_run_starts_nothing_more(rota_kit):
    run = await flows.approved.start()
    await rota_kit.run_until_idle()
    await run.cancel()
    await rota_kit.advance(days=20)
    ended = await run.look()
    assert (ended.status, {*states(ended).values()}) == ("cancelled", {"stopped"})


async def test_a_map_over_an_object_inside_of_a_child(rota_kit):
    await rota_kit.put_object("files.ndjson", [f"file {number}" for number in range(7)])
    ended = await flows.parent.run(name="ada")
    assert states(ended) == {"objects": "success", "notify": "success"}
    assert [what for what in flows.seen if what[0] == "clean"] == [("clean", f"file {n}") for n in range(7)]
    (child,) = await rota_kit.workflow_runs(flows.objects)
    assert child.parent == ended.workflow_run_id


async def test_a_task_starts_a_workflow(rota_kit):
    task = await flows.start_child.submit()
    await rota_kit.run_until_idle(raise_errors=True)
    (run,) = await rota_kit.workflow_runs(flows.approved)
    assert run.workflow_run_id == await task.result()


async def test_an_isolated_task_starts_a_workflow(rota_kit):
    task = await flows.start_from_a_process.submit()
    await rota_kit.run_until_idle(raise_errors=True)
    (run,) = await rota_kit.workflow_runs(flows.approved)
    assert await task.result() == f"{run.workflow_run_id} running"


async def test_inputs_are_checked_when_a_run_is_started(rota_kit):
    with pytest.raises(rota.BadInputError, match="required, but missing"):
        await flows.parent.start()
    with pytest.raises(rota.BadInputError, match="must be of type string"):
        await flows.parent.start(name=5)


async def test_a_key_starts_one_run(rota_kit):
    first, second = [await flows.nightly.start(idempotency_key="k") for _ in range(2)]
    assert first.id == second.id
    assert len(await rota_kit.workflow_runs()) == 1


async def test_the_same_happens_in_the_same_order_each_time(rota_kit):
    orders = []
    for _ in range(3):
        flows.seen.clear()
        await flows.nightly.run()
        orders.append(list(flows.seen))
    assert orders[0] == orders[1] == orders[2]


def test_sync_code_starts_and_follows_workflows(rota_kit_sync):
    run = flows.approved.sync.start()
    rota_kit_sync.advance(hours=1)
    run.signal("go", {"who": "bob"})
    rota_kit_sync.run_until_idle()
    rota_kit_sync.approve(run, "approval")
    assert run.result().status == "success"
    assert run.result_of("notify") is None
    assert [one.status for one in rota_kit_sync.workflow_runs()] == ["success"]


async def test_sync_code_in_a_thread_of_an_async_test(rota_kit):
    run = await asyncio.to_thread(flows.nightly.sync.start)
    assert (await asyncio.to_thread(run.result)).status == "success"


async def test_a_node_that_names_who_decides_takes_it_from_nobody_else(rota_kit):
    with rota.App("named").workflow("named") as named:
        named.approval(approvers=["alice"])
    await rota_kit.use(named.app)
    run = await named.start()
    await rota_kit.run_until_idle()
    with pytest.raises(NotFoundError):
        await rota_kit.approve(run, "approval", by="bob")
    with pytest.raises(ForbiddenError):
        await rota_kit.approve(run, "approval")
    with pytest.raises(ForbiddenError):
        await run.approve("approval")
    await rota_kit.approve(run, "approval", by="alice")
    assert (await run.result()).status == "success"
