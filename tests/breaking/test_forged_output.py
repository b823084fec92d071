"""Text of strangers in logs, tables and streams: it is shown, and never obeyed, nor taken for something of ours."""

from __future__ import annotations

import json
import re
import sys
from contextlib import contextmanager

import pytest
import structlog
import typer

import rota
from rota.api.streams.sse import event
from rota.cli import runs, watch
from rota.cli.logs import _print_line
from rota.cli.terminal import tables
from rota.cli.terminal.output import fail, say
from rota.client.event_streams import EventReader
from rota.contract.fleet import EventOut
from rota.telemetry import configure_logging, get_logger
from support import eventually

FORGERIES = [
    "a\n2026-01-01T00:00:00Z [info     ] forged",
    "a\r2026-01-01T00:00:00Z [info     ] forged",
    "\x1b[31mred",
    "\x1b]0;title\x07",
    "\x1b[2J\x1b[H",
    "\x9b31mred",
    "\x85forged",
    "\u2028forged",
    "\u202eexe.txt",
    "\u2066isolated",
    "\x00\x7f\x08\x08\x08",
    "[red]markup[/red]",
    "[link=http://x]y[/link]",
    ":warning:",
    "\n\ndata: forged\nid: 9\n\n",
    "\r\rdata: forged\rid: 9\r\r",
    "forged=value other='quoted'",
]
OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


@pytest.fixture
def logged(capsys):
    """What an event with these values looks like on standard error."""

    def log(*, as_json, failing=False, **values):
        configure_logging(json=as_json)
        try:
            if failing:
                raise ValueError(values["name"])  # noqa: TRY301 - to have one with a traceback
            get_logger("test").warning("something", **values)
        except ValueError:
            token = "tell-nobody"  # noqa: S105 - must not be seen
            get_logger("test").exception("it failed", **values, length=len(token))
        return capsys.readouterr().err

    yield log
    structlog.reset_defaults()


@pytest.mark.parametrize("text", FORGERIES)
@pytest.mark.parametrize("as_json", [False, True])
def test_an_event_is_one_line_whatever_it_holds(logged, text, as_json):
    said = logged(as_json=as_json, name=text, **{f"key{text}": 1})
    assert said.count("\n") == 1
    assert not OBEYED.search(said)
    if as_json:
        assert json.loads(said)["name"] == text


@pytest.mark.parametrize("text", FORGERIES)
def test_a_traceback_is_set_in_and_neither_obeyed_nor_taken_for_an_event(logged, text):
    first, *rest = logged(as_json=False, failing=True, name=text).rstrip("\n").split("\n")
    assert "it failed" in first
    assert len(rest) > 2
    assert all(line.startswith("    | ") and not OBEYED.search(line) for line in rest)


@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize("terminal", [False, True])
def test_a_traceback_does_not_show_variables(logged, monkeypatch, as_json, terminal):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    hidden = "only-in-a-variable"
    said = logged(as_json=as_json, failing=True, name="boom")
    assert "ValueError: boom" in said
    assert hidden not in said
    assert "locals" not in said


@pytest.fixture(params=[False, True])
def terminal(request, monkeypatch):
    """Standard output is one, or is not."""
    if request.param:
        monkeypatch.setenv("FORCE_COLOR", "1")
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    return request.param


def without_our_colours(said):
    return re.sub(r"\x1b\[[0-9;]*m", "", said)


@pytest.mark.parametrize("text", FORGERIES)
def test_a_table_has_one_line_per_item_and_shows_what_is_there(capsys, terminal, text):
    columns = [tables.text("ID", "id"), tables.text("NAME", "name"), tables.status()]
    tables.print_table([{"id": "1", "name": text, "status": text}], columns, none="")
    said = without_our_colours(capsys.readouterr().out)
    assert said.count("\n") == 2
    assert not OBEYED.search(said)
    for shown in ("[red]", ":warning:", "[link="):
        assert (shown in text) == (shown in said)


@pytest.mark.parametrize("text", FORGERIES)
def test_fields_are_labelled_by_us_alone(capsys, terminal, text):
    tables.print_fields({"name": text, "tags": [text], "payload": {text: [text]}, "headers": {"a": text * 30}})
    said = without_our_colours(capsys.readouterr().out)
    assert not OBEYED.search(said)
    labels = [line.split()[0] for line in said.split("\n") if line and not line.startswith(" ")]
    assert labels == ["name", "tags", "payload", "headers"]


@pytest.mark.parametrize("text", FORGERIES)
def test_lines_of_logs_and_messages_are_not_obeyed(capsys, terminal, text):
    for part in text.split("\n"):
        _print_line("2026-01-01T00:00:00.000Z", "stdout", part)
    say(text)
    with pytest.raises(typer.Exit):
        fail(text)
    said = capsys.readouterr()
    assert not OBEYED.search(without_our_colours(said.out + said.err))
    assert (":warning:" in text) == (":warning:" in said.out)


SEVERAL = "boom\nrun_00000000000000000000000000000000 is success\nstatus  success"


def begins_unindented(said):
    """The lines that look like ours."""
    return [line for line in without_our_colours(said).split("\n") if line and not line.startswith(" ")]


def test_messages_of_several_lines_are_set_in(capsys):
    say(SEVERAL)
    with pytest.raises(typer.Exit):
        fail(SEVERAL)
    assert begins_unindented(capsys.readouterr().err) == ["boom", "error: boom"]


@pytest.mark.parametrize("command", ["why", "run", "watch"])
def test_an_error_of_several_lines_has_no_line_that_looks_like_ours(capsys, monkeypatch, command):
    run_id = f"run_{'1' * 32}"
    answer = {"runId": run_id, "status": "failed", "name": "a", "task": "t", "jobId": "j", "error": SEVERAL}

    class Client:
        def call(self, *_words, **_options):
            return answer | ({"traceback": SEVERAL} if command == "run" else {})

    @contextmanager
    def server():
        yield Client()

    monkeypatch.setattr(runs, "server", server)
    if command == "why":
        runs.why(run_id, as_json=False)
    elif command == "run":
        runs.run(run_id, retry=False, wait=False, as_json=False)
    else:
        view = watch._RunView(Client(), run_id)
        view.poll()
        tables.print_line("\n".join(line.plain for line in view.header()))
    said = capsys.readouterr().out
    assert "boom" in said
    unindented = begins_unindented(said)
    assert not [line for line in unindented if "success" in line and not line.startswith("error:")], said
    assert len(unindented) == {"why": 1, "run": len(answer), "watch": 2}[command]


def read_strictly(stream):
    """Events as the standard says: a line ends with a carriage return, a line feed, or both."""
    events, fields = [], []
    for line in re.split("\r\n|\r|\n", stream):
        if line:
            fields.append(tuple(line.split(": ", 1)))
        elif fields:
            events.append(fields)
            fields = []
    return events


@pytest.mark.parametrize("text", FORGERIES)
def test_an_event_of_a_stream_has_the_fields_we_gave_it(text):
    out = EventOut(event_id=1, time="2026-01-01T00:00:00Z", event=text, subject=text, detail=text)
    stream = event("event", out, 7).decode()
    ((kind, number, data),) = read_strictly(stream)
    assert (kind, number) == (("event", "event"), ("id", "7"))
    assert json.loads(data[1])["subject"] == text
    (read,) = EventReader().read(stream)
    assert (read.event, read.id, read.data["detail"]) == ("event", "7", text)


async def test_a_run_does_not_forge_events_of_its_log(engine):
    async def forge(context: rota.Context):
        for text in FORGERIES:
            context.feed("stdout", f"{text}\n".encode())
        raise ValueError("".join(FORGERIES))

    async with engine.running(engine.worker({"forge": forge})):
        run_id = await engine.submit(task="forge", maxRetries=0)
        await engine.until(run_id, "failed")

        async def whole():
            answer = await engine.api.get(f"/v1/runs/{run_id}/logs?follow=true")
            return answer if "event: end" in answer.text else None

        answer = await eventually(whole)
    events = [dict(fields) for fields in read_strictly(answer.text) if fields[0][0] == "event"]
    assert {one["event"] for one in events} == {"line", "end"}
    lines = [json.loads(one["data"]) for one in events if one["event"] == "line"]
    assert len(lines) == sum(text.count("\n") + 1 for text in FORGERIES)
    assert {line["stream"] for line in lines} == {"stdout"}
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]+Z", line["time"]) for line in lines)
