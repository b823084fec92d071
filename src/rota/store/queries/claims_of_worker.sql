-- What is claimed in a worker's name, to reconcile with what it holds. $1 worker id; $2 claimed this long ago at most
-- (interval; null: ever). Computed apart: under row level security an index is not asked for the result of a COALESCE.
-- Index: live_runs_claimed.
SELECT namespace, id, claim
  FROM rota.live_runs
 WHERE worker_id = $1 AND claimed_at >= (SELECT coalesce(now() - $2::interval, '-infinity'))
