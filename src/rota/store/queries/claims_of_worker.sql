-- Everything claimed in a worker's name, to reconcile with what it holds. $1 worker id; $2 only claims older than this:
-- an answer still under way is not a loss. Index: live_runs_claimed.
SELECT namespace, id, claim
  FROM rota.live_runs
 WHERE worker_id = $1 AND claimed_at < now() - $2::interval
