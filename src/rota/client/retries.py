"""When a request is sent again, and after which pause.

What is safe to repeat is sent again when the connection or the answer was lost, and when the server, or a proxy before
it, says that it can't answer now (429, 502, 503, 504). What is not safe is sent again only when it surely never left:
no connection could be had.
"""

from __future__ import annotations

import random
import time

import httpx

from rota.client.errors import AnswerError, ServerUnreachableError

RETRIES = 5
FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 10.0
_PATIENCE_SECONDS = 60.0
REFUSED_SECONDS = 1.0  # a server that is there but has too much to do gets some air
NOT_NOW = frozenset({429, 502, 503, 504})
_NEVER_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)


class Tries:
    """The tries of one call: so many repeats, and none that begins later than twice the time-out."""

    def __init__(self, repeats: int, timeout_seconds: float, *, repeatable: bool) -> None:
        self._left = repeats
        self._pauses = _Pauses()
        self._deadline = time.monotonic() + 2 * timeout_seconds
        self._repeatable = repeatable

    def pause_after_error(self, error: httpx.TransportError) -> float | None:
        """How long to pause before the next try; None: there is none."""
        return self._pause() if self._repeatable or isinstance(error, _NEVER_SENT) else None

    def pause_after_answer(self, response: httpx.Response) -> float | None:
        """The same after an answer; None as well when the answer is a good one."""
        if response.status_code not in NOT_NOW or not self._repeatable:
            return None
        return self._pause(min(retry_after(response) or 0.0, LONGEST_PAUSE_SECONDS))

    def _pause(self, least: float = 0.0) -> float | None:
        if self._left <= 0:
            return None
        self._left -= 1
        pause = least + self._pauses.next()
        return pause if time.monotonic() + pause < self._deadline else None


class Patience:
    """How long a server that went away is waited for, counted from the first error; for ever without a limit."""

    def __init__(self, seconds: float | None = _PATIENCE_SECONDS) -> None:
        self._seconds = seconds
        self.begin_anew()

    def begin_anew(self) -> None:
        """The server is there."""
        self._pauses = _Pauses()
        self._since: float | None = None

    @property
    def lost(self) -> bool:
        """Whether the server was not there the last time."""
        return self._since is not None

    def bear(self, error: ServerUnreachableError | AnswerError) -> None:
        """Raises the error itself when waiting would not help, or took too long."""
        if isinstance(error, AnswerError) and error.status not in NOT_NOW:
            raise error
        now = time.monotonic()
        self._since = now if self._since is None else self._since
        if self._seconds is not None and now - self._since >= self._seconds:
            raise error

    def pause_after(self, error: ServerUnreachableError | AnswerError) -> float:
        """How long to pause; raises as `bear` does."""
        self.bear(error)
        if isinstance(error, ServerUnreachableError):
            return self._pauses.next()
        return min(error.retry_after_seconds or REFUSED_SECONDS, LONGEST_PAUSE_SECONDS) + self._pauses.next()


class _Pauses:
    """Pauses that double, each between half and all of its length: those who were cut off together come back apart."""

    def __init__(self) -> None:
        self._longest = FIRST_PAUSE_SECONDS

    def next(self) -> float:
        """The next one."""
        longest = self._longest
        self._longest = min(2 * longest, LONGEST_PAUSE_SECONDS)
        return longest * random.uniform(0.5, 1.0)  # noqa: S311 - not a secret


def retry_after(response: httpx.Response) -> float | None:
    """The seconds that the server asks for; a date is not understood, and no server of ours gives one."""
    text = response.headers.get("retry-after", "")
    return float(text) if text.isascii() and text.isdigit() else None
