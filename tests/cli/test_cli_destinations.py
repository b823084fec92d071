"""Destinations and events on the command line, against a real `rota up`."""

from __future__ import annotations

import json
import subprocess
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest

from commands import ROTA


@pytest.fixture
def hook():
    """A receiver, and what it got."""
    taken = []

    class Taker(BaseHTTPRequestHandler):
        def do_POST(self):
            taken.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_words):
            """Says nothing."""

    with HTTPServer(("127.0.0.1", 0), Taker) as server:
        server.taken = taken
        server.url = f"http://127.0.0.1:{server.server_port}/s3cret"
        Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def test_a_destination_from_its_making_to_its_end(rota, hook):
    made = rota.in_process("destinations", "put", "pager", hook.url, "--events", "worker.,run.buried")
    assert made.code == 0, made.err
    assert "secret: whsec_" in made.out
    assert "s3cret" not in made.said
    assert "pager" in rota.in_process("destinations").out
    assert rota.json("destinations", "show", "pager")["kinds"] == ["worker.", "run.buried"]
    # `rota up` may not call this machine: the answer says what decides that.
    tried = rota.in_process("destinations", "test", "pager")
    assert tried.code == 1
    assert "ROTA_HTTP_ALLOW" in tried.out
    assert hook.taken == []
    assert rota.json("destinations", "put", "pager", "--severity", "critical", "--disable")["enabled"] is False
    assert "off" in rota.in_process("destinations").out
    assert rota.json("destinations", "rotate", "pager")["secret"].startswith("whsec_")
    assert rota.json("destinations", "deliveries", "pager")["items"] == []
    assert "pager is deleted" in rota.in_process("destinations", "delete", "pager").out
    assert rota.in_process("destinations", "show", "pager").code != 0


def test_the_address_can_come_from_standard_input(rota):
    arguments = ("destinations", "put", "quiet", "-", "--everywhere", "--json")
    given = "https://example.com/s3cret\n"
    done = subprocess.run(
        [*ROTA, *arguments], env=rota.environment, input=given, capture_output=True, text=True, check=True
    )
    made = json.loads(done.stdout)
    assert (made["everywhere"], made["address"]) == (True, "https://example.com")
    assert rota.json("destinations", "delete", "quiet", "--everywhere")["name"] == "quiet"


def test_what_is_no_address_is_refused(rota):
    refused = rota.in_process("destinations", "put", "pager", "example.com")
    assert refused.code == 2
    assert "is not an address" in refused.err


def test_events_are_chosen_by_kind_and_time(rota):
    kinds = {event["event"] for event in rota.json("events", "--kind", "worker.,scheduler.")["items"]}
    assert {"worker.joined", "scheduler.started"} <= kinds
    assert rota.json("events", "--since", "2090-01-01T00:00:00Z")["items"] == []
    assert rota.in_process("events", "--since", "yesterday").code == 2
    assert rota.in_process("events", "--follow", "--since", "2090-01-01T00:00:00Z").code == 2
