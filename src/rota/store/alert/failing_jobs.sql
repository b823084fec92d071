-- Recurring jobs of which a run was buried within a window; of the latest `most` dead letters.
-- Index: dead_letters_buried, then the primary key of jobs.
-- Locks: none
-- Idioms: OFFSET 0.
SELECT DISTINCT ON (d.namespace, d.job_id) d.namespace, d.job_id, j.name, j.owner, j.options
  FROM (SELECT l.namespace, l.job_id, l.task FROM rota.dead_letters AS l
         WHERE l.buried_at > now() - :window::interval AND l.buried_at <= now() AND l.job_id <> l.run_id
           AND (:task::text IS NULL OR l.task = :task) AND (:job_id::uuid IS NULL OR l.job_id = :job_id)
         ORDER BY l.buried_at DESC LIMIT :most) AS d
 CROSS JOIN LATERAL (
       SELECT j.name, j.owner, j.options FROM rota.jobs AS j
        WHERE j.namespace = d.namespace AND j.id = d.job_id AND j.state <> 'cancelled' OFFSET 0) AS j
 ORDER BY d.namespace, d.job_id
