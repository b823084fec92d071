"""A way to the tests' PostgreSQL that can be shut: who connects meanwhile gets an error that the test chooses."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from urllib.parse import parse_qs, urlsplit


class Gate:
    """A TCP port in front of a server on a Unix socket."""

    def __init__(self, database_url: str) -> None:
        parts = urlsplit(database_url)
        self._socket = f"{parse_qs(parts.query)['host'][0]}/.s.PGSQL.5432"
        self._database = parts.path.lstrip("/")
        self._clients: set[asyncio.StreamWriter] = set()
        self.refusal: tuple[str, str] | None = None  # SQLSTATE and message; None: open
        self.refused = 0
        self.port = 0

    @property
    def url(self) -> str:
        return f"postgresql://rota@127.0.0.1:{self.port}/{self._database}?sslmode=disable"

    def shut(self, code: str, message: str) -> None:
        self.refusal = (code, message)

    def open(self) -> None:
        self.refusal = None

    def say(self, code: str, message: str) -> None:
        """Sends the error to every client, whether it asked something or not."""
        for client in self._clients:
            client.write(_error(code, message))

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if refusal := self.refusal:  # what is said, even if the gate opens meanwhile
            self.refused += 1
            with suppress(OSError):
                await reader.readexactly(int.from_bytes(await reader.readexactly(4)) - 4)
                writer.write(_error(*refusal))
                await writer.drain()
            writer.close()
            return
        there, back = await asyncio.open_unix_connection(self._socket)
        self._clients.add(writer)
        await asyncio.gather(_pass(reader, back), _pass(there, writer))
        self._clients.discard(writer)


async def _pass(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await source.read(65536):
            target.write(data)
            await target.drain()
    target.close()


def _error(code: str, message: str) -> bytes:
    fields = b"".join(name + value.encode() + b"\0" for name, value in ((b"S", "FATAL"), (b"C", code), (b"M", message)))
    return b"E" + (len(fields) + 5).to_bytes(4) + fields + b"\0"


@asynccontextmanager
async def gated(database_url: str):
    """A gate, open at first."""
    gate = Gate(database_url)
    server = await asyncio.start_server(gate.serve, "127.0.0.1", 0)
    gate.port = server.sockets[0].getsockname()[1]
    yield gate
    server.close()
