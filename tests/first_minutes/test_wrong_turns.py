"""Wrong turns of the first minutes: each is told in a line or two that say what happened and what to do."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

import commands
from rota.cli.process_start import _announce
from rota.sdk.app_loader import load_apps
from rota.settings import Settings

ROOT = Path(__file__).parents[2]
UNPRIVILEGED = 65534


def words_of(done):
    """The words of an error, whatever the width of the terminal."""
    assert len(done.err.strip().splitlines()) <= 2, done.err
    return " ".join(done.said.split())


def test_submitting_before_anything_runs_names_the_command_that_starts_it(newcomer):
    done = newcomer("submit", "hello", "--task", "rota.echo")
    assert done.code == 1
    assert "Start one with `rota up`" in words_of(done)


def test_a_mistyped_task_is_accepted_with_a_warning_that_names_the_right_one(up):
    done = up.in_process("submit", "hello", "--task", "tasks.gret", "--in", "1h")
    assert done.code == 0
    assert "no live worker knows task tasks.gret; did you mean tasks.greet?" in done.err


def test_a_task_that_nobody_knows_is_told_with_those_that_are_known(up):
    done = up.in_process("submit", "hello", "--task", "send_invoice", "--cron", "0 9 1 1 *")
    assert done.code == 0
    assert "(they know tasks.greet, tasks.stumble)" in done.err


def test_the_warning_is_not_part_of_the_output_for_programs(up):
    done = up.in_process("submit", "hello", "--task", "tasks.gret", "--in", "1h", "--json")
    assert done.json["status"] == "scheduled"
    assert "did you mean" in done.err


def test_a_pool_without_a_worker_is_told(up):
    done = up.in_process("submit", "hello", "--task", "rota.echo", "--pool", "mail", "--in", "1h")
    assert "serves pool mail (they serve default)" in done.err


def test_a_task_that_is_known_is_submitted_without_a_word_of_warning(up):
    done = up.in_process("submit", "hello", "--task", "tasks.greet", "--payload", '{"name": "Ada"}', "--in", "1h")
    assert (done.code, done.err) == (0, "")


def test_why_names_the_task_that_was_meant(up):
    run = up.in_process("submit", "hello", "--task", "tasks.grete", "--json").json["runId"]
    done = up.in_process("why", run)
    assert "no live worker knows task tasks.grete; did you mean tasks.greet?" in done.out
    up.in_process("cancel", run)


@pytest.mark.parametrize(
    ("payload", "code", "words"),
    [
        ('{"nam": "Ada"}', 2, "payload.name: required, but missing"),
        ('{"name": 3}', 2, "payload.name: "),
        ('{"name": "Ada"', 2, "--payload: is not valid JSON"),
    ],
)
def test_a_payload_that_does_not_fit_is_told(up, payload, code, words):
    done = up.in_process("submit", "hello", "--task", "tasks.greet", "--payload", payload, "--wait")
    assert done.code == code
    assert words in " ".join(done.said.split())


@pytest.mark.parametrize(
    ("expression", "words"), [("61 * * * *", "61"), ("* * * *", "fields"), ("0 9 * * MOM", "MOM"), ("@dayly", "@daily")]
)
def test_a_typo_in_a_cron_expression_is_told(up, expression, words):
    done = up.in_process("submit", "hello", "--task", "rota.echo", "--cron", expression)
    assert done.code == 2
    assert "--cron: " in done.err
    assert words in words_of(done)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("sumbit", "x"), "Did you mean 'submit'?"),
        (("submit", "x", "--taks", "rota.echo"), "--task"),
        (("submit",), "give the job a name"),
    ],
)
def test_a_typo_in_a_command_or_an_option_is_told_with_what_was_meant(newcomer, arguments, words):
    done = newcomer.in_process(*arguments)
    assert done.code == 2
    assert words in done.said


@pytest.mark.parametrize(
    ("files", "app", "words"),
    [
        ({}, "taks:app", "there is no module 'taks'"),
        ({"taskss.py": ""}, "tasks:app", "there is no module 'tasks'"),
        (
            {"tasks.py": "def broken(:\n"},
            "tasks:app",
            "SyntaxError: invalid syntax ({}/tasks.py, line 1: def broken(:)",
        ),
        ({"tasks.py": "x = 1\n"}, "tasks:app", "it needs a line such as `app = rota.App()`"),
        ({"tasks.py": "import rota\nmine = rota.App()\n"}, "tasks:app", "it has mine"),
        ({"tasks.py": "\n\n1 / 0\n"}, "tasks:app", "division by zero ({}/tasks.py, line 3: 1 / 0)"),
        (
            {"tasks.py": "import no_such_library\n"},
            "tasks:app",
            "needs 'no_such_library', which is not installed ({}/tasks.py, line 1: import no_such_library)",
        ),
        (
            {"tasks.py": "import os\n\nkey = os.environ['SHOP_KEY']\n"},
            "tasks:app",
            "KeyError: 'SHOP_KEY' ({}/tasks.py, line 3: key = os.environ['SHOP_KEY'])",
        ),
        (
            {"tasks.py": "import helper\n", "helper.py": "import json\n\njson.loads('oops')\n"},
            "tasks:app",
            "({}/helper.py, line 3: json.loads('oops'))",
        ),
        (
            {"tasks.py": "import rota\n\napp = rota.App('shop')\napp.cron('61 * * * *')(app.task(print))\n"},
            "tasks:app",
            "{}/tasks.py, line 4: ",
        ),
    ],
)
def test_an_application_that_can_not_be_loaded_is_told_before_anything_starts(newcomer, tmp_path, files, app, words):
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    done = newcomer("up", "--app", app, cwd=tmp_path)
    assert done.code == 2
    assert words.format(tmp_path) in words_of(done)
    assert not newcomer.rota_home.exists()


SIDE_BY_SIDE = {
    "shop.py": "import rota\napp = rota.App('shop')\n@app.task\ndef sell(): ...\n",
    "again.py": "from shop import app\n",
    "clash.py": "import rota\napp = rota.App('clash')\n@app.task(name='shop.sell')\ndef sell(): ...\n",
    "other.py": "import rota\napp = rota.App('shop')\n@app.task\ndef buy(): ...\n",
}


@pytest.mark.parametrize(
    ("second", "words"),
    [
        ("clash:app", "shop:app and clash:app both have a task called 'shop.sell'"),
        ("other:app", "shop:app and other:app are both called 'shop'"),
    ],
)
@pytest.mark.parametrize("command", ["up", "worker"])
def test_two_applications_that_would_get_in_each_others_way_are_refused(newcomer, tmp_path, command, second, words):
    for name, text in SIDE_BY_SIDE.items():
        (tmp_path / name).write_text(text)
    done = newcomer(command, "--app", "shop:app", "--app", second, cwd=tmp_path)
    assert done.code == 2
    assert words in words_of(done)


def test_an_application_that_is_named_twice_is_one(tmp_path, monkeypatch):
    for name, text in SIDE_BY_SIDE.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    try:
        assert [app.name for app in load_apps(["shop:app", "shop:app", "again:app"])] == ["shop"]
    finally:
        for name in ("shop", "again"):
            sys.modules.pop(name, None)


# The commands as another account, all of whose modules are loaded before it loses the way to them.
AS_ANOTHER = """
import os
import rota.cli.main, rota.cli.process_start, rota.api.server, rota.secret_environment
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
rota.cli.main.main()
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
@pytest.mark.parametrize("command", ["up", "api", "scheduler", "worker", "migrate", "database-url"])
def test_the_home_of_another_account_is_told(newcomer, short_path, command):
    home = short_path / "theirs"
    (home / "postgres" / "data").mkdir(parents=True)
    home.chmod(0o700)
    environment = newcomer.environment | {"ROTA_HOME": str(home)}
    arguments = [sys.executable, "-c", AS_ANOTHER, command]
    done = subprocess.run(arguments, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    assert f"{home} can't be used as Rota's home: it belongs to another account" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_port_that_another_rota_has_is_told_with_who_it_is(up, newcomer):
    done = newcomer("up", "--port", str(up.port))
    assert done.code == 2
    said = " ".join(done.said.split())
    # Only root sees which process of Rota it is: they show nothing of themselves to others.
    process = r" \(\w[^)]*, pid \d+\)" if os.geteuid() == 0 else ""
    assert re.search(rf"Port {up.port} on 127.0.0.1 can't be used: another Rota server{process} has it", said)
    assert "--port N" in said


def test_a_port_that_another_program_has_is_told_with_who_it_is(newcomer, other_program):
    done = newcomer("up", "--port", str(other_program))
    assert done.code == 2
    assert "another program (" in words_of(done)
    assert f"pid {os.getpid()}" in words_of(done)


def test_another_program_at_the_servers_address_is_told(newcomer, other_program):
    done = newcomer.in_process("jobs", ROTA_PORT=str(other_program))
    assert done.code == 1
    assert "is not a Rota server" in words_of(done)


def test_a_program_that_never_answers_does_not_hold_up_the_start(newcomer):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        done = newcomer("up", "--port", str(silent.getsockname()[1]))
    assert done.code == 2
    assert "another program" in words_of(done)


def test_a_file_in_the_place_of_the_home_is_told(newcomer):
    (newcomer.home / ".rota").touch()
    done = newcomer("up")
    assert done.code == 2
    assert "can't be used as Rota's home" in words_of(done)
    assert "--home" in done.err


AS_SOMEBODY_ELSE = f"""
import os, sys
import rota.cli.process_start  # while the code can still be read
from rota.cli.main import main
os.setgid({UNPRIVILEGED})
os.setuid({UNPRIVILEGED})
sys.argv = ["rota", "up"]
main()
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_a_home_without_write_permission_is_told(newcomer):
    environment = newcomer.environment | {"ROTA_DATABASE_URL": "postgresql:///never_reached"}
    command = [sys.executable, "-c", AS_SOMEBODY_ELSE]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, cwd="/")
    assert done.returncode == 2, done.stderr
    assert "can't be used as Rota's home: [Errno 13] Permission denied" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_token_that_is_wrong_missing_or_of_another_home_is_told(up, newcomer):
    wrong = newcomer.in_process("jobs", ROTA_PORT=str(up.port), ROTA_TOKEN="nonsense")  # noqa: S106 - none
    assert "does not accept the token in ROTA_TOKEN" in words_of(wrong)
    missing = newcomer.in_process("jobs", ROTA_PORT=str(up.port))
    assert f"{newcomer.home}/.rota/admin.token can't be read" in words_of(missing)
    (newcomer.home / ".rota").mkdir()
    (newcomer.home / ".rota" / "admin.token").write_text("of-another-home\n")
    other = newcomer.in_process("jobs", ROTA_PORT=str(up.port))
    assert "does not accept the token in" in words_of(other)
    assert "Set ROTA_HOME" in words_of(other)
    assert {wrong.code, missing.code, other.code} == {1}


def test_a_second_up_on_the_same_home_is_told(up, free_port):
    done = up("up", "--port", str(free_port()))
    assert done.code == 2
    assert "Another `rota up` is running on" in done.said


def test_https_to_a_server_without_tls_names_the_right_address(up):
    done = up.in_process("jobs", ROTA_URL=f"https://127.0.0.1:{up.port}")
    assert done.code == 1
    assert f"does not speak TLS; if it is your server, set ROTA_URL to http://127.0.0.1:{up.port}" in words_of(done)
    assert "rota up" not in done.err


def test_a_setting_that_can_not_be_right_is_named(newcomer):
    done = newcomer("up", ROTA_SLOTS="many")
    assert done.code == 2
    assert "ROTA_SLOTS must be a whole number, not 'many'" in words_of(done)


def test_without_a_home_variable_the_accounts_own_home_is_used(up):
    environment = {name: value for name, value in up.environment.items() if name != "HOME"}
    command = [*commands.ROTA, "jobs"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr
    assert str(Path(f"~{os.environ.get('USER', 'root')}").expanduser()) in done.stderr or done.returncode == 0


@pytest.mark.parametrize("columns", [40, 60, 80])
def test_an_error_reads_the_same_on_any_terminal(newcomer, columns):
    code, lines = newcomer.on_terminal(columns, "jobs")
    assert code == 1
    assert " ".join(lines).startswith("error: no Rota server answers at")
    assert not any("\x1b" in line for line in lines)


def test_the_servers_address_in_a_browser_says_what_this_is_and_where_to_go(up):
    answer = httpx.get(f"http://127.0.0.1:{up.port}/")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/html")
    assert "This is the API of Rota" in answer.text
    for place in re.findall(r'href="([^"]+)"', answer.text):
        assert httpx.get(f"http://127.0.0.1:{up.port}{place}").status_code == 200, place
    assert "script-src" not in answer.headers["content-security-policy"]


def test_an_old_python_is_told_by_make(tmp_path):
    """A stand-in for the interpreter of an old system, which gets as far as its version."""
    old = tmp_path / "python3.9"
    old.write_text(
        f'#!/bin/sh\nexec \'{sys.executable}\' -c "import sys; sys.version_info = (3, 9, 18); exec(sys.argv[2])" "$@"\n'
    )
    old.chmod(0o755)
    done = subprocess.run(
        ["make", "-C", str(ROOT), "setup", f"PYTHON={old}", f"VENV={tmp_path}/venv"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert "Rota needs Python 3.11 or newer; name one with: make PYTHON=python3.12" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_python_without_venv_is_told_by_make(tmp_path):
    """As on Debian without python3-venv."""
    bare = tmp_path / "python3"
    refuse = "if [ \"$1\" = -m ]; then echo 'No module named venv' >&2; exit 1; fi"
    bare.write_text(f"#!/bin/sh\n{refuse}\nexec '{sys.executable}' \"$@\"\n")
    bare.chmod(0o755)
    done = subprocess.run(
        ["make", "-C", str(ROOT), "setup", f"PYTHON={bare}", f"VENV={tmp_path}/venv"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert "apt-get install python3-venv" in done.stderr


def test_the_banner_names_the_token_that_is_there(tmp_path, capsys):
    _announce(Settings(home=tmp_path), workers=1)
    assert f"The admin token is in {tmp_path}/admin.token" in capsys.readouterr().out
    _announce(Settings(home=tmp_path, given_token="mine"), workers=1)  # noqa: S106 - not a secret
    said = capsys.readouterr().out
    assert "admin.token" not in said
    assert "The admin token is in ROTA_TOKEN" in said
    assert 'Bearer $ROTA_TOKEN"' in said
    assert "mine" not in said
