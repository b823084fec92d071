-- The attempts of a run that did not succeed, in order.
-- Index: primary key, pruned by id.
-- Locks: none
-- Plan: custom
SELECT number, claim, worker_id, started_at, finished_at, outcome, error, traceback
  FROM rota.attempts
 WHERE namespace = :namespace AND run_id = :run_id
 ORDER BY finished_at, number
