-- The ids of runs that have ended.
SELECT id FROM rota.finished_runs
