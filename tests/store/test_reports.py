"""Reports of many runs in one statement: each gets its own result, each is fenced by its own claim."""

from __future__ import annotations

import random

import msgspec

from engine import report
from rota.domain.run import Outcome


async def claim_all(broker, count):
    claims = await broker.claim(count)
    assert len(claims) == count
    return claims


async def test_each_run_gets_its_own_times_and_result(engine, sql):
    for _ in range(40):
        await engine.submit()
    broker = engine.broker()
    await engine.join(broker)
    claims = await claim_all(broker, 40)
    random.shuffle(claims)
    reports = [
        msgspec.structs.replace(
            report(claim, result=None if number % 3 else f'"{claim.run_id}"'), started=1e9 + number, ended=2e9 + number
        )
        for number, claim in enumerate(claims)
    ]
    answer = await broker.report(reports)
    assert (answer.fenced, answer.rejected) == (frozenset(), {})
    for told in reports:
        row = await sql.fetchrow(
            "SELECT result, extract(epoch FROM started_at)::float8, extract(epoch FROM finished_at)::float8, claim"
            "  FROM rota.finished_runs WHERE id = $1",
            told.claim.run_id,
        )
        assert tuple(row) == (told.result, told.started, told.ended, told.claim.number)


async def test_of_two_claims_of_a_run_in_one_batch_only_the_current_one_counts(engine, sql):
    await engine.submit()
    other = await engine.submit()
    broker = engine.broker()
    await engine.join(broker)
    claims = {claim.run_id: claim for claim in await claim_all(broker, 2)}
    (first,) = [claim for claim in claims.values() if f"run_{claim.run_id.hex}" != other]
    await broker.report([report(first, Outcome.released)])
    (second,) = await claim_all(broker, 1)
    assert (second.run_id, second.number != first.number) == (first.run_id, True)
    everything = [report(first, result='"old"'), report(second, result='"new"')]
    everything += [report(claim) for claim in claims.values() if claim is not first]
    for order in (everything, everything[::-1]):
        answer = await broker.report(order)
        assert answer.fenced == {first.number}
        assert not answer.rejected
    rows = await sql.fetch("SELECT claim, result FROM rota.finished_runs WHERE id = $1", first.run_id)
    assert [tuple(row) for row in rows] == [(second.number, '"new"')]
    assert await sql.fetchval("SELECT count(*) FROM rota.live_runs") == 0


async def test_a_report_under_another_runs_claim_number_moves_nothing(engine, sql):
    for _ in range(2):
        await engine.submit()
    broker = engine.broker()
    await engine.join(broker)
    one, two = await claim_all(broker, 2)
    swapped = [
        report(msgspec.structs.replace(one, number=two.number)),
        report(msgspec.structs.replace(two, number=one.number)),
    ]
    answer = await broker.report(swapped)
    assert len(answer.fenced) == 2
    assert await sql.fetchval("SELECT count(*) FROM rota.finished_runs") == 0
