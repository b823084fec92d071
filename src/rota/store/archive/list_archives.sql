-- The archives, latest first.
-- Index: none; reads a small table.
-- Locks: none
SELECT period, number, state, runs, attempts, left_out, bytes, error, restored_until, created_at, changed_at
  FROM rota.archives
 WHERE (period, number) < (:before, :number)
 ORDER BY period DESC, number DESC
 LIMIT :limit
