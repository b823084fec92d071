"""Names of scripts and keys of objects: none leads out of its directory, bucket or prefix."""

from __future__ import annotations

import os
import time
from datetime import timedelta
from urllib.parse import unquote, urlsplit
from uuid import uuid4

import obstore
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rota.blobs import BlobError, Blobs
from rota.domain.job import check_script_name
from rota.domain.run import Claim
from rota.errors import BadInputError
from rota.task.context import Context, Final
from rota.worker.runners.command import CommandError
from rota.worker.runners.guarded_process import Subprocesses
from rota.worker.runners.script import ScriptRunner, find_script
from support import examples

TRICKS = [
    "../outside.sh",
    "a/../../outside.sh",
    "./../outside.sh",
    "sub/../../outside.sh",
    "//etc/passwd",
    "/etc/passwd",
    "..",
    ".",
    "",
    "/",
    "sub",
    "sub/",
    "..\\outside.sh",
    "..%2foutside.sh",
    "%2e%2e/outside.sh",
    "\uff0e\uff0e/outside.sh",
    "\u2024\u2024/outside.sh",
    "..\u2215outside.sh",
    "inside.sh\x00.txt",
    "../outside.sh\x00",
    "inside.sh/",
    "inside.sh/.",
    "inside.sh/../../outside.sh",
    "INSIDE.SH",
    "out",
    "out/outside.sh",
    "to-outside.sh",
    "loop",
    "dangling",
    "fifo",
    "x" * 255,
    "x/" * 127 + "x",
    "y" * 300,
    "~/outside.sh",
    "$HOME/outside.sh",
    "inside.sh; id",
    "-c",
    "café.sh".encode().decode("latin-1"),
    "cafe\u0301.sh",
    5,
    None,
    ["inside.sh"],
    {"a": 1},
]


@pytest.fixture
def scripts(tmp_path):
    """A directory with one script, and with everything in it that leads out."""
    directory = tmp_path / "scripts"
    (directory / "sub").mkdir(parents=True)
    for path in (directory / "inside.sh", directory / "caf\u00e9.sh", tmp_path / "outside.sh"):
        path.write_text(f"#!/bin/sh\necho {path.name}\n")
        path.chmod(0o755)
    (directory / "out").symlink_to(tmp_path)
    (directory / "to-outside.sh").symlink_to(tmp_path / "outside.sh")
    (directory / "loop").symlink_to("loop")
    (directory / "dangling").symlink_to("nowhere")
    (directory / "link.sh").symlink_to("inside.sh")
    os.mkfifo(directory / "fifo")
    return directory


@pytest.fixture
def context():
    now = time.time()
    return Context(Claim("default", uuid4(), uuid4(), 1, "script", 0, None, None, "{}", None, now, now, 0, 0))


@pytest.mark.parametrize("name", TRICKS)
def test_no_name_leads_out_of_the_scripts_directory(scripts, name):
    with pytest.raises((Final, CommandError)):
        find_script(scripts, name)


@settings(max_examples=examples(300), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(max_size=30) | st.text("./\\~outinsde\x00", max_size=20))
def test_any_name_is_a_file_inside_or_refused(scripts, name):
    try:
        found = find_script(scripts, name)
    except (Final, CommandError):
        return
    assert found.parent.resolve() == scripts.resolve()
    assert not found.is_symlink()


def test_a_link_within_the_directory_may_be_followed(scripts):
    assert find_script(scripts, "link.sh").name == "inside.sh"


async def test_a_link_that_is_turned_after_the_look_does_not_change_what_is_run(scripts, context, monkeypatch):
    def look_and_turn(directory, name):
        found = find_script(directory, name)
        (directory / "link.sh").unlink()
        (directory / "link.sh").symlink_to("../outside.sh")
        return found

    monkeypatch.setattr("rota.worker.runners.script.find_script", look_and_turn)
    runner = ScriptRunner(scripts, Subprocesses(), grace_seconds=1)
    assert (await runner.run("script", {"script": "link.sh"}, context))["stdout"] == "inside.sh\n"


@pytest.mark.parametrize("payload", [None, {}, {"script": None}, {"script": ["a"]}, {"script": "../outside.sh"}])
async def test_a_payload_that_came_past_the_api_is_looked_at_again(scripts, context, payload):
    with pytest.raises(Final):
        await ScriptRunner(scripts, Subprocesses(), grace_seconds=1).run("script", payload, context)


@pytest.mark.parametrize("name", [name for name in TRICKS if not isinstance(name, str) or ".." in name.split("/")])
def test_what_leads_out_is_refused_at_submission(name):
    with pytest.raises(BadInputError):
        check_script_name(name)


KEYS = [
    "../other/secret",
    "a/../../other/secret",
    "/other/secret",
    "//other/secret",
    "./../other/secret",
    "..",
    "",
    "%2e%2e/other/secret",
    "..%2fother%2fsecret",
    "..\\other\\secret",
    "\uff0e\uff0e/other/secret",
    "a\x00/../../other/secret",
    "../other/secret?versionId=1",
    "a#/../../other/secret",
    "x" * 2000,
]


@pytest.mark.parametrize("key", KEYS)
async def test_no_key_leads_out_of_a_directory(tmp_path, key):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "secret").write_text("tell-nobody")
    blobs = Blobs.open(str(tmp_path / "blobs"))
    with pytest.raises(BlobError):
        await blobs.get(key)
    try:
        await blobs.put(key, b"forged")
    except BlobError:
        pass
    else:
        assert await blobs.get(key) == b"forged"
    assert (tmp_path / "other" / "secret").read_text() == "tell-nobody"
    outside = [path for path in tmp_path.rglob("*") if path.is_file() and tmp_path / "blobs" not in path.parents]
    assert outside == [tmp_path / "other" / "secret"]


@pytest.mark.parametrize("key", KEYS)
async def test_no_key_leads_out_of_a_prefix(bucket, key):
    whole, blobs = Blobs.open(f"s3://{bucket}"), Blobs.open(f"s3://{bucket}/rota")
    await whole.put("other/secret", b"tell-nobody")
    with pytest.raises(BlobError):
        await blobs.get(key)
    try:
        await blobs.put(key, b"forged")
        address = await blobs.url(key, timedelta(minutes=1))
    except BlobError:
        address = None
    if address is not None:
        path = unquote(urlsplit(address).path)
        assert path.startswith(f"/{bucket}/rota/")
        assert ".." not in path.split("/")
    assert await whole.get("other/secret") == b"tell-nobody"
    keys = [found["path"] for page in obstore.list(whole._store) for found in page]
    assert [key for key in keys if not key.startswith("rota/")] == ["other/secret"]
