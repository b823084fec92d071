-- The next logs in object storage behind one of them, in the order of their key, at most `limit`; indexed: a block has it.
-- Index: primary key, one day's partition beside the other.
-- Locks: none
SELECT namespace, run_id, claim, attempt, blob, first, length, indexed FROM rota.kept_logs
 WHERE (namespace, run_id, claim) > (:namespace, :run_id, :claim)
 ORDER BY namespace, run_id, claim
 LIMIT :limit
