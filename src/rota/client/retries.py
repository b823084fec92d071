"""When a request is retried, and after which pause.

Safe requests are retried when the connection or the answer was lost, and when the server or a proxy can't answer now
(429, 502, 503, 504). Other requests are retried only if they were never sent: the connection failed. Jobs of a batch
that were answered in this way are sent again by themselves, within the same tries.
"""

from __future__ import annotations

import math
import random
import time

from rota.client.errors import NOT_NOW, AnswerError, ServerUnreachableError
from rota.client.http_messages import ExchangeError, HttpAnswer
from rota.domain.durations import Duration, seconds_of
from rota.errors import BadInputError

RETRIES = 5
FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 10.0
_PATIENCE_SECONDS = 60.0
_TOO_MANY = 429
_NO_ANSWER = NOT_NOW - {_TOO_MANY}  # they say nothing about what became of the request
REFUSED_SECONDS = 1.0  # pause for an overloaded server


class Tries:
    """The tries of one call: a number of retries, none later than twice the timeout; or with patience, as many as that
    allows."""

    def __init__(
        self, repeats: int, timeout_seconds: float, *, repeatable: bool, patience_seconds: float | None = None
    ) -> None:
        self._left: float = repeats if patience_seconds is None else math.inf
        self._pauses = _Pauses()
        self._deadline = time.monotonic() + (2 * timeout_seconds if patience_seconds is None else patience_seconds)
        self.repeatable = repeatable
        self.gives_back_refusals = False  # whether 429 is for the caller, who sends less at a time
        self.may_have_arrived = False  # whether a try without an answer may have been accepted

    def pause_after_error(self, error: ExchangeError) -> float | None:
        """The pause before the next try; None: give up."""
        self.may_have_arrived |= not error.never_sent
        return self._pause() if self.repeatable or error.never_sent else None

    def pause_after_answer(self, answer: HttpAnswer) -> float | None:
        """The pause after an answer; None: use the answer."""
        self.may_have_arrived |= answer.was_repeated or answer.status in _NO_ANSWER
        if answer.status not in NOT_NOW or not self.repeatable:
            return None
        if self.gives_back_refusals and answer.status == _TOO_MANY:
            return None
        return self._pause(min(retry_after(answer) or 0.0, LONGEST_PAUSE_SECONDS))

    def pause_after_refusal(self) -> float | None:
        """The pause before jobs of a batch that can't be taken now are sent again; None: use their answers."""
        return self._pause(min(REFUSED_SECONDS, LONGEST_PAUSE_SECONDS))

    def _pause(self, least: float = 0.0) -> float | None:
        """Up to the deadline, so that the last try comes at the end of the time that is given."""
        left = self._deadline - time.monotonic()
        if self._left <= 0 or left <= 0:
            return None
        self._left -= 1
        return min(least + self._pauses.next(), left)


def read_patience(patience: Duration | None) -> float | None:
    """Seconds; raises BadInputError."""
    try:
        return None if patience is None else seconds_of(patience)
    except ValueError as error:
        raise BadInputError(str(error), field="patience") from None


class Patience:
    """How long to wait for a lost server, counted from the first error; None: for ever."""

    def __init__(self, seconds: float | None = _PATIENCE_SECONDS) -> None:
        self._seconds = seconds
        self.begin_anew()

    def begin_anew(self) -> None:
        """The server has answered."""
        self._pauses = _Pauses()
        self._since: float | None = None

    @property
    def lost(self) -> bool:
        """Whether the last request failed."""
        return self._since is not None

    def bear(self, error: ServerUnreachableError | AnswerError) -> None:
        """Raises the error if waiting would not help or took too long."""
        if isinstance(error, AnswerError) and error.status not in NOT_NOW:
            raise error
        now = time.monotonic()
        self._since = now if self._since is None else self._since
        if self._seconds is not None and now - self._since >= self._seconds:
            raise error

    def pause_after(self, error: ServerUnreachableError | AnswerError) -> float:
        """The pause before the next try; raises as `bear` does."""
        self.bear(error)
        if isinstance(error, ServerUnreachableError):
            return self._pauses.next()
        return min(error.retry_after_seconds or REFUSED_SECONDS, LONGEST_PAUSE_SECONDS) + self._pauses.next()


class _Pauses:
    """Doubling pauses with jitter, so that clients don't come back at the same time."""

    def __init__(self) -> None:
        self._longest = FIRST_PAUSE_SECONDS

    def next(self) -> float:
        """The next one."""
        longest = self._longest
        self._longest = min(2 * longest, LONGEST_PAUSE_SECONDS)
        return longest * random.uniform(0.5, 1.0)  # noqa: S311 - not a secret


def retry_after(answer: HttpAnswer) -> float | None:
    """The seconds in Retry-After; dates are ignored, as Rota sends none."""
    text = answer.headers.get("retry-after", "")
    return float(text) if text.isascii() and text.isdigit() else None
