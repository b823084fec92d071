-- What is claimed in a worker's name, to reconcile with what it holds; claimed this long ago at most (null: ever).
-- Index: live_runs_claimed.
-- Locks: none
-- Idioms: computed apart for rls.
SELECT namespace, id, claim
  FROM rota.live_runs
 WHERE worker_id = :worker_id AND claimed_at >= (SELECT coalesce(now() - :made_within::interval, '-infinity'))
