-- The archives of a period.
-- Index: primary key.
-- Locks: none
SELECT period, number, state, revision, first_id, before_id, kept::text AS kept, index_key, index_hash, objects, error,
       restored_until, runs, attempts, left_out
  FROM rota.archives WHERE period = :period ORDER BY number
