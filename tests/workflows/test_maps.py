"""Maps: a member for each item, whatever dies meanwhile; what failed runs again, and then the join."""

from __future__ import annotations

import pytest
from conducted import ME, ended

from rota.contract.workflows import InputIn, MapIn, NodeIn, ResumeIn, WorkflowIn
from rota.errors import BadInputError, NotFoundError


class Work:
    """A task that fails for some items, and what was seen of it."""

    def __init__(self, *bad):
        self.bad = set(bad)
        self.seen = []
        self.keys = {}
        self.joined = []

    def act(self, n):
        self.seen.append(n)
        if n in self.bad:
            raise ValueError(f"item {n}")
        return {"n": n} if n % 2 else None

    def join(self, counts):
        self.joined.append(counts)

    @property
    def tasks(self):
        return {"act": self.act, "join": self.join}


def mapped(items, name="mapped", **options):
    fields = {"max_retries": 0} | {key: options.pop(key) for key in ("when", "payload") if key in options}
    fields.setdefault("payload", {"n": {"$item": ""}})
    nodes = {
        "each": NodeIn(task="act", map=MapIn(items=items, **options), **fields),
        "join": NodeIn(task="join", after=["each"], payload={"counts": {"$from": "each"}}),
    }
    return WorkflowIn(name=name, nodes=nodes, inputs={"list": InputIn(default=[1, 2, 3])})


async def run_it(engine, workflows, wanted, work, *more):
    made = await workflows.create(wanted, ME)
    async with engine.running(engine.scheduler(), engine.worker(work.tasks)):
        started = await workflows.run(made.workflow_id, {}, ME)
        runs = [await ended(workflows, started)]
        for act in more:
            await act(started.workflow_run_id)
            runs.append(await ended(workflows, started))
    return runs


def counts(total, failed=0, skipped=0):
    return {"total": total, "success": total - failed - skipped, "failed": failed, "skipped": skipped}


async def put_lines(engine, name, lines):
    await engine.blobs.put(f"inputs/default/{name}", b"\n".join(lines))


async def test_no_items_are_a_success_and_the_join_runs(engine, workflows):
    work = Work()
    (run,) = await run_it(engine, workflows, mapped([]), work)
    assert (run.status, work.joined) == ("success", [counts(0)])


async def test_failures_within_the_tolerance_are_a_success(engine, workflows):
    work = Work(3, 7)
    (run,) = await run_it(engine, workflows, mapped(list(range(20)), tolerate_failures="10%"), work)
    assert (run.status, work.joined) == ("success", [counts(20, failed=2)])
    listed = await workflows.members(run.workflow_run_id, "each", ME, only=None, status="failed", cursor="", limit=10)
    assert [(it.index, it.status, it.reason) for it in listed.items] == [
        (3, "failed", "ValueError: item 3"),
        (7, "failed", "ValueError: item 7"),
    ]


async def test_a_resume_runs_the_failed_members_again_and_then_the_join(engine, workflows):
    work = Work(3, 7)

    async def resume(run_id):
        work.bad.clear()
        await workflows.resume(run_id, ME)

    first, again = await run_it(engine, workflows, mapped(list(range(10)), tolerate_failures=1), work, resume)
    assert (first.status, again.status) == ("failed", "success")
    assert sorted(set(work.seen)) == list(range(10))
    assert work.joined == [counts(10)]


async def test_named_maps_run_again_what_failed_in_them(engine, workflows, sql):
    work = Work(3, 7)

    async def resume(run_id):
        work.bad.clear()
        await workflows.resume(run_id, ME, asked=ResumeIn(nodes=["each"]))

    first, again = await run_it(engine, workflows, mapped(list(range(10)), tolerate_failures=5), work, resume)
    assert (first.status, again.status) == ("success", "success")
    assert sorted(work.seen) == sorted([*range(10), 3, 7])
    assert work.joined == [counts(10, failed=2), counts(10)]
    assert await sql.fetchval("SELECT count(*) FROM rota.dead_letters") == 0
    keys = await sql.fetch(
        "SELECT count(DISTINCT root_id) FROM rota.finished_runs WHERE cause = 'member'"
        " GROUP BY options::jsonb ->> 'item'"
    )
    assert {row["count"] for row in keys} == {1}


async def test_single_items_can_run_again(engine, workflows):
    work = Work(3, 7)

    async def resume(run_id):
        work.bad = {7}
        await workflows.resume(run_id, ME, asked=ResumeIn(nodes=["each"], items=[3]))

    first, again = await run_it(engine, workflows, mapped(list(range(10)), tolerate_failures=5), work, resume)
    assert work.joined == [counts(10, failed=2), counts(10, failed=1)]
    assert work.seen.count(7) == 1
    assert (first.status, again.nodes["each"].members.failed) == ("success", 1)


async def test_a_map_that_fails_makes_no_more_and_a_resume_goes_on_where_it_was(engine, workflows):
    work = Work(0)

    async def resume(run_id):
        work.bad.clear()
        await workflows.resume(run_id, ME)

    wanted = mapped(list(range(500)), max_concurrency=1)
    first, again = await run_it(engine, workflows, wanted, work, resume)
    assert first.status == "failed"
    assert len(work.seen) < 10 + 501
    assert again.status == "success"
    assert sorted(set(work.seen)) == list(range(500))
    assert work.joined == [counts(500)]


async def test_items_come_from_an_object_line_by_line(engine, workflows):
    work = Work(4)
    lines = [b"%d" % n for n in range(3000)]
    lines[10] = b"{broken"
    await put_lines(engine, "orders/today.ndjson", [*lines, b"", b""])
    wanted = mapped({"$object": "orders/today.ndjson"}, tolerate_failures=2)
    (run,) = await run_it(engine, workflows, wanted, work)
    assert run.status == "success"
    assert sorted(work.seen) == sorted(set(range(3000)) - {10})
    assert work.joined == [counts(3000, failed=2)]
    listed = await workflows.members(run.workflow_run_id, "each", ME, only=None, status="failed", cursor="", limit=10)
    assert [(it.index, it.run_id is None) for it in listed.items] == [(4, False), (10, True)]
    assert "no JSON" in listed.items[1].reason


async def test_an_object_that_is_not_there_fails_the_map(engine, workflows):
    (run,) = await run_it(engine, workflows, mapped({"$object": "nothing.ndjson"}), Work())
    assert run.status == "failed"
    assert run.nodes["each"].reason == "there is no object 'nothing.ndjson' in storage"


async def test_an_object_that_changes_meanwhile_fails_the_map(engine, workflows):
    await put_lines(engine, "it.ndjson", [b"%d" % n for n in range(50)])
    work = Work()
    made = await workflows.create(mapped({"$object": "it.ndjson"}, max_concurrency=1), ME)
    act = work.act

    async def change(n):
        if n == 5:
            await put_lines(engine, "it.ndjson", [b"%d" % n for n in range(60)])
        return act(n)

    async with engine.running(engine.scheduler(), engine.worker(work.tasks | {"act": change})):
        run = await ended(workflows, await workflows.run(made.workflow_id, {}, ME))
    assert run.status == "failed"
    assert run.nodes["each"].reason == "the object 'it.ndjson' was changed while it was being read"


async def test_members_have_conditions_of_their_own(engine, workflows):
    work = Work()
    (run,) = await run_it(engine, workflows, mapped([1, 2, 3, 4], when={"$item": "", "gt": 2}), work)
    assert (sorted(work.seen), work.joined) == ([3, 4], [counts(4, skipped=2)])
    assert run.nodes["each"].members.skipped == 2


async def test_a_member_whose_value_is_not_there_fails_and_says_why(engine, workflows):
    work = Work()
    wanted = mapped([{"n": 1}, {}], payload={"n": {"$item": "n"}}, tolerate_failures=1)
    (run,) = await run_it(engine, workflows, wanted, work)
    assert (run.status, work.joined) == ("success", [counts(2, failed=1)])
    listed = await workflows.members(run.workflow_run_id, "each", ME, only=None, status="failed", cursor="", limit=10)
    assert listed.items[0].reason == "its payload could not be made: $item 'n' is not there"


async def test_items_that_are_no_list_fail_the_node(engine, workflows):
    wanted = mapped({"$input": "list"})
    wanted.inputs["list"] = InputIn(default="none")
    (run,) = await run_it(engine, workflows, wanted, Work())
    assert (run.status, run.nodes["each"].reason) == ("failed", "its items are not a list")


async def test_what_members_returned_can_be_read(engine, workflows):
    (run,) = await run_it(engine, workflows, mapped(list(range(7))), Work())
    found, cursor = [], ""
    while cursor is not None:
        part, cursor = await workflows.results(run.workflow_run_id, "each", ME, only=None, cursor=cursor)
        found += part
    assert sorted(found) == [(1, {"n": 1}, None), (3, {"n": 3}, None), (5, {"n": 5}, None)]
    with pytest.raises(NotFoundError):
        await workflows.results(run.workflow_run_id, "join", ME, only=None, cursor="")


async def test_stop_on_failure_stops_what_runs(engine, workflows):
    work = Work(0)
    (run,) = await run_it(engine, workflows, mapped(list(range(200)), stop_on_failure=True, max_concurrency=2), work)
    assert run.status == "failed"
    assert len(work.seen) < 200
    members = run.nodes["each"].members
    assert members.running == 0


async def test_large_results_are_read_by_the_worker(engine, workflows):
    got = []
    tasks = {
        "large": lambda: {"text": "x" * 100_000, "rows": [1, 2, 3]},
        "take": lambda size, rows: got.append((len(size), rows)),
        "act": lambda rows, n: got.append((rows, n)),
    }
    nodes = {
        "large": NodeIn(task="large"),
        "take": NodeIn(
            task="take",
            after=["large"],
            payload={"size": {"$from": "large", "path": "text"}, "rows": {"$from": "large", "path": "rows"}},
        ),
        "each": NodeIn(
            task="act",
            after=["take"],
            payload={"rows": {"$from": "large", "path": "rows"}, "n": {"$item": ""}},
            map=MapIn(items=[7]),
        ),
        "gone": NodeIn(
            task="take",
            after=["each"],
            payload={"size": "", "rows": {"$from": "large", "path": "nothing"}},
            allow_failure=True,
        ),
        "list": NodeIn(task="act", after=["gone"], map=MapIn(items={"$from": "large", "path": "rows"})),
    }
    made = await workflows.create(WorkflowIn(name="large", nodes=nodes), ME)
    async with engine.running(engine.scheduler(), engine.worker(tasks, blobs=engine.blobs)):
        run = await ended(workflows, await workflows.run(made.workflow_id, {}, ME))
        gone = await engine.run(run.nodes["gone"].run_id)
    assert {key: node.reason for key, node in run.nodes.items() if key in ("large", "take", "each")} == dict.fromkeys(
        ("large", "take", "each")
    )
    assert got == [(100_000, [1, 2, 3]), ([1, 2, 3], 7)]
    assert gone["error"] == "its payload could not be made: there is nothing at 'nothing' in the result"
    assert (run.nodes["gone"].status, run.nodes["list"].status) == ("failed", "failed")
    assert "too large" in run.nodes["list"].reason


async def test_items_to_run_again_need_one_map(engine, workflows):
    async def resume(run_id):
        with pytest.raises(BadInputError, match="needs one map"):
            await workflows.resume(run_id, ME, asked=ResumeIn(nodes=["join"], items=[1]))

    await run_it(engine, workflows, mapped([1]), Work(), resume)
