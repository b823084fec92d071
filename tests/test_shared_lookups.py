"""Questions that are asked at the same time share one look, and no answer is older than its question."""

from __future__ import annotations

import asyncio

import pytest

from rota.errors import DatabaseUnavailableError
from rota.service import ServiceGroup
from rota.shared_lookups import SharedLookups
from support import in_time


class Noted(SharedLookups):
    """Finds each question itself, when it is let."""

    def __init__(self):
        super().__init__()
        self.looks = []
        self.looking = asyncio.Event()
        self.let = asyncio.Event()
        self.let.set()
        self.failure = None

    async def look(self, questions):
        self.looks.append(list(questions))
        self.looking.set()
        await self.let.wait()
        if self.failure:
            raise self.failure
        return {question: f"found {question}" for question in questions if question != "nothing"}


@pytest.fixture
async def lookups():
    found = Noted()
    async with ServiceGroup([found]):
        yield found


async def test_what_is_asked_at_the_same_time_is_one_look(lookups):
    answers = await in_time(asyncio.gather(*(lookups.ask(f"q{number % 10}") for number in range(50))))
    assert answers == [f"found q{number % 10}" for number in range(50)]
    assert lookups.looks == [[f"q{number}" for number in range(10)]]


async def test_a_question_during_a_look_is_answered_by_the_next_one(lookups):
    lookups.let.clear()
    first = asyncio.create_task(lookups.ask("q"))
    await lookups.looking.wait()
    second = asyncio.create_task(lookups.ask("q"))
    await asyncio.sleep(0)
    lookups.let.set()
    assert await in_time(asyncio.gather(first, second)) == ["found q", "found q"]
    assert lookups.looks == [["q"], ["q"]]


async def test_what_is_not_there_is_none(lookups):
    assert await in_time(lookups.ask("nothing")) is None


async def test_no_tenant_waits_for_all_questions_of_another(lookups):
    lookups.most_per_look = 10
    lookups.let.clear()
    asked = [asyncio.create_task(lookups.ask("first", tenant="greedy"))]
    await lookups.looking.wait()
    asked += [asyncio.create_task(lookups.ask(("greedy", number), tenant="greedy")) for number in range(100)]
    await asyncio.sleep(0)
    asked += [asyncio.create_task(lookups.ask(("modest", number), tenant="modest")) for number in range(5)]
    await asyncio.sleep(0)
    lookups.let.set()
    await in_time(asyncio.gather(*asked))
    assert {("modest", number) for number in range(5)} < set(lookups.looks[1])
    assert max(map(len, lookups.looks)) == 10
    assert sum(map(len, lookups.looks)) == len(asked)


async def test_more_tenants_than_one_look_takes_are_served_in_turn(lookups):
    lookups.most_per_look = 3
    asked = [lookups.ask(number, tenant=f"t{number % 7}") for number in range(14)]
    await in_time(asyncio.gather(*asked))
    assert [len(look) for look in lookups.looks] == [3, 3, 3, 3, 2]
    assert [number % 7 for look in lookups.looks for number in look] == [*range(7), *range(7)]


async def test_a_look_that_fails_is_told_to_all_who_wait_and_the_next_one_is_made(lookups):
    lookups.failure = DatabaseUnavailableError("away")
    answers = await in_time(asyncio.gather(*(lookups.ask(number) for number in range(3)), return_exceptions=True))
    assert [str(error) for error in answers] == ["away"] * 3
    lookups.failure = None
    assert await in_time(lookups.ask("q")) == "found q"


async def test_one_who_hangs_up_does_not_take_the_answer_from_the_others(lookups):
    lookups.let.clear()
    gone, stays = (asyncio.create_task(lookups.ask("q")) for _ in range(2))
    await lookups.looking.wait()
    gone.cancel()
    lookups.let.set()
    assert await in_time(stays) == "found q"


async def test_a_server_that_stops_answers_those_who_wait():
    found = Noted()
    found.let.clear()
    async with ServiceGroup([found]) as group:
        asked = asyncio.create_task(found.ask("q"))
        await found.looking.wait()
        await group.stop(found)
        with pytest.raises(DatabaseUnavailableError):
            await in_time(asked)
