-- Logs in object storage that no block has: those that an older release has copied, at most `limit`.
-- Index: primary key.
-- Locks: none
SELECT namespace, run_id, claim, attempt, blob, first, length FROM rota.unindexed_logs
 ORDER BY namespace, run_id, claim
 LIMIT :limit
