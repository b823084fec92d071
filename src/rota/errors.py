"""Every error Rota raises on purpose. Each says what happened and what to do next."""

from __future__ import annotations

from collections.abc import Mapping


class RotaError(Exception):
    """Base of all errors raised by Rota."""


class BadInputError(RotaError):
    """What the caller sent can't be accepted; `fields` names what is wrong where."""

    def __init__(self, message: str, *, field: str | None = None) -> None:
        super().__init__(message)
        self.fields: list[tuple[str, str]] = [(field, message)] if field else []


class NotFoundError(RotaError):
    """There is no such job, run or worker in the caller's namespace."""


class ForbiddenError(RotaError):
    """The caller's role or key does not allow this."""


class NotAuthenticatedError(RotaError):
    """The request does not prove who sent it."""


class ConflictError(RotaError):
    """The object is in a state that does not allow this, or another change came first."""


class DuplicateError(ConflictError):
    """Another job has the same unique key."""


class VersionMismatchError(ConflictError):
    """The caller's If-Match names a version that is no longer the current one."""


class KeyReusedError(RotaError):
    """An idempotency key came back with another request body."""


class OverloadedError(RotaError):
    """Too much is waiting to be written; come back after `retry_after_seconds`."""

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
    """More at once than a limit ever lets through: waiting does not help, less does."""


class FanOutError(RotaError):
    """A run has submitted as many jobs as one may. It fails for good: another try would submit as many again."""


class DatabaseUnavailableError(RotaError):
    """PostgreSQL did not answer. Nothing is known about the statement that was under way."""


class DiskFullError(DatabaseUnavailableError):
    """PostgreSQL has no room left. What was asked was not written; what is there can be read."""


class DataRejectedError(RotaError):
    """PostgreSQL refused one item for its data; the items beside it were not affected."""


class KeyHeldError(DataRejectedError, OverloadedError):
    """A transaction somewhere holds the same key for too long; come back later."""

    def __init__(self, message: str) -> None:
        OverloadedError.__init__(self, message)


class EndedByTaskError(RotaError):
    """A transactional task committed or rolled back by itself: its writes and its completion can't be one."""

    def __init__(self) -> None:
        super().__init__("the task must neither commit nor roll back: its transaction is the worker's to end")


class InvalidTokenError(NotAuthenticatedError):
    """A bearer token that proves nothing. The message may be shown to the sender, and never holds the token."""


class KeysUnavailableError(InvalidTokenError):
    """No key is at hand to judge a token by: the identity provider was not reached yet, or not for too long."""

    def __init__(self) -> None:
        super().__init__("the keys of the identity provider are not at hand; try again in a moment")


class SetupError(RotaError):
    """Rota can't start as it was asked to; the message says what to change."""
