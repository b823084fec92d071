"""The example's crontab, imported for real: jobs that run, change with the file, and are never made twice."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from listening import TOKEN, listening
from rota.cli.main import app
from rota.worker.runners.guarded_process import Subprocesses
from rota.worker.runners.shell import ShellRunner
from support import eventually

EXAMPLE = Path(__file__).parents[2] / "examples" / "crontab"


@pytest.fixture
async def rota(api, tmp_path):
    """The command line on this test's server; `rota.crontab` is a copy of the example's file."""
    async with listening(api.services) as server:
        environment = {"ROTA_URL": server.url, "ROTA_TOKEN": TOKEN, "ROTA_HOME": str(tmp_path), "NO_COLOR": "1"}

        async def run(*arguments):
            call = [str(argument) for argument in arguments]
            return await asyncio.to_thread(CliRunner().invoke, app, call, env=environment)

        run.crontab = Path(shutil.copy(EXAMPLE / "crontab", tmp_path / "crontab"))
        yield run


async def imported(rota, *options):
    done = await rota("import", "crontab", rota.crontab, "--json", *options)
    assert done.exit_code == 0, done.stderr
    return json.loads(done.stdout)["items"], done.stderr


async def test_the_example_is_imported_and_its_first_entry_runs(rota, api, engine):
    items, said = await imported(rota)
    assert [item["becomes"] for item in items] == ["made"] * 3
    assert "No worker of pool 'default' runs shell commands" in said
    runners = {"shell": ShellRunner(Subprocesses(), grace_seconds=0.3)}
    async with engine.running(engine.worker(runners=runners)):
        for item, words in ((items[0], "hello from cron\npercent: 100%\n"), (items[1], "2\n")):
            run = (await api.post(f"/v1/jobs/{item['jobId']}/run")).json()["runId"]

            async def ended(run=run):
                found = (await api.get(f"/v1/runs/{run}")).json()
                return found if found["status"] in ("success", "failed") else None

            shown = await eventually(ended)
            assert (shown["status"], shown["result"]["stdout"].lstrip()) == ("success", words)
        _, said = await imported(rota)
        assert "No worker" not in said


async def test_importing_again_changes_what_changed_and_makes_nothing_twice(rota, api):
    first, _ = await imported(rota, "--timezone", "Europe/Berlin")
    again, _ = await imported(rota, "--timezone", "Europe/Berlin")
    assert [item["becomes"] for item in again] == ["unchanged"] * 3
    rota.crontab.write_text(rota.crontab.read_text().replace("*/15 9-17", "*/20 9-17"))
    changed, _ = await imported(rota, "--timezone", "Europe/Berlin")
    assert [item["becomes"] for item in changed] == ["unchanged", "changed", "unchanged"]
    assert changed[1]["changes"] == ["cronExpression"]
    assert [item["jobId"] for item in changed] == [item["jobId"] for item in first]
    jobs = (await api.get("/v1/jobs", params={"tag": "crontab"})).json()["items"]
    assert sorted(job["cronExpression"] for job in jobs) == ["* * * * *", "*/20 9-17 * * mon-fri", "@daily"]
    assert {job["timezone"] for job in jobs} == {"Europe/Berlin"}


async def test_what_is_gone_is_told_paused_on_request_and_goes_on_when_it_comes_back(rota, api):
    whole = rota.crontab.read_text()
    items, _ = await imported(rota)
    path = f"/v1/jobs/{items[2]['jobId']}"
    rota.crontab.write_text(whole.replace("@daily", "# @daily"))
    _, said = await imported(rota)
    assert "is no longer in the file" in said
    assert (await api.get(path)).json()["status"] == "scheduled"
    _, said = await imported(rota, "--prune")
    assert "is paused now" in said
    assert (await api.get(path)).json()["status"] == "paused"
    _, said = await imported(rota, "--prune")
    assert "is no longer in" not in said
    rota.crontab.write_text(whole)
    items, _ = await imported(rota)
    assert [item["becomes"] for item in items] == ["unchanged", "unchanged", "changed"]
    assert (await api.get(path)).json()["status"] == "scheduled"


async def test_a_dry_run_and_a_file_with_a_bad_line_make_nothing(rota, api):
    items, _ = await imported(rota, "--dry-run")
    assert [(item["becomes"], item["jobId"]) for item in items] == [("new", None)] * 3
    rota.crontab.write_text(rota.crontab.read_text() + "61 * * * * x\n")
    done = await rota("import", "crontab", rota.crontab)
    assert done.exit_code == 2
    assert "line 9: bad minute field" in done.stderr
    assert "error: nothing was imported" in done.stderr
    assert (await api.get("/v1/jobs")).json()["items"] == []
    items, _ = await imported(rota, "--skip-bad")
    assert len(items) == 3


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("nowhere",), "FILE: nowhere can't be read"),
        ((os.devnull, "--timezone", "Mars/Base"), "--timezone: no time zone"),
        ((os.devnull, "--label", " "), "--label: must not be empty"),
    ],
)
def test_wrong_calls_are_refused_in_words(arguments, words, tmp_path):
    done = CliRunner().invoke(app, ["import", "crontab", *arguments], env={"ROTA_HOME": str(tmp_path)})
    assert (done.exit_code, words in done.stderr) == (2, True)


async def test_a_prune_that_died_halfway_is_finished_by_the_next(rota, api):
    first, _ = await imported(rota)
    job = (await api.get(f"/v1/jobs/{first[0]['jobId']}")).json()
    rota.crontab.write_text("")
    # It got as far as its note of why, and not to the pause.
    await api.put(f"/v1/jobs/{job['jobId']}", json={"tags": [*job["tags"], "crontab-gone"]})
    await imported(rota, "--prune")
    assert (await api.get(f"/v1/jobs/{job['jobId']}")).json()["status"] == "paused"


async def test_a_line_whose_return_died_halfway_goes_on_with_the_next(rota, api):
    first, _ = await imported(rota)
    whole = rota.crontab.read_text()
    rota.crontab.write_text("")
    await imported(rota, "--prune")
    rota.crontab.write_text(whole)
    await api.post(f"/v1/jobs/{first[0]['jobId']}/resume")
    await imported(rota)
    job = (await api.get(f"/v1/jobs/{first[0]['jobId']}")).json()
    assert (job["status"], "crontab-gone" in job["tags"]) == ("scheduled", False)


async def test_another_file_of_the_same_name_is_another_crontab(rota, api, tmp_path):
    first, _ = await imported(rota)
    (tmp_path / "etc").mkdir()
    rota.crontab = tmp_path / "etc" / "crontab"
    rota.crontab.write_text("0 5 * * * echo another\n")
    _, said = await imported(rota, "--prune")
    assert "paused" not in said
    for item in first:
        assert (await api.get(f"/v1/jobs/{item['jobId']}")).json()["status"] == "scheduled"
