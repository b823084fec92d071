-- What a worker is asked: to cancel a run, or to give it back if not started (a row with a claim each); and which pools
-- are paused (a row with a pool each).
-- Index: live_runs_asked; the whole of pools, a small table.
-- Locks: none
SELECT l.claim, l.cancel_requested_at IS NOT NULL AS cancel, NULL AS namespace, NULL AS pool
  FROM rota.live_runs AS l
 WHERE l.worker_id = :worker_id AND (l.cancel_requested_at IS NOT NULL OR l.recalled)
UNION ALL
SELECT NULL, NULL, p.namespace, p.pool
  FROM rota.pools AS p
 WHERE p.paused_at IS NOT NULL
