-- Whose payloads these objects are, of those that are any, and whether a job, an open run or a dead letter uses them.
-- Index: none for payloads by object: reads their rows; primary keys and the indexes of jobs for the rest.
-- Locks: none
-- Idioms: OFFSET 0.
SELECT p.blob AS key, p.namespace,
       EXISTS (SELECT FROM rota.jobs AS j
                WHERE j.namespace = p.namespace AND j.id = p.job_id AND j.payload_id = p.id
                  AND j.state IN ('scheduled', 'paused') OFFSET 0)
       OR EXISTS (SELECT FROM rota.open_runs AS o WHERE o.namespace = p.namespace AND o.id = p.job_id OFFSET 0)
       OR EXISTS (SELECT FROM rota.open_runs AS o
                   WHERE o.namespace = p.namespace AND o.job_id = p.job_id AND o.job_id <> o.id OFFSET 0)
       OR EXISTS (SELECT FROM rota.dead_letters AS d WHERE d.namespace = p.namespace AND d.job_id = p.job_id OFFSET 0)
       AS is_used
  FROM (SELECT p.namespace, p.id, p.blob, i.job_id
          FROM unnest(:keys::text[], :job_ids::uuid[]) AS i (key, job_id)
          JOIN rota.payloads AS p ON p.blob = i.key
        OFFSET 0) AS p
