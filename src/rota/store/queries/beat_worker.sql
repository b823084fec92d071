-- A worker's heartbeat. $1 id; $2 runs it holds started; $3 reports that were fenced, in all; $4 draining; $5 what ails it.
-- No row back: the worker was given up, and its claims with it. Index: primary key.
UPDATE rota.workers
   SET beat = beat + 1, beat_at = clock_timestamp(), busy = $2, fenced = $3, draining = $4, ailing = $5
 WHERE id = $1 AND gone_at IS NULL
RETURNING clock_timestamp() AS database_time
