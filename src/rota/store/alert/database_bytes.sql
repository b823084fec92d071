-- How large the database is on its disk.
-- Index: none
-- Locks: none
SELECT pg_database_size(current_database())
