-- What is known of the objects of archives.
-- Index: none; reads a small table.
-- Locks: none
SELECT period, state, index_key, objects FROM rota.archives WHERE first_id < :before AND before_id > :first
