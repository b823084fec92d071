"""Workflows on the command line, against a real `rota up`."""

from __future__ import annotations

import json
from uuid import uuid4

import pytest

from support import wait_until

PIPELINE = """\
name: {name}
inputs:
  day: {{type: string, default: "2027-01-31"}}
  count: {{type: integer, default: 3}}
nodes:
  extract:
    task: rota.echo
    payload: {{day: {{$input: day}}, rows: [1, 2, 3]}}
  clean:
    task: rota.echo
    after: [extract]
    payload: {{row: {{$item: ""}}}}
    map: {{items: {{$from: extract, path: rows}}}}
  load:
    task: rota.echo
    after: [clean]
    payload: {{day: {{$from: extract, path: day}}, counts: {{$from: clean}}}}
"""
BROKEN = """\
name: {name}
nodes:
  first: {{task: rota.fail, maxRetries: 0}}
  second: {{task: rota.echo, after: [first]}}
"""


@pytest.fixture
def write(tmp_path):
    """Writes a file; gives its path."""

    def write(content, name="pipeline.yaml"):
        path = tmp_path / name
        path.write_text(content)
        return str(path)

    return write


@pytest.fixture
def applied(rota, write):
    """A workflow of its own for a test: its name."""
    name = f"pipeline-{uuid4().hex[:8]}"
    assert rota.in_process("workflow", "apply", write(PIPELINE.format(name=name))).code == 0
    return name


def test_a_file_is_applied_and_applied_again(rota, write):
    file = write(PIPELINE.format(name="applied"))
    planned = rota.in_process("workflow", "apply", file, "--dry-run")
    assert planned.code == 0
    assert planned.out.startswith("applied: create\n")
    assert "nodes.clean" in planned.out
    assert rota.in_process("workflow", "show", "applied").code == 2
    assert rota.in_process("workflow", "apply", file).out.startswith("applied: created, version ")
    again = rota.json("workflow", "apply", file)
    assert (again["becomes"], again["changes"], again["workflow"]["revision"]) == ("no change", [], 1)


def test_a_dry_run_shows_the_difference_by_node(rota, write, applied):
    text = PIPELINE.format(name=applied).replace("rows: [1, 2, 3]", "rows: [1]")
    text = text.replace("  load:", "  notify: {task: rota.echo}\n  store:") + "failFast: true\n"
    done = rota.json("workflow", "apply", write(text), "--dry-run")
    assert done["becomes"] == "change"
    assert done["changes"] == [
        {"what": "failFast", "change": "added", "fields": []},
        {"what": "nodes.extract", "change": "changed", "fields": ["payload"]},
        {"what": "nodes.load", "change": "removed", "fields": []},
        {"what": "nodes.notify", "change": "added", "fields": []},
        {"what": "nodes.store", "change": "added", "fields": []},
    ]
    assert rota.json("workflow", "show", applied)["revision"] == 1


@pytest.mark.parametrize("kind", ["json", "toml"])
def test_other_forms_say_the_same(rota, write, kind):
    content = {
        "json": '{"name": "form json", "nodes":\t{"a": {"task": "rota.echo", "payload": {"n": 1}}}}',
        "toml": 'name = "form toml"\n[nodes.a]\ntask = "rota.echo"\npayload = {n = 1}\n',
    }[kind]
    assert rota.in_process("workflow", "apply", write(content, f"pipeline.{kind}")).code == 0
    shown = rota.json("workflow", "show", f"form {kind}")
    assert shown["nodes"] == {"a": {"task": "rota.echo", "payload": {"n": 1}}}


@pytest.mark.parametrize(
    ("content", "name", "words"),
    [
        ("name: x\nnodes:\n  a: {task: t}\n  a: {task: u}\n", "x.yaml", "FILE: line 4: 'a' is given twice"),
        ('{"name": "x",\n "nodes": {"a": {"task": "t"},\n "a": {}}}', "x.json", "FILE: line 3: 'a' is given twice"),
        ("name: x\nnodes:\n  1: {task: t}\n", "x.yaml", "FILE: line 3: the key '1' is not text; put it in quotes"),
        ("name: x\nnodes: [\n", "x.yaml", "is not valid YAML (line 3)"),
        ("{", "x.json", "is not valid JSON"),
        ("a = 1\na = 2\n", "x.toml", "is not valid TOML"),
        ("- x\n", "x.yaml", "must hold one workflow"),
        ("name: x\nnodes: {a: {tusk: t}}\n", "x.yaml", "tusk"),
        ("name: x\nnodes: {a: {task: t, after: [b]}}\n", "x.yaml", "nodes.a.after: names 'b', which is no node"),
    ],
)
def test_what_is_wrong_with_a_file_is_said_with_its_place(rota, write, content, name, words):
    for more in ((), ("--dry-run",)):
        done = rota.in_process("workflow", "apply", write(content, name), *more)
        assert done.code == 2
        assert words in done.err


def test_words_of_yaml_that_look_like_other_types_stay_text(rota, write):
    text = "name: types\nnodes: {a: {task: rota.echo, payload: {on: no, day: 2027-01-31, at: 12:30:00, yes: true}}}\n"
    assert rota.in_process("workflow", "apply", write(text)).code == 0
    payload = rota.json("workflow", "show", "types")["nodes"]["a"]["payload"]
    assert payload == {"on": "no", "day": "2027-01-31", "at": "12:30:00", "yes": True}


def test_a_run_is_started_with_inputs_and_shown_as_a_table(rota, applied):
    done = rota.in_process("workflow", "run", applied, "--input", "day=2028", "--input", "count=5", "--wait")
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    assert f"of {applied} is success" in lines[0]
    assert lines[1].split()[:3] == ["NODE", "STATUS", "MEMBERS"]
    assert [line.split()[:2] for line in lines[2:]] == [
        ["extract", "success"],
        ["clean", "success"],
        ["load", "success"],
    ]
    assert "3/3" in lines[3]
    assert lines[4].startswith("    load")
    run = rota.json("workflow", "runs", applied)["items"][0]["workflowRunId"]
    shown = rota.json("workflow", "show", run)
    load = rota.ask(f"/v1/runs/{shown['nodes']['load']['runId']}")
    assert load["payload"]["day"] == "2028"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--input", "day"], "--input: 'day' is not name=value"),
        (["--input", "count=x"], "--input: count must be of type integer"),
        (["--input", "a=1", "--input", "a=2"], "--input: a is given twice"),
        (["--input", "colour=red"], "is no input of this workflow"),
        (["--timeout", "5s"], "--timeout: needs --wait"),
        (["--inputs", "[]"], "--inputs: must be a JSON object"),
    ],
)
def test_inputs_that_can_not_be_are_refused(rota, applied, options, words):
    done = rota.in_process("workflow", "run", applied, *options)
    assert done.code == 2
    assert words in done.err


def test_a_failure_is_shown_with_its_culprit_and_resumed(rota, write):
    rota.in_process("workflow", "apply", write(BROKEN.format(name="broken")))
    done = rota.in_process("workflow", "run", "broken", "--wait")
    assert done.code == 1
    assert "first failed first" in done.out
    assert "first failed" in next(line for line in done.out.splitlines() if "second" in line and "skipped" in line)
    resumed = rota.json("workflow", "resume", "broken", "--generation", "1")
    assert resumed["generation"] == 2
    late = rota.in_process("workflow", "resume", "broken", "--generation", "1")
    assert late.code == 2
    assert "generation 2" in late.err


def test_a_run_is_cancelled_by_its_workflows_name(rota, write):
    rota.in_process("workflow", "apply", write("name: endless\nnodes: {a: {task: rota.echo, pool: unserved}}\n"))
    rota.in_process("workflow", "run", "endless")
    done = rota.in_process("workflow", "cancel", "endless")
    assert done.code == 0
    assert "cancel" in done.out


def test_a_key_starts_one_run(rota, applied):
    started = [rota.json("workflow", "run", applied, "--key", f"k {applied}")["workflowRunId"] for _ in range(2)]
    assert started[0] == started[1]


def test_workflows_are_listed_and_deleted(rota, applied):
    assert applied in rota.in_process("workflow", "list").out
    assert rota.json("workflow", "versions", applied)["items"][0]["number"] == 1
    assert rota.in_process("workflow", "delete", applied).out == f"{applied} is deleted\n"
    gone = rota.in_process("workflow", "show", applied)
    assert gone.code == 2
    assert gone.err == "error: there is no such workflow\n"


def test_a_workflow_that_has_not_run_has_no_run_to_show(rota, applied):
    done = rota.in_process("workflow", "cancel", applied)
    assert done.code == 2
    assert "has not run yet" in done.err


def test_json_that_is_shown_can_be_read(rota, applied):
    assert json.loads(rota.in_process("workflow", "show", applied, "--json").out)["name"] == applied


APPROVED = """\
name: {name}
nodes:
  go: {{wait: {{signal: go}}}}
  approval: {{wait: {{approval: true}}, after: [go]}}
  end: {{task: rota.echo, payload: {{by: {{$from: go, path: by}}}}, after: [approval]}}
"""


@pytest.fixture
def approved(rota, write):
    """A run that waits for a signal, then for an approval."""
    name = f"approved-{uuid4().hex[:8]}"
    rota.in_process("workflow", "apply", write(APPROVED.format(name=name)))
    return name, rota.json("workflow", "run", name)["workflowRunId"]


def node_of(rota, run, key):
    return rota.json("workflow", "show", run)["nodes"][key]


def test_a_signal_and_an_approval_let_a_run_go_on(rota, approved):
    name, run = approved
    sent = rota.in_process("workflow", "signal", name, "go", "--payload", '{"by": "ada"}')
    assert sent.out == f"{run} got the signal go\n"
    wait_until(lambda: "startTime" in node_of(rota, run, "approval"))
    shown = rota.in_process("workflow", "show", run).out
    assert "for approval (all who may approve)" in shown
    assert "after approval (" in shown
    assert rota.in_process("workflow", "show", name).out.count("waits for") == 2
    done = rota.in_process("workflow", "approve", run, "approval", "--comment", "fine")
    assert done.out == f"approval of {run} is approved\n"
    wait_until(lambda: rota.json("workflow", "show", run)["status"] == "success")
    again = rota.in_process("workflow", "approve", run, "approval")
    assert again.code == 2


def test_a_rejection_fails_the_run(rota, approved):
    name, run = approved
    rota.in_process("workflow", "signal", run, "go", "--payload", '{"by": "ada"}')
    wait_until(lambda: "startTime" in node_of(rota, run, "approval"))
    assert rota.in_process("workflow", "reject", name, "approval").code == 0
    wait_until(lambda: rota.json("workflow", "show", run)["status"] == "failed")


def test_a_signal_brings_json(rota, approved):
    refused = rota.in_process("workflow", "signal", approved[1], "go", "--payload", "ada")
    assert refused.code == 2
    assert "--payload: is not valid JSON" in refused.err


def test_a_paused_workflow_starts_no_nodes_until_it_goes_on(rota, applied):
    assert rota.in_process("workflow", "pause", applied).out == f"{applied} is paused\n"
    assert rota.json("workflow", "show", applied)["status"] == "paused"
    assert rota.in_process("workflow", "unpause", applied).out == f"{applied} goes on\n"
    assert rota.in_process("workflow", "run", applied, "--wait").code == 0


def test_members_that_failed_are_listed_and_run_again(rota, write):
    text = "name: members\nnodes: {m: {task: rota.fail, maxRetries: 0, map: {items: [1, 2, 3], tolerateFailures: 3}}}\n"
    rota.in_process("workflow", "apply", write(text))
    done = rota.in_process("workflow", "run", "members", "--wait")
    assert done.code == 0, done.err
    assert "3/3 (3 failed)" in done.out
    members = rota.json("workflow", "members", "members", "m", "--status", "failed")["items"]
    assert [member["index"] for member in members] == [0, 1, 2]
    assert members[0]["runId"] in rota.in_process("workflow", "members", "members", "m").out
    resumed = rota.json("workflow", "resume", "members", "--node", "m", "--item", "1")
    assert resumed["generation"] == 2
    wait_until(lambda: rota.json("workflow", "show", resumed["workflowRunId"])["status"] == "success")


def test_a_dry_run_shows_a_changed_schedule(rota, write):
    text = "name: scheduled\nschedule: {cronExpression: 0 2 * * *}\nnodes: {a: {task: rota.echo}}\n"
    assert rota.in_process("workflow", "apply", write(text)).code == 0
    assert rota.json("workflow", "apply", write(text), "--dry-run")["becomes"] == "no change"
    later = rota.json("workflow", "apply", write(text.replace("0 2", "0 3")), "--dry-run")
    assert later["changes"] == [{"what": "schedule", "change": "changed", "fields": ["cronExpression"]}]
    rota.in_process("workflow", "delete", "scheduled")
