-- What is claimed in a worker's name, to reconcile with what it holds. :worker_id worker id; :made_within claimed this long ago at most
-- (interval; null: ever). Computed apart: under row level security an index is not asked for the result of a COALESCE.
-- Index: live_runs_claimed.
SELECT namespace, id, claim
  FROM rota.live_runs
 WHERE worker_id = :worker_id AND claimed_at >= (SELECT coalesce(now() - :made_within::interval, '-infinity'))
