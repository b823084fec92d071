-- A worker's claims, to compare with what it holds; only those made at most this long ago (null: all).
-- Index: live_runs_claimed.
-- Locks: none
-- Idioms: computed apart for rls.
SELECT namespace, id, claim
  FROM rota.live_runs
 WHERE worker_id = :worker_id AND claimed_at >= (SELECT coalesce(now() - :made_within::interval, '-infinity'))
