"""What each kind of database role may do: one list, which is granted, and against which tests hold the schema.

Kinds: *server* runs the API and schedulers; *worker* claims runs, reports how they went, and submits for the tasks it
runs; *submitter* belongs to a program that submits in transactions of its own. Whatever is not said here is for the
schema's owner alone: to change it, to TRUNCATE, to reach the partitions of a day other than through their parent.

A bound role reaches rows of its namespaces only; the last column says how a row shows whose it is. Pools bind what is
ready, where work is taken from: a role that is bound to pools may still submit to others.
"""

from __future__ import annotations

from typing import NamedTuple

KINDS = (SERVER, WORKER, SUBMITTER) = ("server", "worker", "submitter")

# S, I, U, D: SELECT, INSERT, UPDATE, DELETE. Submitters have no right to any table.
#   namespace  the row has one
#   ready      it has a namespace, and a pool to be claimed from
#   serving    it has lists of those that a worker serves
_TABLES = """
    table              server  worker  bound-by

    live_runs          SIUD    SIUD    ready
    upcoming_runs      SIUD    SID     namespace
    held_runs          SIUD    SID     namespace
    finished_runs      SI      SI      namespace
    open_runs          S       S       -
    runs               S       S       -
    attempts           SI      SI      namespace
    dead_letters       SID     I       namespace
    departures         SIUD    I       namespace
    jobs               SIU     SI      namespace
    payloads           SID     SI      namespace
    submission_keys    SIUD    SIU     namespace
    chosen_ids         SI      SI      namespace
    dependencies       SIUD    -       -
    calendars          SIUD    S       namespace
    calendar_uses      S       -       -
    workflows          SIU     -       -
    workflow_versions  SI      -       -
    workflow_runs      SIU     SU      namespace
    workflow_nodes     SIUD    -       -
    workflow_maps      SIUD    -       -
    map_failures       SIUD    -       -
    map_results        SID     -       -
    flow_waits         SIUD    -       -
    flow_signals       SID     -       -
    flow_notes         SIUD    I       namespace
    operations         SIU     -       -
    operation_runs     SIUD    -       -
    log_chunks         S       SI      namespace
    log_ends           SID     SI      namespace
    kept_logs          SI      -       -
    log_blocks         SI      -       -
    unindexed_logs     SD      -       -
    log_walk           SU      -       -
    log_exports        SIUD    -       -
    pools              SIU     S       namespace
    gates              SIUD    -       -
    events             SID     -       -
    destinations       SIUD    -       -
    deliveries         SIUD    -       -
    workers            SUD     SIU     serving
    tallies            SD      SIU     namespace
    task_tallies       SD      SIU     namespace
    samples            SID     -       -
    figures            SIUD    -       -
    app_versions       S       SIU     namespace
    apps               SIU     -       -
    declared_workflows SIU     -       -
    announced_tasks    SUD     SIU     namespace
    schedulers         SIUD    -       -
    shard_leases       SU      -       -
    constants          SU      S       -
    migrations         S       S       -
    database_roles     -       -       -

    api_keys           SIUD    -       -
    audit              SI      -       -
    audit_outcomes     SI      -       -
    limits             SIU     S       namespace
    limit_changes      SU      -       -
    buckets            SIUD    -       -

    alert_rules        SIUD    -       -
    alert_states       SIUD    -       -
    alert_silences     SID     -       -
    alert_minutes      SIUD    -       -
    late_fires         SIUD    -       -
    outside_heartbeats SIU     -       -
    retention          SIU     -       -
    archives           SIU     -       -
    late_ends          S       -       -
"""

# USAGE: the next number, not a number of one's choice.
_SEQUENCES = """
    claim_numbers      worker
    log_positions      worker
"""

_FUNCTIONS = """
    submit_v1            worker submitter
    submit_v2            worker submitter
    submit_set_v1        worker submitter
    find_submissions_v1  worker submitter
    task_defaults_v1     worker submitter
    announcements_of     server worker
    complete_v1          worker
    bound_to             worker
    waits_unseen         server worker
    lane_of              server worker
    label                server worker
    labels               server worker
    rare_labels          server worker
    by_id                server worker
    expiry_of            server worker
    changed_expiry       server
    id_floor             server
    make_day             server worker
    drop_log_days        server
    watch_day            server
    holds_day            server
    detach_day           server
    drop_day             server
    payloads_of_day      server
    restore_rows         server
    attach_day           server
    trim_audit           server
    note_late            -
    make_day_of          -
    refuse_change        -
    await_others         -
    count_end            -
    note_unindexed       -
    note_calendars       -
    refuse_unexcluded    -
    note_end             -
    replace_waiting      -
    tell_buried          -
    tell_worker          -
    tell_scheduler       -
    tell_takeover        -
    tell_operation       -
    tell_workflow        -
    submit_unbound       -
    complete_unbound     -
"""

_WORDS = {"S": "SELECT", "I": "INSERT", "U": "UPDATE", "D": "DELETE"}


class TableRights(NamedTuple):
    """Of one table or view: what each kind may do, and how its rows are bound (None: they are not)."""

    rights: dict[str, tuple[str, ...]]
    bound: str | None


def _rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines() if line.strip()]


def _words(letters: str) -> tuple[str, ...]:
    return tuple(_WORDS[letter] for letter in letters if letter != "-")


TABLES = {
    table: TableRights({SERVER: _words(server), WORKER: _words(worker)}, None if bound == "-" else bound)
    for table, server, worker, bound in _rows(_TABLES)[1:]
}
SEQUENCES = {name: frozenset(kinds) & {*KINDS} for name, *kinds in _rows(_SEQUENCES)}
FUNCTIONS = {name: frozenset(kinds) & {*KINDS} for name, *kinds in _rows(_FUNCTIONS)}
