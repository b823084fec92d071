-- Dead letters with payload and error, latest first. $1 namespace; ids in [$2, $3); filters, null for any: $4 task,
-- $5 job id, $6 name, $7 owner, $8 what the error contains; $9 limit. Index: primary key of dead_letters, then of finished_runs (pruned by id).
SELECT d.run_id, d.job_id, d.name, d.task, d.error, d.buried_at, f.owner, f.attempt, f.traceback, f.nominal_at,
       coalesce(f.payload, p.body) AS payload
  FROM rota.dead_letters AS d
  LEFT JOIN LATERAL (
       SELECT * FROM rota.finished_runs AS f WHERE f.namespace = d.namespace AND f.id = d.run_id OFFSET 0
       ) AS f ON true
  LEFT JOIN LATERAL (
       SELECT p.body FROM rota.payloads AS p WHERE p.namespace = f.namespace AND p.id = f.payload_id OFFSET 0
       ) AS p ON true
 WHERE d.namespace = $1 AND d.run_id >= $2 AND d.run_id < $3
   AND ($4::text IS NULL OR d.task = $4) AND ($5::uuid IS NULL OR d.job_id = $5) AND ($6::text IS NULL OR d.name = $6)
   AND ($7::text IS NULL OR f.owner = $7) AND ($8::text IS NULL OR strpos(d.error, $8) > 0)
 ORDER BY d.run_id DESC
 LIMIT $9
