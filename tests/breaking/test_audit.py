"""The audit of dependencies: it finds what it should, and says what it could not look at."""

from __future__ import annotations

import importlib.util
import json
import threading
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).parents[2]
_spec = importlib.util.spec_from_file_location("audit", ROOT / "tools" / "audit.py")
audit = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(audit)

LINKS = (
    '<a href="/x/{name}-1.0.tar.gz#sha256=0"{yanked}>x</a>'
    '<a href="/x/{name}-1.0-py3-none-any.whl"{yanked}>x</a><a href="/x/{name}-2.0.tar.gz">x</a><a href="/odd">x</a>'
)
PAGES = {
    "/simple/good/": LINKS.format(name="good", yanked=""),
    "/simple/bad/": LINKS.format(name="bad", yanked=' data-yanked="it deletes files"'),
    "/simple/newer/": {"files": [{"filename": "newer-1.0.tar.gz", "yanked": "oops"}]},
    "/simple/older/": '<a href="/x/older-2.0.tar.gz">x</a>',
    "/simple/odd/": {"no": "files"},
    "/pypi/good/1.0/json": {"vulnerabilities": []},
    "/pypi/bad/1.0/json": {
        "vulnerabilities": [{"id": "PYSEC-1", "fixed_in": ["2.0"]}, {"id": "PYSEC-2", "withdrawn": "2026-01-01"}]
    },
}


@pytest.fixture(scope="module")
def index():
    """A package index of ours."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            page = PAGES.get(self.path)
            body = page if isinstance(page, str) else json.dumps(page)
            self.send_response(404 if page is None else 200)
            self.send_header("Content-Type", "text/html" if isinstance(page, str) else "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_arguments):
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/simple"
    server.shutdown()
    server.server_close()


def looked_up(index, *names):
    report = audit.Report()
    audit.check_index(index, [audit.Pin(name, "1.0") for name in names], report)
    return report


def test_what_is_pinned_and_allowed_here_is_all_there_is():
    report, found = audit.Report(), audit.needed(audit.distributions())
    pins = audit.read_pins((ROOT / "constraints.txt").read_text(), report)
    audit.check_installed(pins, audit.installed_pins(found), report)
    audit.check_pythons(found, report)
    audit.check_licences(found, report)
    assert report.findings == []


def test_what_the_oldest_python_we_promise_can_not_install_is_found():
    report, needs = audit.Report(), {"fine": ">=3.11", "silent": None, "newer": ">=3.11.5", "next": ">=3.12"}
    for name, wanted in needs.items():
        about = Message()
        about["Name"] = name
        if wanted:
            about["Requires-Python"] = wanted
        audit.check_pythons([SimpleNamespace(metadata=about, version="1.0")], report)
    assert report.findings == [
        f"{name} 1.0 needs Python {needs[name]}, and we promise 3.11.0" for name in ("newer", "next")
    ]


def test_a_release_without_fault_is_no_finding(index):
    report = looked_up(index, "good")
    assert (report.findings, dict(report.unchecked)) == ([], {})


def test_withdrawn_and_vulnerable_releases_are_found(index):
    report = looked_up(index, "bad", "newer")
    assert report.findings == [
        "bad 1.0 was withdrawn: it deletes files",
        "bad 1.0: PYSEC-1 (mended in 2.0)",
        "newer 1.0 was withdrawn: oops",
    ]


def test_what_the_index_does_not_tell_is_said_and_fails_nothing(index, capsys):
    report = looked_up(index, "newer", "older", "odd", "missing", "good")
    report.findings = []
    assert report.print() == 0
    said = capsys.readouterr().out
    for words in ("does not tell (it says 404) (4 packages)", "does not have the release", "says 404", "KeyError"):
        assert words in said


def test_an_index_that_is_away_fails_nothing(capsys):
    report = looked_up("http://127.0.0.1:9/simple", "good", "bad")
    assert report.print() == 0
    assert "not checked: vulnerabilities" in capsys.readouterr().out


def test_an_index_that_takes_too_long_is_not_waited_for(index, monkeypatch):
    monkeypatch.setattr(audit, "ALL_SECONDS", -1)
    assert dict(looked_up(index, "good", "bad").unchecked) == {f"{index} took too long": 2}


def test_findings_fail(capsys):
    report = audit.Report()
    report.findings.append("something")
    assert report.print() == 1
    assert "found: something" in capsys.readouterr().out


@pytest.mark.parametrize("line", ["a>=1", "a", "a==1.*", "a==1,<2", "a @ http://x", "a==1; python_version>'3'", "-r x"])
def test_only_an_exact_version_is_a_pin(line):
    report = audit.Report()
    assert audit.read_pins(f"# fine\n\nb==1.0\n{line}\n", report) == [("b", "1.0")]
    assert report.findings == [f"{line!r} is no exact pin"]


def test_what_is_pinned_twice_not_pinned_or_another_version_is_found():
    report = audit.Report()
    pins = audit.read_pins("A_b==1.0\na-b==2.0\nc==1.0.0\n", report)
    audit.check_installed(pins, [audit.Pin("a-b", "1.0"), audit.Pin("c", "1.0"), audit.Pin("d", "3")], report)
    assert report.findings == [
        "a-b is pinned twice",
        "a-b is pinned to 2.0, and 1.0 is installed",
        "d 3 is installed and not pinned",
    ]


@pytest.mark.parametrize(
    ("expression", "allowed"),
    [
        ("MIT", True),
        ("MIT OR GPL-3.0-only", True),
        ("MIT AND GPL-3.0-only", False),
        ("Apache-2.0 AND (MIT OR GPL-3.0-only)", False),
        ("Apache-2.0 AND (MIT OR BSD-3-Clause)", True),
        ("Mozilla Public License 2.0 (MPL 2.0)", True),
        ("GPL-3.0-or-later", False),
        ("", False),
        ("Proprietary", False),
    ],
)
def test_which_licences_go_with_ours(expression, allowed):
    assert audit.is_allowed(expression) == allowed


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ([("License-Expression", "MIT"), ("Classifier", "License :: OSI Approved :: GPL")], "MIT"),
        ([("Classifier", "License :: OSI Approved :: BSD License"), ("License", "odd")], "BSD License"),
        ([("Classifier", "License :: A"), ("Classifier", "License :: B")], "A AND B"),
        ([("License", "MIT\nwith a long text")], "MIT"),
        ([], ""),
    ],
)
def test_a_package_tells_its_licence_in_one_of_several_ways(fields, found):
    about = Message()
    for name, value in fields:
        about[name] = value
    assert audit.licences_of(SimpleNamespace(metadata=about)) == found
