-- Runs of a workflow run that have not ended and were not asked to stop, some of them; of these nodes (null: all). Without `started`:
-- only those that no worker has claimed. None if it is at another generation: a scheduler that was paused must not stop what
-- was resumed meanwhile.
-- Index: upcoming_runs_of_job, held_runs_of_job, live_runs_of_job, workflow_runs_of_job, primary key.
-- Locks: none
SELECT id FROM (
    SELECT u.id, u.job_version AS node FROM rota.upcoming_runs AS u
     WHERE u.namespace = :namespace AND u.job_id = :flow AND u.job_id <> u.id
    UNION ALL
    SELECT h.id, h.job_version FROM rota.held_runs AS h
     WHERE h.namespace = :namespace AND h.job_id = :flow AND h.job_id <> h.id
    UNION ALL
    SELECT l.id, l.job_version FROM rota.live_runs AS l
     WHERE l.namespace = :namespace AND l.job_id = :flow AND l.job_id <> l.id AND l.cancel_requested_at IS NULL
       AND (:started::boolean OR l.claim IS NULL)
    UNION ALL
    SELECT w.carrier_id, w.job_version FROM rota.workflow_runs AS w
     WHERE w.namespace = :namespace AND w.job_id = :flow AND w.ended_at IS NULL AND (w.stop IS NULL OR w.stop = 'failure')
       AND :started::boolean AND w.cause IN ('node', 'member')
    ) AS r
 WHERE (:nodes::integer[] IS NULL OR r.node = ANY (:nodes::integer[]))
   AND EXISTS (SELECT FROM rota.workflow_runs AS f
                WHERE f.namespace = :namespace AND f.id = :flow AND f.generation = :generation)
 LIMIT :limit
