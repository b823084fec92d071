-- How far the logs from before the index are in it.
-- Index: none: one row.
-- Locks: none
SELECT namespace, run_id, claim, ended FROM rota.log_walk
