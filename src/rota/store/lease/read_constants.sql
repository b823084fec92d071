-- What was fixed when the database was made.
-- Index: none: one row.
-- Locks: none
SELECT shards FROM rota.constants
