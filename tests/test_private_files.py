"""Other users of the host can't read what Rota keeps in its home, whatever the umask."""

from __future__ import annotations

import os
import stat

import pytest

from rota.access.authenticator import admin_token
from rota.blobs import Blobs
from rota.ops.doctor.findings import State
from rota.ops.doctor.machine import check_home
from rota.ops.supervisor import _hold_home
from rota.settings import Settings

KEYS = ("payloads/2026-11-18/a.json", "results/2026-11-18/default/b.json", "logs/2026-11-18/default/c.log")


@pytest.fixture(autouse=True)
def generous_umask():
    """As most accounts have it."""
    before = os.umask(0o022)
    yield
    os.umask(before)


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def told(settings):
    """What `rota doctor` says about the home, other than that all is well."""
    return {finding.words: finding.fix for finding in check_home(settings) if finding.state is not State.ok}


async def fill(blobs):
    for key in KEYS:
        await blobs.put(key, b"a secret of a tenant")


async def test_nobody_else_can_enter_the_directories_of_objects(tmp_path):
    place = tmp_path / "mine"
    await fill(Blobs.open(str(place)))
    assert mode(place) == 0o700
    assert {mode(place / kind) for kind in ("payloads", "results", "logs")} == {0o700}


async def test_nor_in_a_directory_that_was_there_before_and_stays_as_it_is(tmp_path):
    place = tmp_path / "given"
    place.mkdir(mode=0o755)
    await fill(Blobs.open(str(place)))
    assert mode(place) == 0o755
    assert {mode(place / kind) for kind in ("payloads", "results", "logs")} == {0o700}


async def test_nor_when_the_directory_of_a_kind_was_deleted_meanwhile(tmp_path):
    blobs = Blobs.open(str(tmp_path / "mine"))
    await blobs.put("doctor/probe", b"")
    await blobs.delete("doctor/probe")
    (tmp_path / "mine" / "doctor").rmdir()
    await blobs.put("doctor/probe", b"")
    assert mode(tmp_path / "mine" / "doctor") == 0o700


async def test_a_directory_that_a_group_can_write_to_is_shared_with_that_group_alone(tmp_path):
    os.umask(0o002)
    place = tmp_path / "shared"
    place.mkdir()
    place.chmod(0o775)
    (place / "logs").mkdir(mode=0o775)
    await fill(Blobs.open(str(place)))
    assert {mode(place / kind) for kind in ("payloads", "results", "logs")} == {0o770}


async def test_objects_that_older_versions_left_open_are_closed_when_the_store_is_opened(tmp_path):
    settings = Settings(home=tmp_path / "home")
    await fill(Blobs.open(settings.blobs))
    for kind in ("payloads", "results", "logs"):
        (settings.home / "blobs" / kind).chmod(0o755)
    (settings.home / "blobs" / "mine").mkdir(mode=0o755)
    words = told(settings)
    assert len(words) == 3
    assert all("can be read by others" in one for one in words)
    assert all("chmod go-rwx" in fix for fix in words.values())
    Blobs.open(settings.blobs)
    assert told(settings) == {}
    assert {mode(settings.home / "blobs" / kind) for kind in ("payloads", "results", "logs")} == {0o700}
    assert mode(settings.home / "blobs" / "mine") == 0o755, "what is not ours to know stays as it is"


def test_a_link_in_place_of_a_kind_is_left_alone(tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o755)
    place = tmp_path / "blobs"
    place.mkdir()
    (place / "logs").symlink_to(elsewhere)
    Blobs.open(str(place))
    assert mode(elsewhere) == 0o755


def test_a_home_that_older_versions_left_open_is_closed_when_rota_up_starts(tmp_path):
    settings = Settings(home=tmp_path / "home")
    settings.scripts.mkdir(parents=True)
    settings.admin_token_file.write_text("x")
    assert mode(settings.scripts) == 0o755
    assert len(told(settings)) == 2
    with _hold_home(settings):
        assert mode(settings.scripts) == 0o750
        assert mode(settings.admin_token_file) == 0o600
        assert told(settings) == {}


def test_a_home_that_others_can_change_is_a_problem(tmp_path):
    settings = Settings(home=tmp_path / "home")
    settings.home.mkdir()
    settings.home.chmod(0o777)
    [(words, fix)] = told(settings).items()
    assert "can be changed by others" in words
    assert "chmod go-w" in fix


def test_a_home_that_the_server_makes_for_its_token_is_private(tmp_path):
    admin_token(tmp_path / "home" / "admin.token")
    assert mode(tmp_path / "home") == 0o700


@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs PostgreSQL under another account")
def test_as_root_a_server_directory_of_another_account_and_its_links_are_problems(tmp_path):
    settings = Settings(home=tmp_path / "home")
    postgres = settings.home / "postgres"
    postgres.mkdir(parents=True)
    assert told(settings) == {}
    os.chown(postgres, 65534, 65534)
    (postgres / "socket").symlink_to("/etc")
    os.chown(postgres / "socket", 65534, 65534, follow_symlinks=False)
    words = told(settings)
    assert any("belongs to" in one and "make root follow links" in one for one in words)
    assert any("is a link that root did not make" in one for one in words)
    os.chown(settings.home, 65534, 65534)
    assert any("As root, Rota needs a home" in one for one in told(settings))
