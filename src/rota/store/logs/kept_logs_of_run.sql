-- Where in object storage the logs of a run's attempts are, in order.
-- Index: primary key.
-- Locks: none
-- Plan: custom
SELECT claim, attempt, position, blob, first, length FROM rota.kept_logs
 WHERE namespace = :namespace AND run_id = :run_id
 ORDER BY position
