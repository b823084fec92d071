-- Removes payloads of runs that have left history, unless something else of their job still has them: the job itself, a
-- run of it (retries and redrives share a payload), a workflow run or a member of a map. Payloads in object storage stay
-- where their runs are in the archive (`stored`: remove these as well); returns the keys of those it removed.
-- Whoever makes a run of another reads that one's row first, which is in history then, and so is found here.
-- Index: primary keys, the indexes of jobs on tables of runs, workflow_runs_carried.
-- Locks: the rows it deletes.
-- Idioms: one-element array, by_id, OFFSET 0.
DELETE FROM rota.payloads AS p
 USING (
        SELECT DISTINCT i.namespace, i.run_id, i.job_id, i.payload_id, i.stored
          FROM unnest(:namespaces::text[], :run_ids::uuid[], :job_ids::uuid[], :payload_ids::uuid[], :stored::boolean[])
               AS i (namespace, run_id, job_id, payload_id, stored)
         WHERE NOT EXISTS (SELECT FROM rota.jobs AS j
                            WHERE j.namespace = i.namespace AND j.id = i.job_id AND j.payload_id = i.payload_id OFFSET 0)
           AND NOT EXISTS (SELECT FROM rota.runs AS r
                            WHERE r.namespace = i.namespace AND r.id = i.job_id AND r.payload_id = i.payload_id OFFSET 0)
           AND NOT EXISTS (SELECT FROM rota.open_runs AS o
                            WHERE o.namespace = i.namespace AND o.job_id = i.job_id AND o.job_id <> o.id
                              AND o.payload_id = i.payload_id OFFSET 0)
           AND NOT EXISTS (SELECT FROM rota.finished_runs AS f
                            WHERE f.namespace = i.namespace AND f.job_id = i.job_id AND f.job_id <> f.id
                              AND f.payload_id = i.payload_id OFFSET 0)
           AND NOT EXISTS (SELECT FROM rota.workflow_runs AS w
                            WHERE w.namespace = i.namespace AND w.carrier_id = i.run_id OFFSET 0)
           AND NOT EXISTS (SELECT FROM rota.workflow_runs AS w
                            WHERE w.namespace = i.namespace AND w.id = i.run_id OFFSET 0)
           AND NOT EXISTS (SELECT FROM rota.workflow_runs AS w
                            WHERE w.namespace = i.namespace AND w.id = i.job_id AND w.ended_at IS NULL OFFSET 0)
           AND NOT EXISTS (SELECT FROM rota.map_failures AS m
                            WHERE m.namespace = i.namespace AND m.flow = i.job_id AND m.payload_id = i.payload_id OFFSET 0)
        OFFSET 0
       ) AS i
 WHERE rota.by_id(p.namespace) = ANY (ARRAY[i.namespace]) AND p.id = ANY (ARRAY[i.payload_id])
   AND (i.stored OR p.blob IS NULL)
RETURNING p.blob
