"""Reads answers, for both faces of the client."""

from __future__ import annotations

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from rota.client.http_messages import ExchangeError, HttpAnswer, NotHttpError

# More than a Rota server ever sends: a peer that sends it would fill this process's memory.
MOST_HEAD_BYTES = 64 * 1024
MOST_BODY_BYTES = 256 * 1024 * 1024
_INFORMATIONAL = range(100, 200)
# Without one of these only the end of the connection ends the body.
_LENGTH_FIELDS = (b"content-length", b"transfer-encoding")


class AnswerTooLargeError(ExchangeError):
    """An answer has more bytes than this client accepts."""


class AnswerReader:
    """Parses the answers of one connection, one after the other."""

    def __init__(self) -> None:
        self._parser = HttpResponseParser(self)
        self.begin()

    def begin(self) -> None:
        """Expects the answer to the next request."""
        self.status = 0
        self.fields: list[tuple[bytes, bytes]] = []
        self.has_begun = False  # a byte of the answer came
        self.has_head = False
        self.is_complete = False
        self.keeps_alive = False
        self.held_bytes = 0  # of the body, not taken yet
        self._pieces: list[bytes] = []
        self._head_bytes = 0
        self.without_body = False  # as answers to HEAD

    def feed(self, data: bytes) -> bool:
        """Whether the answer is complete; raises NotHttpError or AnswerTooLargeError."""
        self.has_begun = True
        try:
            self._parser.feed_data(data)
        except HttpParserUpgrade:
            raise NotHttpError("it wants to speak another protocol") from None
        except HttpParserError as error:
            if not self.is_complete:
                raise NotHttpError(f"no HTTP: {error}") from None
            self.keeps_alive = False  # something came after the answer
        if not self.has_head:
            self._head_bytes += len(data)
            if self._head_bytes > MOST_HEAD_BYTES:
                raise AnswerTooLargeError(f"the head of its answer has more than {MOST_HEAD_BYTES} bytes")
        elif self.held_bytes > MOST_BODY_BYTES:
            raise AnswerTooLargeError(f"its answer has more than {MOST_BODY_BYTES} bytes")
        return self.is_complete

    def end(self) -> bool:
        """The server sent its last byte; whether the answer is complete, which may be known only now."""
        self.keeps_alive = False
        if self.has_head and not any(name.lower() in _LENGTH_FIELDS for name, _ in self.fields):
            self.is_complete = True
        return self.is_complete

    def take(self) -> bytes:
        """What came of the body and was not taken yet."""
        pieces, self._pieces, self.held_bytes = self._pieces, [], 0
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def answer(self, path: str) -> HttpAnswer:
        """The whole answer."""
        return HttpAnswer(self.status, self.take(), path, self.fields)

    def on_message_begin(self) -> None:
        """A second answer was not asked for."""
        if self.is_complete:
            self.keeps_alive = False

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header field, or one after the last chunk, which is ignored."""
        if not self.has_head:
            self.fields.append((name, value))

    def on_headers_complete(self) -> None:
        """The head is complete."""
        if self.is_complete:
            return
        self.status = self._parser.get_status_code()
        if self.status in _INFORMATIONAL:
            return
        self.has_head = True
        if self.without_body:
            # The parser would wait for the body that the length promises.
            self.is_complete = True

    def on_body(self, data: bytes) -> None:
        """A piece of the body."""
        if not self.is_complete:
            self._pieces.append(data)
            self.held_bytes += len(data)

    def on_message_complete(self) -> None:
        """The answer is complete, unless it was only an interim one (100 Continue, 103 Early Hints)."""
        if self.is_complete:
            return
        if self.has_head:
            self.is_complete = True
            self.keeps_alive = self._parser.should_keep_alive()
        else:
            self.fields, self._head_bytes = [], 0
