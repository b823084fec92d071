-- Takes note of runs that left their place, oldest first, and forgets them: whoever reads acts in the same transaction.
-- :limit at most this many; :begin_at where to begin (seconds since the epoch).
-- Index: departures_oldest. Locks: FOR UPDATE SKIP LOCKED; then taken from where they lie (ctid).
WITH found AS MATERIALIZED (
    SELECT d.ctid AS place FROM rota.departures AS d
     WHERE d.left_at >= least(to_timestamp(:begin_at::float8), now() - interval '250 ms')
     ORDER BY d.left_at
     LIMIT :limit
       FOR UPDATE SKIP LOCKED
)
DELETE FROM rota.departures AS d WHERE d.ctid = ANY (ARRAY(SELECT place FROM found))
RETURNING d.namespace, d.run_id, d.job_id, d.policies, d.outcome,
          extract(epoch FROM least(d.left_at, now()))::float8 AS reached
