"""`rota schedule preview`, which needs no server, and the preview of the API, on a server of its own."""

from __future__ import annotations

import json
import socket
import threading
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest
import uvicorn
from typer.testing import CliRunner

import commands
from rota.access.authenticator import Authenticator
from rota.access.authorization import Authorizer
from rota.api.app import Api
from rota.api.http.body_budget import BodyBudget
from rota.api.http.shares import Shares
from rota.api.routes import schedules
from rota.cli.main import app
from rota.client import AnswerError, Client
from serving import TOKEN
from support import wait_until
from terminals import on_terminal

NOWHERE = "http://127.0.0.1:9"
NOW = datetime(2026, 10, 24, 12, tzinfo=UTC)  # the day before Berlin's clocks go back


@pytest.fixture(scope="module")
def url():
    """A server that knows previews only: they need no database."""
    services = SimpleNamespace(
        now=NOW, body_budget=BodyBudget(), requests=Shares(9, what="are being handled"), limiter=None
    )
    api = Api(schedules.OPERATIONS, services, Authorizer(Authenticator(TOKEN), services))
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(api, log_level="error", lifespan="off"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        wait_until(lambda: server.started)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        server.should_exit = True
        thread.join()


@pytest.fixture
def preview(tmp_path):
    """Runs the command, where no server answers; gives exit code, output and errors."""

    def run(*arguments):
        environment = {"ROTA_URL": NOWHERE, "ROTA_HOME": str(tmp_path), "NO_COLOR": "1"}
        if "--after" not in arguments:
            arguments = (*arguments, "--after", NOW.isoformat())
        return CliRunner().invoke(app, ["schedule", "preview", *arguments], env=environment)

    return run


def test_a_preview_shows_the_description_and_each_time_on_both_clocks(preview):
    done = preview("0 30 9 * * 1", "--timezone", "Europe/Berlin", "--count", "2", "--after", "2026-10-25T12:00:00Z")
    assert done.exit_code == 0, done.stderr
    assert done.stdout.splitlines() == [
        "at 09:30 on Mondays, Europe/Berlin",
        "LOCAL (Europe/Berlin)          UTC",
        "Mon 2026-10-26 09:30:00 +0100  2026-10-26 08:30:00Z",
        "Mon 2026-11-02 09:30:00 +0100  2026-11-02 08:30:00Z",
    ]


def test_the_two_passes_of_a_repeated_hour_can_be_told_apart(preview):
    done = preview("30 2 * * *", "--timezone", "Europe/Berlin", "--dst", "strict", "--count", "2")
    local = [line[:29] for line in done.stdout.splitlines()[2:]]
    assert local == ["Sun 2026-10-25 02:30:00 +0200", "Sun 2026-10-25 02:30:00 +0100"]


@pytest.mark.parametrize(
    ("zone", "after", "notes"),
    [
        ("Europe/Berlin", "2026-10-23T12:00:00Z", ["", "", "goes back 1 h before"]),
        ("Europe/Berlin", "2026-03-27T12:00:00Z", ["", "goes forward 1 h before", ""]),
        ("Australia/Lord_Howe", "2026-10-02T12:00:00Z", ["", "goes forward 30 min before", ""]),
        ("Europe/Berlin", "2026-06-01T00:00:00Z", ["", "", ""]),
    ],
)
def test_a_time_before_which_the_clock_is_changed_says_so(preview, zone, after, notes):
    shown = preview("30 2 * * *", "--timezone", zone, "--after", after, "--count", "3").stdout.splitlines()[1:]
    assert ("CLOCK" in shown[0]) == any(notes)
    assert [line[53:] for line in shown[1:]] == notes


def test_a_preview_fits_on_40_columns_and_keeps_what_tells_times_apart(tmp_path):
    environment = commands.environment(ROTA_URL=NOWHERE, ROTA_HOME=str(tmp_path), NO_COLOR="1")
    options = ("--timezone", "Europe/Berlin", "--dst", "strict", "--count", "2", "--after", NOW.isoformat())
    command = [*commands.ROTA, "schedule", "preview", "30 2 * * *", *options]
    code, shown = on_terminal(command, environment, columns=40)
    assert code == 0, shown
    assert shown.splitlines()[2:] == ["Sun 2026-10-25 02:30 +0200", "Sun 2026-10-25 02:30 +0100  back 1 h"]


def test_an_expression_that_lost_its_quotes_is_read_unless_there_are_file_names_in_it(preview):
    assert preview("30", "2", "*", "*", "*", "-n", "1").stdout.startswith("at 02:30 every day, UTC")
    done = preview("30", "2", *(f"file{number}" for number in range(9)))
    assert (done.exit_code, "quote it" in done.stderr) == (2, True)


@pytest.mark.parametrize("given", [("--every", "90s"), ("--every", "every 1m30s"), ("every 90s",), ("Every 90",)])
def test_an_interval_is_given_as_an_option_or_in_words(preview, given):
    done = preview(*given, "--count", "1")
    assert done.exit_code == 0, done.stderr
    assert done.stdout.splitlines()[0] == "every 90 seconds"
    assert done.stdout.splitlines()[1:] == ["UTC", "Sat 2026-10-24 12:01:30 +0000"]


def test_times_can_be_asked_for_from_another_moment_and_within_bounds(preview):
    bounds = ("--start", "2026-01-01T10:00:00Z", "--end", "2026-01-01T11:00:00Z")
    done = preview("0 * * * *", "--after", "2025-12-31T00:00:00+01:00", *bounds, "--json")
    assert json.loads(done.stdout)["fireTimes"] == ["2026-01-01T10:00:00Z", "2026-01-01T11:00:00Z"]


def test_a_schedule_that_is_over_says_so(preview):
    done = preview("@daily", "--end", "2020-01-01T00:00:00Z")
    assert done.exit_code == 0
    assert "It never fires again." in done.stdout


def test_programs_get_what_the_api_answers(preview, url):
    answer = json.loads(preview("@hourly", "-n", "1", "--json").stdout)
    assert answer == {"fireTimes": ["2026-10-24T13:00:00Z"], "description": "every hour, UTC"}
    with Client(url, TOKEN) as client:
        assert client.call("POST", "/v1/schedules/preview", body={"cronExpression": "@hourly", "count": 1}) == answer


def test_times_are_those_after_now_unless_another_moment_is_given(tmp_path):
    before = datetime.now(UTC)
    environment = {"ROTA_URL": NOWHERE, "ROTA_HOME": str(tmp_path)}
    done = CliRunner().invoke(app, ["schedule", "preview", "* * * * *", "-n", "1", "--json"], env=environment)
    assert datetime.fromisoformat(json.loads(done.stdout)["fireTimes"][0]) > before


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "give a cron expression or --every"),
        (("* * * * *", "--every", "90s"), "give a cron expression or --every"),
        (("61 * * * *",), "EXPRESSION: bad minute field: '61' is not within 0-59"),
        (("every soon",), "EXPRESSION: 'soon' is not a duration"),
        (("--every", "0.1s"), "--every: must be between"),
        (("--every", "x"), "--every: 'x' is not a duration"),
        (("@daily", "--timezone", "Mars/Base"), "--timezone: no time zone called 'Mars/Base'"),
        (("@daily", "--after", "tomorrow"), "--after: 'tomorrow' is not a time"),
        (("@daily", "--start", "2026-01-02T00:00:00Z", "--end", "2026-01-01T00:00:00Z"), "--end: is before"),
        (("@daily", "--job", "run_" + "0" * 32), "--job: "),
        (("@daily", "--dst", "maybe"), "--dst"),
        (("@daily", "--count", "101"), "--count"),
    ],
)
def test_wrong_input_is_one_line_and_exit_code_2(preview, arguments, words):
    done = preview(*arguments)
    assert done.exit_code == 2
    assert words in done.stderr


def test_the_client_gives_a_preview(url):
    with Client(url, TOKEN) as client:
        answer = client.preview("0 9 * * *", timezone="Europe/Berlin", after=NOW, count=1)
        assert answer.fire_times == [datetime(2026, 10, 25, 8, tzinfo=UTC)]
        assert client.preview(every=60, start_time=NOW, end_time=NOW).fire_times == []
        with pytest.raises(AnswerError, match="bad minute field"):
            client.preview("x * * * *")
