-- How many dead letters of each namespace were buried within a window and are still there, where that is so many; reads
-- at most `most` of them, the latest. Filters: null for any.
-- Index: dead_letters_buried.
-- Locks: none
SELECT b.namespace, count(*) AS buried
  FROM (SELECT d.namespace FROM rota.dead_letters AS d
         WHERE d.buried_at > now() - :window::interval AND d.buried_at <= now()
           AND (:task::text IS NULL OR d.task = :task) AND (:job_id::uuid IS NULL OR d.job_id = :job_id)
         ORDER BY d.buried_at DESC
         LIMIT :most) AS b
 GROUP BY b.namespace
HAVING count(*) >= :threshold::float8
 ORDER BY b.namespace
