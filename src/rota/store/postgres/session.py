"""What our sessions set themselves, so that the defaults of a server, a database or a role change nothing.

An administrator may set defaults for other programs: a lock timeout, another isolation level, a search path. Under a
lock timeout a wait turns into an error, and under REPEATABLE READ a limit counts what it can't see. So every session
names what it relies on. A direct connection sends the settings in its start-up packet, which overrides all defaults.
Behind a pooler in transaction mode the session belongs to the pooler, so each transaction begins by setting them.
"""

from __future__ import annotations

from collections.abc import Mapping

# Statements name the schema of each table; functions and operators are PostgreSQL's own.
SEARCH_PATH = "pg_catalog, pg_temp"

# For every session, also for those in which tasks run their own statements. The search path and the time zone of tasks
# stay as the administrator of their database wants them.
_COMMON = {
    "default_transaction_isolation": "read committed",
    "default_transaction_read_only": "off",
    "default_transaction_deferrable": "off",
    "statement_timeout": "0",
    "lock_timeout": "0",
    "transaction_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
    "idle_session_timeout": "0",
    "row_security": "on",
    # Compiling takes longer than any statement of ours, and pinned plans look expensive enough for it.
    "jit": "off",
}
# For Rota's own statements. Plans must not depend on statistics; see database.py.
_OWN = {
    "search_path": SEARCH_PATH,
    "timezone": "UTC",
    "standard_conforming_strings": "on",
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "enable_bitmapscan": "off",
    # Where an index has the order that is wanted, reading another one and sorting must never look cheaper.
    "enable_sort": "off",
    "enable_nestloop": "on",
    "enable_indexscan": "on",
    "enable_indexonlyscan": "on",
    "enable_partition_pruning": "on",
    # A process paused inside a transaction must not hold its locks for longer than a lease.
    "idle_in_transaction_session_timeout": "2s",
}
OLDEST_SERVER = 150000
_SINCE = {"transaction_timeout": 170000}
# How a transaction begins: the defaults of these can't be set for one that has begun.
_BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE NOT DEFERRABLE"


def own_settings(version: int) -> dict[str, str]:
    """The settings of a session for Rota's own statements, on a server of this version (as 150004)."""
    return _known(_COMMON | _OWN, version)


def task_settings(version: int) -> dict[str, str]:
    """The settings of a session in which a task runs its own statements."""
    return _known(_COMMON, version)


def begin(settings: Mapping[str, str]) -> str:
    """Begins a transaction with these settings, whatever the session has."""
    return f"{_BEGIN}; {set_local(settings)}"


def set_local(settings: Mapping[str, str]) -> str:
    """Sets them in a transaction that has begun."""
    return " ".join(f"SET LOCAL {name} = {_value(name, value)};" for name, value in settings.items())


def set_session(settings: Mapping[str, str]) -> str:
    """Sets them for the whole session."""
    return " ".join(f"SET {name} = {_value(name, value)};" for name, value in settings.items())


def _known(settings: dict[str, str], version: int) -> dict[str, str]:
    return {name: value for name, value in settings.items() if version >= _SINCE.get(name, 0)}


def _value(name: str, value: str) -> str:
    """A search path is a list of names, which quotes would make one name of."""
    return value if name == "search_path" else f"'{value}'"
