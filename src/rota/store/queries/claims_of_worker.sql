-- Everything claimed in a worker's name, to reconcile with what it holds. $1 worker id. Index: live_runs_claimed.
SELECT namespace, id, claim FROM rota.live_runs WHERE worker_id = $1
