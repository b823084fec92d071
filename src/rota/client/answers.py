"""Answers of the server as types of the contract, problems as errors."""

from __future__ import annotations

import json
from typing import Any, Protocol, TypeVar

import httpx
import msgspec

from rota.client.errors import AnswerError, ServerUnreachableError
from rota.client.retries import retry_after

T = TypeVar("T")
Item = TypeVar("Item")

_NOT_AUTHENTICATED = 401


class Page(Protocol[Item]):
    """A page of a list."""

    @property
    def items(self) -> list[Item]:
        """What is on it."""

    @property
    def next_cursor(self) -> str | None:
        """Where the list goes on; None: it has ended."""


def read_answer(url: str, response: httpx.Response, kind: type[T]) -> T:
    """The answer as this type; raises AnswerError for a problem, ServerUnreachableError when no Rota server said it."""
    if not response.is_success:
        raise _problem(url, response)
    try:
        return msgspec.json.decode(response.content, type=kind)
    except msgspec.ValidationError as error:
        raise ServerUnreachableError(
            f"what {url} said to {response.url.path} can't be read ({error}); is the server of another version?"
        ) from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise _stranger(url, response) from None


def read_object(url: str, response: httpx.Response) -> Any:
    """The answer as it came, whole numbers of any size included; raises as `read_answer` does."""
    if not response.is_success:
        raise _problem(url, response)
    try:
        content = json.loads(response.content)
    except ValueError:
        content = None
    if not isinstance(content, dict):
        raise _stranger(url, response)
    return content


def read_text(url: str, response: httpx.Response) -> str:
    """An answer that is text; raises as `read_answer` does."""
    if not response.is_success:
        raise _problem(url, response)
    return response.text


# OpenSSL's words for an answer that is no TLS, in its several versions.
_NOT_TLS = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG")


def unreachable(url: str, error: httpx.TransportError) -> ServerUnreachableError:
    """Our error for a connection that could not be had, or was lost."""
    if isinstance(error, httpx.TimeoutException):
        return ServerUnreachableError(f"{url} did not answer in time ({error or type(error).__name__})")
    if "CERTIFICATE_VERIFY_FAILED" in str(error):
        return ServerUnreachableError(
            f"the certificate of {url} is not believed ({error}); name a file with its authority: ROTA_CA_FILE",
            advised=True,
        )
    if any(words in str(error) for words in _NOT_TLS):
        plain = f"http{url.removeprefix('https')}"
        return ServerUnreachableError(
            f"what listens at {url} does not speak TLS; if it is your server, its address is {plain} (ROTA_URL)",
            advised=True,
        )
    if isinstance(error, httpx.RemoteProtocolError) and url.startswith("http:"):
        secure = f"https{url.removeprefix('http')}"
        return ServerUnreachableError(
            f"what listens at {url} hangs up without an answer ({error}); if it speaks TLS, its address is {secure} "
            "(ROTA_URL, with the certificate's authority in ROTA_CA_FILE)",
            advised=True,
        )
    return ServerUnreachableError(f"no Rota server answers at {url} ({error or type(error).__name__})")


def _problem(url: str, response: httpx.Response) -> AnswerError | ServerUnreachableError:
    try:
        problem = msgspec.json.decode(response.content, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _stranger(url, response)
    if response.status_code == _NOT_AUTHENTICATED:
        said = problem.get("detail", "")
        problem["said"] = said
        problem["detail"] = (
            f"the server at {url} does not accept the token, or got none ({said}): give one (token=…), set ROTA_TOKEN, "
            "or ROTA_HOME to the server's home directory"
        )
    return AnswerError(response.status_code, problem, retry_after(response))


def _stranger(url: str, response: httpx.Response) -> ServerUnreachableError:
    said = f"{response.status_code} to {response.url.path}"
    return ServerUnreachableError(f"what answers at {url} is not a Rota server (it said {said})")
