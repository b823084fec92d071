"""Messages between a worker and the processes of isolated functions: MessagePack frames on a socket."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

import msgspec

from rota.domain.run import Claim
from rota.gateway.child import ChildAnswer, ChildQuestion

HEADER_BYTES = 4
# A result of 10 MiB and some overhead.
LARGEST_FRAME = 16 * 1024 * 1024


class StartRun(msgspec.Struct, tag=True):
    """Get ready to run this function. `payload` is JSON."""

    module: str
    name: str
    payload: bytes | None
    claim: Claim
    secrets: Mapping[str, str]


class Begin(msgspec.Struct, tag=True):
    """Call the function now, unless it is later than `until` (`rota.clock.uptime`, which all processes share)."""

    claim: int
    until: float


class Stop(msgspec.Struct, tag=True):
    """Stop the run of this claim, or don't begin it."""

    claim: int


class Ready(msgspec.Struct, tag=True):
    """The function can be called. The worker answers `Begin` or `Stop`: a process that starts slowly, or was paused,
    does not begin what was cancelled meanwhile."""

    claim: int


class Output(msgspec.Struct, tag=True):
    """The function printed or logged; `whole` lines come from a logger."""

    stream: Annotated[str, msgspec.Meta(pattern="^(stdout|stderr|log)(?!\n)$")]
    data: bytes
    whole: bool


class Told(msgspec.Struct, tag=True):
    """Progress and checkpoint."""

    progress: float | None
    message: str | None
    checkpoint: str | None


class RunDone(msgspec.Struct, tag=True):
    """The function has ended, or did not begin. `result` is JSON; `final`: it failed for good; `kinds`: what it raised
    (see `kinds_of`); `spent`: the process must be replaced."""

    claim: int = -1
    begun: bool = True
    result: bytes | None = None
    error: str | None = None
    trace: str = ""
    final: bool = False
    snooze: float | None = None
    stopped: bool = False
    noticed: bool = False
    spent: bool = False
    kinds: Sequence[Sequence[str]] = ()


ToChild = StartRun | Begin | Stop | ChildAnswer
FromChild = Ready | Output | Told | ChildQuestion | RunDone
_encoder = msgspec.msgpack.Encoder()
to_child = msgspec.msgpack.Decoder(ToChild)
from_child = msgspec.msgpack.Decoder(FromChild)


def frame(message: ToChild | FromChild) -> bytes:
    body = _encoder.encode(message)
    return len(body).to_bytes(HEADER_BYTES, "big") + body
