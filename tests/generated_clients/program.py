"""Uses the client that openapi-python-client makes: submits a job, reads its status, changes and lists jobs."""

import sys
from datetime import UTC, datetime, timedelta

from rota_api import AuthenticatedClient
from rota_api.api.jobs import cancel_job, change_job, get_job, get_status, list_jobs, submit
from rota_api.api.runs import get_run
from rota_api.models import (
    JobIn,
    JobInPayload,
    JobInScheduleType,
    JobList,
    JobOut,
    JobPatch,
    JobStatusOut,
    Problem,
    RunOut,
    Submitted,
)

client = AuthenticatedClient(base_url=sys.argv[1], token=sys.argv[2], raise_on_unexpected_status=True)

hello = JobIn(name="from python", task="rota.echo", payload=JobInPayload.from_dict({"hello": "world"}))
made = submit.sync(client=client, body=hello)
assert isinstance(made, Submitted), made
run = get_run.sync(made.run_id, client=client, wait_seconds=60)
assert isinstance(run, RunOut), run
assert run.status.value == "success", run
assert isinstance(run.created_at, datetime), run

status = get_status.sync(made.job_id, client=client)
assert isinstance(status, JobStatusOut), status
assert (status.status.value, status.progress) == ("success", "100%")

later = datetime.now(UTC) + timedelta(days=1)
future = JobIn(name="from python", task="rota.echo", schedule_type=JobInScheduleType.FUTURE, schedule_time=later)
waiting = submit.sync(client=client, body=future)
assert isinstance(waiting, Submitted), waiting
changed = change_job.sync(waiting.job_id, client=client, body=JobPatch(max_retries=7))
assert isinstance(changed, JobOut), changed
shown = get_job.sync(waiting.job_id, client=client)
assert isinstance(shown, JobOut), shown
assert (shown.max_retries, shown.schedule_time) == (7, later)

listed = list_jobs.sync(client=client, name="from python", start_time=datetime.now(UTC) - timedelta(hours=1))
assert isinstance(listed, JobList), listed
assert {job.job_id for job in listed.items} == {made.job_id, waiting.job_id}

refused = submit.sync(client=client, body=JobIn(name="from python", task="no task"))
assert isinstance(refused, Problem), refused
assert [error.field for error in refused.errors] == ["task"]
assert cancel_job.sync(waiting.job_id, client=client).status == "cancelled"
