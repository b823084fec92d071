-- Jobs that depend on one and still run or wait, at most `limit`.
-- Index: dependencies_needed, primary keys.
-- Locks: none
-- Idioms: OFFSET 0.
SELECT d.job_id, coalesce(j.options, r.options) AS options
  FROM rota.dependencies AS d
  LEFT JOIN LATERAL (SELECT j.id, j.options FROM rota.jobs AS j
                      WHERE j.namespace = d.namespace AND j.id = d.job_id AND j.state IN ('scheduled', 'paused')
                     OFFSET 0) AS j ON true
  LEFT JOIN LATERAL (SELECT r.id, r.options FROM rota.open_runs AS r
                      WHERE r.namespace = d.namespace AND r.id = d.job_id OFFSET 0) AS r ON true
 WHERE d.namespace = :namespace AND d.needs = :job_id AND (j.id IS NOT NULL OR r.id IS NOT NULL)
 LIMIT :limit
