-- Members of a map that have not ended, by their ids, from behind one on.
-- Index: upcoming_runs_of_job, held_runs_of_job, live_runs_of_job, workflow_runs_of_job, primary keys.
-- Locks: none
-- Idioms: OFFSET 0.
SELECT m.id, r.status, (r.options::jsonb ->> 'item')::integer AS item
  FROM (SELECT u.id FROM rota.upcoming_runs AS u
         WHERE u.namespace = :namespace AND u.job_id = :flow AND u.job_id <> u.id AND u.job_version = :node
        UNION ALL
        SELECT h.id FROM rota.held_runs AS h
         WHERE h.namespace = :namespace AND h.job_id = :flow AND h.job_id <> h.id AND h.job_version = :node
        UNION ALL
        SELECT l.id FROM rota.live_runs AS l
         WHERE l.namespace = :namespace AND l.job_id = :flow AND l.job_id <> l.id AND l.job_version = :node
        UNION ALL
        SELECT w.carrier_id FROM rota.workflow_runs AS w
         WHERE w.namespace = :namespace AND w.job_id = :flow AND w.ended_at IS NULL AND w.job_version = :node
           AND w.cause = 'member') AS m
 CROSS JOIN LATERAL (
       SELECT o.status, o.options FROM rota.open_runs AS o WHERE o.namespace = :namespace AND o.id = m.id OFFSET 0
       ) AS r
 WHERE m.id > :after::uuid
 ORDER BY m.id LIMIT :limit
