"""Options of tasks reach jobs that come by REST and by the command line, with real processes."""

from __future__ import annotations

import textwrap

import pytest

import commands
from support import eventually

pytestmark = pytest.mark.scenario

RELEASE = """
import rota

app = rota.App("shop", version="{version}")


@app.task(name="charge", retries={retries}, retry=rota.Retry(strategy="fixed", base_seconds=0.1))
async def charge(customer: str, card: str = "", cents: int = 100) -> None:
    raise ValueError("no money")
"""


async def deploy(fleet, directory, version, retries):
    """A worker with this release; returns once the API knows of it."""
    place = directory / version
    place.mkdir()
    (place / "released.py").write_text(textwrap.dedent(RELEASE).format(version=version, retries=retries))
    worker = await fleet.start("worker", "--app", "released:app", directory=place, PYTHONPATH=str(place))

    async def known():
        listed = (await fleet.get("/v1/tasks"))["items"]
        return [one for task in listed for one in task["versions"] if one["version"] == version and one["workers"]]

    await eventually(known)
    return worker


async def attempts(fleet, **fields):
    """How often a job that fails was tried."""
    job = await fleet.submit("charge", payload={"customer": "a"}, **fields)
    return (await fleet.until(job["runId"], "failed"))["attempt"]


async def test_a_task_without_retries_runs_once_however_it_was_submitted(fleet, tmp_path):
    await fleet.start_api()
    await fleet.start("scheduler")
    first = await deploy(fleet, tmp_path, "1", 0)
    assert await attempts(fleet) == 1
    assert await attempts(fleet, maxRetries=1) == 2
    command = commands.Commands(fleet.home, fleet.port, ROTA_HOME=str(fleet.home))
    done = command.in_process("submit", "by hand", "--task", "charge", "--payload", '{"customer": "b"}', "--json")
    assert done.code == 0, done.err
    assert (await fleet.until(done.json["runId"], "failed"))["attempt"] == 1
    refused = command.in_process("submit", "by hand", "--task", "charge", "--payload", '{"cents": "many"}')
    assert refused.code != 0
    assert "payload.cents" in refused.err
    shown = command.in_process("tasks")
    assert "customer, [card], [cents]" in shown.out
    assert "maxRetries 0" in shown.out
    one = command.in_process("tasks", "charge")
    assert "customer" in one.out
    assert "in force, 1 worker" in one.out

    await deploy(fleet, tmp_path, "2", 2)
    await first.terminate()

    async def in_force():
        return await attempts(fleet) == 3

    await eventually(in_force)
