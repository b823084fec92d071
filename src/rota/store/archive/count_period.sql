-- How many runs and attempts there are with these ids.
-- Index: primary keys, one day of them.
-- Locks: none
-- Plan: custom
SELECT (SELECT count(*) FROM rota.finished_runs AS f WHERE f.id >= :first AND f.id < :before) AS runs,
       (SELECT count(*) FROM rota.attempts AS a WHERE a.run_id >= :first AND a.run_id < :before) AS attempts
