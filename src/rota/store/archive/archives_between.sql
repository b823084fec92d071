-- Archives that answer for ids in [first, before): the database has these runs no more. Latest first.
-- Index: none; reads a small table.
-- Locks: none
SELECT period, number, first_id, before_id, index_key, index_hash, kept::text AS kept, runs
  FROM rota.archives
 WHERE state IN ('detached', 'dropped', 'restoring') AND first_id < :before AND before_id > :first
 ORDER BY first_id DESC, number DESC
