"""Why there is no connection to the database, in words that say what happened and what to do."""

from __future__ import annotations

import re
import socket
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import asyncpg

from rota.errors import SetupError

# PgBouncer answers with one code of its own, whatever the server's was.
_REFUSED = re.compile(r"authentication failed|no such (database|user)|does not exist", re.IGNORECASE)
_FILES = ("sslrootcert", "sslcert", "sslkey", "sslcrl")
_REASONS = (
    (
        # asyncpg with OpenSSL's words; libpq
        re.compile(r"(Hostname|IP address) mismatch|does not match host name", re.IGNORECASE),
        "the server's certificate is not for this host: connect by a name that it has, or issue one for this host",
    ),
    (
        re.compile(r"certificate verify failed", re.IGNORECASE),
        "the server's certificate is not believed: name the file with its authority as sslrootcert in the URL",
    ),
    (
        re.compile(r"rejected SSL upgrade|server does not support SSL", re.IGNORECASE),
        "the server does not speak TLS, which sslmode in the URL asks for: switch it on there (ssl = on)",
    ),
)


def explain(error: BaseException) -> str:
    """The error in plain words, with advice if TLS is the reason."""
    if isinstance(error, asyncpg.InternalClientError) or (
        isinstance(error, asyncpg.InterfaceError) and not str(error).startswith("pool is ")
    ):
        # The server's last words came while the driver did not listen; what it says then is about its own state.
        return "PostgreSQL closed the connection"
    if isinstance(error, TimeoutError) and not str(error):
        return "no answer in time"
    said = str(error) or type(error).__name__
    words = advice(error)
    return f"{words} ({said})" if words else said


def advice(error: BaseException) -> str | None:
    """Advice about TLS; None if TLS is not the reason."""
    said = str(error)
    return next((words for pattern, words in _REASONS if pattern.search(said)), None)


def is_lasting(error: BaseException | None) -> bool:
    """Whether the address is wrong: there is no such host, or a pooler says that the server refuses us."""
    if isinstance(error, socket.gaierror):
        return error.errno != socket.EAI_AGAIN
    return isinstance(error, asyncpg.PostgresConnectionError) and bool(_REFUSED.search(str(error)))


def check_files(url: str, variable: str) -> None:
    """Raises SetupError when a file that the URL names can't be read: asyncpg would not say which."""
    try:
        query = parse_qsl(urlsplit(url).query)
    except ValueError:
        return  # not our business: connecting says so
    for name, file in query:
        if name not in _FILES:
            continue
        try:
            Path(file).open("rb").close()
        except OSError as error:
            raise SetupError(f"{variable}: {name}={file} can't be read ({error.strerror})") from error
