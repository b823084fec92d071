"""Steps that the tests of the calls on jobs share."""

import json
from datetime import datetime
from uuid import UUID

from support import job

FAR = "2090-01-01T09:00:00Z"
SCHEDULES = {
    "immediate": {},
    "future": {"scheduleTime": FAR},
    "cron": {"cronExpression": "30 9 * * MON-FRI", "timezone": "Europe/Berlin"},
    "interval": {"everySeconds": 90.0},
}


async def submit(api, schedule="immediate", **fields):
    """Submits a job with this kind of schedule; gives the answer."""
    answer = await api.post("/v1/jobs", json=job(scheduleType=schedule, **(SCHEDULES[schedule] | fields)))
    assert answer.status_code == 201, answer.text
    return answer.json()


async def read(api, path, status=200, method="GET", **options):
    answer = await api.request(method, path, **options)
    assert answer.status_code == status, answer.text
    return answer.json()


async def change(api, job_id, version=None, status=200, **fields):
    headers = {} if version is None else {"If-Match": f'"{version}"'}
    return await read(api, f"/v1/jobs/{job_id}", status, "PUT", json=fields, headers=headers)


async def claim(sql):
    """Every live run becomes some worker's."""
    await sql.execute("UPDATE rota.live_runs SET worker_id = gen_random_uuid(), claim = nextval('rota.claim_numbers')")


def moment(text):
    return datetime.fromisoformat(text)


def hex_of(shown):
    return UUID(shown.partition("_")[2])


async def walk(api, path, limit, **query):
    """Ids of all items of a list, page by page."""
    found, cursor = [], {}
    while cursor is not None:
        page = await read(api, path, params={"limit": limit, **query, **cursor})
        assert len(page["items"]) <= limit
        found += [item["runId" if path.endswith("runs") else "jobId"] for item in page["items"]]
        cursor = {"cursor": page["nextCursor"]} if page["nextCursor"] else None
    return found


def as_array(items):
    return {"json": items}


def as_lines(items):
    text = "\n".join(item if isinstance(item, str) else json.dumps(item) for item in items)
    return {"content": text + "\n\n", "headers": {"Content-Type": "application/x-ndjson; charset=utf-8"}}


async def batch(api, request):
    return (await read(api, "/v1/jobs/batch", method="POST", **request))["results"]
