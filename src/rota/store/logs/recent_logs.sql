-- Runs that may have written to their logs lately: those that workers have, those whose log ended in the last `seconds`,
-- and those planned from `first` on that ended in them. At most `limit`, latest planned first, below `before`.
-- Index: live_runs_claimed, log_ends_oldest, the primary key of finished_runs (pruned by id).
-- Locks: none
-- Plan: custom
-- Idioms: OFFSET 0.
SELECT r.id
  FROM (
        SELECT l.id
          FROM rota.workers AS w
         CROSS JOIN LATERAL (
               SELECT l.id FROM rota.live_runs AS l WHERE l.worker_id = w.id AND l.namespace = :namespace OFFSET 0) AS l
         WHERE w.gone_at IS NULL
        UNION
        SELECT e.run_id FROM rota.log_ends AS e
         WHERE e.ended_at > now() - :seconds::float8 * interval '1 second' AND e.namespace = :namespace
        UNION
        SELECT f.id FROM rota.finished_runs AS f
         WHERE f.namespace = :namespace AND f.id >= :first
           AND f.finished_at > now() - :seconds::float8 * interval '1 second'
       ) AS r
 WHERE r.id < :before
 ORDER BY r.id DESC
 LIMIT :limit
