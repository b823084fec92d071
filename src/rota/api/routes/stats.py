"""What is going on in a namespace, in numbers."""

from __future__ import annotations

from typing import Annotated

import msgspec

from rota.api.backend import Backend
from rota.api.operations import ApiRequest, Operation
from rota.contract.fleet import Stats
from rota.domain.rights import Right
from rota.errors import BadInputError

_WINDOW_SECONDS = 60
_LEAST_SECONDS = 10
_MOST_SECONDS = 600
_Window = Annotated[int, msgspec.Meta(ge=_LEAST_SECONDS, le=_MOST_SECONDS)]


async def stats(services: Backend, call: ApiRequest) -> Stats:
    """Counts, rates and lags of the whole namespace: numbers of all, no one job."""
    return await services.statistics.of(call.caller.namespace, _window(call))


def _window(call: ApiRequest) -> int:
    given = call.query.get("windowSeconds", str(_WINDOW_SECONDS))
    try:
        return msgspec.convert(given, _Window, strict=False)
    except msgspec.ValidationError:
        words = f"must be whole seconds, {_LEAST_SECONDS} to {_MOST_SECONDS}"
        raise BadInputError(words, field="windowSeconds") from None


OPERATIONS = (
    Operation(
        method="GET",
        path="/v1/stats",
        needs=Right.READ,
        handler=stats,
        summary="What waits, what runs, how fast and how late, in numbers",
        query={"windowSeconds": "rates and lags over so many seconds, 10 to 600 (60)"},
        answer=Stats,
    ),
)
