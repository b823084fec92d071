"""Two at once on one workflow run: whoever comes second sees what the first did, and nothing is lost or done twice.

A conductor is halted in the middle of its transaction, with the workflow run locked; what else happens then waits for
it, or passes it over.
"""

from __future__ import annotations

import asyncio
import random
import threading
from collections import Counter
from contextlib import asynccontextmanager

import pytest
from conducted import ME
from graphs import expected, random_graph

import rota.store.flow as flow_store
from rota.contract.workflows import MapIn, NodeIn, ResumeIn, WaitIn, WorkflowIn
from rota.domain.ids import parse_workflow_run
from rota.errors import ConflictError
from rota.store.flow.rows import take_notes, write_round
from support import eventually, in_time


class Halt:
    """Stands in the middle of a conductor's transaction."""

    def __init__(self):
        self.is_reached = asyncio.Event()
        self.may_go_on = asyncio.Event()

    async def __call__(self, statements, done):
        if done.advanced:
            self.is_reached.set()
            await in_time(self.may_go_on.wait())
        await write_round(statements, done)


class Ground:
    """A scheduler whose services are ticked by hand, and workers that really work."""

    def __init__(self, engine, workflows, sql, monkeypatch, scheduler):
        self.engine = engine
        self.workflows = workflows
        self.sql = sql
        self.scheduler = scheduler
        self._monkeypatch = monkeypatch

    async def start(self, name, nodes, **fields):
        made = await self.workflows.create(WorkflowIn(name=name, nodes=nodes, **fields), ME)
        return await self.workflows.run(made.workflow_id, {}, ME)

    async def conduct(self):
        """One round: what it starts may end at once, and is not heard of before the next."""
        await self.scheduler.conductor.tick()

    async def noted(self, count=1):
        """Waits until so many runs of nodes ended, of which no conductor knows."""

        async def look():
            return await self.sql.fetchval("SELECT count(*) FROM rota.flow_notes WHERE node IS NOT NULL") >= count

        await eventually(look)

    async def go_on(self, started):
        """Conducts, and makes members, until it is over."""

        async def look():
            await self.conduct()
            await self.scheduler.member_maker.tick()
            run = await self.show(started)
            return run if run.status not in ("running", "cancelling") else None

        return await eventually(look)

    async def show(self, started):
        return await self.workflows.show_run(started.workflow_run_id, ME)

    async def made(self):
        """How many runs each node has had, by the name of its workflow and its key; members are counted together."""
        rows = await self.sql.fetch("SELECT name FROM rota.runs WHERE cause IN ('node', 'member')")
        return Counter(row["name"] for row in rows)

    @asynccontextmanager
    async def halted(self):
        """A conductor in the middle of its transaction; it goes on at the end. It has not looked at the time."""
        halt = Halt()
        with self._monkeypatch.context() as patch:
            patch.setattr(flow_store, "write_round", halt)
            conducting = self.scheduler.conductor._conduct(self.scheduler.leases.owned)
            round_ = asyncio.create_task(conducting)
            await in_time(halt.is_reached.wait())
        try:
            yield
        finally:
            halt.may_go_on.set()
            await in_time(round_)

    async def waiting(self, act, count=1):
        """Something that is under way, and waits for a lock."""
        task = asyncio.ensure_future(act)

        async def look():
            locks = (
                "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
            )
            return task.done() or await self.sql.fetchval(locks) >= count

        await eventually(look, every=0.002)
        assert not task.done(), "it did not wait"
        return task


@pytest.fixture
async def ground(engine, workflows, sql, monkeypatch):
    return Ground(engine, workflows, sql, monkeypatch, await engine.leading())


def chain(*keys, task="act"):
    return {
        key: NodeIn(task=task, after=[before] if before else [], max_retries=0)
        for before, key in zip((None, *keys), keys, strict=False)
    }


async def outcome_of(task):
    """What came of it: its answer, or the error."""
    try:
        return await in_time(task)
    except ConflictError as error:
        return error


async def test_a_cancel_that_comes_second_to_the_last_end_is_refused(ground, engine):
    async with engine.running(engine.worker({"act": lambda: None})):
        started = await ground.start("chain", chain("a"))
        await ground.conduct()
        await ground.noted()
        async with ground.halted():
            cancel = await ground.waiting(ground.workflows.cancel(started.workflow_run_id, ME))
        with pytest.raises(ConflictError, match="has ended: success"):
            await in_time(cancel)
    run = await ground.show(started)
    assert (run.status, run.nodes["a"].status) == ("success", "success")


async def test_the_last_end_that_comes_second_to_a_cancel_stays_a_success_of_its_node(ground, engine):
    async with engine.running(engine.worker({"act": lambda: None})):
        started = await ground.start("chain", chain("a"))
        await ground.conduct()
        await ground.noted()
        assert (await ground.workflows.cancel(started.workflow_run_id, ME)).status == "cancelling"
        run = await ground.go_on(started)
    assert (run.status, run.nodes["a"].status) == ("cancelled", "success")


async def test_a_cancel_during_a_release_stops_what_that_made(ground, engine):
    held = threading.Event()
    async with engine.running(engine.worker({"act": lambda: None, "hold": held.wait})):
        started = await ground.start("chain", chain("a") | {"b": NodeIn(task="hold", after=["a"], max_retries=0)})
        await ground.conduct()
        await ground.noted()
        async with ground.halted():  # b is being made
            cancel = await ground.waiting(ground.workflows.cancel(started.workflow_run_id, ME))
        assert (await in_time(cancel)).status == "cancelling"
        await ground.conduct()
        held.set()
        run = await ground.go_on(started)
    assert (run.status, run.nodes["a"].status) == ("cancelled", "success")
    assert run.nodes["b"].status in ("stopped", "success")  # it may have ended before it was told
    assert await ground.made() == {"chain/a": 1, "chain/b": 1}


async def test_nothing_is_released_after_a_cancel(ground, engine):
    async with engine.running(engine.worker({"act": lambda: None})):
        started = await ground.start("chain", chain("a", "b"))
        await ground.conduct()
        await ground.noted()
        await ground.workflows.cancel(started.workflow_run_id, ME)
        run = await ground.go_on(started)
    assert (run.status, run.nodes["b"].status) == ("cancelled", "stopped")
    assert await ground.made() == {"chain/a": 1}


async def test_of_two_resumes_of_a_generation_one_counts(ground, engine, sql):
    fails = [True]

    def act():
        if fails:
            raise ValueError("once")

    async with engine.running(engine.worker({"act": act})):
        started = await ground.start("chain", chain("a", "b"))
        assert (await ground.go_on(started)).status == "failed"
        fails.clear()
        async with sql.transaction():
            await sql.execute("SELECT FROM rota.workflow_runs FOR UPDATE")
            resumes = [
                await ground.waiting(
                    ground.workflows.resume(started.workflow_run_id, ME, asked=ResumeIn(generation=1)), count
                )
                for count in (1, 2)
            ]
        answers = [await outcome_of(resume) for resume in resumes]
        assert sorted(isinstance(answer, ConflictError) for answer in answers) == [False, True]
        run = await ground.go_on(started)
    assert (run.status, run.generation) == ("success", 2)
    assert await ground.made() == {"chain/a": 2, "chain/b": 1}


class Members:
    """The task of a map: some items fail until they are mended, and some wait until they may end."""

    def __init__(self, *bad, held=()):
        self.bad = set(bad)
        self.held = {n: threading.Event() for n in held}
        self.seen = []
        self.joined = []

    def act(self, n):
        self.seen.append(n)
        if n in self.held:
            self.held[n].wait(60)
        if n in self.bad:
            raise ValueError(f"item {n}")

    def join(self, counts):
        self.joined.append(counts)

    @property
    def tasks(self):
        return {"act": self.act, "join": self.join}

    def nodes(self, items, **options):
        given = MapIn(items=items, **options)
        return {
            "each": NodeIn(task="act", payload={"n": {"$item": ""}}, map=given, max_retries=0),
            "join": NodeIn(task="join", after=["each"], payload={"counts": {"$from": "each"}}, max_retries=0),
        }


def counts(total, failed=0):
    return {"total": total, "success": total - failed, "failed": failed, "skipped": 0}


async def failed_runs(ground):
    rows = await ground.sql.fetch("SELECT id FROM rota.finished_runs WHERE cause = 'member' AND status = 'failed'")
    return await ground.workflows.nodes_of([row["id"] for row in rows], ME)


async def test_a_member_that_is_run_again_before_the_map_ended_is_waited_for_by_the_join(ground, engine):
    members = Members(0, held=[1])
    async with engine.running(engine.worker(members.tasks)):
        started = await ground.start("mapped", members.nodes([0, 1], tolerate_failures=1))
        await ground.conduct()
        await ground.scheduler.member_maker.tick()
        await ground.noted()
        await ground.conduct()
        members.bad.clear()
        members.held[1].set()
        await ground.noted()
        assert await ground.workflows.run_again(await failed_runs(ground), ME) == 1
        run = await ground.go_on(started)
    assert (run.status, run.generation) == ("success", 1)
    assert members.joined == [counts(2)]
    assert sorted(members.seen) == [0, 0, 1]


async def test_a_member_that_is_run_again_while_the_map_ends_is_a_resume(ground, engine):
    members = Members(0, held=[1, "join"])
    tasks = members.tasks | {"join": lambda counts: members.joined.append(counts) or members.held["join"].wait(60)}
    async with engine.running(engine.worker(tasks)):
        started = await ground.start("mapped", members.nodes([0, 1], tolerate_failures=1))
        await ground.conduct()
        await ground.scheduler.member_maker.tick()
        await ground.noted()
        await ground.conduct()
        runs = await failed_runs(ground)
        members.bad.clear()
        members.held[1].set()
        await ground.noted()
        async with ground.halted():  # the map ends, and the join starts
            redrive = await ground.waiting(ground.workflows.run_again(runs, ME))
        with pytest.raises(ConflictError, match="have not ended yet"):
            await in_time(redrive)
        await ground.scheduler.member_maker.tick()
        await eventually(lambda: members.joined)
        assert sorted(members.seen) == [0, 1]  # nothing runs beside the join
        members.held["join"].set()
        run = await ground.go_on(started)
        assert members.joined == [counts(2, failed=1)]
        await ground.workflows.run_again(runs, ME)
        again = await ground.go_on(started)
    assert (run.generation, again.generation) == (1, 2)
    assert members.joined == [counts(2, failed=1), counts(2)]
    assert sorted(members.seen) == [0, 0, 1]


async def test_members_are_not_made_between_a_resume_and_the_start_of_their_map(ground, engine):
    members = Members(held=[0])
    nodes = members.nodes(list(range(5)), max_concurrency=1)
    nodes["first"] = NodeIn(task="join", payload={"counts": None})
    nodes["each"].after.append("first")
    async with engine.running(engine.worker(members.tasks)):
        started = await ground.start("mapped", nodes)
        await ground.conduct()
        await ground.noted()
        await ground.conduct()
        await ground.scheduler.member_maker.tick()
        await eventually(lambda: members.seen == [0])
        await ground.workflows.cancel(started.workflow_run_id, ME)
        await ground.conduct()
        members.held[0].set()
        assert (await ground.go_on(started)).status == "cancelled"
        await ground.workflows.resume(started.workflow_run_id, ME, asked=ResumeIn(nodes=["first"]))
        await ground.scheduler.member_maker.tick()  # before any conductor knows of it
        run = await ground.go_on(started)
    assert run.status == "success"
    assert members.joined == [None, None, counts(5)]
    assert Counter(members.seen) == Counter([0, *range(5)])


async def test_counts_are_exact_after_a_cancel_between_members_that_run_again(ground, engine):
    members = Members(*range(6))
    async with engine.running(engine.worker(members.tasks)):
        started = await ground.start("mapped", members.nodes(list(range(8)), max_concurrency=2, tolerate_failures=8))
        assert (await ground.go_on(started)).status == "success"
        assert members.joined == [counts(8, failed=6)]
        members.bad.clear()
        await ground.workflows.resume(started.workflow_run_id, ME, asked=ResumeIn(nodes=["each"]))
        await ground.conduct()
        await ground.scheduler.member_maker.tick()  # two of six
        await ground.noted(2)
        await ground.workflows.cancel(started.workflow_run_id, ME)
        assert (await ground.go_on(started)).status == "cancelled"
        await ground.workflows.resume(started.workflow_run_id, ME)
        run = await ground.go_on(started)
    assert run.status == "success"
    assert members.joined[1:] == [counts(8)]
    assert run.nodes["each"].members.success == 8
    assert Counter(members.seen) == Counter([*range(8), *range(6)])


async def test_two_schedulers_make_a_failed_member_again_once(ground, engine, sql):
    members = Members(*range(6))
    async with engine.running(engine.worker(members.tasks)):
        started = await ground.start("mapped", members.nodes(list(range(6)), max_concurrency=2, tolerate_failures=6))
        await ground.go_on(started)
        members.bad.clear()
        await ground.workflows.resume(started.workflow_run_id, ME, asked=ResumeIn(nodes=["each"]))
        await ground.conduct()
        makers = [ground.scheduler.member_maker, ground.engine.scheduler().member_maker]
        async with sql.transaction():
            await sql.execute("SELECT FROM rota.workflow_maps FOR UPDATE")
            owned = ground.scheduler.leases.owned
            rounds = [await ground.waiting(it.serve(owned), count) for count, it in enumerate(makers, 1)]
        assert sorted([await in_time(round_) for round_ in rounds]) == [0, 1]
        run = await ground.go_on(started)
    assert (run.status, members.joined[-1]) == ("success", counts(6))
    assert Counter(members.seen) == Counter([*range(6)] * 2)


def wait_for(name, **wait):
    return {
        "wait": NodeIn(wait=WaitIn(**wait)),
        "after": NodeIn(task="after", after=["wait"], payload={"got": {"$from": "wait"}}, trigger="all_ended"),
    }


@pytest.mark.parametrize("first", ["signal", "time"])
async def test_a_signal_and_a_timeout_are_one_end(ground, engine, sql, first):
    seen = []
    async with engine.running(engine.worker({"after": lambda got: seen.append(got) or None})):
        started = await ground.start("asked", wait_for("asked", signal="go", timeout_seconds=60))
        await ground.conduct()
        await ground.workflows.signal(started.workflow_run_id, "go", 7, ME)
        await sql.execute("UPDATE rota.flow_waits SET wakes_at = now()")
        owned = ground.scheduler.leases.owned
        if first == "time":
            assert await ground.scheduler.conductor._flows.end_waits(owned) == 1
        else:
            async with ground.halted():  # the wait takes its signal; another scheduler looks at the time
                assert await ground.engine.scheduler().conductor.serve(owned) == 0
        run = await ground.go_on(started)
    assert run.nodes["wait"].status == ("success" if first == "signal" else "failed")
    assert seen == [7 if first == "signal" else None]
    assert await ground.made() == {"asked/after": 1}
    assert await sql.fetchval("SELECT count(*) FROM rota.flow_signals") == 0


async def test_a_signal_that_comes_while_its_run_is_being_locked_is_not_overlooked(ground, sql, monkeypatch):
    started = await ground.start("asked", {"wait": NodeIn(wait=WaitIn(signal="go"))})
    await ground.conduct()
    await ground.conduct()
    flow = parse_workflow_run(started.workflow_run_id)
    await sql.execute(LOOK, flow)

    async def take(statements, flows, *more):
        """The signal was committed after the look at which runs have notes, and before its run was locked."""
        if not await sql.fetchval("SELECT count(*) FROM rota.flow_signals"):
            await sql.execute(SIGNAL, flow)
            await sql.execute(LOOK, flow)
        return await take_notes(statements, flows, *more)

    with monkeypatch.context() as patch:
        patch.setattr(flow_store, "take_notes", take)
        await ground.conduct()
    await ground.conduct()
    assert (await ground.show(started)).status == "success"


LOOK = """
INSERT INTO rota.flow_notes (shard, namespace, flow) SELECT shard, namespace, id FROM rota.workflow_runs WHERE id = $1
"""
SIGNAL = """
INSERT INTO rota.flow_signals (namespace, flow, name, payload, sent_by) VALUES ('default', $1, 'go', '7', 'me')
"""


async def test_of_approving_and_rejecting_one_counts(ground, engine, sql):
    async with engine.running(engine.worker({"after": lambda got: None})):  # noqa: ARG005 - its parameter
        started = await ground.start("asked", wait_for("asked", approval=True))
        await ground.conduct()
        async with sql.transaction():
            await sql.execute("SELECT FROM rota.flow_waits FOR UPDATE")
            decisions = [
                await ground.waiting(
                    ground.workflows.decide(
                        started.workflow_run_id, "wait", ME, only=None, approve=approve, comment=None
                    ),
                    count,
                )
                for count, approve in ((1, True), (2, False))
            ]
        answers = [await outcome_of(decision) for decision in decisions]
        run = await ground.go_on(started)
    counted = [approve for approve, answer in zip((True, False), answers, strict=True) if not is_refused(answer)]
    assert len(counted) == 1
    assert run.nodes["wait"].status == ("success" if counted[0] else "failed")


def is_refused(answer):
    return isinstance(answer, ConflictError)


async def test_what_a_signal_carries_adds_no_nodes(ground, engine):
    seen = []
    async with engine.running(engine.worker({"after": lambda got: seen.append(got) or None})):
        started = await ground.start("asked", wait_for("asked", signal="go"))
        await ground.conduct()
        added = {"$add": {"more": {"task": "after", "payload": {"got": 1}}}}
        await ground.workflows.signal(started.workflow_run_id, "go", added, ME)
        run = await ground.go_on(started)
    assert (run.status, seen) == ("success", [added])


@pytest.mark.parametrize("seed", range(3))
async def test_two_schedulers_that_conduct_at_once_start_each_node_once(ground, engine, sql, seed):
    chance = random.Random(seed)
    graph = random_graph(chance, most=40, least=20)
    fails = {number: chance.random() < 0.2 for number in range(len(graph))}

    def act(fail):
        if fail:
            raise ValueError("as told")

    nodes = {
        node.key: NodeIn(
            task="act",
            payload={"fail": fails[number]},
            after=list(node.after),
            trigger=node.trigger,
            allow_failure=node.allow_failure,
            max_retries=0,
        )
        for number, node in enumerate(graph.nodes)
    }
    others = [ground.engine.scheduler().conductor for _ in range(2)]
    owned = ground.scheduler.leases.owned
    async with engine.running(engine.worker({"act": act})):
        started = [await ground.start(f"random-{number}", nodes) for number in range(3)]

        async def look():
            await asyncio.gather(*(it.serve(owned) for it in (ground.scheduler.conductor, *others)))
            runs = [await ground.show(it) for it in started]
            return runs if all(run.status != "running" for run in runs) else None

        runs = await eventually(look)
    by_rule = expected(graph, fails, dict.fromkeys(range(len(graph)), True))
    for run in runs:
        shown = {
            key: f"skipped_by_{node.skipped_by}" if node.skipped_by else node.status for key, node in run.nodes.items()
        }
        assert shown == {graph.nodes[number].key: end for number, end in by_rule.items()}
    assert set((await ground.made()).values()) == {1}
    assert await sql.fetchval("SELECT count(*) FROM rota.flow_notes") == 0


class Dying:
    """Statements of a transaction, of which the process lives to see only some."""

    def __init__(self, statements, lives):
        self._statements = statements
        self._left = lives

    async def fetch(self, name, **given):
        if self._left == 0:
            raise RuntimeError(f"died before {name}")
        self._left -= 1
        return await self._statements.fetch(name, **given)


async def test_a_conductor_that_dies_in_the_middle_leaves_all_as_it_was(ground, engine, sql, monkeypatch):
    await ground.workflows.create(WorkflowIn(name="part", nodes=chain("only")), ME)
    nodes = chain("first") | {
        "b": NodeIn(task="act", after=["first"]),
        "m": NodeIn(task="item", after=["first"], payload={"n": {"$item": ""}}, map=MapIn(items=[1, 2])),
        "w": NodeIn(wait=WaitIn(seconds=0), after=["first"]),
        "p": NodeIn(workflow="part", after=["first"]),
        "last": NodeIn(task="act", after=["b", "m", "w", "p"]),
    }
    async with engine.running(engine.worker({"act": lambda: None, "item": lambda n: None})):  # noqa: ARG005
        started = await ground.start("dying", nodes)
        deaths = 0
        while (await ground.show(started)).status == "running":
            lives = 0
            while lives < 10:
                died = False

                async def die(statements, done, lives=lives):
                    nonlocal died
                    try:
                        await write_round(Dying(statements, lives), done)
                    except RuntimeError:
                        died = True
                        raise

                with monkeypatch.context() as patch:
                    patch.setattr(flow_store, "write_round", die)
                    before = await everything(sql)
                    await ground.engine.scheduler().conductor.serve(ground.scheduler.leases.owned)
                    if not died:
                        break
                    deaths += 1
                    after = await everything(sql)
                    assert {key: rows for key, rows in after.items() if key in WRITTEN} == {
                        key: rows for key, rows in before.items() if key in WRITTEN
                    }
                lives += 1
            await ground.scheduler.member_maker.tick()
        run = await ground.show(started)
    assert deaths > 5
    assert run.status == "success"
    assert await ground.made() == {
        **dict.fromkeys(("dying/first", "dying/b", "dying/last", "part", "part/only"), 1),
        "dying/m": 2,
    }


WRITTEN = ("workflow_nodes", "workflow_maps")


async def everything(sql):
    """What only a conductor writes."""
    return {
        table: await sql.fetch(f"SELECT node, state FROM rota.{table} ORDER BY flow, node")
        if table == "workflow_nodes"
        else await sql.fetch(f"SELECT node, generation FROM rota.{table} ORDER BY flow, node")
        for table in WRITTEN
    }


async def test_a_pause_during_a_release_stops_what_comes_after_it(ground, engine):
    async with engine.running(engine.worker({"act": lambda: None})):
        started = await ground.start("chain", chain("a", "b", "c"))
        await ground.conduct()
        await ground.noted()
        async with ground.halted():  # b is being made
            pause = await ground.waiting(ground.workflows.pause("chain", ME, only=None, paused=True))
        await in_time(pause)
        await ground.noted()
        await ground.conduct()
        run = await ground.show(started)
        assert (run.paused, run.nodes["b"].status, run.nodes["c"].status) == (True, "success", "waiting")
        await ground.workflows.pause("chain", ME, only=None, paused=False)
        assert (await ground.go_on(started)).status == "success"
    assert await ground.made() == {"chain/a": 1, "chain/b": 1, "chain/c": 1}


@pytest.mark.parametrize("kind", ["sub-workflow", "additions", "members"])
async def test_a_pause_while_a_part_is_opened_reaches_that_part(ground, engine, kind):
    await ground.workflows.create(WorkflowIn(name="part", nodes=chain("only")), ME)
    nodes = chain("a")
    if kind == "sub-workflow":
        nodes["b"] = NodeIn(workflow="part", after=["a"])
    elif kind == "members":
        nodes["b"] = NodeIn(workflow="part", after=["a"], map=MapIn(items=[1]))
    else:
        nodes["a"].task = "adds"
    tasks = {"act": lambda: None, "adds": lambda: {"$add": {"only": {"task": "act"}}}}
    async with engine.running(engine.worker(tasks)):
        started = await ground.start("whole", nodes)
        await ground.conduct()
        await ground.noted()
        if kind == "members":
            await ground.conduct()
            await ground.scheduler.member_maker.tick()
            await ground.workflows.pause("whole", ME, only=None, paused=True)
        else:
            async with ground.halted():  # the part is being opened
                pause = await ground.waiting(ground.workflows.pause("whole", ME, only=None, paused=True))
            await in_time(pause)
        for _ in range(3):
            await ground.conduct()
        assert "part/only" not in await ground.made()
        assert "whole/a/only" not in await ground.made()
        await ground.workflows.pause("whole", ME, only=None, paused=False)
        assert (await ground.go_on(started)).status == "success"


async def test_additions_of_a_paused_workflow_wait(ground, engine):
    tasks = {"act": lambda: None, "adds": lambda: {"$add": {"only": {"task": "act"}}}}
    async with engine.running(engine.worker(tasks)):
        started = await ground.start("whole", {"a": NodeIn(task="adds")})
        await ground.conduct()
        await ground.noted()
        await ground.workflows.pause("whole", ME, only=None, paused=True)
        for _ in range(3):
            await ground.conduct()
        assert await ground.made() == {"whole/a": 2}  # its run, and what that added
        await ground.workflows.pause("whole", ME, only=None, paused=False)
        assert (await ground.go_on(started)).status == "success"


async def test_a_run_that_ended_while_its_workflow_was_paused_can_be_resumed_afterwards(ground, engine):
    async with engine.running(engine.worker({"act": lambda: None})):
        started = await ground.start("chain", chain("a", "b"))
        await ground.workflows.pause("chain", ME, only=None, paused=True)
        await ground.workflows.cancel(started.workflow_run_id, ME)
        assert (await ground.go_on(started)).status == "cancelled"
        await ground.workflows.pause("chain", ME, only=None, paused=False)
        await ground.workflows.resume(started.workflow_run_id, ME)
        assert (await ground.go_on(started)).status == "success"


async def test_a_definition_that_changes_meanwhile_is_that_of_later_runs(ground, engine):
    async with engine.running(engine.worker({"act": lambda: None})):
        started = await ground.start("chain", chain("a", "b"))
        await ground.conduct()
        await ground.noted()
        async with ground.halted():  # b of the first version is being made
            await ground.workflows.change("chain", WorkflowIn(name="chain", nodes=chain("a", "x", "y")), ME)
        run = await ground.go_on(started)
        assert ({*run.nodes}, run.status) == ({"a", "b"}, "success")
        later = await ground.go_on(await ground.workflows.run("chain", {}, ME))
    assert ({*later.nodes}, later.status) == ({"a", "x", "y"}, "success")
    assert await ground.made() == {"chain/a": 2, "chain/b": 1, "chain/x": 1, "chain/y": 1}


async def test_nothing_starts_beside_a_node_that_fails_at_its_start_if_that_stops_the_run(ground, engine):
    nodes = chain("a") | {
        "bad": NodeIn(task="act", after=["a"], payload={"value": {"$from": "a", "path": "nothing"}}),
        "other": NodeIn(task="act", after=["a"]),
    }
    async with engine.running(engine.worker({"act": lambda: None})):
        run = await ground.go_on(await ground.start("fast", nodes, fail_fast=True))
    assert (run.status, run.culprit, run.nodes["other"].skipped_by) == ("failed", "bad", "failure")
    assert await ground.made() == {"fast/a": 1}


async def test_a_deadline_ends_handlers_that_fail_fast_left(ground, engine, sql):
    def act():
        raise ValueError("as told")

    nodes = chain("a") | {"handler": NodeIn(wait=WaitIn(signal="never"), after=["a"], trigger="any_failed")}
    async with engine.running(engine.worker({"act": act})):
        started = await ground.start("fast", nodes, fail_fast=True, deadline_seconds=3600)
        await ground.conduct()
        await ground.noted()
        await ground.conduct()
        assert (await ground.show(started)).nodes["handler"].waiting_for == {"signal": "never"}
        await sql.execute("UPDATE rota.workflow_runs SET deadline_at = now()")
        run = await ground.go_on(started)
    assert (run.status, run.culprit, run.nodes["handler"].status) == ("failed", "a", "stopped")


async def test_a_sweep_that_was_paused_stops_nothing_of_a_later_generation(ground, engine, sql):
    seen = []
    async with engine.running(engine.worker({"after": lambda got: seen.append(got) or None})):
        started = await ground.start("asked", wait_for("asked", signal="go"))
        await ground.conduct()
        flows = ground.scheduler.conductor._flows
        await ground.workflows.cancel(started.workflow_run_id, ME)
        (row,) = await flows.unswept(ground.scheduler.leases.owned)
        assert (await ground.go_on(started)).status == "cancelled"
        await ground.workflows.resume(started.workflow_run_id, ME)
        await ground.conduct()
        await flows.sweep(row, [0, 1], "the workflow run was cancelled")
        assert await sql.fetchval("SELECT count(*) FROM rota.flow_waits") == 1
        await ground.workflows.cancel(started.workflow_run_id, ME)
        await flows.sweep(row, [], "the workflow run was cancelled")
        assert (await ground.go_on(started)).status == "cancelled"
        await ground.workflows.resume(started.workflow_run_id, ME)
        await ground.workflows.signal(started.workflow_run_id, "go", 1, ME)
        assert (await ground.go_on(started)).status == "success"
    assert seen == [1]


async def test_a_sub_workflow_that_is_resumed_while_its_parent_is_cancelled_runs_nothing(ground, engine):
    fails = [True]

    def act():
        if fails:
            raise ValueError("once")

    await ground.workflows.create(WorkflowIn(name="part", nodes=chain("only")), ME)
    async with engine.running(engine.worker({"act": act})):
        started = await ground.start("whole", {"b": NodeIn(workflow="part")})
        assert (await ground.go_on(started)).status == "failed"
        fails.clear()
        await ground.workflows.resume(started.workflow_run_id, ME)
        await ground.scheduler.conductor.tick()  # the part has a note to go on
        await ground.workflows.cancel(started.workflow_run_id, ME)
        (row,) = await ground.scheduler.conductor._flows.unswept(ground.scheduler.leases.owned)
        await ground.scheduler.conductor._sweep(row)
        run = await ground.go_on(started)
    assert (run.status, run.nodes["b"].status) == ("cancelled", "stopped")
    assert await ground.made() == {"part": 2, "part/only": 1}
