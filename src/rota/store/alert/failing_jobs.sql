-- Recurring jobs of which a run was buried within a window; of each namespace, of the `most` dead letters that were planned
-- last. As in buried_of_late, runs that were planned more than a day before the window don't count.
-- Index: primary key of dead_letters, its first entry of each namespace, then a range of it; the primary key of jobs.
-- Locks: none
-- Idioms: OFFSET 0.
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
SELECT DISTINCT ON (t.namespace, b.job_id) t.namespace, b.job_id, j.name, j.owner, j.options
  FROM tenants AS t
 CROSS JOIN LATERAL (
       SELECT d.job_id, d.buried_at FROM rota.dead_letters AS d
        WHERE d.namespace = t.namespace AND d.job_id <> d.run_id
          AND d.run_id >= rota.id_floor(now() - :window::interval - interval '1 day')
          AND (:task::text IS NULL OR d.task = :task) AND (:job_id::uuid IS NULL OR d.job_id = :job_id)
        ORDER BY d.run_id DESC LIMIT :most) AS b
 CROSS JOIN LATERAL (
       SELECT j.name, j.owner, j.options FROM rota.jobs AS j
        WHERE j.namespace = t.namespace AND j.id = b.job_id AND j.state <> 'cancelled' OFFSET 0) AS j
 WHERE b.buried_at > now() - :window::interval AND b.buried_at <= now()
 ORDER BY t.namespace, b.job_id
