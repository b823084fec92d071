-- Whether chunks of logs with these ids are still in the database, and so not all of them in object storage.
-- Index: none; finds the first row of one day.
-- Locks: none
-- Plan: custom
SELECT EXISTS (SELECT FROM rota.log_chunks AS c WHERE c.run_id >= :first AND c.run_id < :before)
