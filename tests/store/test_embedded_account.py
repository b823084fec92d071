"""As root, the embedded PostgreSQL runs under an account of its own, which must not become root by way of us."""

from __future__ import annotations

import asyncio
import os
import pwd
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import asyncpg
import psutil
import pytest

from rota.errors import SetupError
from rota.store.postgres import embedded
from rota.store.postgres.embedded import EmbeddedPostgres

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root runs PostgreSQL under another account")


def account():
    return pwd.getpwnam("postgres")


def as_account(*command):
    """What the account of PostgreSQL can do by itself."""
    subprocess.run(command, check=True, user=account().pw_uid, group=account().pw_gid, extra_groups=[])


def owner(path):
    return path.lstat().st_uid


@pytest.fixture
def home():
    """A home of root."""
    place = Path(tempfile.mkdtemp(prefix="rota-home-"))
    place.chmod(0o711)
    yield place
    shutil.rmtree(place)


@pytest.fixture
def old_home(home):
    """A home as older versions left it: the directory of the server belongs to its account."""
    (home / "postgres").mkdir()
    os.chown(home / "postgres", account().pw_uid, account().pw_gid)
    return home


@pytest.fixture
async def start():
    """Starts servers, and stops them at the end."""
    started = []

    async def begin(home):
        server = EmbeddedPostgres(home, settings={"shared_buffers": "8MB", "fsync": "off"})
        started.append(server)
        await server.start()
        return server

    yield begin
    for server in started:
        await server.stop()


async def test_only_the_data_and_the_socket_belong_to_the_account(home, start):
    server = await start(home)
    assert owner(server.directory) == 0
    assert stat.S_IMODE(server.directory.stat().st_mode) == 0o711
    assert owner(server.log_file) == 0
    assert stat.S_IMODE(server.log_file.stat().st_mode) == 0o600
    for path in (server.data, server.socket_directory):
        assert owner(path) == account().pw_uid
        assert stat.S_IMODE(path.stat().st_mode) == 0o700


async def test_an_old_home_is_mended_and_keeps_its_data(home, start):
    first = await start(home)
    admin = await asyncpg.connect(first.url())
    await admin.execute("CREATE TABLE kept AS SELECT 42 AS answer")
    await admin.close()
    await first.stop()
    os.chown(home / "postgres", account().pw_uid, account().pw_gid)
    (home / "postgres").chmod(0o755)
    first.log_file.chmod(0o644)
    again = await start(home)
    assert owner(again.directory) == 0
    assert stat.S_IMODE(again.log_file.stat().st_mode) == 0o600
    admin = await asyncpg.connect(again.url())
    assert await admin.fetchval("SELECT answer FROM kept") == 42
    await admin.close()


async def test_a_link_in_place_of_the_socket_gives_no_directory_away(old_home, start, tmp_path):
    prize = tmp_path / "prize"
    prize.mkdir(mode=0o755)
    as_account("ln", "-s", str(prize), str(old_home / "postgres" / "socket"))
    server = await start(old_home)
    assert owner(prize) == 0
    assert list(prize.iterdir()) == []
    assert not server.socket_directory.is_symlink()


@pytest.mark.parametrize("kind", ["link", "dangling link", "pipe", "file", "second name"])
async def test_what_stands_in_place_of_the_log_is_not_written_to(old_home, start, tmp_path, kind):
    prize = tmp_path / "prize"
    log = old_home / "postgres" / "server.log"
    if kind != "dangling link":
        prize.write_text("root's own\n")
    if kind in ("link", "dangling link"):
        as_account("ln", "-s", str(prize), str(log))
    elif kind == "pipe":
        as_account("mkfifo", str(log))
    elif kind == "file":
        as_account("touch", str(log))
    else:
        os.link(prize, log)  # what an account can do where the kernel does not protect hard links
    server = await start(old_home)
    assert owner(server.log_file) == 0
    assert stat.S_ISREG(server.log_file.lstat().st_mode)
    assert server.log_file.stat().st_nlink == 1
    assert prize.exists() == (kind != "dangling link")
    if prize.exists():
        assert prize.read_text() == "root's own\n"


async def test_a_link_in_place_of_the_data_is_refused_unless_root_made_it(home, start, tmp_path):
    elsewhere = home / "elsewhere"
    first = await start(home)
    await first.stop()
    first.data.rename(elsewhere)
    first.data.symlink_to(elsewhere)
    second = await start(home)
    await second.stop()
    os.chown(second.data, account().pw_uid, account().pw_gid, follow_symlinks=False)
    with pytest.raises(SetupError, match="a link that root did not make"):
        await start(home)


async def test_a_pid_file_can_not_make_root_end_a_process_of_another(home, start):
    server = await start(home)
    await server.stop()
    waiting = (sys.executable, "-c", "import time; time.sleep(600)", str(server.data))
    bystander = await asyncio.create_subprocess_exec(*waiting)
    try:
        as_account("sh", "-c", f"echo {bystander.pid} > {server.data}/postmaster.pid")
        await start(home)
        assert bystander.returncode is None
    finally:
        bystander.kill()
        assert await bystander.wait() == -signal.SIGKILL, "it lived until now"


async def test_a_pid_file_that_is_a_link_is_not_read(home, start, tmp_path):
    server = await start(home)
    await server.stop()
    prize = tmp_path / "prize"
    prize.write_text("1\n")
    as_account("ln", "-s", str(prize), str(server.data / "postmaster.pid"))
    again = await start(home)
    assert prize.read_text() == "1\n"
    assert not (again.data / "postmaster.pid").is_symlink()


async def test_a_link_in_the_temporary_directory_gives_no_directory_away(start, tmp_path, monkeypatch):
    prize = tmp_path / "prize"
    prize.mkdir()
    home = tmp_path / ("long" * 20)
    home.mkdir(mode=0o700)
    place = EmbeddedPostgres(home).socket_directory
    assert place.parent == Path(tempfile.gettempdir())
    monkeypatch.setattr(embedded.tempfile, "gettempdir", lambda: str(tmp_path))
    (tmp_path / place.name).symlink_to(prize)
    with pytest.raises(SetupError, match="not a directory"):
        await start(home)
    assert owner(prize) == 0


async def test_the_server_gets_no_setting_of_ours(home, start, monkeypatch):
    monkeypatch.setenv("ROTA_TOKEN", "a-token-of-ours")
    monkeypatch.setenv("PGPASSWORD", "a-password-of-ours")
    server = await start(home)
    environment = psutil.Process(server._process.pid).environ()
    assert not [name for name in environment if name.startswith(("ROTA_", "PGPASSWORD"))]


@pytest.mark.parametrize("writable", ["owner", "others"])
async def test_root_refuses_a_home_that_others_can_change(home, start, writable):
    if writable == "owner":
        os.chown(home, account().pw_uid, account().pw_gid)
    else:
        home.chmod(0o777)
    with pytest.raises(SetupError, match="As root, Rota needs a home"):
        await start(home)
