-- What a worker is asked about its claims: cancel, or give back if not started. $1 worker id.
-- Index: live_runs_asked.
SELECT claim, cancel_requested_at IS NOT NULL AS cancel
  FROM rota.live_runs
 WHERE worker_id = $1 AND (cancel_requested_at IS NOT NULL OR recalled)
