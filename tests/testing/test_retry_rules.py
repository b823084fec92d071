"""Which exceptions are tried again, and which fail for good: in every way in which a function can run."""

from __future__ import annotations

import fussy_tasks as tasks
import pytest

import rota
from rota.errors import BadInputError, SetupError

EVERYWHERE = [tasks.on_the_loop, tasks.in_a_thread, tasks.apart, tasks.apart_async]


@pytest.fixture
def rota_app():
    return tasks.app


async def attempts(kit, run):
    """How many attempts there were until it failed for good, and its error."""
    await kit.run_until_idle(retries=True)
    (record,) = [one for one in await kit.runs() if one.run_id == run.id]
    assert record.status == "failed"
    return record.attempt, record.error


@pytest.mark.parametrize("task", EVERYWHERE, ids=lambda task: task.name)
async def test_only_what_is_worth_it_is_tried_again(rota_kit, task):
    assert await attempts(rota_kit, await task.submit("connection refused")) == (
        2,
        "ConnectionRefusedError: connection refused",
    )
    assert await attempts(rota_kit, await task.submit("index")) == (2, "IndexError: index")
    assert await attempts(rota_kit, await task.submit("key")) == (1, "KeyError: 'key'")
    assert await attempts(rota_kit, await task.submit("value")) == (1, "ValueError: value")
    assert await attempts(rota_kit, await task.submit("final")) == (1, "final")


@pytest.mark.parametrize("task", [tasks.grouped, tasks.grouped_apart], ids=lambda task: task.name)
async def test_a_group_is_tried_again_if_all_in_it_are_worth_it(rota_kit, task):
    count, error = await attempts(rota_kit, await task.submit(["connection refused", "index"]))
    assert count == 2
    assert "2 sub-exceptions): ConnectionRefusedError: connection refused" in error
    assert (await attempts(rota_kit, await task.submit(["connection refused", "key"])))[0] == 1
    assert (await attempts(rota_kit, await task.submit(["value", "index"])))[0] == 1
    assert (await attempts(rota_kit, await task.submit(["index", "final"])))[0] == 1


async def test_a_task_can_say_within_a_group_that_another_attempt_is_useless(rota_kit):
    assert (await attempts(rota_kit, await tasks.without_rule.submit(["value"])))[0] == 2
    assert (await attempts(rota_kit, await tasks.without_rule.submit(["value", "final"])))[0] == 1


async def test_a_rule_can_be_about_groups_as_such(rota_kit):
    assert (await attempts(rota_kit, await tasks.of_groups.submit("value")))[0] == 2


async def test_however_deep_groups_are_nested_the_run_ends(rota_kit):
    assert (await attempts(rota_kit, await tasks.deep.submit()))[0] == 2


@pytest.mark.parametrize("task", [tasks.crash, tasks.leave], ids=lambda task: task.name)
async def test_what_is_no_exception_of_the_task_is_tried_again(rota_kit, task):
    assert (await attempts(rota_kit, await task.submit()))[0] == 2


async def test_without_anything_to_retry_on_nothing_is_tried_again(rota_kit):
    assert await attempts(rota_kit, await tasks.never.submit()) == (1, "ConnectionError: away")


async def test_with_final_exceptions_alone_all_others_are_tried_again(rota_kit):
    assert (await attempts(rota_kit, await tasks.mostly.submit("index")))[0] == 2
    assert (await attempts(rota_kit, await tasks.mostly.submit("value")))[0] == 1


@pytest.mark.parametrize("given", ["ValueError", ValueError("x"), (ValueError, 7), KeyboardInterrupt, [ValueError]])
@pytest.mark.parametrize("option", ["retry_on", "final_on"])
def test_anything_but_exceptions_is_refused_at_once(option, given):
    with pytest.raises(SetupError, match=f"{option} takes an exception class, or a tuple of them"):
        rota.App().task(**{option: given})


async def test_a_rule_is_for_the_task_not_for_one_submission(rota_kit):
    with pytest.raises(BadInputError, match=r"retry_on is for the task: @app.task\(retry_on=…\)"):
        tasks.mostly.with_options(retry_on=ValueError)
