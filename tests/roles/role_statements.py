"""Which statements a worker runs, and which a server does."""

from __future__ import annotations

from rota.store.postgres.statements import load_all

STATEMENTS = set(load_all())

# Claims, beats and reports.
ONLY_WORKERS = {
    "add_log_chunks",
    "beat_worker",
    "binding",
    "claim",
    "claims_of_worker",
    "leave_worker",
    "note_starts",
    "payloads_of",
    "register_worker",
    "succeed",
    "worker_signals",
}
# Of both: reports (a reaper makes some), submitting, looking at runs and cancelling them.
WORKER_STATEMENTS = ONLY_WORKERS | {
    "cancel_runs",
    "capped_pools",
    "changed_limits",
    "count_owners",
    "count_waiting",
    "find_submission_keys",
    "get_run",
    "hand_over_unique_keys",
    "limit_waiting",
    "make_days_of",
    "read_constants",
    "recorded_reports",
    "replace_waiting",
    "settle",
    "submit_jobs",
    "submit_runs",
    "take_unique_keys",
    "unique_holders",
}
SERVER_STATEMENTS = STATEMENTS - ONLY_WORKERS
