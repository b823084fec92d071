"""Decodes the server's answers, and turns problems into errors."""

from __future__ import annotations

import json
from typing import Any, Protocol, TypeVar

import msgspec

from rota.client.errors import NOT_NOW, AnswerError, ServerUnreachableError
from rota.client.http_messages import ExchangeError, ExchangeTimeoutError, HttpAnswer, HungUpError, NotHttpError
from rota.client.retries import retry_after
from rota.contract.jobs import BatchResult

T = TypeVar("T")
Item = TypeVar("Item")

_NOT_AUTHENTICATED = 401


class Page(Protocol[Item]):
    """A page of a list."""

    @property
    def items(self) -> list[Item]:
        """The items."""

    @property
    def next_cursor(self) -> str | None:
        """The cursor of the next page; None on the last."""


class JobResult(BatchResult, kw_only=True):
    """The result of one job of `submit_many`. `to_repeat`: the job, with its idempotency key, if it was not taken in
    time; to submit it again makes no second one."""

    to_repeat: Any = None

    @property
    def is_temporary(self) -> bool:
        """Whether the same job may be accepted later."""
        return self.error is not None and self.error.status in NOT_NOW


class JobResults(msgspec.Struct):
    """The answer to a batch."""

    results: list[JobResult]


def read_answer(url: str, answer: HttpAnswer, kind: type[T]) -> T:
    """The answer as this type; raises AnswerError for a problem, ServerUnreachableError if it is not from Rota."""
    if not answer.is_success:
        raise _problem(url, answer)
    try:
        return msgspec.json.decode(answer.content, type=kind)
    except msgspec.ValidationError as error:
        words = f"the answer of {url} to {answer.path} can't be read ({error}); is it another version of Rota?"
        raise ServerUnreachableError(words) from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise _stranger(url, answer) from None


def read_object(url: str, answer: HttpAnswer) -> Any:
    """The answer as plain JSON, with integers of any size; raises as `read_answer` does."""
    if not answer.is_success:
        raise _problem(url, answer)
    try:
        content = json.loads(answer.content)
    except ValueError:
        content = None
    if not isinstance(content, dict):
        raise _stranger(url, answer)
    return content


def read_text(url: str, answer: HttpAnswer) -> str:
    """The answer as text; raises as `read_answer` does."""
    if not answer.is_success:
        raise _problem(url, answer)
    return answer.text


# What versions of OpenSSL say about an answer without TLS.
_NOT_TLS = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG")


def unreachable(url: str, error: ExchangeError) -> ServerUnreachableError:
    """The error for a connection that failed or was lost."""
    if isinstance(error, ExchangeTimeoutError):
        return ServerUnreachableError(f"{url} did not answer in time ({error})")
    if "CERTIFICATE_VERIFY_FAILED" in str(error):
        words = f"the certificate of {url} is not trusted ({error}); set ROTA_CA_FILE to its authority's certificate"
        return ServerUnreachableError(words, advised=True)
    if any(words in str(error) for words in _NOT_TLS):
        plain = f"http{url.removeprefix('https')}"
        words = f"{url} does not speak TLS; if it is your server, set ROTA_URL to {plain}"
        return ServerUnreachableError(words, advised=True)
    if isinstance(error, NotHttpError | HungUpError) and url.startswith("http:"):
        secure = f"https{url.removeprefix('http')}"
        fix = f"if it speaks TLS, set ROTA_URL to {secure} and ROTA_CA_FILE to its authority's certificate"
        return ServerUnreachableError(f"{url} closed the connection without an answer ({error}); {fix}", advised=True)
    return ServerUnreachableError(f"no Rota server answers at {url} ({error})")


def _problem(url: str, answer: HttpAnswer) -> AnswerError | ServerUnreachableError:
    try:
        problem = msgspec.json.decode(answer.content, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _stranger(url, answer)
    if answer.status == _NOT_AUTHENTICATED:
        said = problem["said"] = problem.get("detail", "")
        fix = "give a token (token=…), or set ROTA_TOKEN, or ROTA_HOME to the server's home directory"
        problem["detail"] = f"the server at {url} does not accept the token, or got none ({said}): {fix}"
    return AnswerError(answer.status, problem, retry_after(answer))


def _stranger(url: str, answer: HttpAnswer) -> ServerUnreachableError:
    said = f"{answer.status} to {answer.path}"
    return ServerUnreachableError(f"{url} is not a Rota server (it answered {said})")
