"""The pipeline example on real processes: its workflows are declared by a worker, and survive one that is killed."""

from __future__ import annotations

import json

import pytest
from stage import EXAMPLES, ROTA

from support import eventually

HERE = EXAMPLES / "nightly_pipeline"
DAY = "2027-01-31"


def rota(stage, *arguments):
    return json.loads(stage.run(*ROTA, "workflow", *arguments, "--json", directory=HERE))


async def declared(sql):
    await eventually(lambda: sql.fetchval("SELECT count(*) = 2 FROM rota.declared_workflows WHERE app = 'pipeline'"))


@pytest.mark.scenario
async def test_a_day_is_done_again_though_the_worker_is_killed_before_the_approval(stage, sql, tmp_path):
    data = {"PIPELINE_DATA": str(tmp_path)}
    stage.run("make_orders.py", DAY, directory=HERE, **data)
    (tmp_path / "orders" / f"{DAY}-broken-0.json").unlink()
    with stage.worker("pipeline:app", directory=HERE, **data) as worker:
        await declared(sql)
        run = rota(stage, "run", "again", "--input", f"day={DAY}")["workflowRunId"]

        async def waits():
            shown = rota(stage, "show", run)["nodes"]
            return shown["find_files"]["status"] == "success" and shown["approval"]["status"] == "waiting"

        await eventually(waits)
        worker.kill()
        worker.wait()
    rota(stage, "approve", run, "approval", "--comment", "go ahead")
    with stage.worker("pipeline:app", directory=HERE, **data):

        async def ended():
            shown = rota(stage, "show", run)
            return shown if shown["status"] == "success" else None

        shown = await eventually(ended)
    assert shown["nodes"]["clean"]["members"]["success"] == 5
    total = json.loads((tmp_path / "totals" / f"{DAY}.json").read_text())
    assert total == {"day": DAY, "cents": 500, "files": 5, "broken": 0}


async def test_the_workflow_of_the_file_is_applied_and_runs_beside_those_of_the_code(stage, sql, tmp_path):
    data = {"PIPELINE_DATA": str(tmp_path)}
    stage.run("make_orders.py", DAY, directory=HERE, **data)
    with stage.worker("pipeline:app", directory=HERE, **data):
        await declared(sql)
        assert rota(stage, "apply", "restate.yaml", "--dry-run")["becomes"] == "create"
        assert rota(stage, "apply", "restate.yaml")["becomes"] == "created"
        run = rota(stage, "run", "restate", "--input", f"day={DAY}", "--wait")
    assert (run["status"], run["nodes"]["clean"]["members"]["failed"]) == ("success", 1)
