-- Dead letters with ids in [first, before), with payload and error, latest first. Filters: null for any; `error`: what
-- the error contains.
-- Index: primary key of dead_letters, then of finished_runs (pruned by id).
-- Locks: none
-- Idioms: OFFSET 0.
SELECT d.run_id, d.job_id, d.name, d.task, d.error, d.buried_at, f.owner, f.attempt, f.traceback, f.nominal_at,
       f.options, coalesce(f.payload, p.body) AS payload
  FROM rota.dead_letters AS d
  LEFT JOIN LATERAL (
       SELECT * FROM rota.finished_runs AS f WHERE f.namespace = d.namespace AND f.id = d.run_id OFFSET 0
       ) AS f ON true
  LEFT JOIN LATERAL (
       SELECT p.body FROM rota.payloads AS p WHERE p.namespace = f.namespace AND p.id = f.payload_id OFFSET 0
       ) AS p ON true
 WHERE d.namespace = :namespace AND d.run_id >= :first AND d.run_id < :before
   AND (:task::text IS NULL OR d.task = :task) AND (:job_id::uuid IS NULL OR d.job_id = :job_id)
   AND (:name::text IS NULL OR d.name = :name)
   AND (:owner::text IS NULL OR f.owner = :owner) AND (:error::text IS NULL OR strpos(d.error, :error) > 0)
 ORDER BY d.run_id DESC
 LIMIT :limit
