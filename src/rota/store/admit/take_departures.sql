-- Takes notes of runs that left their place, oldest first, and deletes them: the reader acts in the same transaction.
-- Index: departures_oldest.
-- Locks: the notes, FOR UPDATE SKIP LOCKED.
-- Idioms: ctid, from position.
WITH found AS MATERIALIZED (
    SELECT d.ctid AS place FROM rota.departures AS d
     WHERE d.left_at >= least(to_timestamp(:begin_at::float8), now() - interval '250 ms')
     ORDER BY d.left_at
     LIMIT :limit
       FOR UPDATE SKIP LOCKED
)
DELETE FROM rota.departures AS d WHERE d.ctid = ANY (ARRAY(SELECT place FROM found))
RETURNING d.left_at, d.namespace, d.run_id, d.job_id, d.policies, d.outcome,
          extract(epoch FROM least(d.left_at, now()))::float8 AS reached
