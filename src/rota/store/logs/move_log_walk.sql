-- The walk over logs from before the index has come so far, if it is still where it was read. A row back: it was.
-- Index: none: one row.
-- Locks: the row.
UPDATE rota.log_walk SET namespace = :namespace, run_id = :run_id, claim = :claim, ended = :ended
 WHERE namespace = :old_namespace AND run_id = :old_run_id AND claim = :old_claim AND NOT ended
RETURNING ended
