"""Which statements a worker runs, and which a server does."""

from __future__ import annotations

from pathlib import Path

import rota.store

STORE = Path(rota.store.__path__[0])


def of(folder):
    """The names of the statements in a folder of the store."""
    return {path.stem for path in STORE.glob(f"{folder}/*.sql")}


STATEMENTS = of("*")
# Claims, beats and reports.
ONLY_WORKERS = of("claim") | {
    "add_log_chunks",
    "announce_tasks",
    "know_announcement",
    "report_success",
    "update_progress",
}
# Of both: reports (a reaper makes some), submitting, looking at runs and cancelling them.
WORKER_STATEMENTS = (
    ONLY_WORKERS
    | of("submit")
    | of("report")
    | of("announce")
    | {
        "calendars_named",
        "cancel_runs",
        "capped_pools",
        "changed_limits",
        "count_owners",
        "count_waiting",
        "get_open_run",
        "get_finished_run",
        "lock_calendars",
        "make_days_of",
        "read_constants",
    }
)
SERVER_STATEMENTS = STATEMENTS - ONLY_WORKERS
