-- Which of these objects, with logs of many attempts of one day, are recorded, and whether the day is archived.
-- Index: none; reads where the logs of one day are.
-- Locks: none
-- Plan: custom
SELECT i.key
  FROM unnest(:keys::text[]) AS i (key)
 WHERE i.key IN (SELECT k.blob FROM rota.kept_logs AS k WHERE k.run_id >= :first AND k.run_id < :before)
    OR EXISTS (SELECT FROM rota.archives AS a WHERE a.first_id <= :first AND a.before_id > :first)
