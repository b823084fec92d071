"""The psycopg connection that a transactional function in a thread gets."""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from typing import Any, Self

import psycopg
from psycopg.pq import ExecStatus, TransactionStatus
from psycopg.rows import tuple_row

from rota.errors import EndedByTaskError


class TaskConnection(psycopg.Connection[Any]):
    """Refuses to end its transaction: that is for the worker to do."""

    @classmethod
    def open_for_rota(cls, url: str, name: str, seconds: int, begin: str) -> Self:
        """A new one, in a transaction begun by `begin`; raises ConnectionError. Nothing is prepared: a pooler would
        lose it."""
        try:
            connection = cls.connect(url, prepare_threshold=None, application_name=name, connect_timeout=seconds)
        except psycopg.OperationalError as error:
            raise ConnectionError(str(error)) from error
        except psycopg.ProgrammingError:
            # Its message quotes the piece of the address that it can't read, which may be of the password.
            raise ConnectionError("psycopg can't read the database's address") from None
        begun = connection.pgconn.exec_(begin.encode())
        if begun.status != ExecStatus.COMMAND_OK:
            connection.close()
            raise ConnectionError(begun.error_message.decode(errors="replace").strip())
        return connection

    def commit(self) -> None:
        """Not for a task."""
        raise EndedByTaskError

    def rollback(self) -> None:
        """Not for a task."""
        raise EndedByTaskError

    def set_autocommit(self, value: bool) -> None:
        """Not for a task."""
        if value:
            raise EndedByTaskError

    def __exit__(self, *_details: object) -> None:
        """A `with` block around it ends nothing."""

    def commit_for_rota(self) -> None:
        """For the worker."""
        super().commit()

    def complete_for_rota(self, statement: str, arguments: tuple[Any, ...]) -> bool:
        """For the worker: the last statement; raises EndedByTaskError when the transaction is over already."""
        if self.closed or self.is_over:
            raise EndedByTaskError
        row = self.cursor(row_factory=tuple_row).execute(statement.encode(), arguments).fetchone()
        return bool(row and row[0])

    @property
    def is_over(self) -> bool:
        """For the worker: whether the task has ended the transaction by itself, by a statement."""
        return not self.closed and self.info.transaction_status is TransactionStatus.IDLE

    def cut_for_rota(self) -> None:
        """For the worker, from another thread than the task's: what that one waits for is cancelled, and its line is
        cut. To close it would pull it away from under the thread."""
        with suppress(psycopg.Error, OSError):
            self.cancel()
        with suppress(psycopg.Error, OSError), socket.socket(fileno=os.dup(self.pgconn.socket)) as line:
            line.shutdown(socket.SHUT_RDWR)
