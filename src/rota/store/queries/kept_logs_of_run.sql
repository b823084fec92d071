-- Where in object storage the logs of a run's attempts are, in order. $1 namespace; $2 run id. Index: primary key.
SELECT claim, attempt, position, blob, first, length FROM rota.kept_logs
 WHERE namespace = $1 AND run_id = $2
 ORDER BY position
