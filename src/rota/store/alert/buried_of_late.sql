-- How many dead letters of each namespace were buried within a window and are still there, where that is so many. Of each
-- namespace at most `most` are read, those planned last. A run that was planned more than a day before the window, and
-- retried since, is not counted: ids are in the order of planned times. Filters: null for any.
-- Index: primary key, its first entry of each namespace, then a range of it.
-- Locks: none
WITH RECURSIVE tenants AS (
    (SELECT d.namespace FROM rota.dead_letters AS d
      WHERE (d.namespace, d.run_id) > ('', '00000000-0000-0000-0000-000000000000'::uuid)
      ORDER BY d.namespace, d.run_id LIMIT 1)
    UNION ALL
    SELECT f.namespace FROM tenants AS t
     CROSS JOIN LATERAL (SELECT d.namespace FROM rota.dead_letters AS d
                          WHERE (d.namespace, d.run_id) > (t.namespace, 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid)
                          ORDER BY d.namespace, d.run_id LIMIT 1) AS f
)
SELECT t.namespace, b.buried
  FROM tenants AS t
 CROSS JOIN LATERAL (
       SELECT count(*) AS buried
         FROM (SELECT d.buried_at FROM rota.dead_letters AS d
                WHERE d.namespace = t.namespace
                  AND d.run_id >= rota.id_floor(now() - :window::interval - interval '1 day')
                  AND (:task::text IS NULL OR d.task = :task) AND (:job_id::uuid IS NULL OR d.job_id = :job_id)
                ORDER BY d.run_id DESC LIMIT :most) AS l
        WHERE l.buried_at > now() - :window::interval AND l.buried_at <= now()) AS b
 WHERE b.buried >= :threshold::float8
 ORDER BY t.namespace
