"""What a job runs can't read the secrets of Rota's processes in /proc."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import httpx
import pytest

from rota.secret_environment import separate
from support import eventually, free_port

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")

SECRETS = {
    "ROTA_TOKEN": "t0ken-of-the-admin-5f1c",
    "ROTA_JWT_SECRET": "jwt-secret-of-at-least-thirty-two-bytes-77aa",
    "ROTA_SECRET_STRIPE": "sk_live_of_the_tasks_9b3e",
    "PGPASSWORD": "pg-passw0rd-3d2f",
    "AWS_SECRET_ACCESS_KEY": "aws-secret-8c41",
}
# Looks at the processes of one home, as far as it can.
LOOK = """
import glob, json

HOME, SECRETS = {home!r}, {secrets!r}


def look():
    seen, found, memory = [], {{}}, []
    for place in glob.glob("/proc/[0-9]*"):
        try:
            command = open(place + "/cmdline").read().split("\\0")
            if not {{HOME, HOME + "/postgres/data"}} & set(command):
                continue
            seen.append(" ".join(command)[:200])
            environment = open(place + "/environ").read()
            hits = [name for name, value in SECRETS.items() if value in environment]
            if hits:
                found[seen[-1]] = hits
            open(place + "/mem").close()
            memory.append(seen[-1])
        except OSError:
            continue
    return {{"seen": seen, "found": found, "memory": memory}}


if __name__ == "__main__":
    print(json.dumps(look()))
"""
APP = """
import os
import look
import rota

app = rota.App()


@app.task(name="look_isolated", isolation="process")
def look_isolated() -> dict:
    given = [name for name in ("ROTA_TOKEN", "ROTA_JWT_SECRET", "PGPASSWORD") if name in os.environ]
    return look.look() | {"given": given}


@app.task(name="use")
def use() -> dict[str, int]:
    return {name: len(os.environ.get(name, "")) for name in look.SECRETS}
"""


class Up:
    """`rota up` on a home of its own."""

    def __init__(self, home, port):
        self.home = home
        self._port = port

    async def result_of(self, task, **payload):
        headers = {"Authorization": f"Bearer {SECRETS['ROTA_TOKEN']}"}
        url = f"http://127.0.0.1:{self._port}"
        body = {"name": "look", "scheduleType": "immediate", "task": task, "payload": payload}
        async with httpx.AsyncClient(base_url=url, headers=headers, timeout=60) as client:

            async def submit():
                try:
                    answer = await client.post("/v1/jobs", json=body)
                except httpx.TransportError:
                    return None  # it is starting
                assert answer.status_code == 201, answer.text
                return answer.json()["runId"]

            run_id = await eventually(submit, within=90, every=0.5)

            async def ended():
                run = (await client.get(f"/v1/runs/{run_id}")).json()
                return run if run["status"] in ("success", "failed") else None

            run = await eventually(ended, within=60)
        assert run["status"] == "success", (run, (self.home / "said").read_text())
        return run["result"]


@pytest.fixture(scope="module")
def up(tmp_path_factory):
    home = tmp_path_factory.mktemp("h") / "rota"
    (home / "scripts").mkdir(parents=True)
    for place in (home, home / "scripts"):
        (place / "look.py").write_text(LOOK.format(home=str(home), secrets=SECRETS))
    (home / "tasks.py").write_text(APP)
    port = free_port()
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ROTA_")}
    settings = {"ROTA_PORT": str(port), "ROTA_ALLOW_SHELL": "on", "PYTHONPATH": str(home)}
    command = [sys.executable, "-m", "rota.cli.main", "up", "--workers", "1", "--app", "tasks:app", "--home", str(home)]
    with (home / "said").open("wb") as said:
        process = subprocess.Popen(command, env=kept | SECRETS | settings, stdout=said, stderr=said, cwd=home)
    yield Up(home, port)
    process.terminate()
    process.wait(60)


def check(looked):
    """It looked at the supervisor, the server, the worker and PostgreSQL."""
    assert looked["found"] == {}
    assert len(looked["seen"]) >= 4
    if os.geteuid() != 0:
        assert looked["memory"] == [], "root can read all memory, others none of ours"


async def test_a_script_finds_none(up):
    check(json.loads((await up.result_of("script", script="look.py"))["stdout"]))


async def test_a_shell_command_finds_none(up):
    command = f"{sys.executable} {up.home}/look.py"
    check(json.loads((await up.result_of("shell", command=command))["stdout"]))


async def test_an_isolated_function_finds_none_and_is_given_none(up):
    looked = await up.result_of("look_isolated")
    check(looked)
    assert looked["given"] == []


async def test_functions_of_the_worker_find_their_variables_but_not_what_only_the_server_needs(up):
    lengths = {name: len(value) for name, value in SECRETS.items()}
    assert await up.result_of("use") == lengths | {"ROTA_JWT_SECRET": 0}


GUARD = """
import ctypes, os, subprocess, sys
from rota.secret_environment import guard_secrets
libc = ctypes.CDLL(None)
libc.getenv.restype = ctypes.c_char_p
if os.geteuid() == 0 and sys.argv[1] == "unprivileged":
    os.setuid(65534)
    libc.prctl(4, 1)  # setuid forbids what a process that was started so would allow
READ = ["cat", f"/proc/{os.getpid()}/environ", f"/proc/{os.getpid()}/task/{os.getpid()}/environ"]
before = subprocess.run(READ, capture_output=True)
guard_secrets()
after = subprocess.run(READ, capture_output=True)
print(before.returncode, b"p-12345" in before.stdout, after.returncode, b"p-12345" in after.stdout)
print(os.environ["PGPASSWORD"], libc.getenv(b"PGPASSWORD").decode(), b"kept" in open("/proc/self/cmdline", "rb").read())
print(subprocess.run(["printenv", "PGPASSWORD", "PLAIN"], capture_output=True, text=True).stdout.split())
"""


def guarded(how, environment, **given):
    done = subprocess.run(
        [sys.executable, "-c", GUARD, how, "kept"], env=environment, capture_output=True, check=True, **given
    )
    return done.stdout.decode().splitlines()


def test_what_a_process_was_started_with_is_overwritten_and_still_usable():
    lines = guarded("as we are", os.environ | {"PGPASSWORD": "p-12345", "PLAIN": "shown"})
    assert lines[0].startswith("0 True ")
    assert lines[0].endswith(" False")
    assert lines[1:] == ["p-12345 p-12345 True", "['p-12345', 'shown']"]


def test_other_processes_of_an_ordinary_account_can_not_look_at_it_at_all():
    lines = guarded("unprivileged", os.environ | {"PGPASSWORD": "p-12345", "PLAIN": "shown"})
    assert lines[0] == "0 True 1 False"


@pytest.mark.parametrize("value", ["p-12345", "p-12345\nsecond line", "p-12345\udcff", "p-12345" * 20_000])
def test_a_supervisor_hands_secrets_over_without_the_environment(value):
    environment, sent = separate(os.environ | {"PGPASSWORD": value, "ROTA_HOME": "/somewhere"})
    assert "PGPASSWORD" not in environment
    assert environment["ROTA_HOME"] == "/somewhere"
    program = "import os; from rota.secret_environment import guard_secrets; guard_secrets(); import sys; \
sys.stdout.buffer.write(os.environb[b'PGPASSWORD'])"
    done = subprocess.run([sys.executable, "-c", program], env=environment, input=sent, capture_output=True, check=True)
    assert done.stdout == os.fsencode(value)


def test_a_child_whose_supervisor_dies_while_it_sends_ends_in_words():
    environment, sent = separate(os.environ | {"PGPASSWORD": "p-12345"})
    program = "from rota.secret_environment import guard_secrets; guard_secrets()"
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, input=sent[:-1], capture_output=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr.strip() == b"the supervisor ended before it sent the settings"
