-- The attempts of a run that did not succeed, in order. $1 namespace; $2 run id. Index: primary key, pruned by id.
SELECT number, claim, worker_id, started_at, finished_at, outcome, error, traceback
  FROM rota.attempts
 WHERE namespace = $1 AND run_id = $2
 ORDER BY finished_at, number
