"""The API over TLS: by settings, renewed while it serves, and found by the clients."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import asynccontextmanager, suppress

import pytest
from raw import Seen, build_echo, read_answers, served
from structlog.testing import capture_logs

import commands
import rota
from certificates import Authority, encrypt
from rota.api.http.tls import Certificate
from rota.client import ServerUnreachableError
from rota.errors import SetupError
from rota.settings import Settings
from support import eventually, free_port, in_time

REQUEST = b"GET /first HTTP/1.1\r\nHost: rota\r\nConnection: close\r\n\r\n"


@pytest.fixture
def authority(tmp_path):
    return Authority(tmp_path)


@pytest.fixture
def files(authority):
    return authority.sign("server", "127.0.0.1", "localhost")


@asynccontextmanager
async def talking(port, authority, **options):
    context = ssl.create_default_context(cafile=authority.file)
    for name, value in options.items():
        setattr(context, name, value)
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    try:
        yield reader, writer
    finally:
        writer.close()
        with suppress(ssl.SSLError, ConnectionError):
            await writer.wait_closed()


async def serial_of(port, authority):
    async with talking(port, authority) as (_, writer):
        return writer.get_extra_info("ssl_object").getpeercert()["serialNumber"]


async def test_answers_over_tls_say_to_come_back_over_tls(authority, files):
    certificate = Certificate(files.certificate, files.key)
    # Over TLS there is no half of a connection to close: the client has this long to take its answer.
    async with served(build_echo(Seen()), tls=certificate.context, deaf_seconds=0.5) as server:
        for request, status in ((REQUEST, 200), (b"nonsense\r\n\r\n", 400)):
            async with talking(server.port, authority) as (reader, writer):
                assert writer.get_extra_info("ssl_object").version() in ("TLSv1.2", "TLSv1.3")
                writer.write(request)
                (answer,) = read_answers(await in_time(reader.read()))
            assert answer.status == status
            assert answer.headers["strict-transport-security"] == "max-age=31536000"


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1_1:DeprecationWarning")
async def test_old_versions_of_tls_are_refused(authority, files):
    certificate = Certificate(files.certificate, files.key)
    async with served(build_echo(Seen()), tls=certificate.context) as server:
        old = {"minimum_version": ssl.TLSVersion.TLSv1_1, "maximum_version": ssl.TLSVersion.TLSv1_1}
        with pytest.raises((ssl.SSLError, ConnectionError)):
            async with talking(server.port, authority, **old):
                pass


async def test_slow_clients_are_cut_over_tls_as_well(authority, files):
    certificate = Certificate(files.certificate, files.key)
    async with served(build_echo(Seen()), tls=certificate.context, head_seconds=0.5, deaf_seconds=0.5) as server:
        async with talking(server.port, authority) as (reader, writer):
            writer.write(b"GET / HT")
            (answer,) = read_answers(await in_time(reader.read()))
        assert answer.status == 408
        await eventually(lambda: len(server.keeper) == 0)


async def test_a_renewed_certificate_is_shown_to_who_comes_next(authority, files):
    certificate = Certificate(files.certificate, files.key)
    async with served(build_echo(Seen()), tls=certificate.context) as server:
        first = await serial_of(server.port, authority)
        assert not await certificate.tick()
        authority.sign("server", "127.0.0.1")
        assert await certificate.tick()
        assert await serial_of(server.port, authority) != first
        assert not await certificate.tick()


async def test_a_certificate_whose_key_has_not_come_yet_is_left_for_the_next_look(authority, files):
    certificate = Certificate(files.certificate, files.key)
    async with served(build_echo(Seen()), tls=certificate.context) as server:
        first = await serial_of(server.port, authority)
        new = authority.sign("server", "127.0.0.1", file="new")
        files.certificate.write_bytes(new.certificate.read_bytes())
        with capture_logs() as logs:
            assert not await certificate.tick()
        assert "the old one is kept" in logs[0]["event"]
        assert await serial_of(server.port, authority) == first
        files.key.write_bytes(new.key.read_bytes())
        assert await certificate.tick()
        assert await serial_of(server.port, authority) != first


async def test_it_looks_by_itself(authority, files):
    certificate = Certificate(files.certificate, files.key)
    certificate.interval_seconds = 0.05
    looking = asyncio.create_task(certificate.run())
    async with served(build_echo(Seen()), tls=certificate.context) as server:
        first = await serial_of(server.port, authority)
        authority.sign("server", "127.0.0.1")

        async def renewed():
            return await serial_of(server.port, authority) != first

        await eventually(renewed)
    looking.cancel()
    await asyncio.gather(looking, return_exceptions=True)


def test_files_that_cannot_be_used_are_named_with_what_to_do(authority, files, tmp_path):
    other = authority.sign("other", "127.0.0.1")
    nothing = tmp_path / "nothing.pem"
    nothing.write_text("nothing")
    for certificate, key, words in (
        (tmp_path / "missing.crt", files.key, "ROTA_TLS_CERTIFICATE: .*missing.crt can't be read"),
        (files.certificate, tmp_path / "missing.key", "ROTA_TLS_KEY: .*missing.key can't be read"),
        (files.certificate, other.key, "is not the key of"),
        (nothing, files.key, "in PEM form"),
    ):
        with pytest.raises(SetupError, match=words):
            Certificate(certificate, key)
    encrypt(files.key, b"secret")
    with pytest.raises(SetupError, match="the key is encrypted"):
        Certificate(files.certificate, files.key)


@pytest.mark.parametrize(("days", "words"), [(-1, "has expired"), (3, "expires soon")])
async def test_the_end_of_a_certificate_is_warned_of_once_a_day(authority, days, words):
    files = authority.sign("server", "127.0.0.1", days=days)
    with capture_logs() as logs:
        certificate = Certificate(files.certificate, files.key)
        await certificate.tick()
    assert [words in entry["event"] for entry in logs] == [True]


def test_a_certificate_that_lasts_is_not_warned_of(files):
    with capture_logs() as logs:
        Certificate(files.certificate, files.key)
    assert logs == []


def test_settings_want_both_files_and_then_say_https():
    with pytest.raises(SetupError, match="go together"):
        Settings.from_environment({"ROTA_TLS_CERTIFICATE": "a.pem"})
    settings = Settings.from_environment({"ROTA_TLS_CERTIFICATE": "a.pem", "ROTA_TLS_KEY": "a.key"})
    assert settings.url == "https://127.0.0.1:7682"
    assert not settings.is_exposed
    assert Settings.from_environment({"ROTA_HOST": "0.0.0.0"}).is_exposed  # noqa: S104 - not bound to
    assert not Settings.from_environment({}).is_exposed


@asynccontextmanager
async def running(*arguments, **environment):
    """A `rota` process, and what it says."""
    process = await asyncio.create_subprocess_exec(
        *commands.ROTA,
        *arguments,
        env=commands.environment(**environment),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            process.terminate()
        await in_time(process.wait())


@pytest.fixture
def environment(tmp_path, files, database_url):
    return {
        "ROTA_HOME": str(tmp_path / "home"),
        "ROTA_PORT": str(free_port()),
        "ROTA_TLS_CERTIFICATE": str(files.certificate),
        "ROTA_TLS_KEY": str(files.key),
        "ROTA_DATABASE_URL": database_url,
    }


async def test_rota_up_serves_over_tls_and_the_command_line_and_clients_find_it(environment, authority, monkeypatch):
    async with running("up", "--workers", "1", ROTA_CA_FILE=str(authority.file), **environment) as up:
        said = b""
        while b"Ctrl-C" not in said:
            said += await in_time(up.stdout.readline())
        url = f"https://127.0.0.1:{environment['ROTA_PORT']}"
        assert f"Rota is up at {url}".encode() in said
        assert f"curl -s --cacert {authority.file} {url}".encode() in said
        trusting = environment | {"ROTA_CA_FILE": str(authority.file)}
        async with running("submit", "hello", "--task", "rota.echo", "--json", "--wait", **trusting) as submit:
            out, _ = await in_time(submit.communicate())
            assert b'"status": "success"' in out
        async with running("jobs", **environment) as jobs:
            out, _ = await in_time(jobs.communicate())
            assert b"ROTA_CA_FILE" in out
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        with rota.Client(ca_file=authority.file) as client:
            assert client.url == url
            assert [job.name for job in client.jobs()] == ["hello"]
        with pytest.raises(ServerUnreachableError, match="ROTA_CA_FILE"), rota.Client(retries=0) as client:
            list(client.jobs())
        monkeypatch.setenv("ROTA_CA_FILE", str(authority.file))
        async with rota.AsyncClient() as client:
            assert [job.name async for job in client.jobs()] == ["hello"]


async def test_rota_up_says_at_once_that_the_key_is_wrong(environment, authority):
    wrong = {"ROTA_TLS_KEY": str(authority.sign("other").key)}
    async with running("up", **(environment | wrong)) as up:
        out, _ = await in_time(up.communicate())
    assert b"is not the key of" in out
    assert up.returncode == 2


def test_a_file_of_authorities_that_holds_none_is_named(tmp_path):
    (tmp_path / "empty.pem").write_text("")
    with pytest.raises(SetupError, match="ROTA_CA_FILE"):
        rota.Client("https://127.0.0.1:1", "token", ca_file=tmp_path / "empty.pem")


def test_swapped_files_and_files_without_what_they_should_hold_are_told(files, tmp_path):
    with pytest.raises(SetupError, match=r"are swapped: .*exchange them"):
        Certificate(files.key, files.certificate)
    with pytest.raises(SetupError, match="ROTA_TLS_KEY: there is no private key in PEM form in"):
        Certificate(files.certificate, files.certificate)
    (tmp_path / "notes.txt").write_text("not a certificate")
    with pytest.raises(SetupError, match="ROTA_TLS_CERTIFICATE: there is no certificate in PEM form in"):
        Certificate(tmp_path / "notes.txt", files.key)


async def test_plain_http_to_a_port_with_tls_is_told_the_right_address(files):
    certificate = Certificate(files.certificate, files.key)
    async with (
        served(build_echo(Seen()), tls=certificate.context) as server,
        rota.AsyncClient(f"http://127.0.0.1:{server.port}", "x", retries=0) as client,
    ):
        with pytest.raises(ServerUnreachableError, match=f"set ROTA_URL to https://127.0.0.1:{server.port}") as told:
            await client.workers()
    assert told.value.advised
