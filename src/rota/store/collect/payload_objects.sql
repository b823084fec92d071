-- Whose payloads these objects may be, each named after a job, and whether something of that job has not ended. An object is
-- nobody's if no namespace knows the job, its run or its payload.
-- Index: primary keys, the indexes of jobs on tables of runs; namespaces one after the other.
-- Locks: none
-- Plan: custom
-- Idioms: OFFSET 0.
WITH RECURSIVE spaces AS (
    (SELECT namespace FROM rota.payloads ORDER BY namespace LIMIT 1)
    UNION ALL
    SELECT (SELECT p.namespace FROM rota.payloads AS p WHERE p.namespace > s.namespace ORDER BY p.namespace LIMIT 1)
      FROM spaces AS s
     WHERE s.namespace IS NOT NULL
)
SELECT i.key, s.namespace,
       EXISTS (SELECT FROM rota.jobs AS j
                WHERE j.namespace = s.namespace AND j.id = i.job_id AND j.state IN ('scheduled', 'paused') OFFSET 0)
       OR EXISTS (SELECT FROM rota.open_runs AS o WHERE o.namespace = s.namespace AND o.id = i.job_id OFFSET 0)
       OR EXISTS (SELECT FROM rota.open_runs AS o
                   WHERE o.namespace = s.namespace AND o.job_id = i.job_id AND o.job_id <> o.id OFFSET 0)
       OR EXISTS (SELECT FROM rota.dead_letters AS d WHERE d.namespace = s.namespace AND d.job_id = i.job_id OFFSET 0)
       AS is_used
  FROM unnest(:keys::text[], :job_ids::uuid[]) AS i (key, job_id)
 CROSS JOIN spaces AS s
 WHERE EXISTS (SELECT FROM rota.payloads AS p WHERE p.namespace = s.namespace AND p.id = i.job_id OFFSET 0)
    OR EXISTS (SELECT FROM rota.jobs AS j WHERE j.namespace = s.namespace AND j.id = i.job_id OFFSET 0)
    OR EXISTS (SELECT FROM rota.open_runs AS o WHERE o.namespace = s.namespace AND o.id = i.job_id OFFSET 0)
    OR EXISTS (SELECT FROM rota.finished_runs AS f
                WHERE f.namespace = s.namespace AND f.id = i.job_id AND f.id >= :first AND f.id <= :last OFFSET 0)
UNION ALL
SELECT i.key, NULL, true
  FROM unnest(:keys, :job_ids) AS i (key, job_id)
 WHERE EXISTS (SELECT FROM rota.archives AS a
                WHERE a.first_id <= i.job_id AND a.before_id > i.job_id AND a.index_key IS NOT NULL)
