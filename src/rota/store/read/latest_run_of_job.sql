-- The latest run of a job that is due: of a one-shot itself or the last that was made of it, of a schedule the last
-- whose time has come (ids below `before`).
-- Index: primary keys, upcoming_runs_of_job, live_runs_of_job, held_runs_of_job, finished_runs_of_job.
-- Locks: none
-- Idioms: OFFSET 0 (also: open runs of a job are few and found by their index, never by walking all ids backwards).
SELECT r.*, p.body AS large_payload, p.blob AS payload_blob
  FROM (
        (SELECT * FROM rota.runs WHERE namespace = :namespace AND id = :job_id
            AND (job_id = id OR cause IN ('node', 'member')))
        UNION ALL
        (SELECT r.*
           FROM (
                 SELECT others.id
                   FROM (
                         (SELECT o.id FROM rota.open_runs AS o
                           WHERE o.namespace = :namespace AND o.job_id = :job_id AND o.job_id <> o.id
                             AND o.id < :before OFFSET 0)
                         UNION ALL
                         (SELECT f.id FROM rota.finished_runs AS f
                           WHERE f.namespace = :namespace AND f.job_id = :job_id AND f.job_id <> f.id
                             AND f.id < :before
                           ORDER BY f.id DESC LIMIT 1)
                        ) AS others
                  ORDER BY others.id DESC LIMIT 1
                ) AS latest
          CROSS JOIN LATERAL (
                SELECT * FROM rota.runs AS r WHERE r.namespace = :namespace AND r.id = latest.id OFFSET 0
                ) AS r)
       ) AS r
  LEFT JOIN LATERAL (
       SELECT p.body, p.blob FROM rota.payloads AS p WHERE p.namespace = r.namespace AND p.id = r.payload_id OFFSET 0
       ) AS p ON true
 ORDER BY r.created_at DESC
 LIMIT 1
