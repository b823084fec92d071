"""Scripts: what they are given, what they may leave behind, and that nothing leads out of their directory."""

from __future__ import annotations

import asyncio
import json
import time
from uuid import uuid4

import pytest

from rota.domain.run import Claim
from rota.task.context import Context, Final
from rota.worker.runners.command import CommandError
from rota.worker.runners.guarded_process import Subprocesses
from rota.worker.runners.script import ScriptRunner, find_script
from rota.worker.runners.shell import ShellRunner
from support import eventually, in_time


@pytest.fixture
def context():
    now = time.time()
    return Context(Claim("default", uuid4(), uuid4(), 1, "script", 0, None, None, "{}", None, now, now, 0, 0))


@pytest.fixture
def script(tmp_path):
    def make(name, text):
        path = tmp_path / name
        path.write_text(text)
        path.chmod(0o755)
        return name

    return make


def _runner(directory, *, grace_seconds=10.0):
    return ScriptRunner(directory, Subprocesses(), grace_seconds=grace_seconds)


async def test_parameters_come_on_standard_input_and_in_the_environment(tmp_path, script, context):
    name = script(
        "echo.py",
        "import json, os, sys\n"
        "print(json.dumps([json.load(sys.stdin), json.loads(os.environ['ROTA_PARAMS']), os.environ['ROTA_RUN_ID']]))",
    )
    parameters = {"days": 30, "größe": "мир"}
    result = await _runner(tmp_path).run("script", {"script": name, "params": parameters}, context)
    assert result["exitCode"] == 0
    assert json.loads(result["stdout"]) == [parameters, parameters, context.run_id]


async def test_secrets_of_the_worker_do_not_reach_a_script(tmp_path, script, context, monkeypatch):
    monkeypatch.setenv("ROTA_TOKEN", "tell-nobody")
    monkeypatch.setenv("ROTA_DATABASE_URL", "postgresql://tell-nobody")
    result = await _runner(tmp_path).run("script", {"script": script("env.sh", "#!/bin/sh\nenv\n")}, context)
    assert "tell-nobody" not in result["stdout"]


async def test_the_exit_code_decides_and_what_was_said_is_in_the_error(tmp_path, script, context):
    name = script("bad.sh", "#!/bin/sh\necho no such table >&2\nexit 3\n")
    with pytest.raises(CommandError, match="exit code 3: no such table"):
        await _runner(tmp_path).run("script", {"script": name}, context)


@pytest.mark.parametrize(
    "name", ["../out.py", "/etc/passwd", "a/../../out.py", "", None, 7, "a\x00b", ".", "link/x.py"]
)
def test_a_name_that_leads_out_of_the_directory_is_refused(tmp_path, name):
    (tmp_path / "out.py").write_text("")
    scripts = tmp_path / "scripts"
    scripts.mkdir()
    (scripts / "link").symlink_to(tmp_path)
    (tmp_path / "x.py").write_text("")
    with pytest.raises(Final):
        find_script(scripts, name)


@pytest.mark.parametrize("name", ["gone.py", "x" * 300, "loop.py", "plain.sh"])
async def test_a_script_that_is_not_there_or_can_not_be_run_fails_for_good(tmp_path, context, name):
    (tmp_path / "loop.py").symlink_to(tmp_path / "loop.py")
    (tmp_path / "plain.sh").write_text("echo")
    with pytest.raises(Final):
        await _runner(tmp_path).run("script", {"script": name}, context)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("#!/no/such/shell\n", "broken.sh could not be started: No such file or directory; it, or the program in its"),
        ("echo hello\n", "broken.sh could not be started: Exec format error; it is no program"),
        ("", "broken.sh could not be started: Exec format error; it is no program"),
        ("#!/etc\n", "broken.sh could not be started: Permission denied; it, or the program in its first line"),
    ],
)
async def test_a_script_that_the_system_can_not_start_fails_for_good_and_says_why(
    tmp_path, script, context, monkeypatch, text, words
):
    said = []
    monkeypatch.setattr(Context, "write", lambda _context, *line: said.append(line))
    with pytest.raises(Final) as failed:
        await _runner(tmp_path).run("script", {"script": script("broken.sh", text)}, context)
    assert str(failed.value).startswith(words)
    assert said == [("stderr", str(failed.value))]


async def test_a_script_that_is_removed_just_before_its_start_fails_for_good(tmp_path, script, context, monkeypatch):
    name = script("gone.sh", "#!/bin/sh\n")
    monkeypatch.setattr(Context, "begin", lambda _context: (tmp_path / name).unlink())
    with pytest.raises(Final, match=r"gone\.sh could not be started: No such file"):
        await _runner(tmp_path).run("script", {"script": name}, context)


async def test_a_shell_that_is_missing_is_tried_again(context):
    with pytest.raises(CommandError, match="`true` could not be started: No such file"):
        await ShellRunner(Subprocesses(), grace_seconds=1).run(
            "shell", {"command": {"run": "true", "shell": "/no/such/shell"}}, context
        )


async def test_a_script_tells_its_progress_in_lines_that_are_not_part_of_its_output(tmp_path, script, context):
    name = script(
        "steps.sh", "#!/bin/sh\necho begin\necho '::rota progress 50 half way' >&2\necho '::rota progress x'\n"
    )
    result = await _runner(tmp_path).run("script", {"script": name}, context)
    assert (result["stdout"], result["stderr"]) == ("begin\n::rota progress x\n", "")
    assert context.take_said() == (0.5, "half way", None)


async def test_the_progress_of_a_running_command_is_shown_without_secrets(engine):
    command = "echo before; echo '::rota progress 25% with tell-nobody'; echo after; sleep 600"
    runner = ShellRunner(Subprocesses(), grace_seconds=0.1)
    worker = engine.worker(runners={"shell": runner}, secrets={"API_KEY": "tell-nobody"})
    async with engine.running(worker):
        run_id = await engine.submit(task="shell", payload={"command": command})

        async def told():
            run = await engine.run(run_id)
            return run if run["progress"] else None

        run = await eventually(told)
        assert (run["progress"], run["progressMessage"]) == ("25%", "with ***")

        async def logged():
            lines = (await engine.api.get(f"/v1/runs/{run_id}/logs")).text.splitlines()
            return [line.split(" ", 2)[2] for line in lines] if len(lines) > 1 else None

        assert await eventually(logged) == ["before", "after"]
        await engine.api.post(f"/v1/runs/{run_id}/cancel")
        await engine.until(run_id, "cancelled")


async def test_a_script_is_over_when_it_ends_whatever_it_left_in_the_background(tmp_path, script, context):
    name = script("background.sh", "#!/bin/sh\nsleep 20 &\necho done\n")
    result = await in_time(_runner(tmp_path).run("script", {"script": name}, context))
    assert result["stdout"] == "done\n"


async def test_a_cancelled_script_is_over_even_if_a_child_of_it_got_away(tmp_path, script, context):
    name = script("escape.sh", "#!/bin/sh\nsetsid sleep 15 &\nsleep 15\n")
    running = asyncio.create_task(_runner(tmp_path, grace_seconds=0.5).run("script", {"script": name}, context))
    await asyncio.sleep(0.3)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await in_time(running)


async def test_a_script_that_says_more_than_anybody_reads_does_not_block(tmp_path, script, context):
    name = script("loud.py", "print('x' * 5_000_000)\nprint('end')")
    result = await _runner(tmp_path).run("script", {"script": name}, context)
    assert result["stdout"].endswith("end\n")
    assert len(result["stdout"]) <= 4 * 1024
