-- Runs wherever they are, each with its payload and the last of its attempts that failed. A run that was made ready ahead of its time
-- waits for that: by a clock that stands still, `queued` would be wrong. Null for any: :ids ids; :task task; :status status.
SELECT r.id, r.namespace, r.job_id, r.options, r.task, s.status, r.attempt, r.nominal_at, r.run_at,
       r.started_at, r.finished_at, r.claim,
       r.reason, r.result, r.result_blob, coalesce(r.payload, p.body) AS payload, p.blob AS payload_blob,
       coalesce(r.error, a.error) AS error, coalesce(r.traceback, a.traceback) AS traceback
  FROM rota.runs AS r
 CROSS JOIN LATERAL (SELECT CASE WHEN r.status <> 'queued' OR r.run_at <= now() THEN r.status
                                 WHEN r.attempt > 0 THEN 'retrying'
                                 ELSE 'scheduled' END AS status) AS s
  LEFT JOIN rota.payloads AS p ON p.namespace = r.namespace AND p.id = r.payload_id
  LEFT JOIN LATERAL (SELECT a.error, a.traceback FROM rota.attempts AS a
                      WHERE a.namespace = r.namespace AND a.run_id = r.id AND s.status = 'retrying'
                      ORDER BY a.number DESC LIMIT 1) AS a ON true
 WHERE (:ids::uuid[] IS NULL OR r.id = ANY (:ids)) AND (:task::text IS NULL OR r.task = :task)
   AND (:status::text IS NULL OR s.status = :status)
