"""Completion in a real bash: commands and options, values from the server, and silence when it is not there."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from listening import TOKEN, listening
from rota.cli.terminal.completion import (
    complete_job,
    complete_job_name,
    complete_job_or_run,
    complete_pool,
    complete_run,
    complete_task,
)
from support import job

BIN = Path(sys.executable).parent


def completions(words, environment):
    """What bash offers for the last of these words, by the script that `rota --show-completion bash` prints."""
    ours = environment | {"PATH": f"{BIN}:{os.environ['PATH']}", "HOME": os.environ.get("HOME", "/")}
    script = f"""
eval "$(rota --show-completion bash)"
COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
_rota_completion rota
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    done = subprocess.run(["bash", "-c", script], env=ours, capture_output=True, text=True, timeout=60, check=True)
    assert done.stderr == ""
    return [line for line in done.stdout.splitlines() if line]


@pytest.fixture
async def environment(api, tmp_path, monkeypatch):
    async with listening(api.services) as server:
        ours = {"ROTA_URL": server.url, "ROTA_TOKEN": TOKEN, "ROTA_HOME": str(tmp_path)}
        for name, value in ours.items():
            monkeypatch.setenv(name, value)
        yield ours


async def test_bash_completes_commands_and_choices(environment):
    assert await asyncio.to_thread(completions, "rota sub", environment) == ["submit"]
    assert await asyncio.to_thread(completions, "rota submit x --priority h", environment) == ["high"]


async def test_values_come_from_the_server(api, environment):
    made = (await api.post("/v1/jobs", json=job(name="nightly"))).json()
    await api.put("/v1/pools/mail", json={"mostWaiting": 5})

    async def ask(complete, incomplete):
        return [value for value, _ in await asyncio.to_thread(complete, incomplete)]

    assert await ask(complete_job, "job_") == [made["jobId"]]
    assert await ask(complete_job, "job_x") == []
    assert await ask(complete_run, "run_") == [made["runId"]]
    assert await ask(complete_job_or_run, "") == [made["runId"], made["jobId"]]
    assert await ask(complete_pool, "ma") == ["mail"]
    assert await ask(complete_task, "") == []


@pytest.mark.parametrize(
    "fault", [{"ROTA_URL": "http://127.0.0.1:9"}, {"ROTA_TOKEN": "wrong"}, {"ROTA_URL": "nonsense"}, {"ROTA_PORT": "x"}]
)
def test_a_server_that_can_not_be_asked_completes_nothing_and_says_nothing(monkeypatch, tmp_path, capfd, fault):
    monkeypatch.setenv("ROTA_HOME", str(tmp_path))
    for name, value in fault.items():
        monkeypatch.setenv(name, value)
    assert complete_job("") == complete_task("") == []
    assert capfd.readouterr() == ("", "")


async def test_what_a_shell_would_read_something_into_is_not_offered(api, environment):
    for name in ("nightly;>ran", "nightly$(date)", "nightly\\x", "nightly report", "night`ly", "nightly-1.2"):
        await api.post("/v1/jobs", json=job(name=name))
    names = [value for value, _ in await asyncio.to_thread(complete_job_name, "night")]
    assert names == ["nightly-1.2"]
    beside = [words for _, words in await asyncio.to_thread(complete_job, "job_")]
    assert "nightly?date? queued" in [words.replace("??", "?") for words in beside]
    assert not any(letter in words for words in beside for letter in ";>$()`\\")


async def test_statuses_are_completed(environment):
    assert await asyncio.to_thread(completions, "rota runs --status ret", environment) == ["retrying"]
    assert await asyncio.to_thread(completions, "rota jobs --status pau", environment) == ["paused"]
