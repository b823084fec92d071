-- Archives that are on their way, or restored and over, oldest first.
-- Index: none; reads a small table.
-- Locks: none
SELECT period, number, state, revision, first_id, before_id, kept::text AS kept, index_key, index_hash, objects, error,
       restored_until, runs, attempts, left_out
  FROM rota.archives
 WHERE state IN ('planned', 'written', 'verified', 'detached', 'restoring')
    OR state = 'restored' AND restored_until < now()
 ORDER BY state <> 'restoring', first_id, number
