"""Workflows declared in code: made, changed and paused with the version of the application that is in force."""

from __future__ import annotations

import asyncio

import pytest

import rota
from rota.errors import SetupError
from rota.sdk.declared_schedules import describe_app


def application(version, name="shop", **workflows):
    """An application that declares workflows, by name: their schedule (None: they have none) and their nodes' keys."""
    app = rota.App(name, version=version)

    @app.task(name=f"{name}.tidy")
    async def tidy(what: str = "all") -> None: ...

    for called, (cron, keys) in workflows.items():
        with app.workflow(called, cron=cron) as flow:
            for key in keys:
                if key.startswith("run "):
                    flow.workflow(key[4:])
                else:
                    tidy.node(key).with_options(key=key)
    return describe_app(app, ("default",))


class Fleet:
    """Workers that exist only as their brokers, and a scheduler that is ticked."""

    def __init__(self, engine, scheduler):
        self.engine = engine
        self.scheduler = scheduler
        self.reconcile = scheduler.reconciler.tick

    async def start(self, app):
        broker = self.engine.broker()
        await self.engine.join(broker, application=app)
        return broker

    async def deploy(self, app, before=None):
        """A version takes over from another one."""
        broker = await self.start(app)
        if before is not None:
            await before.leave()
        await self.reconcile()
        return broker

    async def workflows(self):
        items = (await self.engine.api.get("/v1/workflows")).json()["items"]
        return {one["name"]: one for one in items}

    async def act(self, method, path, **options):
        answer = await self.engine.api.request(method, f"/v1/workflows/{path}", **options)
        assert answer.status_code < 300, answer.text
        return answer.json()

    async def events(self):
        return [event["event"] for event in (await self.engine.api.get("/v1/events?kind=workflow.")).json()["items"]]


@pytest.fixture
async def fleet(engine):
    return Fleet(engine, await engine.leading())


async def test_a_workers_start_makes_its_workflows(fleet, sql):
    await fleet.start(application("1", nightly=("0 2 * * *", ["a", "b"]), manual=(None, ["a"])))
    assert await fleet.reconcile() == 1
    found = await fleet.workflows()
    assert {name: list(one["nodes"]) for name, one in found.items()} == {"nightly": ["a", "b"], "manual": ["a"]}
    assert found["nightly"]["schedule"] == {"cronExpression": "0 2 * * *"}
    assert await sql.fetchval("SELECT count(*) FROM rota.jobs WHERE state = 'scheduled'") == 1
    assert await fleet.events() == ["workflow.declared", "workflow.declared"]
    assert await fleet.reconcile() == 0


async def test_a_new_version_changes_what_it_declares_otherwise(fleet, sql):
    first = await fleet.deploy(application("1", nightly=("0 2 * * *", ["a"]), manual=(None, ["a"])))
    await fleet.deploy(application("2", nightly=("0 3 * * *", ["a", "b"]), manual=(None, ["a"])), first)
    found = await fleet.workflows()
    assert list(found["nightly"]["nodes"]) == ["a", "b"]
    assert (found["nightly"]["revision"], found["manual"]["revision"]) == (2, 1)
    assert await sql.fetchval("SELECT cron_expression FROM rota.jobs WHERE state = 'scheduled'") == "0 3 * * *"


async def test_an_old_worker_that_starts_late_changes_nothing(fleet):
    old = application("1", nightly=(None, ["a"]))
    await fleet.deploy(old)
    await fleet.deploy(application("2", nightly=(None, ["b"])))
    await fleet.start(old)
    assert await fleet.reconcile() == 0
    assert list((await fleet.workflows())["nightly"]["nodes"]) == ["b"]


async def test_what_is_no_longer_declared_is_paused_and_goes_on_when_it_is_again(fleet):
    first = await fleet.deploy(application("1", nightly=("0 2 * * *", ["a"]), manual=(None, ["a"])))
    second = await fleet.deploy(application("2", manual=(None, ["a"])), first)
    found = await fleet.workflows()
    assert (found["nightly"]["status"], found["manual"]["status"]) == ("paused", "active")
    assert (await fleet.events())[0] == "workflow.undeclared"
    third = await fleet.deploy(application("3", nightly=("0 2 * * *", ["a"]), manual=(None, ["a"])), second)
    assert (await fleet.workflows())["nightly"]["status"] == "active"
    await fleet.deploy(application("4"), third)
    assert {one["status"] for one in (await fleet.workflows()).values()} == {"paused"}


async def test_what_a_person_changed_paused_or_deleted_stays_until_the_code_says_something_new(fleet):
    kept = {"manual": (None, ["a"]), "gone": (None, ["a"])}
    first = await fleet.deploy(application("1", nightly=(None, ["a"]), **kept))
    await fleet.act("PUT", "nightly", json={"name": "nightly", "nodes": {"by_hand": {"task": "x"}}})
    await fleet.act("POST", "manual/pause")
    await fleet.act("DELETE", "gone")
    second = await fleet.deploy(application("2", nightly=(None, ["a"]), **kept), first)
    found = await fleet.workflows()
    assert list(found["nightly"]["nodes"]) == ["by_hand"]
    assert found["manual"]["status"] == "paused"
    assert "gone" not in found
    changed = {"manual": (None, ["b"]), "gone": (None, ["b"])}
    await fleet.deploy(application("3", nightly=(None, ["b"]), **changed), second)
    found = await fleet.workflows()
    assert {name: list(one["nodes"]) for name, one in found.items()} == {name: ["b"] for name in found}
    assert found.keys() == {"nightly", "manual", "gone"}
    assert found["manual"]["status"] == "paused", "a person paused it"


async def test_a_workflow_that_was_there_before_the_code_becomes_the_codes(fleet):
    await fleet.engine.api.post("/v1/workflows", json={"name": "nightly", "nodes": {"by_hand": {"task": "x"}}})
    await fleet.deploy(application("1", nightly=(None, ["a"])))
    assert list((await fleet.workflows())["nightly"]["nodes"]) == ["a"]


async def test_a_name_of_another_application_or_owner_is_refused_and_others_are_made(fleet, sql):
    await fleet.deploy(application("1", "shop", nightly=(None, ["a"])))
    await fleet.start(application("1", "other", nightly=(None, ["b"]), own=(None, ["b"])))
    assert await fleet.reconcile() == 0, "it is tried again"
    found = await fleet.workflows()
    assert (list(found["nightly"]["nodes"]), list(found["own"]["nodes"])) == (["a"], ["b"])
    await sql.execute("UPDATE rota.workflows SET owner = 'ada' WHERE name = 'own'")
    await fleet.start(application("1", "third", own=(None, ["c"])))
    await fleet.reconcile()
    assert list((await fleet.workflows())["own"]["nodes"]) == ["b"]


async def test_workflows_that_others_run_are_made_first(fleet):
    parents = {"a_parent": (None, ["run child"]), "child": (None, ["run z_leaf"]), "z_leaf": (None, ["a"])}
    await fleet.deploy(application("1", **parents))
    assert (await fleet.workflows()).keys() == parents.keys()


async def test_a_workflow_whose_child_is_missing_is_refused_and_others_are_made(fleet):
    await fleet.start(application("1", parent=(None, ["run nobody"]), other=(None, ["a"])))
    assert await fleet.reconcile() == 0
    assert (await fleet.workflows()).keys() == {"other"}


async def test_many_schedulers_make_a_workflow_once(engine, fleet, sql):
    await fleet.start(application("1", nightly=("0 2 * * *", ["a"])))
    others = [await engine.leading() for _ in range(3)]
    await asyncio.gather(*(scheduler.reconciler.tick() for scheduler in (fleet.scheduler, *others)))
    assert await sql.fetchval("SELECT count(*) FROM rota.workflows") == 1
    assert await sql.fetchval("SELECT count(*) FROM rota.jobs") == 1


def test_an_application_that_declares_workflows_needs_a_name_and_its_namespace():
    app = rota.App()

    @app.task(name="tidy")
    def tidy() -> None: ...

    with app.workflow("nightly"):
        tidy.node()
    with pytest.raises(SetupError, match="declares workflows needs a name"):
        describe_app(app, ("default",))
    named = rota.App("shop", namespace="acme")
    with named.workflow("nightly"):
        tidy.node()
    with pytest.raises(SetupError, match="The workflows of shop belong to namespace 'acme'"):
        describe_app(named, ("default",))


def test_the_version_follows_from_what_is_declared():
    def version(*keys):
        return application(None, nightly=(None, keys)).version

    assert version("a") == version("a") != version("b")
    assert application(None).version != version("a")
