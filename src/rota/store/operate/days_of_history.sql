-- The days, and whole months, of which there is history: 20261116, 202611.
-- Index: those of the catalog.
-- Locks: none
SELECT substring(c.relname FROM '[0-9]+$') AS day
  FROM pg_inherits AS i JOIN pg_class AS c ON c.oid = i.inhrelid
 WHERE i.inhparent = 'rota.finished_runs'::regclass
