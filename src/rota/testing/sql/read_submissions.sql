-- What was submitted: one-shot jobs, wherever their run is, and schedules but those that are declared in code. :task task, null for any.
SELECT r.job_id, r.task, r.name, r.namespace, r.owner, r.pool, r.priority, r.tags, r.options, r.policies::text,
       r.created_at,
       CASE WHEN r.nominal_at > r.created_at THEN r.nominal_at END AS at,
       NULL AS cron, NULL::float8 AS every_seconds, NULL AS timezone, coalesce(r.payload, p.body) AS payload,
       p.blob AS payload_blob
  FROM rota.runs AS r
  LEFT JOIN rota.payloads AS p ON p.namespace = r.namespace AND p.id = r.payload_id
 WHERE r.cause = 'submit' AND (:task::text IS NULL OR r.task = :task)
UNION ALL
SELECT j.id, j.task, j.name, j.namespace, j.owner, j.pool, j.priority, j.tags, j.options, j.policies::text,
       j.created_at,
       NULL, j.cron_expression, j.every_seconds, j.timezone, coalesce(j.payload, p.body), p.blob
  FROM rota.jobs AS j
  LEFT JOIN rota.payloads AS p ON p.namespace = j.namespace AND p.id = j.payload_id
 WHERE j.app IS NULL AND (:task::text IS NULL OR j.task = :task)
