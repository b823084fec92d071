"""Sets that are refused, and leave everything as it is."""

from __future__ import annotations

import json

import pytest

from support import job

pytestmark = pytest.mark.asyncio(loop_scope="module")


ALIKE = [
    ({"payload": {}}, "job.payload"),
    ({"jobId": "chosen"}, "job.jobId"),
    ({"uniqueKey": "u"}, "job.uniqueKey"),
    ({"scheduleType": "cron", "cronExpression": "* * * * *"}, "job.scheduleType"),
]


@pytest.mark.parametrize(
    ("wanted", "field"),
    [
        ({"job": job(name=""), "payloads": [{}]}, "job.name"),
        ({"job": job(payload={}), "payloads": [{}]}, "job.payload"),
        ({"job": job(uniqueKey="u"), "payloads": [{}]}, "job.uniqueKey"),
        ({"job": job(scheduleType="cron", cronExpression="* * * * *"), "payloads": [{}]}, "job.scheduleType"),
        ({"job": job(scheduleType="future"), "payloads": [{}]}, "job.scheduleTime"),
        ({"job": job(idempotencyKey="k"), "payloads": [{}]}, "job.idempotencyKey"),
        ({"job": job(), "payloads": {}}, "payloads"),
        ({"job": job(), "payloads": [{}], "positions": [0]}, "positions"),
        ({"job": job(), "payloads": [{}], "positions": [-1]}, "positions"),
        ({"job": job(), "payloads": [{}], "positions": [10_000]}, "positions"),
        ({"job": job(), "payloads": [{}], "positions": None}, "positions"),
        ({"job": job(), "payloads": [{}], "count": 1}, "count"),
        ({"job": job()}, "payloads"),
        ({}, "job"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_a_bad_set_is_refused_with_its_field(spared, wanted, field):
    await spared.refuses("POST", "/v1/jobs/batch", json=wanted, field=field)


@pytest.mark.parametrize(("fields", "field"), ALIKE, ids=[field for _, field in ALIKE])
async def test_what_a_set_can_not_have_is_refused_when_some_of_it_is_repeated_too(spared, fields, field):
    wanted = {"job": job(**fields), "payloads": [{}], "positions": [0]}
    headers = {"Idempotency-Key": "k"}
    await spared.refuses("POST", "/v1/jobs/batch", json=wanted, headers=headers, field=field)


@pytest.mark.parametrize(
    "body",
    [
        '{"job": {"name": "a", "name": "b", "scheduleType": "immediate", "task": "t"}, "payloads": [{}]}',
        '{"payloads": [{}], "job": {"name": "a", "scheduleType": "immediate", "task": "t"}, "payloads": [{}]}',
        json.dumps({"job": job(), "payloads": [{}] * 10_001}),
    ],
    ids=["a field of the job twice", "payloads twice", "too many"],
)
async def test_an_ambiguous_or_too_large_set_is_refused(spared, body):
    await spared.refuses("POST", "/v1/jobs/batch", content=body)


async def test_a_key_for_an_array_is_refused_rather_than_ignored(spared):
    headers = {"Idempotency-Key": "k"}
    await spared.refuses("POST", "/v1/jobs/batch", json=[job()], headers=headers, field="Idempotency-Key")
