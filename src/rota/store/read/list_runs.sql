-- Runs with ids in [first, before) (time range and cursor), latest planned first; `one_shots`: only runs that are their own
-- job; `statuses`: null for any, 'paused' for runs of paused jobs. With other filters, see search_runs.
-- Index: primary keys in the order of ids.
-- Locks: none
-- Plan: custom
SELECT * FROM rota.runs
 WHERE namespace = :namespace AND id >= :first AND id < :before AND (NOT :one_shots::boolean OR job_id = id)
   AND (:statuses::text[] IS NULL OR status = ANY (:statuses) OR gate = 'pause' AND 'paused' = ANY (:statuses))
   -- A table whose statuses are not asked for is not read at all.
   AND (:statuses::text[] IS NULL
        OR place = 'upcoming' AND :statuses && ARRAY['scheduled', 'retrying']
        OR place = 'held' AND :statuses && ARRAY['blocked', 'scheduled', 'retrying', 'paused']
        OR place = 'live' AND :statuses && ARRAY['queued', 'running']
        OR place = 'finished' AND :statuses && ARRAY['success', 'failed', 'cancelled', 'skipped'])
 ORDER BY id DESC
 LIMIT :limit
