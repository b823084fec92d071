"""Every error Rota raises on purpose. Each says what happened and what to do next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


class RotaError(Exception):
    """Base of all errors raised by Rota.

    `to_repeat`: submissions that were not taken in time, or whose answer was lost, with their idempotency keys. To
    submit these again makes no job twice.
    """

    to_repeat: Sequence[Any] = ()


class BadInputError(RotaError):
    """The input is invalid; `fields` says what is wrong with which field."""

    def __init__(self, message: str, *, field: str | None = None) -> None:
        super().__init__(message)
        self.fields: list[tuple[str, str]] = [(field, message)] if field else []

    @classmethod
    def of(cls, fields: Sequence[tuple[str, str]]) -> BadInputError:
        """One error for all fields that are wrong, each with what is wrong with it."""
        error = cls(fields[0][1])
        error.fields = list(fields)
        return error


class NotFoundError(RotaError):
    """There is no such job, run or worker in the caller's namespace."""


class ForbiddenError(RotaError):
    """The caller's role or key does not allow this."""


class NotAuthenticatedError(RotaError):
    """The request carries no valid credentials."""


class ConflictError(RotaError):
    """The object's state does not allow this, or another change came first."""


class DuplicateError(ConflictError):
    """Another job has the same unique key."""


class VersionMismatchError(ConflictError):
    """The caller's If-Match names a version that is no longer the current one."""


class KeyReusedError(RotaError):
    """An idempotency key was reused with a different request body."""


class OverloadedError(RotaError):
    """Too much is waiting to be written; retry after `retry_after_seconds`."""

    def __init__(self, message: str, *, retry_after_seconds: int = 1) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class TooMuchWaitingError(OverloadedError):
    """The backlog limit of the owner, the pool or the namespace is reached."""


class RateLimitedError(OverloadedError):
    """The rate limit of the key or the namespace is exceeded; `headers` say what is left of it."""

    def __init__(self, message: str, *, retry_after_seconds: int, headers: Mapping[str, str]) -> None:
        super().__init__(message, retry_after_seconds=retry_after_seconds)
        self.headers = dict(headers)


class TooLargeError(RotaError):
    """The request exceeds a limit by itself: waiting does not help, sending less does."""


class FanOutError(RotaError):
    """A run reached its limit of submitted jobs. It fails for good: a retry would submit as many again."""


class DatabaseUnavailableError(RotaError):
    """PostgreSQL did not answer. It is unknown whether the statement took effect."""


class DiskFullError(DatabaseUnavailableError):
    """PostgreSQL's disk is full. Nothing was written; reads still work."""


class LockTimeoutError(DatabaseUnavailableError):
    """Another transaction has held a row for too long. Nothing was written."""


class DataRejectedError(RotaError):
    """PostgreSQL refused the data of one item; other items were not affected."""


class KeyHeldError(DataRejectedError, OverloadedError):
    """Another transaction has held the same key for too long; retry later."""

    def __init__(self, message: str) -> None:
        OverloadedError.__init__(self, message)


class EndedByTaskError(RotaError):
    """A transactional task committed or rolled back itself, so its writes and its success can't be atomic."""

    def __init__(self) -> None:
        super().__init__("the task must neither commit nor roll back: its transaction is the worker's to end")


class InvalidTokenError(NotAuthenticatedError):
    """An invalid bearer token. The message can be shown to the sender and never holds the token."""


class KeysUnavailableError(InvalidTokenError):
    """No keys to verify a token: the identity provider has not been reached, or not for too long."""

    def __init__(self) -> None:
        super().__init__("the keys of the identity provider are not at hand; try again in a moment")


class SetupError(RotaError):
    """Rota can't start with this configuration; the message says what to change."""
